"""Texts: positions of parts, parts at positions, and kinds of characters."""

from __future__ import annotations

from collections.abc import Mapping

from rs_assets.expressions.functions.function import Family
from rs_assets.expressions.functions.literals import separated_by

_family = Family("text")
_row = _family.row


def _indexed(texts: Mapping[str, str]) -> str:
    """The separator is literal text."""
    parts = f"split({texts['s']}, {separated_by(texts['sep'])})"
    return f"if({texts['sep']} = '', null, get({parts}, {texts['i']}))"


def _masked() -> str:
    first, last = (f"if({{{name}}} < 0, 0, {{{name}}})" for name in ("first", "last"))
    masked = f"concat(left({{s}}, {first}), repeat('*', length({{s}}) - {first} - {last}), right({{s}}, {last}))"
    return f"if(length({{s}}) <= cast({first} as bigint) + {last}, repeat('*', length({{s}})), {masked})"


# In a literal of Spark SQL; `$` would allow a line break at the end.
_DIGITS = "coalesce({{s}} rlike '{}', false)"
_NUMBER = r"\\A[-+]?[0-9]+([.][0-9]+)?\\z"

TEXT_PARTS = (
    _row(
        "instr indexOf",
        "s text, part text",
        "coalesce(instr({s}, {part}) - 1, -1)",
        "int",
        "The first position of `part`, counted from 0; -1 if there is none.",
        {"instr('hello','l')": 2, "instr('hello','x')": -1, "instr(null,'x')": -1},
    ),
    _row(
        "instr indexOf",
        "s text, part text, start int",
        "coalesce(locate({part}, {s}, greatest(least({start}, 2147483646), 0) + 1) - 1, -1)",
        "int",
        "The first position of `part` from `start` on, both counted from 0; -1 if there is none.",
        {"instr('hello','l',3)": 3, "instr('hello','l',4)": -1, "instr('hello','l',2147483647)": -1},
    ),
    _row(
        "blink_instr blink_indexOf position locate_in strpos",
        "s text, part text",
        "coalesce(instr({s}, {part}), 0)",
        "int",
        "The first position of `part`, counted from 1; 0 if there is none.",
        {"blink_instr('hello','l')": 3, "blink_instr('hello','x')": 0},
    ),
    _row(
        "locate",
        "part text, s text, start int = 1",
        "coalesce(locate({part}, {s}, {start}), 0)",
        "int",
        "The first position of `part` in `s` from `start` on, counted from 1; 0 if there is none.",
        {"locate('l','hello')": 3, "locate('l','hello',4)": 4, "locate('x','hello')": 0},
    ),
    _row(
        "contains stringContains",
        "s text, part text",
        "coalesce(contains({s}, {part}), false)",
        "boolean",
        "Whether it contains `part`.",
        {"contains('hello','ell')": True, "contains('hello','x')": False, "contains(null,'x')": False},
    ),
    _row(
        "startsWith",
        "s text, part text",
        "coalesce(startswith({s}, {part}), false)",
        "boolean",
        "Whether it begins with `part`.",
        {"startsWith('hello','he')": True, "startsWith('hello','lo')": False},
    ),
    _row(
        "endsWith",
        "s text, part text",
        "coalesce(endswith({s}, {part}), false)",
        "boolean",
        "Whether it ends with `part`.",
        {"endsWith('hello','lo')": True, "endsWith(null,'lo')": False},
    ),
    _row(
        "replace_text replaceText strReplace",
        "s text, old text, new text",
        "replace({s}, {old}, {new})",
        "string",
        "Each `old`, as literal text, replaced by `new`.",
        {"replace_text('a.b.c','.','-')": "a-b-c", "replace_text('abc','','-')": "abc"},
    ),
    _row(
        "translate_letters translateLetters",
        "s text, old text, new text",
        "translate({s}, {old}, {new})",
        "string",
        "Each character of `old` replaced by the one at its position in `new`, or removed.",
        {"translate_letters('abcb','ab','x')": "xc"},
    ),
    _row(
        "overlay",
        "s text, new text, p int, n int = -1",
        "if({p} between 1 and length({s}) + 1, overlay({s} placing {new} from {p} for least({n}, length({s}))), null)",
        "string",
        "`n` characters (default: the length of `new`) from the position `p` on replaced by `new`; null out of range.",
        {"overlay('abcdef','XY',3)": "abXYef", "overlay('abcdef','XY',3,1)": "abXYdef", "overlay('abc','X',0)": None},
    ),
    _row(
        "splitindex split_index",
        "s text, sep text, i int",
        _indexed,
        "string",
        "The part at the position `i`, counted from 0, between separators; null if there is none.",
        {
            "split_index('Jack,John,Mary',',',2)": "Mary",
            "split_index('Jack,John,Mary',',',3)": None,
            "split_index('a.b','.',1)": "b",
            "split_index('a.b','.',-1)": None,
            "split_index(null,',',0)": None,
        },
    ),
    _row(
        "substringindex substr_index substring_index",
        "s text, sep text, n int",
        "substring_index({s}, {sep}, greatest({n}, -length({s}) - 1) + 0 * {n})",
        "string",
        "The text before the `n`-th separator; for a negative `n`, after the `n`-th from the end.",
        {
            "substringindex('www.apache.org','.',2)": "www.apache",
            "substringindex('www.apache.org','.',-1)": "org",
            "substringindex('a.b','.',-2147483648)": "a.b",
        },
    ),
    _row(
        "chr char",
        "n long",
        "if({n} between 0 and 255, chr({n}), null)",
        "string",
        "The character with a code from 0 to 255, else null.",
        {"chr(255)": "ÿ", "chr(97)": "a", "chr(65)": "A", "chr(256)": None, "chr(-1)": None},
    ),
    _row(
        "ascii ord",
        "s text",
        "if({s} = '', null, ascii({s}))",
        "int",
        "The code of the first character; null for an empty text.",
        {"ascii('A')": 65, "ascii('')": None},
    ),
    _row(
        "charmatchcount char_matchcount charMatch",
        "a text, b text",
        "size(array_remove(array_intersect(split({a}, ''), split({b}, '')), ''))",
        "int",
        "The number of distinct characters that are in both.",
        {"charmatchcount('abca','cad')": 2, "charmatchcount('','')": 0},
    ),
    _row(
        "soundx soundex",
        "s text",
        "soundex({s})",
        "string",
        "The Soundex code: one character of A to Z and three digits.",
        {"soundx('Robert')": "R163"},
    ),
    _row(
        "levenshtein editDistance",
        "a text, b text",
        "levenshtein({a}, {b})",
        "int",
        "The Levenshtein distance of two texts.",
        {"levenshtein('kitten','sitting')": 3},
    ),
    _row(
        "is_number isNumber isNumeric",
        "s text",
        _DIGITS.format(_NUMBER),
        "boolean",
        "Whether it is a number in digits, without an exponent.",
        {"is_number('-3.5')": True, "is_number('1e5')": False, "is_number('')": False, "is_number(null)": False},
    ),
    _row(
        "is_decimal isDecimal",
        "s text",
        _DIGITS.format(_NUMBER),
        "boolean",
        "As is_number: digits, with or without a decimal point.",
        {"is_decimal('11.4445')": True, "is_decimal('asd')": False, "is_decimal(null)": False},
    ),
    _row(
        "is_alpha isAlpha",
        "s text",
        _DIGITS.format(r"\\A[A-Za-z]+\\z"),
        "boolean",
        "Whether it only has characters from A to Z.",
        {"is_alpha('asd')": True, "is_alpha('3')": False, "is_alpha('')": False},
    ),
    _row(
        "is_digit isDigit",
        "s text",
        _DIGITS.format(r"\\A[0-9]+\\z"),
        "boolean",
        "Whether it only has digits.",
        {"is_digit('3')": True, "is_digit('3a')": False, "is_digit(null)": False, "is_digit(concat(3,chr(10)))": False},
    ),
    _row(
        "mask_text maskText",
        "s text, first int, last int",
        _masked(),
        "string",
        "All but the first and last characters replaced by stars; all of them if none would be replaced.",
        {
            "mask_text('13812345678',3,4)": "138****5678",
            "mask_text('abc',2,2)": "***",
            "mask_text('abc',2147483647,1)": "***",
        },
    ),
)

"""Java regular expressions. A pattern is a literal; an invalid one matches nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rs_assets.common.plural import count_of
from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.function import Family, Template
from rs_assets.expressions.functions.literals import is_null, quote, unquote
from rs_assets.expressions.functions.patterns import fault_of, groups_of

_row = Family("regexp").row
# Java counts a character beyond 16 bits twice; all other functions count it once.
_BEFORE = (
    "length(decode(substring(encode(make_valid_utf8({s}), 'UTF-16BE'), 1, 2 * regexp_instr({s}, {p}) - 2), 'UTF-16BE'))"
)
_PLACE = (
    "if(octet_length({s}) = length({s}) or regexp_instr({s}, {p}) = 0, regexp_instr({s}, {p}) - 1, " + _BEFORE + ")"
)
_REFERENCE = re.compile(r"\\.|\$(\d)?|\\$", re.DOTALL)


def _guarded(good: str | Template, bad: str, parameter: str = "p") -> Template:
    """`good` if the pattern is valid, `bad` if it is null or invalid."""

    def template(texts: Mapping[str, str]) -> str:
        pattern = texts[parameter]
        if is_null(pattern) or fault_of(unquote(pattern) or "") is not None:
            return bad
        return good.format_map(texts) if isinstance(good, str) else good(texts)

    return template


def _check_group(pattern: str, group: int) -> None:
    if not 0 <= group <= groups_of(pattern):
        raise TopologyError(
            f"the pattern {pattern!r} has {count_of(groups_of(pattern), 'group')}, not {group}",
            remedy="add a group in brackets: 'a(.*)b'",
        )


def _extracted_all(texts: Mapping[str, str]) -> str:
    _check_group(unquote(texts["p"]) or "", int(texts["i"]))
    return f"regexp_extract_all({texts['s']}, {texts['p']}, {texts['i']})"


def _extracted(texts: Mapping[str, str]) -> str:
    pattern, group = unquote(texts["p"]) or "", int(texts.get("i", "1"))
    if not pattern:
        return "cast(null as string)"
    _check_group(pattern, group)
    return f"case when {texts['s']} rlike {texts['p']} then regexp_extract({texts['s']}, {texts['p']}, {group}) end"


def _replaced(texts: Mapping[str, str]) -> str:
    """An empty pattern replaces nothing. `$1` is a group in a literal; other replacements are literal text."""
    pattern, new = unquote(texts["p"]) or "", texts["new"]
    if not pattern:
        return f"if({new} is null, null, {texts['s']})"
    literal = unquote(new)
    if literal is None:
        new = rf"replace(replace({new}, '\\', '\\\\'), '$', '\\$')"
    elif any(
        found[0] in {"\\", "$"} or int(found[1] or 0) > groups_of(pattern) for found in _REFERENCE.finditer(literal)
    ):
        raise TopologyError(
            f"{literal!r} names a group that the pattern does not have", remedy=r"write a literal $ as \$"
        )
    return f"regexp_replace({texts['s']}, {texts['p']}, {new})"


def _like(texts: Mapping[str, str]) -> str:
    """A backslash of the pattern is a literal character."""
    pattern = unquote(texts["p"])
    return f"{texts['s']} like {texts['p'] if pattern is None else quote(pattern.replace(_BACKSLASH, _BACKSLASH * 2))}"


_BACKSLASH = "\\"
_NO_TEXT = "cast(null as string)"
_FOUND = "coalesce({s} rlike {p}, false)"

REGEXP = (
    _row(
        "regex regexp reg rlike regexp_like dipperregex",
        "s text, p pattern",
        _guarded(_FOUND, "false"),
        "boolean",
        "Whether the pattern is found anywhere; false if it is invalid.",
        {
            "regexp('k1=v1;k2=v2','k2*')": True,
            "regexp('k1=v1;k2=v2','k3')": False,
            "regexp('k1=v1;k2=v2','(')": False,
            "regexp('http://a?id=1','[?&]id=')": True,
            "regexp('a','[z-a]')": False,
            "regex(null,'a')": False,
        },
    ),
    _row(
        "!regex notRegex",
        "s text, p pattern",
        _guarded(f"(not {_FOUND})", "true"),
        "boolean",
        "Whether the pattern is not found.",
        {"notRegex('abc','b')": False, "notRegex(null,'b')": True},
    ),
    _row(
        "regexMatch regexFull",
        "s text, p pattern",
        _guarded("coalesce(regexp_substr({s}, {p}) = {s}, false)", "false"),
        "boolean",
        "Whether the first match is the whole text.",
        {"regexMatch('abc','[a-c]+')": True, "regexMatch('abcd','[a-c]+')": False},
    ),
    _row(
        "regexcount regexp_count",
        "s text, p pattern",
        _guarded("regexp_count({s}, {p})", "cast(null as int)"),
        "int",
        "The number of matches.",
        {"regexcount('abcabc','b')": 2, "regexcount('a','(')": None},
    ),
    _row(
        "regexinstr regexp_instr",
        "s text, p pattern",
        _guarded(_PLACE, "cast(null as int)"),
        "int",
        "The position of the first match, counted from 0; -1 if there is none.",
        {"regexinstr('abc','c')": 2, "regexinstr('abc','x')": -1, "regexinstr('😀c😀c','c')": 1},
    ),
    _row(
        "regexsubstr regexp_substr",
        "s text, p pattern",
        _guarded("regexp_substr({s}, {p})", _NO_TEXT),
        "string",
        "The first match; null if there is none.",
        {"regexsubstr('a12b34','[0-9]+')": "12", "regexsubstr('ab','[0-9]+')": None},
    ),
    _row(
        "regex_group regexGroup",
        "s text, p pattern",
        _guarded(_extracted, _NO_TEXT),
        "string",
        "The first group of the first match.",
        {"regex_group('a12','a([0-9])')": "1"},
    ),
    _row(
        "regexp_extract regex_group_index regexGroupIndex",
        "s text, p pattern, i whole = 1",
        _guarded(_extracted, _NO_TEXT),
        "string",
        "A group of the first match; null if there is none or the pattern is empty.",
        {
            "regexp_extract('foothebar','foo(.*?)(bar)',2)": "bar",
            r"regexp_extract('100-200','(\d+)-(\d+)',1)": "100",
            "regexp_extract('a','(',1)": None,
            "regexp_extract('a','',1)": None,
            "regexp_extract('a','b(c)')": None,
        },
    ),
    _row(
        "regexp_extract_all regexAll",
        "s text, p pattern, i whole = 0",
        _guarded(_extracted_all, "cast(null as array<string>)"),
        "array<string>",
        "A group of all matches.",
        {"regexp_extract_all('a1b2','[0-9]')": ["1", "2"]},
    ),
    _row(
        "regexp_replace",
        "s text, p pattern, new text",
        _guarded(_replaced, _NO_TEXT),
        "string",
        "All matches replaced; null for an invalid pattern, the text itself for an empty one.",
        {
            "regexp_replace('2014-03-13','-','')": "20140313",
            "regexp_replace('2014-03-13','','s')": "2014-03-13",
            "regexp_replace('2014-03-13','(','s')": None,
            r"regexp_replace('100-200','(\d+)','num')": "num-num",
            "regexp_replace(null,'a','b')": None,
        },
    ),
    _row(
        "replace replaceAll",
        "s text, p pattern, new text",
        _guarded(_replaced, _NO_TEXT),
        "string",
        "Like regexp_replace: `p` is a pattern.",
        {"replace('a.b','[.]','-')": "a-b"},
    ),
    _row(
        "translate",
        "s text, p pattern, new text",
        _guarded(_replaced, _NO_TEXT),
        "string",
        "Like regexp_replace; translate_letters replaces single characters.",
        {"translate('abc','b','x')": "axc"},
    ),
    _row(
        "regexreplace regexpReplace",
        "s text, new text, p pattern",
        _guarded(_replaced, _NO_TEXT),
        "string",
        "Like regexp_replace, with the pattern as the last argument.",
        {"regexreplace('a1b2','#','[0-9]')": "a#b#"},
    ),
    _row(
        "like",
        "s text, p word",
        lambda t: f"coalesce({_like(t)}, false)",
        "boolean",
        "Whether the whole text matches a pattern with % and _.",
        {
            "like('abc','a%')": True,
            r"like('it\'s','it\'%')": True,
            r"like('a\b','a\b')": True,
            "like('abc','_b')": False,
            "like(null,'%')": False,
        },
    ),
    _row(
        "!like notLike",
        "s text, p word",
        lambda t: f"(not coalesce({_like(t)}, false))",
        "boolean",
        "Whether it does not match such a pattern.",
        {"notLike('abc','a%')": False},
    ),
)

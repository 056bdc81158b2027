"""Texts: length, case, cutting and joining. Positions count from 1."""

from __future__ import annotations

from rs_assets.expressions.functions.function import Family

_family = Family("text")
_row = _family.row

# Longer texts are not generated: a number in a row could fill the memory.
LONGEST = 10_000_000


def _padded(builtin: str) -> str:
    """Null for a length below zero or above LONGEST, and if padding is needed but empty."""
    refused = f"{{n}} not between 0 and {LONGEST} or ({{pad}} = '' and {{n}} > length({{s}}))"
    return f"if({refused}, null, {builtin}({{s}}, {{n}}, {{pad}}))"


_SUBSTRING = "if({p} < -length({s}), '', substring({s}, {p}))"
_SUBSTRING_OF_LENGTH = "if({p} < -length({s}), '', substring({s}, {p}, {n}))"

TEXT = (
    _row(
        "concat",
        "parts text...",
        "concat_ws('', {parts})",
        "string",
        "All parts concatenated; nulls are skipped.",
        {"concat('Hello',null,'World')": "HelloWorld", "concat(null,null)": "", "concat('a',1,'b')": "a1b"},
    ),
    _row(
        "concat_ws concat_sign concatWithSign",
        "sep text, parts text...",
        "concat_ws(coalesce({sep}, ''), {parts})",
        "string",
        "The parts joined by a separator; nulls are skipped, and a null separator is empty.",
        {
            "concat_ws('|','Jack','Harry','John')": "Jack|Harry|John",
            "concat_ws(null,'Jack','Harry','John')": "JackHarryJohn",
            "concat_ws('|','Jack',null)": "Jack",
        },
    ),
    _row(
        "substring substr blink_substring blink_substr mid",
        "s text, p int",
        _SUBSTRING,
        "string",
        "The text from the position `p` on; a negative one counts from the end, 0 is 1.",
        {
            "substring('k1=v1;k2=v2',2)": "1=v1;k2=v2",
            "substring('k1=v1;k2=v2',-2)": "v2",
            "substring('k1=v1;k2=v2',22)": "",
            "substring('k1=v1;k2=v2',-22)": "",
            "substring('k1=v1;k2=v2',1)": "k1=v1;k2=v2",
            "substring('k1=v1;k2=v2',0)": "k1=v1;k2=v2",
        },
    ),
    _row(
        "substring substr blink_substring blink_substr mid",
        "s text, p int, n int",
        _SUBSTRING_OF_LENGTH,
        "string",
        "`n` characters from the position `p` on.",
        {"substring('k1=v1;k2=v2',-2,1)": "v", "substring('k1=v1;k2=v2',2,1)": "1", "substr('abc',1,-1)": ""},
    ),
    _row(
        "left strleft",
        "s text, n int",
        "left({s}, {n})",
        "string",
        "The first `n` characters.",
        {"left('hello',2)": "he", "left('hello',-1)": "", "left(null,2)": None},
    ),
    _row(
        "right strright",
        "s text, n int",
        "right({s}, {n})",
        "string",
        "The last `n` characters.",
        {"right('hello',2)": "lo", "right('hello',0)": ""},
    ),
    _row(
        "lpad leftPad",
        "s text, n int, pad text = ' '",
        _padded("lpad"),
        "string",
        "The text padded with `pad` on the left, or cut, to `n` characters.",
        {
            "lpad('',-2,'')": None,
            "lpad('HelloWorld',15,'John')": "JohnJHelloWorld",
            "lpad('John',2,'C')": "Jo",
            "lpad('C',4,'HelloWorld')": "HelC",
            "lpad('asd',2,'')": "as",
            "lpad('',2,'s')": "ss",
            "lpad('asd',4,'')": None,
            "lpad('',0,'')": "",
            "lpad(null,2,'a')": None,
        },
    ),
    _row(
        "rpad rightPad",
        "s text, n int, pad text = ' '",
        _padded("rpad"),
        "string",
        "The text padded with `pad` on the right, or cut, to `n` characters.",
        {
            "rpad('',-2,'')": None,
            "rpad('HelloWorld',15,'John')": "HelloWorldJohnJ",
            "rpad('John',2,'C')": "Jo",
            "rpad('C',4,'HelloWorld')": "CHel",
            "rpad('asd',2,'')": "as",
            "rpad('',2,'s')": "ss",
            "rpad('asd',4,'')": None,
            "rpad('',0,'')": "",
        },
    ),
    _row(
        "repeat",
        "s text, n int",
        f"if(cast({{n}} as bigint) * length({{s}}) <= {LONGEST}, repeat({{s}}, {{n}}), null)",
        "string",
        "The text repeated `n` times; empty for 0 and less.",
        {
            "repeat('J',9)": "JJJJJJJJJ",
            "repeat('Hello',2)": "HelloHello",
            "repeat('Hello',-9)": "",
            "repeat(null,9)": None,
        },
    ),
    _row(
        "space",
        "n int",
        f"if({{n}} <= {LONGEST}, space({{n}}), null)",
        "string",
        "`n` blanks.",
        {"concat(space(2),'a')": "  a", "space(-1)": ""},
    ),
    _row("initcap", "s text", "initcap({s})", "string", "Each word capitalized.", {"initcap('aADvbn')": "Aadvbn"}),
    _row(
        "reverse",
        "s text",
        "reverse({s})",
        "string",
        "The text reversed.",
        {"reverse('iPhoneX')": "XenohPi"},
    ),
    _row(
        "lower tolower low lcase",
        "s text",
        "lower({s})",
        "string",
        "The text in lower case.",
        {"lower('AbC')": "abc", "lower('')": "", "lower(null)": None},
    ),
    _row("upper toupper ucase", "s text", "upper({s})", "string", "The text in upper case.", {"upper('aBc')": "ABC"}),
    _row("trim", "s text", "trim({s})", "string", "The text without blanks at its ends.", {"trim('  a b ')": "a b"}),
    _row(
        "trim btrim",
        "s text, chars text",
        "btrim({s}, {chars})",
        "string",
        "The text without any of `chars` at its ends.",
        {"trim('xxaxx','x')": "a"},
    ),
    _row(
        "ltrim trimLeft",
        "s text",
        "ltrim({s})",
        "string",
        "The text without leading blanks.",
        {"ltrim('  a ')": "a "},
    ),
    _row(
        "rtrim trimRight",
        "s text",
        "rtrim({s})",
        "string",
        "The text without trailing blanks.",
        {"rtrim(' a  ')": " a"},
    ),
    _row(
        "length",
        "s text",
        "length({s})",
        "int",
        "The number of characters; null for null.",
        {"length('231ee')": 5, "length('')": 0, "length(null)": None, "length('äö')": 2},
    ),
    _row(
        "char_length len character_length charLength",
        "s text",
        "coalesce(char_length({s}), 0)",
        "int",
        "The number of characters; 0 for null.",
        {"char_length('231ee')": 5, "len(null)": 0},
    ),
    _row(
        "lengthb lenb octet_length",
        "s text",
        "octet_length({s})",
        "int",
        "The number of bytes in UTF-8.",
        {"lengthb('äb')": 3, "lengthb('')": 0},
    ),
    _row("bit_length", "s text", "bit_length({s})", "int", "The number of bits in UTF-8.", {"bit_length('ab')": 16}),
)

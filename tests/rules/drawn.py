"""Random rules and rows, with all that is awkward: nulls, empty texts, NaN, other scripts, line ends, negation."""

from __future__ import annotations

import math
from random import Random

SCHEMA = "id bigint, text string, host string, ms bigint, small int, size double, part float, ok boolean"
TYPES = dict(each.split() for each in SCHEMA.split(", "))
TEXTS = [
    None, "", " ",
    "a", " a ", "A", "ab",
    "curl http://x.sh", "rm -rf /tmp/x.sh\n", "größe", "GRÖSSE", "ΟΔΟΣ", "\u212a", "k",
    "a\nb",
    "a\r\n", "a\u2028", "foo bar", "foobar", "foo", "10.0.0.1", "10.0.0.1 ", "10.0.0.256", "10.0.7.9",
    "\\d", "a%b",
    "x" * 300, "日本語 log", "1", "001", "İx", "b_c", "aab", "aaa",
    "2001:db8::7", " 2001:DB8:8000:0::1 ", "::1", "fe80::1%eth0", "::ffff:10.0.0.1", "::ffff:a00:7",
    "::ffff:10.0.0.256", "1::2::3",
]  # fmt: skip
PATTERNS = [
    "foo", "^a", "a$", "^$", "^a$", "a.b", "(?s)a.b", r"\bfoo\b", r"\.sh$", "[^a]",
    "(?i)größe", "a|k", r"(a)\1", "(?<!x)a",
    "(?=foo)f.*r", "(?!foo)f", r"\d+", r"\D", r"\s",
    r"\w{2,3}", "x{200}", ".*", "a+?b", "a++b", "[a-c]b", r"[\w-]+", r"\\d", "本",

    "(?>a*)b", r"\p{Alpha}+b", "(?<n>a)b", r"\Qa%b\E", r"\t|\x61", "a.?$", r"\Aa\z", r"a\Z",
    "(?i)K", "(?i)[^k]", "((a|b)c?)+$", r"\B", r"\B\w",
    "b$|c", "(?i)B$", r"\r$", r"\n$", "[a-c]$", "b+$", r"b\z", r"b\z|a",
]  # fmt: skip
NETWORKS = ["10.0.0.0/22", "10.0.0.1", "10.", "2001:db8::/33", "::/0", "fe80::/10", "::1", "::ffff:10.0.0.0/118"]
NUMBERS = [None, 0, 1, -1, 5, 99, 100, 101, 2**31 - 1]
LONGS = [*NUMBERS, 2**63 - 1, -(2**63), 2**53 + 1]
FLOATS = [None, 0.0, -0.0, 1.5, 100.0, 100.0000001, math.nan, math.inf, -math.inf, 1e300]
SMALL_FLOATS = [None, 0.5, 100.0, math.nan, 0.1]


def rows(count: int, drawn: Random) -> list[dict[str, object]]:
    """Rows of `SCHEMA`."""
    return [
        {
            "id": n,
            "text": drawn.choice(TEXTS),
            "host": drawn.choice(TEXTS),
            "ms": drawn.choice(LONGS),
            "small": drawn.choice(NUMBERS),
            "size": drawn.choice(FLOATS),
            "part": drawn.choice(SMALL_FLOATS),
            "ok": drawn.choice([True, False, None]),
        }
        for n in range(count)
    ]


def quoted(text: str) -> str:
    """A text in a condition."""
    return "'" + text.replace("'", "\\'") + "'"


def atom(drawn: Random) -> str:
    """One comparison."""
    kind = drawn.randrange(6)
    field = drawn.choice(["text", "host"])
    if kind == 0:
        operator = drawn.choice(["regex", "~regex", "!regex"])
        return f"({field},{operator},{quoted(drawn.choice(PATTERNS))})"
    if kind == 1:
        words = "a,k,größe,foo,%,a%,_,%sh%,a_b,o b,10.0,\\d,ö,\u03c3"
        value = drawn.choice(words.split(","))
        return f"({field},{drawn.choice(['like', '!like', 'contains', '~contains', 'notContains'])},{quoted(value)})"
    if kind == 2:
        few = ",".join(drawn.choice(["a", "ab", "k", "1", "10.0.0.1", "x y"]) for _ in range(drawn.randrange(1, 4)))
        return f"({drawn.choice(['text', 'host', 'ms', 'ok'])},{drawn.choice(['in', '!in'])},{quoted(few)})"
    if kind == 3:
        operator = drawn.choice(["=", "!=", "<", "<=", ">", ">="])
        return f"({field},{operator},{quoted(drawn.choice([each for each in TEXTS if each]))})"
    if kind == 4:
        return drawn.choice([
            f"({field},isNull)", f"({field},!null)", "(ms,isNull)", "(size,isNotNull)", "(ok,=,true)", "(ok,!=,true)",
            *(f"({field},ipContains,'{network}')" for network in NETWORKS),
        ])  # fmt: skip
    operator = drawn.choice(["=", "!=", "<", "<=", ">", ">="])
    value = drawn.choice(
        ["0", "1", "100", "1.5", "-1", "99.9999999", "9223372036854775807", "9223372036854775808", "1e3"]
    )
    return f"({drawn.choice(['ms', 'small', 'size', 'part'])},{operator},{value})"


def condition(drawn: Random, depth: int = 2) -> str:
    """A condition of a few atoms."""
    if not depth or drawn.random() < 0.4:
        return atom(drawn)
    if drawn.random() < 0.25:
        return f"!({condition(drawn, depth - 1)})"
    operator = drawn.choice("&|")
    return "(" + operator.join(condition(drawn, depth - 1) for _ in range(drawn.randrange(2, 4))) + ")"

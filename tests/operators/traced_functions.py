"""Functions to be traced, values on which Spark and Python might differ, and what a tree computes, in plain Python."""

# ruff: noqa: RUF001, FURB171, UP031, FURB192, PLC3002, PIE800, BLE001  code as users might write it

import math
import random
from datetime import UTC, date, datetime

from rs_assets.compile.python.tracing.expression import GREATEST, LEAST, WHOLE, Field, Literal
from rs_assets.compile.python.tracing.tree import Leaf

FIELDS = {"s": "string", "p": "string", "n": "bigint", "i": "int", "d": "double", "e": "double", "b": "boolean"}
FIELDS |= {"ts": "timestamp", "day": "date"}
DDL = ", ".join(f"{name} {kind}" for name, kind in FIELDS.items())

TEXTS = [
    None,
    "",
    "a",
    "A",
    "/check",
    "/checkout",
    "ß",
    "İ",
    "ı",
    "ſ",
    "K",
    " x ",
    "\u2003y\u3000",
    "\x1fz",
    "é",
    "e\u0301",
]
TEXTS += [
    "😀",
    "😀b",
    "z",
    "GET",
    "get",
    "200",
    "\x00",
    "a\nb",
    "10",
    "na\u00efve",
    "\u00a0q\u00a0",
    "\u200bw",
    "ﬁ",
    "aa",
    "\\",
    "%_",
]
NUMBERS = [
    None,
    0,
    1,
    -1,
    2,
    -2,
    3,
    7,
    -7,
    99,
    100,
    101,
    5000,
    2**31 - 1,
    -(2**31),
    2**53,
    2**53 + 1,
    -(2**53) - 1,
    2**62,
]
NUMBERS += [GREATEST, LEAST, GREATEST - 1, LEAST + 1]
INTS = [None, 0, 1, -1, 7, -7, 404, 500, 2**31 - 1, -(2**31)]
DOUBLES = [None, 0.0, -0.0, 1.0, 1.5, -1.5, 0.1, 100.0, math.nan, math.inf, -math.inf, 2.0**53, 1e308, -1e308, 5e-324]
TIMES = [None, datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)]
DAYS = [None, date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31)]
VALUES = {"s": TEXTS, "p": TEXTS, "n": NUMBERS, "i": INTS, "d": DOUBLES, "e": DOUBLES, "b": [None, True, False]}
VALUES |= {"ts": TIMES, "day": DAYS}


def rows(count, seed):
    """Rows of values that are drawn evenly; the first have each value of each field."""
    draw = random.Random(seed)
    every = max(map(len, VALUES.values()))
    first = [{name: own(known[at % len(known)]) for name, known in VALUES.items()} for at in range(every)]
    return first + [{name: own(draw.choice(known)) for name, known in VALUES.items()} for _ in range(count - every)]


def own(value):
    """Not a number is another object in each field, as it is behind Arrow: containers compare objects first."""
    return float("nan") if value != value else value


LIMIT, PREFIXES, BAD, RATE = 100, ("/che", "a"), frozenset({"GET", "/check"}), 0.1


def is_get(text):
    return text is not None and text.lower() == "get"


def length(text, least=2):
    if text is None:
        return 0
    return len(text) if len(text) > least else -1


def graded(row):
    if row["i"] is None:
        return False
    for grade, least in enumerate((0, 7, 404)):
        if row["i"] < least:
            return grade == 1
    match row["s"]:
        case "get" | "GET":
            return True
        case None:
            return False
    return row["n"] is not None and LIMIT <= row["n"] < LIMIT**2 if False else row["b"]


K = 7
FILTERS = [
    lambda r: r["n"] > 100,
    lambda r: r["p"] == "/checkout",
    lambda r: r["p"] != "/checkout",
    lambda r: r["p"].startswith("/check"),
    lambda r: r["p"] and r["p"].startswith(PREFIXES),
    lambda r: r["p"] is not None and r["n"] is not None and (r["p"] == "a" or r["n"] > LIMIT) and not r["b"],
    lambda r: r["s"] in ("GET", "get"),
    lambda r: r["s"] in BAD,
    lambda r: r["s"] in {"a", "ß", "", "😀", 3, None},
    lambda r: r["s"] not in ["GET", "z"],
    lambda r: r["n"] in (1, 2.0, "3", True, 2**70, GREATEST),
    lambda r: r["n"] in {1, 7, GREATEST, 2**80, None},
    lambda r: r["d"] in (0, 1.5, 100),
    lambda r: r["d"] in [r["d"]],
    lambda r: r["d"] in [r["e"]],
    lambda r: [r["d"], r["s"]] == [r["e"], r["p"]],
    lambda r: (r["s"] or "", r["n"] or 0) < (r["p"] or "", 7),
    lambda r: 0 < (r["n"] or 0) <= 100,
    lambda r: (r["n"] or 0) // 7 == -1,
    lambda r: (r["n"] or 0) % 7 == 6,
    lambda r: r["n"] is not None and r["n"] + 1 > 0,
    lambda r: r["n"] is not None and r["n"] * r["n"] > 10,
    lambda r: r["i"] is not None and r["i"] * r["i"] > 10,
    lambda r: r["n"] is not None and -r["n"] > 10,
    lambda r: r["n"] is not None and abs(r["n"]) > 10,
    lambda r: r["n"] is not None and r["i"] is not None and r["n"] - r["i"] * 3 > 10,
    lambda r: r.get("s", "") == "a" or r.get("nope", "x") == "y" or "q" in r,
    lambda r: r["d"] > 1,
    lambda r: r["d"] is not None and r["d"] != r["d"],
    lambda r: r["d"] is not None and (r["d"] == 0 or r["d"] >= 100),
    lambda r: r["d"],
    lambda r: r["b"],
    lambda r: r["s"],
    lambda r: not r["n"],
    lambda r: is_get(r["s"]),
    lambda r: length(r["s"]) > 2,
    lambda r: r["s"] is not None and r["s"].strip() == "y",
    lambda r: r["s"] is not None and r["s"].lstrip("a/") == "check",
    lambda r: r["s"] is not None and r["s"].rstrip("tu") in ("/checko", "ge", ""),
    lambda r: r["s"] is not None and r["s"].upper() == "GET",
    lambda r: r["s"] is not None and len(r["s"]) > 1 and r["s"][0:2] != "/c",
    lambda r: r["s"] is not None and r["s"][-3:] in ("eck", "out", "a", "GET"),
    lambda r: r["s"] is not None and r["s"][:-1] in ("/chec", "", "😀", "1"),
    lambda r: r["s"] and r["s"][0] in "/a",
    lambda r: r["s"] and r["s"][0] in ("/", "😀", "e"),
    lambda r: r["s"] is not None and r["s"][1] == "b",
    lambda r: r["s"] is not None and r["s"].removeprefix("/ch") == "eck",
    lambda r: r["s"] is not None and r["p"] is not None and r["s"] < r["p"],
    lambda r: r["s"] is not None and "e" in r["s"],
    lambda r: r["s"] is not None and "" in r["s"] and r["s"].endswith(""),
    lambda r: r["s"] is not None and (r["s"] + "x").endswith("tx"),
    lambda r: r["s"] is not None and "x" + r["s"] >= "xa" and r["s"].replace("a", "aa") == "aaaa",
    lambda r: any(x == r["s"] for x in ("a", "A", "z")),
    lambda r: all([r["s"] != "a", r["n"] != 3]),
    lambda r: [x for x in ("a", "b") if x == r["s"]],
    lambda r: {"GET": "read"}.get(r["s"]) == "read",
    lambda r: True if r["i"] == 404 else r["n"] == 1,
    lambda r: r["n"] == 1.0,
    lambda r: r["n"] == 1.5 or r["n"] == "1" or r["n"] == (1 + 0j),
    lambda r: r["n"] > "1",
    lambda r: r["i"] is not None and r["d"] is not None and r["i"] < r["d"],
    lambda r: r["n"] is not None and r["n"] <= 2.0**53,
    lambda r: r["i"] is not None and 400 <= r["i"] < 600,
    lambda r: isinstance(r["s"], str) and r["s"] > "a",
    lambda r: isinstance(r["n"], (int, float)) and not isinstance(r["n"], bool) and r["n"] > 5,
    lambda r: r["ts"] is None or r["day"] is None,
    lambda r: r["ts"] == r["ts"],
    lambda r: r["s"] is not None and r["s"].replace("e", "E") == "gEt",
    lambda r: (r["s"] or "").lower() in {"get", "a"},
    lambda r: min(r["n"] or 0, 5) == 5,
    lambda r: max(r["n"] or 0, r["i"] or 0, 5) > 100,
    lambda r: r["b"] is True,
    lambda r: r["b"] is not False,
    lambda r: (r["b"] or 0) + 1 == 2,
    lambda r: len(r["s"]) > 3,
    lambda r: r["n"] is not None and (r["n"] % K == 3) == (r["b"] is True),
    lambda r: r["d"] is not None and r["d"] * 2 > 3,
    lambda r: r["d"] is not None and r["e"] is not None and r["d"] + r["e"] < 1.6,
    lambda r: r["d"] is not None and r["e"] is not None and r["d"] * r["e"] != r["d"] - r["e"],
    lambda r: r["d"] is not None and r["e"] and r["d"] / r["e"] > 1,
    lambda r: r["n"] is not None and r["n"] / 1000 > 0.1,
    lambda r: r["n"] is not None and r["n"] * RATE > 10,
    lambda r: r["i"] is not None and r["n"] and r["i"] / r["n"] < 0.5,
    lambda r: 1 / r["i"] > 0,
    lambda r: r["d"] is not None and -r["d"] < 0 < abs(r["d"]),
    lambda r: f"{r['s']}" == "a",
    lambda r: "%s" % r["s"] == "a",
    lambda r: "".join([r["s"], "x"]) == "ax",
    lambda r: sorted([r["i"] or 0, 5, 3])[0] == 3,
    lambda r: (lambda x: x > 5)(r["i"] or 0),
    lambda r: str(r["i"]) == "7",
    lambda r: hash(r["s"]) % 2,
    lambda r: r["s"] is r["p"],
    lambda r: r["n"] is (r["i"] or None),
    lambda r: r["s"] is not (r["p"] if r["b"] else None),
    lambda r: r["s"] is not None and r["s"].startswith(("/che", ("a",))),
    lambda r: r.get("s", default="a") == "a",
    lambda r: r["s"] == "\ud800",
    lambda r: dict(r)["s"] == "a",
    lambda r: len(r) == 9 and r["b"],
    lambda r: r["nope"] > 3,
    lambda r: r["s"].split("/")[1] == "check",
    lambda r: r["s"] if r["b"] else r["n"],
    lambda r: (r["s"] is None) + (r["n"] is None) == 1,
    lambda r: [r["i"], 1, 2][1:] == [1, 2] and r["i"],
    lambda r: {**{"a": r["s"]}, "c": 1}["a"],
    graded,
]
# Each with the type of the field `x` that it makes.
MAPS = [
    ("string", lambda r: {"x": r["s"]}),
    ("string", lambda r: {"x": (r["s"] or "-").strip()}),
    ("string", lambda r: {"x": "big" if (r["n"] or 0) > 100 else None}),
    ("string", lambda r: {"x": (r["s"] or "")[1:3] + "/" + (r["p"] or "")[-2:]}),
    ("bigint", lambda r: {"x": len(r["s"] or "")}),
    ("bigint", lambda r: {"x": r["n"] + 1 if r["n"] is not None else None}),
    ("bigint", lambda r: {"x": (r["n"] or 0) // 1000}),
    ("bigint", lambda r: {"x": r["i"]}),
    ("int", lambda r: {"x": r["n"]}),
    ("int", lambda r: {"x": (r["n"] or 0) % 60}),
    ("tinyint", lambda r: {"x": r["i"]}),
    ("double", lambda r: {"x": r["d"]}),
    ("double", lambda r: {"x": r["n"] / 1000 if r["n"] is not None else None}),
    ("double", lambda r: {"x": (r["d"] or 0.0) * (r["e"] or 1.0)}),
    ("double", lambda r: {"x": -(r["d"] or 0.0)}),
    ("double", lambda r: {"x": abs(r["d"]) if r["d"] is not None else r["e"]}),
    ("double", lambda r: {"x": (r["n"] or 0) * 1.5 - (r["d"] or 0.0)}),
    ("double", lambda r: {"x": r["n"]}),
    ("boolean", lambda r: {"x": r["b"]}),
    ("boolean", lambda r: {"x": r["n"] is not None and r["n"] > 5}),
    ("boolean", lambda r: {"x": r["s"] in ("a", "b")}),
    ("boolean", lambda r: {"x": r["s"] and True}),
    ("timestamp", lambda r: {"x": r["ts"]}),
    ("date", lambda r: {"x": r["day"]}),
    ("string", lambda r: {"x": r["n"]}),
    ("string", lambda r: {"y": r["s"]}),
]


class Drawn:
    """Functions drawn from a grammar, as source: most guard what may be null, some do not."""

    def __init__(self, seed):
        self.draw = random.Random(seed)

    def filter(self):
        return "lambda r: " + self.truth(3)

    def map(self):
        kind = self.draw.choice(["string", "bigint", "double", "boolean"])
        value = {"string": self.text, "bigint": self.whole, "double": self.real, "boolean": self.truth}[kind](3)
        other = self.draw.choice(["None", value])
        return kind, f"lambda r: {{'x': {value} if {self.truth(1)} else {other}}}"

    def truth(self, depth):
        of = self.draw.choice
        compare = of(["==", "!=", "<", "<=", ">", ">="])
        if depth > 1 and self.draw.random() < 0.6:
            a, b = self.truth(depth - 1), self.truth(depth - 1)
            return of([f"({a} and {b})", f"({a} or {b})", f"(not {a})", f"({a} if {b} else {self.truth(1)})"])
        return of(
            [
                lambda: f"({self.text(2)} {compare} {self.text(1)})",
                lambda: f"({self.whole(2)} {compare} {self.whole(1)})",
                lambda: f"({self.real(2)} {compare} {self.real(1)})",
                lambda: f"({self.whole(1)} {compare} {self.real(1)})",
                lambda: f"({self.text(2)} in {of(TUPLES)})",
                lambda: f"({self.whole(1)} in {{0, 7, 100, -1}})",
                lambda: f"({of(CONSTANTS)!r} in {self.text(1)})",
                lambda: f"{self.text(1)}.{of(['startswith', 'endswith'])}({of(CONSTANTS)!r})",
                lambda: f"(r[{of(list(FIELDS))!r}] is {of(['', 'not '])}None)",
                lambda: "bool(r['b'])",
            ]
        )()

    def text(self, depth):
        of = self.draw.choice
        if depth == 1 or self.draw.random() < 0.4:
            field = of("sp")
            return of([f"(r['{field}'] or '')"] * 4 + [f"r['{field}']", repr(of(CONSTANTS))])
        inner = self.text(depth - 1)
        method = of(
            [".strip()", ".lower()", ".upper()", ".lstrip('a')", ".rstrip()", ".replace('a', 'b')", "[1:]", "[:2]"]
        )
        return of([f"{inner}{method}", f"({inner} + {self.text(1)})", f"{inner}[{of(range(-3, 4))}:]"])

    def whole(self, depth):
        of = self.draw.choice
        if depth == 1 or self.draw.random() < 0.3:
            return of(
                ["(r['n'] or 0)", "(r['i'] or 1)", "r['i']", str(of([0, 1, 7, -1, 100, 2**31])), f"len({self.text(1)})"]
            )
        inner = self.whole(depth - 1)
        return of(
            [f"({inner} {of('+-*')} {self.whole(1)})", f"({inner} {of(['%', '//'])} {of([1, 7, 60])})", f"abs({inner})"]
        )

    def real(self, depth):
        of = self.draw.choice
        if depth == 1 or self.draw.random() < 0.3:
            return of(["(r['d'] or 0.0)", "(r['e'] or 1.5)", "r['d']", repr(of([0.0, -0.0, 0.1, 2.5, 1e308]))])
        inner = self.real(depth - 1)
        return of([f"({inner} {of('+-*/')} {self.real(1)})", f"({self.whole(1)} {of('*/')} {inner})", f"(-{inner})"])


CONSTANTS = ["", "a", "A", "/check", "e", "ß", "😀", "get", " ", "\x00", "\u0301"]
TUPLES = ["('GET', 'get')", "{'a', 'ß', ''}", "('/check', None, 3)", "['😀', 'z']"]


# ---- what a tree computes --------------------------------------------------------------------------------------------


def _bounded(value):
    return value if LEAST <= value <= GREATEST else None


def _divided(a, b):
    if b == 0:
        return None
    if math.isnan(a) or (math.isinf(a) and math.isinf(b)):
        return math.nan
    return a / b


PLAIN = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "is_nan": lambda a: a != a,
    "not": lambda a: not a,
    "between": lambda a, least, most: least <= a <= most,
    "in": lambda a, *members: a in members,
    "contains": lambda a, part: part in a,
    "starts": str.startswith,
    "ends": str.endswith,
    "concat": lambda a, b: a + b,
    "lower": str.lower,
    "upper": str.upper,
    "octets": lambda a: len(a.encode()),
    "length": len,
    "trim": str.strip,
    "trim_start": str.lstrip,
    "trim_end": str.rstrip,
    "replace": str.replace,
    "substring": lambda a, start, count: a[max(start - 1 if start > 0 else len(a) + start, 0) :][: max(count, 0)],
    "+": lambda a, b: _bounded(a + b),
    "-": lambda a, b: _bounded(a - b),
    "*": lambda a, b: _bounded(a * b),
    "pmod": lambda a, b: a % b,
    "div": lambda a, b: math.trunc(a // b) if a % b == 0 or a > 0 else -(-a // b),
    "double": float,
    "double +": lambda a, b: a + b,
    "double -": lambda a, b: a - b,
    "double *": lambda a, b: a * b,
    "double /": _divided,
    "negative": lambda a: -a,
    "abs": abs,
    "days": lambda day: day.toordinal() - 719_163,
    "micros": lambda ts: round((ts.timestamp()) * 1_000_000) if ts.year < 9999 else 253_402_300_799_999_999,
    **dict.fromkeys(WHOLE, int),
}


def labelled(row):
    if row["s"] is None:
        return {**row, "x": -1}
    return {**row, "x": 0, "s": row["s"] + "!"}


def with_default(row):
    made = {**row}
    made["x"] = 5
    return made


def of_a_helper(row):
    return with_default(row)


def once_more(row):
    least = 3 if row["b"] is True else 7
    return {"x": least, **row, **{"n": None, "x": least}}


# Records with all of their fields and the field x, a bigint.
SPREAD = [
    lambda r: {**r, "x": 1},
    lambda r: {"x": 1, **r},
    lambda r: {"x": 1, "n": 2, **r},
    lambda r: {**r, "x": (r["n"] or 0) % 7, "p": "-"},
    lambda r: {**r, "x": r["n"] if r["n"] is not None else 0, "n": r["i"]},
    lambda r: {**r, "x": 5 if r["b"] is None or r["s"] == "a" else None, "d": r["e"], "s": r["s"] and r["s"].strip()},
    lambda r: {**r, "x": 1} if r["b"] is None else {**r, "x": 0 if r["b"] else 2, "b": None},
    labelled,
    with_default,
    of_a_helper,
    once_more,
]


def kept(row):
    return row


# The same, of which some records, or all, are for Python: a field is looked at after it was taken.
LOOKED_AT = [
    lambda r: {**kept({**r, "x": 1}), "x": 2} if r["s"] is None else {**r, "x": 0},
    lambda r: {**r, "x": 1 if {**r}["n"] is None else 0},
    lambda r: {**r, "x": ({**r}["n"] or 0) % 7},
    lambda r: {**r, "x": [v for v in {**r, "y": None}.values() if v is None and 1] and 1},
    lambda r: dict(r, x=1),
    lambda r: {**{name: r[name] for name in r.keys()}, "x": 1},  # noqa: SIM118  on purpose
    lambda r: {**r, "x": 1} if {**r} == r else {**r, "x": 2},
    lambda r: {**r, "x": 1, "s": kept({**r, "x": 0})["s"] or "-"},
]


def computed(expression, row):
    """The value of an expression for a row; None is Spark's null."""
    if isinstance(expression, Field):
        return row[expression.name]
    if isinstance(expression, Literal):
        return expression.value
    parts = [computed(part, row) for part in expression.parts]
    if expression.operation == "is_null":
        return parts[0] is None
    if expression.operation == "and":
        return False if False in parts else None if None in parts else True
    if expression.operation == "or":
        return True if True in parts else None if None in parts else False
    return None if None in parts else PLAIN[expression.operation](*parts)


def followed(tree, row):
    """The leaf that a row comes to."""
    while not isinstance(tree, Leaf):
        condition = computed(tree.condition, row)
        assert condition is not None, (tree.condition, row)
        tree = tree.yes if condition else tree.no
    return tree


def wanted(function, row):
    """What the function itself does with a row: keep, drop or raise."""
    try:
        return "keep" if function(dict(row)) else "drop"
    except Exception:
        return "raise"

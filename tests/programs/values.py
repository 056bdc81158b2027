"""The fields of sources, and the values that their rows are drawn from."""

from __future__ import annotations

from decimal import Decimal
from math import inf, nan

CORE = (("id", "bigint"), ("key", "string"), ("n", "bigint"), ("ts", "timestamp"))
MORE = (
    ("x", "double"),
    ("ok", "boolean"),
    ("price", "decimal(8,2)"),
    ("tags", "array<string>"),
    ("m", "bigint"),
    ("y", "odd"),
)


class Items(list):
    """A list, which may be a key."""

    def __hash__(self):
        return hash(tuple(self))


class Struct(dict):
    """A struct, which may be a key."""

    def __hash__(self):
        return hash(tuple(self.items()))


# Seeds from `WIDER` on have these fields and the steps of `lookups` as well; earlier ones stay as they were.
WIDER = 100_000
LATER = (("ip", "ip"),)
# Seeds from `ODDER` on have these fields and the families of `later_families`, too, and times of microseconds.
ODDER = 101_000
# Seeds from `PAIRED` on have those of `paired_families`.
PAIRED = 110_000
LATEST = (("word", "word"), ("big", "big"), ("spot", "struct<a:bigint,b:string>"), ("bag", "map<string,bigint>"))
ODD_ORDERED = ("word", "big")
KEYS = (*ODD_ORDERED, "struct<a:bigint,b:string>", "array<string>")
FINE = (0.000001, 0.000999, 0.001, 0.001001, 0.999999)
VALUES = {
    "string": ["a", "b", "c", "a", "b", "", "é", None],
    "bigint": [None, -3, -1, 0, 1, 2, 3, 4, 7, 9],
    "double": [None, -1.5, 0.0, 0.25, 0.5, 2.75, 4.0],
    "odd": [None, 0.0, -0.0, nan, inf, -inf, 1.5],
    "boolean": [True, False, None],
    "word": [
        *("", " ", "a", "A", "a ", "\u00e9", "e\u0301", "\u00df", "'", '"', "`", "\\", "\n", "a\0b"),
        *("\u65e5", "\U0001f600", "null", None),
    ],
    "big": [None, 0, 1, -1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**63 - 2, -(2**63)],
    "struct<a:bigint,b:string>": [
        None,
        *(Struct(a=a, b=b) for a, b in ((1, "x"), (1, None), (None, "x"), (None, None), (2, ""))),
    ],
    "map<string,bigint>": [None, {}, {"a": 1}, {"a": 1, "b": None}, {"b": None, "a": 1}, {"": 2}],
    "decimal(8,2)": [None, Decimal("0.10"), Decimal("2.50"), Decimal("-1.05"), Decimal("7.00")],
    "array<string>": [None, (), ("u",), ("u", "v"), ("v", None, "u")],
    "ip": [
        None,
        "",
        "10.1.2.3",
        "10.1.9.9",
        "10.9.9.9",
        "192.168.0.1",
        "::ffff:10.1.2.3",
        "2001:db8::1",
        "2001:DB8:0::2",
        "fe80::1%eth0",
        "010.1.2.3",
        "10.1.2",
        "10.1.2.3 ",
        "::1",
    ],
}
NETWORKS = (
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.1.2.77/24",
    "10.1.2.3",
    "0.0.0.0/0",
    "::/0",
    "2001:db8::/32",
    "2001:db8::1/128",
    "::ffff:10.0.0.0/104",
    "192.168.0.0/255.255.0.0",
    "nowhere",
    None,
)
NUMBERS = ("bigint", "double", "decimal(8,2)")
ORDERED = (*NUMBERS, "string")
# What some aggregates are made of, and which of them compute with numbers.
AGGREGATED = {
    "sum": NUMBERS,
    "avg": ("bigint", "double"),
    "distinct": ("string", "bigint"),
    "xor": ("bigint",),
    "every": ("boolean",),
    "median": ("bigint",),
}
COMPUTED = ("sum", "avg", "xor", "every", "median")
SIZES = (5, 10, 20, 30, 60)
# One leaves an hour out at midnight, in March.
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "America/Havana")

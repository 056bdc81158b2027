"""Intervals: INTERVAL '10' SECOND, '1:30' MINUTE TO SECOND."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from rs_assets.sql.read.source import Text

UNITS: Final[Mapping[str, timedelta]] = MappingProxyType(
    {
        "MILLISECOND": timedelta(milliseconds=1),
        "SECOND": timedelta(seconds=1),
        "MINUTE": timedelta(minutes=1),
        "HOUR": timedelta(hours=1),
        "DAY": timedelta(days=1),
        "WEEK": timedelta(weeks=1),
    }
)
MONTHS: Final = ("MONTH", "QUARTER", "YEAR")
# The parts of '1 02:03:04.5', from days to seconds.
PARTS: Final = ("DAY", "HOUR", "MINUTE", "SECOND")


def duration(text: Text, tree: Any, at: object = None) -> timedelta:
    """The duration of an INTERVAL; SqlError for months, whose length varies, and for anything else.

    A tree that is not an interval may have no position: then the error is at `at`.
    """
    if tree.key != "interval":
        raise text.error("expected an interval", tree if at is None else at, remedy="write it as INTERVAL '10' SECOND")
    unit = tree.args.get("unit")
    if unit is not None and unit.key == "intervalspan":
        return _span(text, tree, unit.this.name.upper(), unit.expression.name.upper())
    name = (unit.name if unit is not None else "").upper().removesuffix("S")
    number = tree.this.name if tree.this is not None else ""
    if name in MONTHS:
        raise text.error(f"a {name} has no fixed length", tree, remedy="write it in days: INTERVAL '30' DAY")
    if name not in UNITS or not re.fullmatch(r"-?\d+(\.\d+)?", number):
        raise text.error(
            "this is not an interval", tree if at is None else at, remedy="write it as INTERVAL '10' SECOND"
        )
    try:
        return UNITS[name] * (float(number) if "." in number else int(number))
    except OverflowError as error:
        raise text.error("the interval is too long", tree, remedy="INTERVAL '36500' DAY is a century") from error


def _span(text: Text, tree: Any, first: str, last: str) -> timedelta:
    """'1:30' MINUTE TO SECOND: a number for each unit from the first to the last."""
    names = PARTS[PARTS.index(first) : PARTS.index(last) + 1] if {first, last} <= set(PARTS) else ()
    numbers = re.split(r"[ :]", tree.this.name.strip().removeprefix("-"))
    if len(numbers) != len(names) or not all(re.fullmatch(r"\d+(\.\d+)?", number) for number in numbers):
        raise text.error("this is not an interval", tree, remedy="write it as INTERVAL '1:30' MINUTE TO SECOND")
    made = sum((UNITS[name] * float(number) for name, number in zip(names, numbers, strict=True)), timedelta(0))
    return -made if tree.this.name.strip().startswith("-") else made


def interval_text(text: Text, tree: Any) -> str:
    """An INTERVAL in Spark SQL; months and years are calendar units."""
    unit = tree.args.get("unit")
    name = (unit.name if unit is not None and unit.key == "var" else "").upper().removesuffix("S")
    if name in MONTHS and re.fullmatch(r"-?\d+", tree.this.name):
        return f"INTERVAL {int(tree.this.name) * (3 if name == 'QUARTER' else 1)} {name.replace('QUARTER', 'MONTH')}"
    return duration_text(duration(text, tree))


def duration_text(time: timedelta) -> str:
    """A duration as an interval of Spark SQL.

    >>> duration_text(timedelta(seconds=90))
    'INTERVAL 90 SECOND'
    """
    micros = time // timedelta(microseconds=1)
    for unit, size in (("SECOND", 1_000_000), ("MILLISECOND", 1_000), ("MICROSECOND", 1)):
        if micros % size == 0:
            return f"INTERVAL {micros // size} {unit}"
    raise AssertionError(time)

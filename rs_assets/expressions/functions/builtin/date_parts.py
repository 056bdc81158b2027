"""Parts of times in texts; null if the text is not a time."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from rs_assets.expressions.functions.builtin.dates import ONE, TWO, read_time
from rs_assets.expressions.functions.function import Family, Function

_row = Family("date").row

PARTS: tuple[tuple[str, str, str, str, int | str], ...] = (
    ("year yyyy", "year({})", "int", "The year.", 2017),
    ("quarter", "quarter({})", "int", "The quarter of the year.", 3),
    ("month", "month({})", "int", "The month.", 9),
    (
        "weekofyear week",
        "weekofyear({})",
        "int",
        "The week of the year by ISO 8601: the first week has at least four days of the year.",
        37,
    ),
    ("day dd dayofmonth", "day({})", "int", "The day of the month.", 15),
    ("dayofyear doy", "dayofyear({})", "int", "The day of the year.", 258),
    ("weekday dayofweek", "dayofweek({}) - 1", "int", "The day of the week; Sunday is 0.", 5),
    ("isoWeekday", "weekday({}) + 1", "int", "The day of the week; Monday is 1.", 5),
    ("hour hh", "hour({})", "int", "The hour of the day.", 13),
    ("minute", "minute({})", "int", "The minute of the hour.", 14),
    ("second ss", "second({})", "int", "The second of the minute.", 15),
    ("millisecond millis", "cast(date_format({}, 'SSS') as int)", "int", "The millisecond of the second.", 0),
    ("dayname day_name", "date_format({}, 'EEEE')", "string", "The day of the week as a word.", "Friday"),
    ("monthname month_name", "date_format({}, 'MMMM')", "string", "The month as a word.", "September"),
)


def _part(names: str, sql: str, returns: str, doc: str, golden: Any) -> tuple[Function, Function]:
    def template(texts: Mapping[str, str]) -> str:
        return sql.format(read_time(texts))

    name = names.split(maxsplit=1)[0]
    plain: dict[str, Any] = {f"{name}('2017-09-15 13:14:15')": golden, f"{name}('x')": None, f"{name}(null)": None}
    other = {f"{name}('15.09.2017 13:14:15','dd.MM.yyyy HH:mm:ss')": golden}
    return (
        _row(names, ONE, template, returns, doc, plain | (_WEEKS if name == "weekofyear" else {})),
        _row(names, TWO, template, returns, f"The same for a time in a format: {doc[0].lower()}{doc[1:]}", other),
    )


# Spark's EXTRACT gives a second with its decimals, and has no smaller parts.
_SECONDS: Mapping[str, str] = MappingProxyType(
    {
        "SECOND": "second({})",
        "MILLISECOND": "cast(date_format({}, 'SSS') as int)",
        "MICROSECOND": "cast(date_format({}, 'SSSSSS') as int)",
    }
)


def _dated(texts: Mapping[str, str]) -> str:
    part = _SECONDS.get(texts["unit"], f"extract({texts['unit']} from {{}})").format(read_time(texts))
    return f"cast({part} as string)"


_WEEKS = {"week('2017-11-10')": 45, "week('2017-10-15')": 41}

DATE_PARTS = (
    *(row for each in PARTS for row in _part(*each)),
    _row(
        "datepart date_part",
        "s text, unit unit",
        _dated,
        "string",
        "A part of a time as a text: yyyy, MM, dd, HH, mm, ss or a word.",
        {
            "datepart('2017-09-15 13:14:15','MM')": "9",
            "datepart('2017-09-15 13:14:15','mm')": "14",
            "datepart('2017-09-15 13:14:05.25','ss')": "5",
            "datepart('2017-09-15 13:14:05.25','millisecond')": "250",
            "datepart('2017-09-15 13:14:05.25','microsecond')": "250000",
            "datepart('x','ss')": None,
        },
    ),
)

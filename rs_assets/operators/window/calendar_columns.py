"""Days, weeks and months of a time zone as Spark columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from pyspark.sql import Column
from pyspark.sql import functions as F

from rs_assets.operators.window.spec import CalendarUnit, CalendarWindow

DAY_MICROS = 86_400_000_000

# The first date of a date's unit, and that of the next one.
FIRST: Mapping[CalendarUnit, Callable[[Column], Column]] = MappingProxyType(
    {"day": lambda date: date, "week": lambda date: F.trunc(date, "week"), "month": lambda date: F.trunc(date, "month")}
)
NEXT: Mapping[CalendarUnit, Callable[[Column], Column]] = MappingProxyType(
    {
        "day": lambda first: F.date_add(first, 1),
        "week": lambda first: F.date_add(first, 7),
        "month": lambda first: F.add_months(first, 1),
    }
)


def calendar_window(at: Column, window: CalendarWindow) -> Column:
    """The window of the instant `at`: a struct of the instants `start` and `end`.

    Where clocks are set back over midnight the last hour of a date is repeated, after the first instants of the next
    date: all of that belongs to the next date, so that windows are contiguous.
    """
    first = FIRST[window.unit](_date(at, window.zone))
    following = NEXT[window.unit](first)
    end = _begin(following, window.zone)
    return F.when(at < end, F.struct(_begin(first, window.zone).alias("start"), end.alias("end"))).otherwise(
        F.struct(end.alias("start"), _begin(NEXT[window.unit](following), window.zone).alias("end"))
    )


def _date(at: Column, zone: str) -> Column:
    """The date in `zone` at an instant; the session's own time zone has no effect."""
    shown = F.unix_micros(F.from_utc_timestamp(at, zone))
    return F.date_from_unix_date(F.floor(shown / F.lit(DAY_MICROS)).cast("int"))


def _begin(date: Column, zone: str) -> Column:
    """The first instant of a date in `zone`; if clocks skip midnight, the instant at which they do."""
    midnight = F.timestamp_micros(F.unix_date(date).cast("bigint") * F.lit(DAY_MICROS))
    return F.to_utc_timestamp(midnight, zone)

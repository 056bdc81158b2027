"""Durations, which are `timedelta` everywhere, and the epoch that windows are aligned to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rs_assets.errors import TopologyError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A thousand years: the windows of all event times that are accepted end before the end of time.
LONGEST = timedelta(days=365_000)


class Time:
    """Durations in the field's words; every method returns a `datetime.timedelta`.

    >>> Time.minutes(10)
    datetime.timedelta(seconds=600)
    """

    @staticmethod
    def milliseconds(n: float) -> timedelta:
        """`n` milliseconds."""
        return timedelta(milliseconds=n)

    @staticmethod
    def seconds(n: float) -> timedelta:
        """`n` seconds."""
        return timedelta(seconds=n)

    @staticmethod
    def minutes(n: float) -> timedelta:
        """`n` minutes."""
        return timedelta(minutes=n)

    @staticmethod
    def hours(n: float) -> timedelta:
        """`n` hours."""
        return timedelta(hours=n)

    @staticmethod
    def days(n: float) -> timedelta:
        """`n` days of 24 hours."""
        return timedelta(days=n)


def checked_duration(
    value: object, *, what: str, least: timedelta = timedelta(milliseconds=1), most: timedelta = LONGEST
) -> timedelta:
    """Return `value` if it is a duration of whole milliseconds from `least` to `most`, else raise TopologyError."""
    if not isinstance(value, timedelta):
        raise TopologyError(f"{what} must be a timedelta, not {value!r}", remedy="write it as Time.seconds(10)")
    if value < least:
        raise TopologyError(f"{what} must be at least {least}, not {value}")
    if value > most:
        raise TopologyError(
            f"{what} must be at most {most.days} days, not {value.days}", remedy=f"write Time.days({most.days}) or less"
        )
    if value % timedelta(milliseconds=1):
        raise TopologyError(f"{what} must be whole milliseconds, not {value}")
    return value

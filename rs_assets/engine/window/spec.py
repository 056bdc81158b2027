"""Windows and aggregates as data.

Durations are `timedelta`, windows are half-open `[start, end)` and aligned to the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from rs_assets.engine.source.policy import BadRecords
from rs_assets.errors import TopologyError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A watermark cannot lie before the epoch in Spark, so no earlier event could ever be counted.
DEFAULT_MAX_AHEAD = timedelta(days=1)


class Time:
    """Durations in the words of the field; every method returns a `datetime.timedelta`.

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


def checked_duration(value: object, *, what: str, least: timedelta = timedelta(milliseconds=1)) -> timedelta:
    """Return `value` if it is a duration of whole milliseconds and at least `least`, else raise TopologyError."""
    if not isinstance(value, timedelta):
        raise TopologyError(f"{what} must be a timedelta, not {value!r}", remedy="write it as Time.seconds(10)")
    if value < least:
        raise TopologyError(f"{what} must be at least {least}, not {value}")
    if value % timedelta(milliseconds=1):
        raise TopologyError(f"{what} must be whole milliseconds, not {value}")
    return value


@dataclass(frozen=True, slots=True)
class TumblingWindow:
    """Windows of one size, side by side.

    `time_field` names the event time (timestamp, epoch milliseconds or `yyyy-MM-dd HH:mm:ss`); without one the
    time of arrival is used.

    >>> TumblingWindow.of(Time.seconds(10), "ts").size
    datetime.timedelta(seconds=10)
    """

    size: timedelta
    time_field: str | None = None

    def __post_init__(self) -> None:
        """Refuse a size that is no positive duration."""
        checked_duration(self.size, what="the size of a window")

    @classmethod
    def of(cls, size: timedelta, time_field: str | None = None) -> TumblingWindow:
        """A tumbling window of `size`."""
        return cls(size, time_field)

    @property
    def slide(self) -> timedelta:
        """The distance between two starts."""
        return self.size


@dataclass(frozen=True, slots=True)
class HoppingWindow:
    """Windows of one size that start every `slide` and so overlap; a row belongs to about size / slide of them.

    >>> HoppingWindow.of(Time.minutes(10), Time.minutes(5), "ts").slide
    datetime.timedelta(seconds=300)
    """

    size: timedelta
    slide: timedelta
    time_field: str | None = None

    def __post_init__(self) -> None:
        """Refuse durations that are not positive, and a slide longer than the size (rows would fall between)."""
        checked_duration(self.size, what="the size of a window")
        checked_duration(self.slide, what="the slide of a window")
        if self.slide > self.size:
            raise TopologyError(
                f"a slide of {self.slide} is longer than the window of {self.size}: rows between windows would vanish",
                remedy="use a slide that is at most the size",
            )

    @classmethod
    def of(cls, size: timedelta, slide: timedelta, time_field: str | None = None) -> HoppingWindow:
        """A hopping window of `size` that starts every `slide`."""
        return cls(size, slide, time_field)


@dataclass(frozen=True, slots=True)
class SessionWindow:
    """Windows that go on while rows of a group follow each other within `gap`, and end `gap` after the last one.

    >>> SessionWindow.of(Time.minutes(30), "ts").gap
    datetime.timedelta(seconds=1800)
    """

    gap: timedelta
    time_field: str | None = None

    def __post_init__(self) -> None:
        """Refuse a gap that is no positive duration."""
        checked_duration(self.gap, what="the gap of a session")

    @classmethod
    def of(cls, gap: timedelta, time_field: str | None = None) -> SessionWindow:
        """A session window that closes after `gap` without rows."""
        return cls(gap, time_field)


Window = TumblingWindow | HoppingWindow | SessionWindow

# When a window gives its row: once, when it closes, or in each batch that changes it, as it stands then.
EmitStrategy = Literal["on_window_close", "on_window_update"]

AggregateFunction = Literal[
    "count", "sum", "avg", "min", "max", "distinct", "count_distinct", "count_distinct_large", "collect"
]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One column of a window row: `function` over `field` (None only for count), called `alias`."""

    function: AggregateFunction
    field: str | None
    alias: str


@dataclass(frozen=True, slots=True)
class EventTimeBounds:
    """Which event times are believed; others are bad records and follow `policy`.

    `earliest` cannot lie before 1970 (Spark's watermark starts there). `max_ahead` is how far an event may lie ahead
    of the driver's clock at the start of its batch: without it one row of the year 2999 would move the watermark past
    everything. `policy` None means the policy of the sources.
    """

    earliest: datetime = EPOCH
    max_ahead: timedelta = DEFAULT_MAX_AHEAD
    policy: BadRecords | None = None

    def __post_init__(self) -> None:
        """Refuse bounds that Spark could not honour."""
        if self.earliest.tzinfo is None or self.earliest < EPOCH:
            raise TopologyError(
                f"the earliest event time must have a time zone and not lie before 1970, not {self.earliest}",
                remedy="use datetime(1970, 1, 1, tzinfo=UTC) or later",
            )
        checked_duration(self.max_ahead, what="max_ahead", least=timedelta(0))

"""Windows as data: all kinds but those in `over.py` and `global_window.py`, and their union `Window`.

Durations are `timedelta`, windows are half-open `[start, end)` and aligned to the epoch, or to the calendar of a zone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from math import gcd
from typing import ClassVar, Literal

from rs_assets.common.plural import count_of
from rs_assets.common.zones import checked_zone
from rs_assets.errors import TopologyError
from rs_assets.operators.window.durations import checked_duration
from rs_assets.operators.window.global_window import GlobalWindow
from rs_assets.operators.window.kind import WindowKind
from rs_assets.operators.window.over import OverWindow


def _check_offset(offset: object, slide: timedelta) -> None:
    """Refuse an offset that is negative, or not shorter than the distance between two starts."""
    if isinstance(offset, timedelta) and offset < timedelta(0):
        raise TopologyError(
            "the offset of a window must not be negative",
            remedy=f"add multiples of {slide}, the distance between two starts: the windows are the same",
        )
    if checked_duration(offset, what="the offset of a window", least=timedelta(0)) >= slide:
        raise TopologyError(
            f"an offset of {offset} is not below {slide}, the distance between two starts",
            remedy="subtract multiples of that distance: the windows are the same",
        )


class RegularWindow(WindowKind):
    """The base of windows that start every `slide`, counted from `offset` after the epoch."""

    __slots__ = ()

    @property
    def slide(self) -> timedelta:
        """The distance between two starts."""
        raise NotImplementedError

    @property
    def offset(self) -> timedelta:
        """Where one window starts, after the epoch."""
        raise NotImplementedError

    @property
    def grid(self) -> timedelta:
        """The greatest duration that all starts are multiples of."""
        microsecond = timedelta(microseconds=1)
        return gcd(self.slide // microsecond, self.offset // microsecond) * microsecond

    @property
    def late_interval(self) -> timedelta:
        """The distance between two ends."""
        return self.slide


def _offset_text(offset: timedelta) -> str:
    return f" from {offset}" if offset else ""


@dataclass(frozen=True, slots=True)
class TumblingWindow(RegularWindow):
    """Windows of one size, without gaps or overlap.

    `time_field` names the event time (timestamp, epoch milliseconds or `yyyy-MM-dd HH:mm:ss`); without one the time of
    arrival is used. One window starts `offset` after the epoch, and all others at multiples of the size from it.

    >>> from rs_assets import Time
    >>> TumblingWindow.of(Time.seconds(10), "ts").size
    datetime.timedelta(seconds=10)
    >>> TumblingWindow.of(Time.hours(24), "ts", offset=Time.hours(6)).offset
    datetime.timedelta(seconds=21600)
    """

    native: ClassVar[bool] = True

    size: timedelta
    time_field: str | None = None
    # Not in the repr of a window, which is part of the identity of state: `WindowAggregate.identity` adds it.
    offset: timedelta = field(default=timedelta(0), kw_only=True, repr=False)

    def __post_init__(self) -> None:
        """Refuse a size that is not a positive duration, and an offset that is as long."""
        checked_duration(self.size, what="the size of a window")
        _check_offset(self.offset, self.size)

    @classmethod
    def of(cls, size: timedelta, time_field: str | None = None, *, offset: timedelta = timedelta(0)) -> TumblingWindow:
        """A tumbling window of `size`."""
        return cls(size, time_field, offset=offset)

    @property
    def slide(self) -> timedelta:
        """The distance between two starts."""
        return self.size

    @property
    def longest(self) -> timedelta:
        """The greatest length of a window."""
        return self.size

    def __str__(self) -> str:
        """In a few words."""
        return f"tumbling {self.size}{_offset_text(self.offset)}"


@dataclass(frozen=True, slots=True)
class HoppingWindow(RegularWindow):
    """Windows of one size that start every `slide` and so overlap; a row belongs to about size / slide of them.

    >>> from rs_assets import Time
    >>> HoppingWindow.of(Time.minutes(10), Time.minutes(5), "ts").slide
    datetime.timedelta(seconds=300)
    """

    native: ClassVar[bool] = True
    overlap: ClassVar[bool] = True

    size: timedelta
    # By `field()`: else the property of the base would be its default.
    slide: timedelta = field()
    time_field: str | None = None
    # As for tumbling windows.
    offset: timedelta = field(default=timedelta(0), kw_only=True, repr=False)

    def __post_init__(self) -> None:
        """Refuse durations that are not positive, and a slide longer than the size (rows would be lost)."""
        checked_duration(self.size, what="the size of a window")
        checked_duration(self.slide, what="the slide of a window")
        if self.slide > self.size:
            raise TopologyError(
                f"a slide of {self.slide} is longer than the window of {self.size}: rows between windows would be lost",
                remedy="use a slide that is at most the size",
            )
        _check_offset(self.offset, self.slide)

    @classmethod
    def of(
        cls, size: timedelta, slide: timedelta, time_field: str | None = None, *, offset: timedelta = timedelta(0)
    ) -> HoppingWindow:
        """A hopping window of `size` that starts every `slide`, counted from `offset` after the epoch."""
        return cls(size, slide, time_field, offset=offset)

    @property
    def longest(self) -> timedelta:
        """The length of a window."""
        return self.size

    def __str__(self) -> str:
        """In a few words."""
        return f"hopping {self.size} every {self.slide}{_offset_text(self.offset)}"


# The most windows that a row belongs to at once.
MOST_STEPS = 10_000


@dataclass(frozen=True, slots=True)
class CumulateWindow(RegularWindow):
    """Windows that start together every `size` and end one `step` after the other, the last one with the next start.

    So each covers the time since the start: of a day by hours, the first hour, the first two, up to all of it.
    `size` is a whole multiple of `step`.

    >>> from rs_assets import Time
    >>> CumulateWindow.of(Time.hours(24), Time.hours(1), "ts").step
    datetime.timedelta(seconds=3600)
    """

    overlap: ClassVar[bool] = True
    # They share a start.
    places: ClassVar[frozenset[str]] = frozenset({"end_time"})

    size: timedelta
    step: timedelta
    time_field: str | None = None
    # As for tumbling windows.
    offset: timedelta = field(default=timedelta(0), kw_only=True, repr=False)

    def __post_init__(self) -> None:
        """Refuse durations that are not positive, and a size that is not a multiple of the step."""
        checked_duration(self.size, what="the size of a window")
        checked_duration(self.step, what="the step of a window")
        if self.size % self.step or self.size // self.step > MOST_STEPS:
            raise TopologyError(
                f"a window of {self.size} is not a whole number of steps of {self.step}, at most {MOST_STEPS:,}",
                remedy="use a step that divides the size",
            )
        _check_offset(self.offset, self.size)

    @classmethod
    def of(
        cls, size: timedelta, step: timedelta, time_field: str | None = None, *, offset: timedelta = timedelta(0)
    ) -> CumulateWindow:
        """Windows of `step`, two steps and so on up to `size`, which start every `size` from `offset` on."""
        return cls(size, step, time_field, offset=offset)

    @property
    def slide(self) -> timedelta:
        """The distance between two starts."""
        return self.size

    @property
    def longest(self) -> timedelta:
        """The greatest length of a window."""
        return self.size

    @property
    def late_interval(self) -> timedelta:
        """The distance between two ends."""
        return self.step

    def __str__(self) -> str:
        """In a few words."""
        return f"cumulating {self.size} by {self.step}{_offset_text(self.offset)}"


@dataclass(frozen=True, slots=True)
class SessionWindow(WindowKind):
    """Windows that continue while rows of a group follow each other within `gap`, and end `gap` after the last one.

    >>> from rs_assets import Time
    >>> SessionWindow.of(Time.minutes(30), "ts").gap
    datetime.timedelta(seconds=1800)
    """

    state_name: ClassVar[str] = "sessions"
    by_time: ClassVar[bool] = False
    native: ClassVar[bool] = True
    merges: ClassVar[bool] = True

    gap: timedelta
    time_field: str | None = None

    def __post_init__(self) -> None:
        """Refuse a gap that is not a positive duration."""
        checked_duration(self.gap, what="the gap of a session")

    @property
    def longest(self) -> timedelta:
        """The length of a session of one row; others have no bound."""
        return self.gap

    @classmethod
    def of(cls, gap: timedelta, time_field: str | None = None) -> SessionWindow:
        """A session window that closes after `gap` without rows."""
        return cls(gap, time_field)

    @property
    def late_interval(self) -> timedelta:
        """The gap."""
        return self.gap

    def __str__(self) -> str:
        """In a few words."""
        return f"session gap {self.gap}"


CalendarUnit = Literal["day", "week", "month"]
# Since 1970 no clock was set back by more than seven hours (Antarctica/Vostok), which made a day that much longer.
SET_BACK = timedelta(hours=7)
UNIT_DAYS: Mapping[CalendarUnit, int] = {"day": 1, "week": 7, "month": 31}


@dataclass(frozen=True, slots=True)
class CalendarWindow(WindowKind):
    """Days, weeks (from Monday) or months of the calendar in a time zone, without gaps or overlap.

    They begin at the first instant of a date there: when clocks are set back or forward a day has 25 or 23 hours.
    `zone` is a name of the IANA data base. `time_field` is as for a tumbling window.

    >>> CalendarWindow.days("Europe/Berlin", "ts").unit
    'day'
    """

    unit: CalendarUnit
    zone: str
    time_field: str | None = None

    def __post_init__(self) -> None:
        """Refuse units and zones that are unknown."""
        if self.unit not in UNIT_DAYS:
            raise TopologyError(
                f"a calendar window cannot have the unit {self.unit!r}", remedy="use days(), weeks() or months()"
            )
        checked_zone(self.zone)

    @classmethod
    def days(cls, zone: str, time_field: str | None = None) -> CalendarWindow:
        """Days, from midnight to midnight."""
        return cls("day", zone, time_field)

    @classmethod
    def weeks(cls, zone: str, time_field: str | None = None) -> CalendarWindow:
        """Weeks, from Monday to Monday."""
        return cls("week", zone, time_field)

    @classmethod
    def months(cls, zone: str, time_field: str | None = None) -> CalendarWindow:
        """Months, from their first day to the next one's."""
        return cls("month", zone, time_field)

    @property
    def longest(self) -> timedelta:
        """The greatest length of a window."""
        return timedelta(days=UNIT_DAYS[self.unit]) + SET_BACK

    def __str__(self) -> str:
        """In a few words."""
        return f"calendar {self.unit} in {self.zone}"


# The most rows in a window.
MOST_COUNTED = 1_000_000


@dataclass(frozen=True, slots=True)
class CountWindow(WindowKind):
    """Windows of `size` rows of a group each, without overlap, in the order of event time.

    A row is counted when the watermark has passed it. `time_field` is as for a tumbling window; rows counted by
    arrival are in the order of batches.

    >>> CountWindow.of(100, "ts").size
    100
    """

    state_name: ClassVar[str] = "counted"
    by_time: ClassVar[bool] = False
    in_order: ClassVar[bool] = True

    size: int
    time_field: str | None = None

    def __post_init__(self) -> None:
        """Refuse an invalid number of rows."""
        if not isinstance(self.size, int) or isinstance(self.size, bool) or not 0 < self.size <= MOST_COUNTED:
            raise TopologyError(f"a window counts 1 to {MOST_COUNTED:,} rows, not {self.size!r}")

    @property
    def longest(self) -> timedelta:
        """The length of the window of one row; others have no bound."""
        return timedelta(0)

    @classmethod
    def of(cls, size: int, time_field: str | None = None) -> CountWindow:
        """A window of `size` rows."""
        return cls(size, time_field)

    def __str__(self) -> str:
        """In a few words."""
        return f"each {count_of(self.size, 'row')}"


@dataclass(frozen=True, slots=True)
class SlidingWindow(WindowKind):
    """Windows over rows of a group that are at most `difference` apart, as `SlidingWindows` of Kafka Streams.

    Both ends are inclusive. One window ends with each row, and one begins a microsecond after each row, if it has
    rows. `time_field` is as for a tumbling window.

    >>> from rs_assets import Time
    >>> SlidingWindow.of(Time.seconds(10), "ts").difference
    datetime.timedelta(seconds=10)
    """

    state_name: ClassVar[str] = "sliding"
    by_time: ClassVar[bool] = False
    in_order: ClassVar[bool] = True
    shows_open: ClassVar[bool] = False

    difference: timedelta
    time_field: str | None = None

    def __post_init__(self) -> None:
        """Refuse a difference that is not a positive duration."""
        checked_duration(self.difference, what="the difference of sliding windows")

    @property
    def longest(self) -> timedelta:
        """The length of a window."""
        return self.difference

    @classmethod
    def of(cls, difference: timedelta, time_field: str | None = None) -> SlidingWindow:
        """Windows as long as `difference`."""
        return cls(difference, time_field)

    def __str__(self) -> str:
        """In a few words."""
        return f"sliding {self.difference}"


# Windows of one size that start at equal distances.
AlignedWindow = TumblingWindow | HoppingWindow
Window = (
    AlignedWindow
    | CumulateWindow
    | SessionWindow
    | CalendarWindow
    | CountWindow
    | SlidingWindow
    | OverWindow
    | GlobalWindow
)

"""The global window as data: one window for all rows of a group, which never closes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from rs_assets.operators.window.durations import checked_duration
from rs_assets.operators.window.kind import WindowKind

# Its end: after the time that represents the end of input, so that nothing is late for it.
FOREVER = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class GlobalWindow(WindowKind):
    """One window for all rows of a group, which never ends: its row is emitted whenever it changes.

    With a `time_to_live` a group is removed, and its rows are retracted, when the watermark has passed its last row by
    that time; older rows are late. Without one no group is removed. `time_field` is as for a tumbling window.

    >>> from rs_assets import Time
    >>> GlobalWindow.of("ts", time_to_live=Time.hours(24)).time_to_live
    datetime.timedelta(days=1)
    """

    state_name: ClassVar[str] = "global"
    by_time: ClassVar[bool] = False
    endless: ClassVar[bool] = True
    shows_open: ClassVar[bool] = False
    places: ClassVar[frozenset[str]] = frozenset()

    time_field: str | None = None
    time_to_live: timedelta | None = None

    def __post_init__(self) -> None:
        """Refuse a time to live that is not a positive duration."""
        if self.time_to_live is not None:
            checked_duration(self.time_to_live, what="the time to live of a window's groups")

    @classmethod
    def of(cls, time_field: str | None = None, *, time_to_live: timedelta | None = None) -> GlobalWindow:
        """The window of all rows, whose groups live for ever or for `time_to_live` after their last row."""
        return cls(time_field, time_to_live)

    @property
    def longest(self) -> timedelta:
        """The length of the window of one row."""
        return self.time_to_live or timedelta.max

    @property
    def goes_by_time(self) -> bool:
        """Only groups with a time to live end."""
        return self.time_to_live is not None

    def __str__(self) -> str:
        """In a few words."""
        return f"global, for {self.time_to_live}" if self.time_to_live else "global"

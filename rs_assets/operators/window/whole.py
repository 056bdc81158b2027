"""The window without an end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rs_assets.operators.window.durations import checked_duration

# Its end: behind the time that stands for the end of input, so that nothing is late for it.
FOREVER = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class GlobalWindow:
    """One window for all rows of a group, which never ends: its row is told whenever it changes.

    With a `time_to_live` a group is forgotten, and its rows are taken back, when the watermark has passed the last of
    them by so much; rows that are older are late. Without one nothing is. `time_field` is as for a tumbling window.

    >>> from rs_assets import Time
    >>> GlobalWindow.of("ts", time_to_live=Time.hours(24)).time_to_live
    datetime.timedelta(days=1)
    """

    time_field: str | None = None
    time_to_live: timedelta | None = None

    def __post_init__(self) -> None:
        """Refuse a time to live that is no positive duration."""
        if self.time_to_live is not None:
            checked_duration(self.time_to_live, what="the time to live of a window's groups")

    @classmethod
    def of(cls, time_field: str | None = None, *, time_to_live: timedelta | None = None) -> GlobalWindow:
        """The window of all rows, whose groups live for ever or for `time_to_live` behind their last row."""
        return cls(time_field, time_to_live)

    @property
    def longest(self) -> timedelta:
        """How long the window of one row is."""
        return self.time_to_live or timedelta.max

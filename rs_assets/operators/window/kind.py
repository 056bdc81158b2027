"""What the code around windows asks of a kind of window: the answers of most kinds, which the others override."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

# Every window row has these besides its group fields and aggregates, except rows of a global window.
WINDOW_FIELDS = ("start_time", "end_time", "fire_time")
# Either identifies a window of one size.
PLACES = frozenset({"start_time", "end_time"})


class WindowKind:
    """The base of all windows. A kind without a method of its own is as a tumbling window."""

    __slots__ = ()

    # The name of the state of a processor that fires such windows.
    state_name: ClassVar[str] = "window"
    # Whether the event time alone assigns a row to its windows, so that they are keys of the state.
    by_time: ClassVar[bool] = True
    # Whether Spark has a function that assigns rows to them.
    native: ClassVar[bool] = False
    # Whether a row is in several of them.
    overlap: ClassVar[bool] = False
    # Whether they take rows in the order of event time, once the watermark has passed them.
    in_order: ClassVar[bool] = False
    # Whether they grow with their rows, and merge.
    merges: ClassVar[bool] = False
    # Whether they never close, so that they are emitted when they change.
    endless: ClassVar[bool] = False
    # Whether the state shows the rows of open windows.
    shows_open: ClassVar[bool] = True
    # The columns each of which identifies a window of a group.
    places: ClassVar[frozenset[str]] = PLACES

    @property
    def longest(self) -> timedelta:
        """The greatest length of a window; of one with a single row where there is no bound."""
        raise NotImplementedError

    @property
    def time_field(self) -> str | None:
        """The field of the event time; None for the time of arrival."""
        raise NotImplementedError

    @property
    def keep(self) -> tuple[str, ...]:
        """The fields of the row itself that its window carries."""
        return ()

    @property
    def grid(self) -> timedelta | None:
        """The greatest duration that all starts are multiples of; None if there is none."""
        return None

    @property
    def late_interval(self) -> timedelta:
        """The interval of late firings; zero if such windows have none."""
        return timedelta(0)

    @property
    def goes_by_time(self) -> bool:
        """Whether anything happens to a window when time passes."""
        return True

    @property
    def retracts(self) -> bool:
        """Whether a row that a processor emits may retract an earlier one."""
        return self.merges or self.endless

"""OVER windows as data: for each row the preceding rows of its group."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from rs_assets.common.names import one_or_more
from rs_assets.errors import TopologyError
from rs_assets.operators.window.durations import checked_duration
from rs_assets.operators.window.kind import WindowKind

# The most rows before a row.
MOST_BEFORE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OverWindow(WindowKind):
    """For each row itself and the rows of its group before it in event time, as `OVER (... ORDER BY ts)` of SQL.

    Each row is emitted once, when the watermark has passed it, with its fields `keep`. By `range` rows of one time are
    in each other's windows; by `rows` they are not, and are ordered by `keep`, then by the fields that aggregates read,
    nulls first. `time_field` is as for a tumbling window.

    >>> from rs_assets import Time
    >>> OverWindow.rows(9, "ts", keep=["ms"]).before
    9
    >>> OverWindow.range(Time.minutes(10), "ts", keep=["ms"]).within
    datetime.timedelta(seconds=600)
    """

    state_name: ClassVar[str] = "over"
    by_time: ClassVar[bool] = False
    in_order: ClassVar[bool] = True
    shows_open: ClassVar[bool] = False

    time_field: str | None = None
    keep: tuple[str, ...] = ()
    # The number of rows before it in a window, or their time range; all without either.
    before: int | None = None
    within: timedelta | None = None
    # Whether rows of one time share a window.
    peers: bool = True

    def __post_init__(self) -> None:
        """Refuse invalid numbers and durations."""
        if self.before is not None and (not isinstance(self.before, int) or not 0 <= self.before <= MOST_BEFORE):
            raise TopologyError(f"a window has 0 to {MOST_BEFORE:,} rows before its row, not {self.before!r}")
        if self.within is not None:
            checked_duration(self.within, what="the range of a window", least=timedelta(0))
        if not self.keep:
            raise TopologyError(
                "an OVER window keeps no field of its rows", remedy="name some: OverWindow.rows(9, 'ts', keep=['ms'])"
            )

    @classmethod
    def rows(
        cls, before: int | None, time_field: str | None = None, *, keep: str | list[str] | tuple[str, ...]
    ) -> OverWindow:
        """The row and at most `before` rows before it; None for all."""
        return cls(time_field=time_field, keep=one_or_more(keep), before=before, peers=False)

    @classmethod
    def range(
        cls, within: timedelta | None, time_field: str | None = None, *, keep: str | list[str] | tuple[str, ...]
    ) -> OverWindow:
        """The rows from `within` before the row's time up to its time; None for all up to then."""
        return cls(time_field=time_field, keep=one_or_more(keep), within=within)

    @property
    def longest(self) -> timedelta:
        """The length of the window of one row; others have no bound."""
        return timedelta(0)

    def __str__(self) -> str:
        """In a few words.

        >>> str(OverWindow.rows(9, "ts", keep=["ms"]))
        'over each row and 9 before it'
        """
        if self.before is not None:
            return f"over each row and {self.before} before it"
        if self.within is not None:
            return f"over the {self.within} before each row"
        return "over all rows before each" + " time" * self.peers

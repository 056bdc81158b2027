"""Deduplication."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from rs_assets.common.node import Family
from rs_assets.errors import TopologyError
from rs_assets.operators.window.durations import checked_duration
from rs_assets.topology.nodes.timed import Arrival, TimedState


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct(TimedState):
    """The first of the rows with equal `fields`; the others are dropped.

    A row is remembered until the watermark has passed its event time by `within`. Rows older than the watermark are
    late.
    """

    family: ClassVar[Family] = "window"

    fields: tuple[str, ...]
    within: timedelta
    time_field: str | None = None

    def __post_init__(self) -> None:
        """Refuse no field, or a duplicate."""
        TimedState.__post_init__(self)
        checked_duration(self.within, what=f"within of step {self.name!r}")
        if not self.fields or len(set(self.fields)) != len(self.fields):
            raise TopologyError(
                f"step {self.name!r} must name at least one field and none twice: {', '.join(self.fields) or 'none'}",
                remedy="name the fields that identify a row: .distinct('id', within=Time.minutes(10))",
                step=self.name,
            )

    @property
    def event_time(self) -> str | None:
        """The field that `within` is measured by."""
        return self.time_field

    @property
    def own_delay(self) -> bool:
        """Whether its watermark delay differs from `within`, the default."""
        return self.water_mark != self.within

    def leaving(self, field: str, lag: timedelta) -> Arrival | None:
        """A row is emitted in the batch in which it arrives."""
        return Arrival(lag) if field == self.time_field else None

    def detail(self) -> str:
        """The fields and how long they are remembered."""
        return f"{', '.join(self.fields)} within {self.within}"

    def identity(self) -> tuple[str, ...]:
        """Everything that decides which rows pass."""
        times = (f"within={self.within}", f"by={self.time_field}", f"water_mark={self.water_mark}")
        return (",".join(self.fields), *times)

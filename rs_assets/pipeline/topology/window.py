"""Windowed aggregation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, get_args

from rs_assets.engine.window.spec import (
    Aggregate,
    EmitStrategy,
    EventTimeBounds,
    HoppingWindow,
    SessionWindow,
    Window,
    checked_duration,
)
from rs_assets.errors import TopologyError
from rs_assets.pipeline.topology.base import Family, Node

# Every window row has these beside its group fields and aggregates.
WINDOW_FIELDS = ("start_time", "end_time", "fire_time")


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowAggregate(Node):
    """Aggregates per group and window; a window closes when the watermark passes its end.

    The watermark is the greatest event time seen less `water_mark`; rows of windows that have closed are late. `emit`
    says whether a window gives one row, when it closes, or its row as it stands in each batch that changes it.
    """

    family: ClassVar[Family] = "window"
    stateful: ClassVar[bool] = True

    window: Window
    group_by: tuple[str, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    water_mark: timedelta = timedelta(0)
    bounds: EventTimeBounds = EventTimeBounds()
    emit: EmitStrategy = "on_window_close"

    def __post_init__(self) -> None:
        """Refuse a window that computes nothing, and columns that would have one name."""
        Node.__post_init__(self)
        checked_duration(self.water_mark, what="the water mark", least=timedelta(0))
        if not self.aggregates:
            raise TopologyError(
                f"window {self.name!r} aggregates nothing", remedy="add .count('rows') or another aggregate"
            )
        columns = [*self.group_by, *(a.alias for a in self.aggregates), *WINDOW_FIELDS]
        # Spark does not tell names apart that differ in case only.
        folded = [c.casefold() for c in columns]
        twice = sorted({c for c in columns if folded.count(c.casefold()) > 1})
        if twice:
            raise TopologyError(
                f"window {self.name!r} would have two columns called {', '.join(twice)}",
                remedy="give the aggregate another name",
            )
        self._check_emit()

    def _check_emit(self) -> None:
        if self.emit not in get_args(EmitStrategy):
            raise TopologyError(
                f"window {self.name!r} cannot emit {self.emit!r}",
                remedy=f"use one of: {', '.join(get_args(EmitStrategy))}",
                step=self.name,
            )
        if self.updates and isinstance(self.window, SessionWindow):
            raise TopologyError(
                f"window {self.name!r}: sessions merge, so they cannot emit on each update",
                remedy="leave emit='on_window_update' out, or use a tumbling or hopping window",
                step=self.name,
            )

    @property
    def updates(self) -> bool:
        """Whether it emits a window in each batch that changes it."""
        return self.emit == "on_window_update"

    def detail(self) -> str:
        """Window, groups and aggregates, and that it emits updates if it does."""
        by = f" by {', '.join(self.group_by)}" if self.group_by else ""
        when = ", on each update" if self.updates else ""
        return f"{window_text(self.window)}{by}: {', '.join(a.alias for a in self.aggregates)}{when}"

    def identity(self) -> tuple[str, ...]:
        """Everything that decides what the state means, and which of its windows were emitted."""
        return (
            repr(self.window),
            ",".join(self.group_by),
            *(f"{a.function}({a.field or ''})" for a in self.aggregates),
            f"water_mark={self.water_mark}",
            *((f"emit={self.emit}",) if self.updates else ()),
        )


def window_text(window: Window) -> str:
    """A window in a few words.

    >>> window_text(SessionWindow(timedelta(minutes=30), "ts"))
    'session gap 0:30:00'
    """
    match window:
        case SessionWindow():
            return f"session gap {window.gap}"
        case HoppingWindow():
            return f"hopping {window.size} every {window.slide}"
        case _:
            return f"tumbling {window.size}"

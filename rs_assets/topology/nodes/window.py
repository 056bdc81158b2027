"""The node of a window with its aggregates: its time fields, its firings, and what may follow it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from math import gcd
from typing import ClassVar, get_args

from rs_assets.common.node import Family, Node
from rs_assets.errors import TopologyError
from rs_assets.operators.window.bounds import EventTimeBounds
from rs_assets.operators.window.durations import EPOCH, checked_duration
from rs_assets.operators.window.kind import WINDOW_FIELDS
from rs_assets.operators.window.output import Aggregate, EmitStrategy, Ranking, Rows
from rs_assets.operators.window.spec import AlignedWindow, Window
from rs_assets.operators.window.splits import BySplit
from rs_assets.operators.window.trigger import NEVER, ONCE, Firing, LateFirings, tells_final
from rs_assets.topology.nodes.fold import Kept
from rs_assets.topology.nodes.timed import NONE, Arrival, TimedState
from rs_assets.topology.user_code.expression import ColumnBuilder, SqlText, calls_by_name

# How often the time of a window by arrival advances without rows, in parts of its length.
ARRIVAL_PARTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowAggregate(TimedState):
    """Aggregates per group and window; a window closes when the watermark passes its end.

    The watermark is the greatest event time seen less `water_mark`; rows of windows that have closed are late. `emit`
    and `firing` say whether a window emits one row, when it closes, or also rows before and after. `own` are Spark
    aggregates by name, which follow the others. With a `ranking` a window emits a row for each of its first rows; with
    `rows` it carries its rows, for functions downstream, and each of `accumulated` is an accumulator of them.
    """

    family: ClassVar[Family] = "window"

    window: Window
    group_by: tuple[str, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    own: tuple[tuple[str, SqlText | ColumnBuilder], ...] = ()
    ranking: Ranking | None = None
    rows: Rows | None = None
    accumulated: tuple[Kept, ...] = ()
    emit: EmitStrategy = "on_window_close"
    firing: Firing = ONCE
    splits: BySplit | None = None

    def __post_init__(self) -> None:
        """Refuse a window without aggregates, and duplicate column names."""
        TimedState.__post_init__(self)
        if not (self.aggregates or self.own or self.ranking or self.rows or self.accumulated):
            raise TopologyError(
                f"window {self.name!r} aggregates nothing", remedy="add .count('rows') or another aggregate"
            )
        columns = [*self.row_keys, *self.values, *self.own_fields, *self.carried]
        # Spark's column names are not case-sensitive.
        folded = [c.casefold() for c in columns]
        twice = sorted({c for c in columns if folded.count(c.casefold()) > 1})
        if twice:
            raise TopologyError(
                f"window {self.name!r} would have two columns called {', '.join(twice)}",
                remedy="give the aggregate another name, or leave a field of group_by out of keep=",
            )
        if calls_by_name(self):
            raise TopologyError(
                f"window {self.name!r} calls a function in Python inside an aggregate",
                remedy="compute its value before, by .with_fields(value=functions.f('x'))",
                step=self.name,
            )
        self._check_emit()
        self._check_splits()

    def _check_splits(self) -> None:
        if self.splits is None:
            return
        checked_duration(self.splits.idle_timeout, what="the idle timeout of splits")
        if self.event_time is None:
            raise TopologyError(
                f"window {self.name!r} goes by the time of arrival, in which no split lags another",
                remedy="leave per='split' out, or name the time field of the window",
                step=self.name,
            )

    @property
    def believed(self) -> EventTimeBounds:
        """A window that fires more than once needs a watermark from its first row on, which cannot lie before 1970."""
        if self.firing == ONCE:
            return self.bounds
        return replace(self.bounds, earliest=max(self.bounds.earliest, EPOCH + self.delay))

    def _check_emit(self) -> None:
        if self.emit not in get_args(EmitStrategy):
            raise TopologyError(
                f"window {self.name!r} cannot emit {self.emit!r}",
                remedy=f"use one of: {', '.join(get_args(EmitStrategy))}",
                step=self.name,
            )
        window = self.window
        if (window.in_order or window.endless) and (self.firing != ONCE or self.emit != "on_window_close"):
            when = "when its row changes" if window.endless else "when it has all its rows, and not more than once"
            raise TopologyError(
                f"window {self.name!r} fires {when}",
                remedy="leave emit= and the times of firings out",
                step=self.name,
            )
        if self.firing.deltas and window.merges:
            raise TopologyError(
                f"window {self.name!r}: sessions merge, so later rows cannot be added to an emitted part",
                remedy="use .late_firings('totals'), or a tumbling or hopping window",
                step=self.name,
            )
        self._check_firing()

    def _check_firing(self) -> None:
        firing = self.firing
        for time in (firing.before, firing.after, firing.hold, firing.limit):
            if time != NEVER:
                checked_duration(time, what=f"a time at which window {self.name!r} fires")
        if firing.late not in (None, *get_args(LateFirings)):
            raise TopologyError(
                f"window {self.name!r} cannot emit {firing.late!r} for late rows",
                remedy=f"use one of: {', '.join(map(repr, get_args(LateFirings)))}",
                step=self.name,
            )
        if firing.late and not self.window.late_interval:
            raise TopologyError(
                f"window {self.name!r} goes by a calendar, so it has no late firings",
                remedy="use .emit_after(Time.hours(1)), or a tumbling window of a day",
                step=self.name,
            )
        mixed = firing.deltas and replace(firing, late=None) != ONCE
        if mixed or (firing != ONCE and self.emit != "on_window_close"):
            raise TopologyError(
                f"window {self.name!r} cannot fire in all of these ways: {firing}, emit={self.emit!r}",
                remedy="use one of them, or two windows with two names",
                step=self.name,
            )

    @property
    def values(self) -> tuple[str, ...]:
        """The computed columns: aggregates, user-defined aggregates, results of functions, fields of ranked rows."""
        ranked = self.ranking.shown if self.ranking else ()
        made = (*(a.alias for a in self.aggregates), *(name for name, _ in self.own))
        return (*made, *self.reduced, *ranked, *self.kept)

    @property
    def kept(self) -> tuple[str, ...]:
        """The fields of the row itself, of an OVER window."""
        return self.window.keep

    @property
    def carried(self) -> tuple[str, ...]:
        """The columns for functions downstream: rows and accumulators."""
        return (*(self.rows.columns if self.rows else ()), *(each.column for each in self.accumulated))

    @property
    def reduced(self) -> tuple[str, ...]:
        """The columns that functions compute of its rows."""
        made = self.rows.made if self.rows else ()
        return (*made, *(name for each in self.accumulated for name in each.made))

    @property
    def row_keys(self) -> tuple[str, ...]:
        """The columns that identify a row of one window: its groups, and the number of a ranked row."""
        return (*self.group_by, *((self.ranking.rank,) if self.ranking else ()))

    @property
    def places(self) -> frozenset[str]:
        """The columns each of which identifies a window; of windows that share a start only the end."""
        return self.window.places

    @property
    def unseen(self) -> tuple[str, ...]:
        """The columns whose values cannot be read from state: user-defined aggregates, and a ranking."""
        ranked = (self.ranking.rank, *self.ranking.shown) if self.ranking else ()
        return (*(name for name, _ in self.own), *self.reduced, *ranked, *self.kept)

    @property
    def event_time(self) -> str | None:
        """The event-time field of the window."""
        return self.window.time_field

    def lag(self, arrival: Arrival) -> timedelta:
        """None if every row of a window comes before the window's end is passed, as in windows within windows."""
        return window_lag(self.window, arrival)

    def leaving(self, field: str, lag: timedelta) -> Arrival | None:
        """A window's row leaves at its end; its start lies a window's length earlier, unknown for sessions.

        A session that fires more than once may retract a row after that has ended; an update has the clock's time.
        """
        if (self.window.merges and self.firing != ONCE) or (field == "fire_time" and self.emit != "on_window_close"):
            return None
        if field in {"end_time", "fire_time"}:
            return Arrival(lag)
        if field != "start_time" or not self.window.by_time:
            return None
        return Arrival(self.window.longest + lag, self.window.grid)

    @property
    def updates(self) -> bool:
        """Whether it emits a window in each batch that changes it, and only then, with Spark's own operator.

        Spark's operator does not for sessions, which merge.
        """
        return self.emit == "on_window_update" and not self.window.merges

    @property
    def fired(self) -> bool:
        """Whether it fires in a way that Spark's own operator does not support."""
        whole = self.in_order or self.endless
        return whole or self.firing != ONCE or not (self.emit == "on_window_close" or self.updates)

    @property
    def in_order(self) -> bool:
        """Whether its windows take rows in order, once the watermark has passed them."""
        return self.window.in_order

    @property
    def endless(self) -> bool:
        """Whether its windows never close, so that they are emitted when they change."""
        return self.window.endless

    @property
    def goes_by_time(self) -> bool:
        """Whether the kind of window does."""
        return self.window.goes_by_time

    @property
    def arrival_tick(self) -> timedelta | None:
        """A tenth of a window by arrival: short enough for a delay, and it costs a batch."""
        by_arrival = self.event_time is None and self.goes_by_time and not self.in_order
        return self.window.longest / ARRIVAL_PARTS if by_arrival else None

    @property
    def retracts(self) -> bool:
        """Whether its rows say, in the column `retracted`, that they retract an earlier one."""
        return self.fired and self.window.retracts

    @property
    def often(self) -> bool:
        """Whether it fires more than once, by Spark or by a processor."""
        return (self.updates or self.fired) and not self.in_order

    @property
    def repeats(self) -> bool:
        """Whether a window may emit several rows, each of which replaces the previous one."""
        return self.often and not self.firing.deltas

    @property
    def by_split(self) -> BySplit | None:
        """How its watermark follows the splits of the input."""
        return self.splits

    @property
    def delay(self) -> timedelta:
        """The watermark delay, and the time for which windows are held open after it."""
        return self.water_mark + self.firing.hold

    @property
    def variable(self) -> str | None:
        """The state of its windows, if a processor keeps it."""
        return self.window.state_name if self.fired else None

    @property
    def own_fields(self) -> tuple[str, ...]:
        """The columns of a row besides groups and aggregates."""
        if self.endless:
            return ("fire_time", "retracted")
        final = self.fired and not self.in_order and tells_final(self.firing, self.emit)
        return (*WINDOW_FIELDS, *(["final"] * final), *(["retracted"] * self.retracts))

    @property
    def _often(self) -> str:
        """How it fires more than once, in a few words; empty if it does not."""
        return str(self.firing) or ("" if self.emit == "on_window_close" else self.emit.replace("_", " "))

    def detail(self) -> str:
        """Window, groups, computed columns and firing."""
        by = f" by {', '.join(self.group_by)}" if self.group_by else ""
        often = f", {self._often}" if self._often else ""
        when = ", on each update" if self.updates else f"{often}, by a processor" if self.fired else ""
        ranked = [_ranking_text(self.ranking)] if self.ranking else []
        rows = ["rows"] * (self.rows is not None) + ["accumulator"] * len(self.accumulated)
        made = [*(a.alias for a in self.aggregates), *(name for name, _ in self.own), *rows, *ranked]
        by_record = self.splits is not None and self.splits.by_record
        splits = ", by split" * (self.splits is not None) + ", late by record" * by_record
        return f"{self.window}{by}: {', '.join(made)}{when}{splits}"

    def identity(self) -> tuple[str, ...]:
        """The settings that the meaning of the state depends on, and which windows were emitted."""
        offset = getattr(self.window, "offset", NONE)
        return (
            repr(self.window),
            *((f"offset={offset}",) if offset else ()),
            ",".join(self.group_by),
            *(f"{a.function}({a.field or ''})" for a in self.aggregates),
            *(f"aggregate({expression.identity()})" for _, expression in self.own),
            *((repr(self.ranking),) if self.ranking else ()),
            *((f"rows({','.join(self.rows.fields) or '*'})",) if self.rows else ()),
            *(f"accumulator({each.kind})" for each in self.accumulated),
            f"water_mark={self.water_mark}",
            *((f"emit={self.emit}",) if self.emit != "on_window_close" else ()),
            *((f"firing={self.firing}",) if self.firing != ONCE else ()),
        )

    @property
    def further(self) -> tuple[str, ...]:
        """Whose each accumulator is, where several are of one type; the names of values in rows that it retracts."""
        kinds = [each.kind for each in self.accumulated]
        several = len(set(kinds)) < len(kinds)
        owners = "; ".join(", ".join(each.made) for each in self.accumulated)
        named = self.retracts and len(self.values) > 1
        return (
            *((f"accumulators of {owners}",) if several else ()),
            *((f"values {', '.join(self.values)}",) if named else ()),
        )

    @property
    def emitting(self) -> tuple[str, ...]:
        """The names of several values, which a step after it reads; the rows of each of several functions."""
        named = not self.retracts and len(self.values) > 1
        each = self.rows.each if self.rows is not None else ()
        several = len(set(each)) > 1
        return (
            *((f"values {', '.join(self.values)}",) if named else ()),
            *((f"rows of {'; '.join(','.join(fields) or '*' for fields in each)}",) if several else ()),
        )


def accumulators_of(node: Node) -> tuple[Kept, ...]:
    """The accumulators that `node` keeps: none unless it is a window."""
    return node.accumulated if isinstance(node, WindowAggregate) else ()


def window_lag(window: Window, arrival: Arrival) -> timedelta:
    """How long after its end a window must stay open for rows that come by `arrival`."""
    if arrival.grid is None or not isinstance(window, AlignedWindow):
        return arrival.bound
    # How near to the end of a window its last row may lie.
    step = _micros(arrival.grid)
    common = gcd(step, _micros(window.slide))
    nearest = timedelta(microseconds=_micros(window.offset + window.size) % common or common)
    return max(NONE, arrival.bound - nearest)


def _ranking_text(ranking: Ranking) -> str:
    order = "descending" if ranking.descending else "ascending"
    return f"top {ranking.n} by {', '.join(ranking.by)} {order}"


def _micros(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1)

"""Joins of two streams."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, get_args

from rs_assets.errors import TopologyError
from rs_assets.operators.join.spec import OF_BOTH, AnyBound, AsOf, Interval, JoinType
from rs_assets.operators.window.durations import checked_duration
from rs_assets.operators.window.spec import HoppingWindow, TumblingWindow
from rs_assets.topology.nodes.base import Family
from rs_assets.topology.nodes.timed import NONE, Arrival, Side, TimedState
from rs_assets.topology.nodes.window import window_grid, window_lag, window_text
from rs_assets.topology.user_code.expression import ColumnBuilder, SqlText

SIDES = ("left", "right")
# What a join by windows adds to the fields of its rows.
PLACE_FIELDS = ("start_time", "end_time")
GROWS = "without bound: its state grows for ever"
# Joins that have rows without partner, which may come early.
OUTER = frozenset({"left", "right", "full", "anti"})
# What the states of the processors are called, and the time of a record that both sides of a self join get.
MEETING, AS_OF = "join", "asof"
RECORD_TIME = "_rs_record_time"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamJoin(TimedState):
    """Pairs of rows of two streams whose fields `on` are equal and which lie near each other in time.

    `inputs` are the left and the right one. `bound` None: any two rows, whatever their times; then nothing is ever
    forgotten. `time_fields` and `water_marks` are those of the two sides; `prefix` is put before the names of the right
    side's fields, which otherwise take the place of those of the left. `early`: a row without partner comes at once, to
    be taken back when it meets one. `shared`: both sides come from one step, whose records go to both in one reading.
    `processor`: a processor joins also what Spark could.
    """

    family: ClassVar[Family] = "join"

    on: tuple[tuple[str, str], ...]
    bound: AnyBound
    how: JoinType = "inner"
    time_fields: tuple[str, str] | None = None
    water_marks: tuple[timedelta, timedelta] = (NONE, NONE)
    condition: SqlText | ColumnBuilder | None = None
    prefix: str | None = None
    early: bool = False
    shared: bool = False
    processor: bool = False

    def __post_init__(self) -> None:
        """Refuse joins whose rows Spark could never let go, and settings without a meaning."""
        TimedState.__post_init__(self)
        for side, delay in zip(SIDES, self.water_marks, strict=True):
            checked_duration(delay, what=f"the water mark of the {side} side of step {self.name!r}", least=NONE)
        if self.how not in get_args(JoinType):
            raise self._refused(f"cannot join {self.how!r}", f"use one of: {', '.join(get_args(JoinType))}")
        if self.prefix is not None and (not self.prefix or self.how not in OF_BOTH):
            raise self._refused(
                "has a prefix without a use", "leave prefix= out: semi and anti keep left rows as they are"
            )
        self._check_times()
        self._check_processed()

    def _check_times(self) -> None:
        if self.bound is None and self.how != "inner":
            raise self._refused(
                f"is a {self.how} join without a bound in time, so nobody could know when a row stays without partner",
                "give it one, such as within=Time.minutes(10); without a bound only inner joins make sense",
            )
        if self.bound is None and (self.time_fields is not None or any(self.water_marks)):
            raise self._refused(
                "has no bound in time, and so no use for times", "leave time_field= and water_mark= out"
            )
        if self.bound is not None and self.time_fields is None:
            raise self._refused(
                "is bound in time, but names no event time", "name it: time_field='ts' or time_field=('left', 'right')"
            )

    def _check_processed(self) -> None:
        if self.early and (self.how not in OUTER or self.bound is None or isinstance(self.bound, AsOf)):
            raise self._refused(
                "has early=True without a use: none of its rows waits to stay without partner",
                f"leave early= out, or set how= to one of: {', '.join(sorted(OUTER))}",
            )
        if isinstance(self.bound, AsOf) and self.how not in {"inner", "left"}:
            raise self._refused(f"is an as-of join, which cannot be {self.how!r}", "use one of: inner, left")
        if self.processor and self.bound is None:
            raise self._refused(
                "has processor=True without a use: its state is never looked through for rows to forget",
                "leave processor= out: Spark's own join does it as well",
            )
        if self.shared and self.bound is None:
            raise self._refused(
                "joins a stream with itself without a bound in time",
                "give it one, such as within=Time.minutes(10), or read the source twice, under two names",
            )
        if self.shared and self.time_fields is not None and len(set(self.time_fields)) > 1:
            raise self._refused(
                "joins a stream with itself, which is read once, by two times",
                "name one field for both sides, or read the source twice, under two names",
            )
        if self.shared and self.water_marks[0] != self.water_marks[1]:
            raise self._refused(
                "joins a stream with itself, which is read once, with two water marks", "give one for both sides"
            )

    @property
    def variable(self) -> str | None:
        """The rows that wait, if a processor joins: as of a time, early, a stream with itself, or as it was told."""
        if isinstance(self.bound, AsOf):
            return AS_OF
        return MEETING if self.early or self.shared or self.processor else None

    @property
    def lossy(self) -> bool:
        """Whether Spark loses rows of it beside other states.

        There rows come that the watermark has passed: a semi join gives none of those that meet in their first batch.
        """
        return self.how == "semi" and self.variable is None

    @property
    def keeper(self) -> str | None:
        """Rows that meet lie in state by key and time; as of a time, by key."""
        return {MEETING: "a processor, by time", AS_OF: "a processor", None: None}[self.variable]

    @property
    def event_time(self) -> str | None:
        """The left side's; None for a join without bound."""
        return self.time_fields[0] if self.time_fields else None

    @property
    def sides(self) -> tuple[Side, ...]:
        """Left and right, each with its event time, or a record of both; none for a join without bound."""
        if self.shared:
            return (Side(self.name, RECORD_TIME, self.water_marks[0]),)
        times = self.time_fields or ()
        return tuple(
            Side(f"{self.name}.{side}", field, delay)
            for side, field, delay in zip(SIDES, times, self.water_marks, strict=False)
        )

    @property
    def place(self) -> TumblingWindow | HoppingWindow | None:
        """The windows in which rows meet, if it is a join by windows."""
        return None if isinstance(self.bound, Interval | AsOf) else self.bound

    @property
    def own_delay(self) -> bool:
        """Whether it was given a water mark."""
        return any(self.water_marks)

    @property
    def holds(self) -> timedelta:
        """Rows of an interval leave as long as a partner may come; those of a window when it closes.

        Spark looks for partners up to and with the end of the interval: a millisecond more. A processor hands on the
        watermark as it is, behind which its rows come.
        """
        if self.variable is not None or not isinstance(self.bound, Interval) or self.bound.exact:
            return NONE
        return self.bound.reach + timedelta(milliseconds=1)

    def lag(self, arrival: Arrival) -> timedelta:
        """None if every row of a window comes before the window's end is passed."""
        return arrival.bound if self.place is None else window_lag(self.place, arrival)

    def leaving(self, field: str, lag: timedelta) -> Arrival | None:
        """When Spark joins, a row leaves before the watermark that it hands on has passed the time of either side."""
        if field in self._times():
            behind = self._behind(field) if self.place is None else self.place.size
            return Arrival(lag + behind) if behind is not None else None
        if self.place is None:
            return None
        if field == "start_time":
            return Arrival(self.place.size + lag, window_grid(self.place))
        return Arrival(lag) if field == "end_time" else None

    def _behind(self, field: str) -> timedelta | None:
        """How long after a time of a side its row may leave, by the watermark that is handed on; None: however long."""
        if isinstance(self.bound, AsOf):
            return NONE if field != self._right_time else self.bound.tolerance
        return self.bound.reach if self.variable is not None and isinstance(self.bound, Interval) else NONE

    @property
    def _right_time(self) -> str:
        """What the time of the right side is called in the rows."""
        return f"{self.prefix or ''}{self.time_fields[1]}" if self.time_fields else ""

    def _times(self) -> frozenset[str]:
        """The fields of its rows that hold the time of a side, and that no row lacks for want of a partner."""
        if self.time_fields is None:
            return frozenset()
        left, merged = self.time_fields[0], self._right_time
        if left == merged and self.how in OF_BOTH:
            return frozenset({left})
        held = {left} if self.how in {"inner", "left", "semi", "anti"} else set()
        return frozenset(held | ({merged} if self.how in {"inner", "right"} else set()))

    def detail(self) -> str:
        """The kind of join, its keys and its bound."""
        keys = ", ".join(left if left == right else f"{left} = {right}" for left, right in self.on)
        more = " if a condition holds" if self.condition is not None else ""
        kind = (", early" if self.early else "") + (", with itself" if self.shared else "")
        by = ", by a processor" if self.variable is not None else ""
        return f"{self.how} on {keys}{more} {bound_text(self.bound)}{kind}{by}"

    def identity(self) -> tuple[str, ...]:
        """Everything that decides what the state means."""
        condition = self.condition.identity() if self.condition is not None else ""
        return (
            self.how,
            ",".join(f"{left}={right}" for left, right in self.on),
            repr(self.bound),
            *((f"offset={self.place.offset}",) if self.place is not None and self.place.offset else ()),
            f"by={self.time_fields}",
            *((f"if={condition}",) if condition else ()),
            f"water_marks={self.water_marks}",
            *(("early",) if self.early else ()),
        )

    def _refused(self, why: str, remedy: str) -> TopologyError:
        return TopologyError(f"step {self.name!r} {why}", remedy=remedy, step=self.name)


def bound_text(bound: AnyBound) -> str:
    """A bound in a few words.

    >>> bound_text(Interval(timedelta(seconds=5), timedelta(seconds=5)))
    'within 0:00:05'
    """
    match bound:
        case None:
            return GROWS
        case AsOf(None):
            return "as of its time"
        case AsOf(tolerance):
            return f"as of its time, at most {tolerance} before"
        case Interval(before, after) if before == after:
            return f"within {before}"
        case Interval(before, after):
            return f"within {before} before and {after} after"
        case _:
            return f"in {window_text(bound)}"

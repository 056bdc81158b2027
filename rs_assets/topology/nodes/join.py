"""Joins of two streams."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, get_args

from rs_assets.common.node import Family
from rs_assets.errors import TopologyError
from rs_assets.operators.join.spec import OF_BOTH, AnyBound, AsOf, Interval, JoinType
from rs_assets.operators.window.durations import checked_duration
from rs_assets.operators.window.spec import HoppingWindow, TumblingWindow
from rs_assets.topology.nodes.timed import NONE, Arrival, Side, TimedState
from rs_assets.topology.nodes.window import window_lag
from rs_assets.topology.user_code.expression import ColumnBuilder, SqlText

SIDES = ("left", "right")
# The fields that a join by windows adds to its rows.
PLACE_FIELDS = ("start_time", "end_time")
GROWS = "without bound: its state grows for ever"
# Joins that emit unmatched rows, which may come early.
OUTER = frozenset({"left", "right", "full", "anti"})
# The names of the processors' states, and the field with the record time that both sides of a self join get.
MEETING, AS_OF = "join", "asof"
RECORD_TIME = "_rs_record_time"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamJoin(TimedState):
    """Pairs of rows of two streams whose fields `on` are equal and which are near each other in time.

    `inputs` are the left and the right one. `bound` None: any two rows, whatever their times; then state is never
    expired. `time_fields` and `water_marks` are those of the two sides; `prefix` is put before the names of the right
    side's fields, which otherwise replace fields of the left. `early`: an unmatched row is emitted at once, and
    retracted when it matches. `shared`: both sides come from one step, whose records are read once and go to both.
    `processor`: use a processor even if Spark's own join would do. `deletes`: right rows of an as-of join for which it
    holds end the row before them, and match nothing.
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
    deletes: SqlText | ColumnBuilder | None = None

    def __post_init__(self) -> None:
        """Refuse joins whose rows could never be expired, and settings without effect."""
        TimedState.__post_init__(self)
        for side, delay in zip(SIDES, self.water_marks, strict=True):
            checked_duration(delay, what=f"the watermark delay of the {side} side of step {self.name!r}", least=NONE)
        if self.how not in get_args(JoinType):
            raise self._refused(f"cannot join {self.how!r}", f"use one of: {', '.join(get_args(JoinType))}")
        if self.prefix is not None and (not self.prefix or self.how not in OF_BOTH):
            raise self._refused(
                "has a prefix without effect", "leave prefix= out: semi and anti keep left rows as they are"
            )
        self._check_times()
        self._check_processed()

    def _check_times(self) -> None:
        if self.bound is None and self.how != "inner":
            raise self._refused(
                f"is a {self.how} join without a bound in time, so no row could ever be known to be unmatched",
                "give it one, such as within=Time.minutes(10); without a bound only inner joins make sense",
            )
        if self.bound is None and (self.time_fields is not None or any(self.water_marks)):
            raise self._refused(
                "has no bound in time, and so does not use times", "leave time_field= and water_mark= out"
            )
        if self.bound is not None and self.time_fields is None:
            raise self._refused(
                "is bound in time, but names no event time", "name it: time_field='ts' or time_field=('left', 'right')"
            )

    def _check_processed(self) -> None:
        if self.early and (self.how not in OUTER or self.bound is None or isinstance(self.bound, AsOf)):
            raise self._refused(
                "has early=True without effect: none of its rows waits for a match",
                f"leave early= out, or set how= to one of: {', '.join(sorted(OUTER))}",
            )
        if isinstance(self.bound, AsOf) and self.how not in {"inner", "left"}:
            raise self._refused(f"is an as-of join, which cannot be {self.how!r}", "use one of: inner, left")
        if self.deletes is not None and self.shared:
            raise self._refused(
                "joins a stream with itself, of which some rows end others", "read the source twice, under two names"
            )
        if self.processor and self.bound is None:
            raise self._refused(
                "has processor=True without effect: its state is never searched for expired rows",
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
                "joins a stream with itself, which is read once, with two watermark delays", "give one for both sides"
            )

    @property
    def variable(self) -> str | None:
        """The waiting rows, if a processor joins: as-of, early, a self join, or with `processor`."""
        if isinstance(self.bound, AsOf):
            return AS_OF
        return MEETING if self.early or self.shared or self.processor else None

    @property
    def lossy(self) -> bool:
        """Whether Spark's join loses rows when it is chained with other stateful steps.

        There rows may arrive after the watermark has passed them: a semi join emits none of them that match in their
        first batch.
        """
        return self.how == "semi" and self.variable is None

    @property
    def keeper(self) -> str | None:
        """The layout of a processor's state: by key and time; of an as-of join by key."""
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
        """The windows in which rows match, if it is a join by windows."""
        return None if isinstance(self.bound, Interval | AsOf) else self.bound

    @property
    def own_delay(self) -> bool:
        """Whether a watermark delay is configured."""
        return any(self.water_marks)

    @property
    def holds(self) -> timedelta:
        """Rows of an interval join are emitted while a match may come; those of a window when it closes.

        Spark looks for matches up to and including the end of the interval: a millisecond more. A processor passes the
        watermark on unchanged, and its rows come after it.
        """
        if self.variable is not None or not isinstance(self.bound, Interval) or self.bound.exact:
            return NONE
        return self.bound.reach + timedelta(milliseconds=1)

    def lag(self, arrival: Arrival) -> timedelta:
        """None if every row of a window comes before the window's end is passed."""
        return arrival.bound if self.place is None else window_lag(self.place, arrival)

    def leaving(self, field: str, lag: timedelta) -> Arrival | None:
        """Spark's join emits a row before the watermark that it passes on has passed the time of either side."""
        if field in self._times():
            behind = self._behind(field) if self.place is None else self.place.size
            return Arrival(lag + behind) if behind is not None else None
        if self.place is None:
            return None
        if field == "start_time":
            return Arrival(self.place.size + lag, self.place.grid)
        return Arrival(lag) if field == "end_time" else None

    def _behind(self, field: str) -> timedelta | None:
        """How long after a time of a side its row may be emitted, by the watermark passed on; None if unbounded."""
        if isinstance(self.bound, AsOf):
            return NONE if field != self._right_time else self.bound.tolerance
        return self.bound.reach if self.variable is not None and isinstance(self.bound, Interval) else NONE

    @property
    def _right_time(self) -> str:
        """The name of the right side's time in the joined rows."""
        return f"{self.prefix or ''}{self.time_fields[1]}" if self.time_fields else ""

    def _times(self) -> frozenset[str]:
        """The fields that hold the time of a side, and that are never null in unmatched rows."""
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
        ends = f", ended by {self.deletes.identity()}" if self.deletes is not None else ""
        return f"{self.how} on {keys}{more} {bound_text(self.bound)}{ends}{kind}{by}"

    def identity(self) -> tuple[str, ...]:
        """The settings that the meaning of the state depends on."""
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
            *((f"deletes={self.deletes.identity()}",) if self.deletes is not None else ()),
        )

    @property
    def reading(self) -> tuple[str, ...]:
        """The names that it gives to right fields: rows that it has emitted have them."""
        return (f"prefix={self.prefix}",) if self.prefix is not None else ()

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
            return f"in {bound}"

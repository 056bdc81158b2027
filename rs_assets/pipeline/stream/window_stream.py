"""A windowed stream: groups, aggregates and the water mark, until `to_data_stream()`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from rs_assets.engine.source.policy import BadRecords
from rs_assets.engine.window.spec import (
    DEFAULT_MAX_AHEAD,
    EPOCH,
    Aggregate,
    AggregateFunction,
    EmitStrategy,
    EventTimeBounds,
    HoppingWindow,
    SessionWindow,
    TumblingWindow,
    Window,
)
from rs_assets.errors import TopologyError
from rs_assets.pipeline.topology.base import Node
from rs_assets.pipeline.topology.window import WindowAggregate

S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowStream(Generic[S]):
    """An aggregation in the making; every method returns a new one. `resume` turns the finished node into a stream.

    Nulls are skipped by every aggregate but `count`. An aggregate's name defaults to that of its field.
    """

    upstream: str
    window: Window
    name: str
    resume: Callable[[Node], S] = field(repr=False)
    fields: tuple[str, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    delay: timedelta = timedelta(0)
    bounds: EventTimeBounds = EventTimeBounds()
    emit: EmitStrategy = "on_window_close"

    def __post_init__(self) -> None:
        """Refuse anything that is no window."""
        if not isinstance(self.window, TumblingWindow | HoppingWindow | SessionWindow):
            raise TopologyError(
                f"window() takes a window, not {self.window!r}", remedy="TumblingWindow.of(Time.seconds(10), 'ts')"
            )

    def group_by(self, *fields: str) -> WindowStream[S]:
        """The fields whose values make a group; null forms a group of its own. Without fields: one group."""
        return replace(self, fields=fields)

    def count(self, name: str = "count") -> WindowStream[S]:
        """The number of rows."""
        return self._with("count", None, name)

    def sum(self, field: str, name: str | None = None) -> WindowStream[S]:
        """The sum of a number; null if there was no value. A bigint sum that overflows fails the run."""
        return self._with("sum", field, name)

    def avg(self, field: str, name: str | None = None) -> WindowStream[S]:
        """The mean of a number, as a double; null if there was no value."""
        return self._with("avg", field, name)

    def min(self, field: str, name: str | None = None) -> WindowStream[S]:
        """The smallest value, in the type of the field (numbers compare as numbers)."""
        return self._with("min", field, name)

    def max(self, field: str, name: str | None = None) -> WindowStream[S]:
        """The greatest value, in the type of the field."""
        return self._with("max", field, name)

    def distinct(self, field: str, name: str | None = None) -> WindowStream[S]:
        """The different values as a sorted array."""
        return self._with("distinct", field, name)

    def count_distinct(self, field: str, name: str | None = None) -> WindowStream[S]:
        """How many different values, exactly; the state holds them all."""
        return self._with("count_distinct", field, name)

    def count_distinct_large(self, field: str, name: str | None = None) -> WindowStream[S]:
        """About how many different values (HyperLogLog++, relative standard deviation 5 %); the state stays small."""
        return self._with("count_distinct_large", field, name)

    def collect(self, field: str, name: str | None = None) -> WindowStream[S]:
        """All values as an array, ordered by event time and then by value."""
        return self._with("collect", field, name)

    def water_mark(self, delay: timedelta) -> WindowStream[S]:
        """How long a window waits for rows that are out of order before it closes.

        By default it does not wait: a row that is older than a window's end by the greatest time seen is late for it.
        """
        return replace(self, delay=delay)

    def event_time(
        self,
        *,
        earliest: datetime = EPOCH,
        max_ahead: timedelta = DEFAULT_MAX_AHEAD,
        bad_records: str | BadRecords | None = None,
    ) -> WindowStream[S]:
        """Which event times are believed; rows with others (or none) are bad records under the policy `bad_records`.

        The policy is that of the sources unless it is given here.
        """
        policy = None if bad_records is None else BadRecords.of(bad_records)
        return replace(self, bounds=EventTimeBounds(earliest=earliest, max_ahead=max_ahead, policy=policy))

    def to_data_stream(self) -> S:
        """The rows of windows: group fields, aggregates, `start_time`, `end_time`, `fire_time`.

        `fire_time` is the event time at which the window may fire: its end plus the water mark. Of a window that emits
        on each update it is the time of the emission: the driver's clock at the start of the batch, so that it tells
        the updates of a window apart.
        """
        return self.resume(
            WindowAggregate(
                name=self.name,
                inputs=(self.upstream,),
                window=self.window,
                group_by=self.fields,
                aggregates=self.aggregates,
                water_mark=self.delay,
                bounds=self.bounds,
                emit=self.emit,
            )
        )

    def _with(self, function: AggregateFunction, field: str | None, name: str | None) -> WindowStream[S]:
        made = Aggregate(function, field, name or field or function)
        return replace(self, aggregates=(*self.aggregates, made))

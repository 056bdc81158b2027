"""A windowed stream: groups, aggregates and the water mark, until `to_data_stream()`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from os import PathLike
from typing import Any, Generic, Literal, TypeVar, get_args

from rs_assets.errors import TopologyError
from rs_assets.operators.window.bounds import DEFAULT_MAX_AHEAD, EventTimeBounds
from rs_assets.operators.window.durations import EPOCH
from rs_assets.operators.window.output import Aggregate, AggregateFunction, EmitStrategy, Ranking
from rs_assets.operators.window.spec import Window
from rs_assets.operators.window.splits import BySplit
from rs_assets.operators.window.trigger import HOLD, ONCE, Firing, LateFirings
from rs_assets.records.policy import BadRecords
from rs_assets.stream.draft import late_sink
from rs_assets.stream.method_hints import no_such_method
from rs_assets.stream.reduction import Reduction, folds, reduction, rows_kept
from rs_assets.topology.nodes.base import Node
from rs_assets.topology.nodes.fold import Accumulator
from rs_assets.topology.nodes.sink import DeltaSink
from rs_assets.topology.nodes.window import WindowAggregate
from rs_assets.topology.user_code.expression import ColumnBuilder, Record, SqlText, native

S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowStream(Generic[S]):
    """An aggregation in the making; every method returns a new one. `resume` turns the finished node into a stream.

    Nulls are skipped by every aggregate but `count`. An aggregate's name defaults to that of its field.
    """

    upstream: str
    assigner: Window
    name: str
    resume: Callable[[Node], S] = field(repr=False)
    beside: Callable[[Node], object] = field(repr=False)
    fields: tuple[str, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    own: tuple[tuple[str, SqlText | ColumnBuilder], ...] = ()
    ranking: Ranking | None = None
    reductions: tuple[Reduction, ...] = ()
    delay: timedelta = timedelta(0)
    bounds: EventTimeBounds = EventTimeBounds()
    emit: EmitStrategy = "on_window_close"
    firing: Firing = ONCE
    splits: BySplit | None = None
    late: DeltaSink | None = None

    def __post_init__(self) -> None:
        """Refuse anything that is no window."""
        if not isinstance(self.assigner, get_args(Window)):
            raise TopologyError(
                f"window() takes a window, not {self.assigner!r}", remedy="TumblingWindow.of(Time.seconds(10), 'ts')"
            )

    def __getattr__(self, name: str) -> Any:
        """A method of the stream of window rows: with an aggregate, it stands behind `to_data_stream()`."""
        from rs_assets.stream.data_stream import DataStream

        if not callable(getattr(DataStream, name, None)) or name.startswith("_"):
            raise no_such_method(self, name, also=DataStream)

        def called(*args: Any, **options: Any) -> Any:
            return getattr(self.to_data_stream(), name)(*args, **options)

        return called

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

    def aggregate(self, **columns: object) -> WindowStream[S]:
        """Any aggregate of Spark, as SQL text or `column(...)`: `.aggregate(total="sum(ms * 2)")`.

        These columns stand behind those of the other methods. Refused when the pipeline starts: what is no aggregate;
        what gives another value where the same rows come in another order (`first`, `collect_list` unless it is
        sorted, `max_by` unless the order holds what is chosen); the clock; distinct values, for which
        `count_distinct` is there. Approximate aggregates, such as `percentile_approx`, and sums of doubles may differ
        within their error with the way in which the input was cut into batches.

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow, column
        >>> from pyspark.sql import functions as F
        >>> hits = StreamBuilder.data_stream("shop", "hits").from_file("in.jsonl", schema="ms bigint, ts timestamp")
        >>> window = hits.window(TumblingWindow.of(Time.minutes(1), "ts"))
        >>> window = window.aggregate(p95=column(lambda: F.percentile_approx("ms", 0.95)), total="sum(ms * 2)")
        >>> print(window.to_data_stream().to_print().build().describe())
        shop.hits  fingerprint ...
          file    file_source  [json in.jsonl]
        * window  window_aggregate <- file  [tumbling 0:01:00: p95, total]
          print   print_sink <- window
        """
        made = tuple((name, native(value, step=self.name)) for name, value in columns.items())
        return replace(self, own=(*self.own, *made))

    def top_n(
        self,
        n: int,
        by: str | Sequence[str],
        *,
        fields: Sequence[str] = (),
        descending: bool = True,
        rank: str = "rank",
    ) -> WindowStream[S]:
        """The first `n` rows of each window and group in the order of `by`: one row for each, when the window fires.

        Such a row has the group fields, its number from 1 as `rank`, the fields `by` and `fields`, the window's
        aggregates and its times. `descending` is for all of `by`; rows that are equal in `by` are ordered by `fields`,
        in the same direction, so that the ranking never depends on the order in which rows came. Null is smaller than
        any value. The state holds `n` rows a window and group, at most 100,000.

        With emit="on_window_update" a batch emits the whole ranking of each window that it changed; `rank` belongs to
        the keys of an upsert then.

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> hits = StreamBuilder.data_stream("shop", "slow").from_file(
        ...     "in.jsonl", schema="page string, ms bigint, ts timestamp"
        ... )
        >>> slowest = hits.window(TumblingWindow.of(Time.minutes(1), "ts")).top_n(3, by="ms", fields=["page"])
        >>> print(slowest.to_data_stream().to_print().build().describe())
        shop.slow  fingerprint ...
          file    file_source  [json in.jsonl]
        * window  window_aggregate <- file  [tumbling 0:01:00: top 3 by ms descending]
          print   print_sink <- window
        """
        order, shown = ((of,) if isinstance(of, str) else tuple(of) for of in (by, fields))
        return replace(self, ranking=Ranking(n=n, by=order, fields=shown, descending=descending, rank=rank))

    def reduce(
        self,
        function: Callable[[Any, Record], Any] | Accumulator,
        *,
        schema: object = None,
        fields: Sequence[str] = (),
        name: str | None = None,
    ) -> WindowStream[S]:
        """Fields that a Python function makes of the rows of a window: `function(before, row)`, row after row.

        `before` is None for the first row, then what the function returned for the row before it. What it returns for
        the last one, a dict or a dataclass with just the fields of `schema` (as of `map`), stands in the window's row.
        Instead of a function it may be an object with `create()`, `accumulate(accumulator, row)`, which returns the
        accumulator, and `value(accumulator)`: an aggregate of your own.

        Rows come in the order of event time, those of one time in the order of `fields`, however the input was cut into
        batches. A row has `fields` alone, by default all fields. These rows are the state, and no function is called
        before the window fires: so the function may be changed and state is kept, nothing need be merged or retracted,
        and memory and state grow with the rows of a window. Functions must be pure: they are called again for every
        firing, and again where a batch is repeated. Where one raises, the run ends, or, under quarantine, the window's
        row is a dead letter. `name` is that of the step, by default the window's with `_reduce` behind it.

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> hits = StreamBuilder.data_stream("shop", "last").from_file("in.jsonl", schema="page string, ts timestamp")
        >>> def path(before, row):
        ...     return {"path": f"{before['path']} {row['page']}" if before else row["page"]}
        >>> paths = hits.window(TumblingWindow.of(Time.minutes(1), "ts")).reduce(path, schema="path string")
        >>> print(paths.to_data_stream().to_print().build().describe())
        shop.last  fingerprint ...
          file           file_source  [json in.jsonl]
        * window         window_aggregate <- file  [tumbling 0:01:00: rows]
          window_reduce  fold <- window  [path of the rows of window]  Python: of all rows of a window
          print          print_sink <- window_reduce
        """
        names = (fields,) if isinstance(fields, str) else tuple(fields)
        step = name or f"{self.name}_reduce"
        return replace(self, reductions=(*self.reductions, reduction(step, function, schema, names)))

    def water_mark(
        self,
        delay: timedelta,
        *,
        per: Literal["input", "split"] = "input",
        idle_timeout: timedelta | None = None,
        lateness: Literal["batch", "record"] = "batch",
    ) -> WindowStream[S]:
        """How long a window waits for rows that are out of order before it closes.

        By default it does not wait: a row that is older than a window's end by the greatest time seen is late for it.
        With `per="split"` each split of the input (a partition of a topic, a file that is followed, any other source as
        a whole) has a greatest time of its own, and the least of them counts: so a split that lags behind the others is
        not late because of them. One that has no rows for `idle_timeout` (default: a minute) while others have some is
        waited for no longer, until it has rows again; those that lie behind the watermark then are late.

        By default rows of one batch never make one another late. With `lateness="record"` (and `per="split"`) a row is
        late if its window had closed by the records before it in its own split, however they were cut into batches: the
        greatest of their event times, less `delay`. A row of a session is late if that had passed its own time, and one
        of several windows counts for those that were open. When windows fire is not changed by that.

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> builder = StreamBuilder.data_stream("shop", "orders")
        >>> orders = builder.from_file("in/*.jsonl", schema="id bigint, ts timestamp", tail=True)
        >>> window = orders.window(TumblingWindow.of(Time.minutes(1), "ts"), name="minutes").count("n")
        >>> window = window.water_mark(Time.seconds(5), per="split", idle_timeout=Time.minutes(2))
        >>> print(window.to_data_stream().to_delta("per_minute").build().describe())
        shop.orders  fingerprint ...
          file              file_source  [json, tail in/*.jsonl]
        * minutes           window_aggregate <- file  [tumbling 0:01:00: n, by split]
          per_minute_table  delta_sink <- minutes  [append per_minute]
        """
        return replace(self, delay=delay, splits=self._split_mark(per, idle_timeout, lateness))

    def _split_mark(self, per: str, idle_timeout: timedelta | None, lateness: str) -> BySplit | None:
        if lateness not in {"batch", "record"} or (lateness == "record" and per != "split"):
            raise TopologyError(
                f"window {self.name!r} cannot have a water mark with per={per!r}, lateness={lateness!r}",
                remedy="use lateness='record' with per='split', for only within a split have records an order",
                step=self.name,
            )
        if per not in {"input", "split"} or (per == "input" and idle_timeout is not None):
            told = f"per={per!r}" if idle_timeout is None else f"per={per!r}, idle_timeout={idle_timeout!r}"
            raise TopologyError(
                f"window {self.name!r} cannot have a water mark with {told}",
                remedy="use per='input' without idle_timeout, or per='split'",
                step=self.name,
            )
        if per == "input":
            return None
        by_record = lateness == "record"
        return BySplit(by_record=by_record) if idle_timeout is None else BySplit(idle_timeout, by_record)

    def late_to(self, table: str | PathLike[str], *, name: str | None = None) -> WindowStream[S]:
        """Append the rows that come too late to a Delta table, each exactly once: a name below RS_HOME, or a path.

        A row has all fields with which it came to the window, and `watermark`, by which it was judged. Finding late
        rows reads their batch again, which batches without any are spared. Fields that the window has no use for are
        computed for late rows only: where that fails, the run does.

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> orders = StreamBuilder.data_stream("shop", "orders").from_file("in.jsonl", schema="id bigint, ts timestamp")
        >>> window = orders.window(TumblingWindow.of(Time.minutes(1), "ts")).count("n").late_to("late_orders")
        >>> print(window.to_data_stream().to_delta("per_minute").build().describe())
        shop.orders  fingerprint ...
          file               file_source  [json in.jsonl]
        * window             window_aggregate <- file  [tumbling 0:01:00: n]
          late_orders_table  delta_sink <- window  [late rows into late_orders]
          per_minute_table   delta_sink <- window  [append per_minute]
        """
        return replace(self, late=late_sink(self.name, table, name=name))

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

    def emit_before(self, every: timedelta) -> WindowStream[S]:
        """Fire each window every `every` from its start too, before it fires for good: with what it has until then.

        A window that got no row since it fired last is passed over. Its rows have the column `final` besides: whether
        the window has closed, so that no other row of it follows.
        """
        return replace(self, firing=replace(self.firing, before=every))

    def emit_after(self, every: timedelta, *, until: timedelta = HOLD) -> WindowStream[S]:
        """Keep each window open for `until` (an hour) behind its water mark, and fire it every `every` of that time.

        It fires for good as it would without, then for rows that came later, each time with all that it has, and for
        the last time (`final`) when it closes. Rows are late only behind that.
        """
        return replace(self, firing=replace(self.firing, after=every, hold=until))

    def late_firings(self, tell: LateFirings) -> WindowStream[S]:
        """Fire each window at its end already, and again for rows that come later but within the water mark.

        With "deltas" each row tells what came since the one before, so that their sum is the window (mode 1 of
        RocketMQ-Streams). With "totals" each tells all of the window, the last one (`final`) when it closes (mode 2).
        Rows behind the end wait until another window ends, so that they fire together.
        """
        return replace(self, firing=replace(self.firing, late=tell))

    def suppress(self, limit: timedelta) -> WindowStream[S]:
        """Fire each window too when the greatest event time has moved by `limit` since it got a row it has not told of.

        So that a window tells of each change, but not more often than that; `final` marks its last row.
        """
        return replace(self, firing=replace(self.firing, limit=limit))

    def to_data_stream(self) -> S:
        """The rows of windows: group fields, aggregates, `start_time`, `end_time`, `fire_time`; some have `final` too.

        `fire_time` is the event time at which the window may fire: its end plus the water mark. Of a window that emits
        on each update it is the time of the emission: the driver's clock at the start of the batch, so that it tells
        the updates of a window apart.
        """
        stream = self.resume(
            WindowAggregate(
                name=self.name,
                inputs=(self.upstream,),
                window=self.assigner,
                group_by=self.fields,
                aggregates=self.aggregates,
                own=self.own,
                ranking=self.ranking,
                rows=rows_kept(self.reductions),
                water_mark=self.delay,
                bounds=self.bounds,
                emit=self.emit,
                firing=self.firing,
                splits=self.splits,
            )
        )
        if self.late is not None:
            self.beside(self.late)
        for fold in folds(self.reductions, behind=self.name):
            stream = self.resume(fold)
        return stream

    def _with(self, function: AggregateFunction, field: str | None, name: str | None) -> WindowStream[S]:
        made = Aggregate(function, field, name or field or function)
        return replace(self, aggregates=(*self.aggregates, made))

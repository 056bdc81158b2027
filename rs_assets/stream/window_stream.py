"""A windowed stream: groups, aggregates, firings and the watermark, up to `to_data_stream()`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from os import PathLike
from typing import Any, Generic, Literal, TypeVar

from rs_assets.common.names import one_by_one, one_or_more
from rs_assets.common.node import Node
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.errors import TopologyError
from rs_assets.operators.window.bounds import DEFAULT_MAX_AHEAD, EventTimeBounds
from rs_assets.operators.window.durations import EPOCH
from rs_assets.operators.window.kind import WindowKind
from rs_assets.operators.window.output import Aggregate, AggregateFunction, EmitStrategy, Ranking
from rs_assets.operators.window.spec import Window
from rs_assets.operators.window.splits import BySplit
from rs_assets.operators.window.trigger import HOLD, ONCE, Firing, LateFirings
from rs_assets.records.policy import BadRecords
from rs_assets.stream.draft import late_sink
from rs_assets.stream.method_hints import no_such_method
from rs_assets.stream.reduction import Reduction, accumulators_kept, folds, reduction, rows_kept
from rs_assets.topology.nodes.fold import Accumulator
from rs_assets.topology.nodes.window import WindowAggregate
from rs_assets.topology.user_code.expression import ColumnBuilder, Record, SqlText, native

S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowStream(Generic[S]):
    """A windowed aggregation. Every method returns a new one; methods of `DataStream` continue with its rows.

    Its rows have the group fields, the aggregates, `start_time`, `end_time` and `fire_time`. Every aggregate but
    `count` skips nulls. The name of an aggregate defaults to that of its field.

    >>> from rs_assets import StreamBuilder, Time, TumblingWindow
    >>> rows = [{"page": "/a", "ms": 12, "ts": 1_000}, {"page": "/a", "ms": 120, "ts": 59_000}]
    >>> hits = StreamBuilder.data_stream("docs", "minutes").from_array(rows)
    >>> minutes = hits.window(TumblingWindow.of(Time.minutes(1), "ts")).group_by("page").count("n").sum("ms", "total")
    >>> print(minutes.to_print().build().describe())
    docs.minutes  fingerprint ...
      array   array_source  [2 rows]
    * window  window_aggregate <- array  [tumbling 0:01:00 by page: n, total]
      print   print_sink <- window
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
        """Refuse an assigner that is not a window."""
        if not isinstance(self.assigner, WindowKind):
            raise TopologyError(
                f"window() takes a window, not {self.assigner!r}", remedy="TumblingWindow.of(Time.seconds(10), 'ts')"
            )

    def __getattr__(self, name: str) -> Any:
        """A method of `DataStream`, called on `to_data_stream()`."""
        from rs_assets.stream.data_stream import DataStream

        if not callable(getattr(DataStream, name, None)) or name.startswith("_"):
            raise no_such_method(self, name, also=DataStream)

        def called(*args: Any, **options: Any) -> Any:
            return getattr(self.to_data_stream(), name)(*args, **options)

        return called

    def group_by(self, *fields: str) -> WindowStream[S]:
        """The fields whose values make a group. Null is a group of its own.

        Typical uses: a row for each page, country or user.

        - `fields` (str): names of fields; without any all rows are one group.

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> rows = [{"page": "/a", "ts": 0}, {"page": "/b", "ts": 1}, {"page": "/a", "ts": 2}]
        >>> hits = StreamBuilder.data_stream("docs", "groups").from_array(rows)
        >>> pages = hits.window(TumblingWindow.of(Time.minutes(1), "ts")).group_by("page").count("n").map("page", "n")
        >>> sorted(pages.preview(), key=lambda row: row["page"])
        [{'page': '/a', 'n': 2}, {'page': '/b', 'n': 1}]
        """
        return replace(self, fields=one_by_one(fields, call="group_by"))

    def count(self, name: str = "count") -> WindowStream[S]:
        """The number of rows (bigint).

        - `name` (str, default "count"): the field of the result.

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> hits = StreamBuilder.data_stream("docs", "count").from_array([{"ts": 0}, {"ts": 9_000}])
        >>> hits.window(TumblingWindow.of(Time.minutes(1), "ts")).count("n").map("n").preview()
        [{'n': 2}]
        """
        return self._with("count", None, name)

    def sum(self, field: str, name: str | None = None) -> WindowStream[S]:
        """The sum of a number; null if there was no value. A bigint sum that overflows fails the run.

        - `field` (str): a numeric field.
        - `name` (str, default: the field): the field of the result.

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> hits = StreamBuilder.data_stream("docs", "sum").from_array([{"ms": 12, "ts": 0}, {"ms": 120, "ts": 9_000}])
        >>> hits.window(TumblingWindow.of(Time.minutes(1), "ts")).sum("ms", "total").map("total").preview()
        [{'total': 132}]
        """
        return self._with("sum", field, name)

    def avg(self, field: str, name: str | None = None) -> WindowStream[S]:
        """The mean of a number, as a double; null if there was no value.

        - `field` (str): a numeric field.
        - `name` (str, default: the field): the field of the result.

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> hits = StreamBuilder.data_stream("docs", "avg").from_array([{"ms": 12, "ts": 0}, {"ms": 120, "ts": 9_000}])
        >>> hits.window(TumblingWindow.of(Time.minutes(1), "ts")).avg("ms", "mean").map("mean").preview()
        [{'mean': 66.0}]
        """
        return self._with("avg", field, name)

    def min(self, field: str, name: str | None = None) -> WindowStream[S]:
        """The smallest value, in the type of the field.

        - `field` (str): a field of numbers, times or text.
        - `name` (str, default: the field): the field of the result.

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> hits = StreamBuilder.data_stream("docs", "min").from_array([{"ms": 12, "ts": 0}, {"ms": 120, "ts": 9_000}])
        >>> hits.window(TumblingWindow.of(Time.minutes(1), "ts")).min("ms", "fastest").map("fastest").preview()
        [{'fastest': 12}]
        """
        return self._with("min", field, name)

    def max(self, field: str, name: str | None = None) -> WindowStream[S]:
        """The greatest value, in the type of the field.

        - `field` (str): a field of numbers, times or text.
        - `name` (str, default: the field): the field of the result.

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> hits = StreamBuilder.data_stream("docs", "max").from_array([{"ms": 12, "ts": 0}, {"ms": 120, "ts": 9_000}])
        >>> hits.window(TumblingWindow.of(Time.minutes(1), "ts")).max("ms", "slowest").map("slowest").preview()
        [{'slowest': 120}]
        """
        return self._with("max", field, name)

    def distinct(self, field: str, name: str | None = None) -> WindowStream[S]:
        """The different values but null as a sorted array, which is empty without any.

        - `field` (str): a field.
        - `name` (str, default: the field): the field of the result.

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> rows = [{"page": "/b", "ts": 0}, {"page": "/a", "ts": 1}, {"page": "/b", "ts": 2}]
        >>> hits = StreamBuilder.data_stream("docs", "values").from_array(rows)
        >>> hits.window(TumblingWindow.of(Time.minutes(1), "ts")).distinct("page", "pages").map("pages").preview()
        [{'pages': ['/a', '/b']}]
        """
        return self._with("distinct", field, name)

    def count_distinct(self, field: str, name: str | None = None) -> WindowStream[S]:
        """The exact number of different values but null; the state holds all of them.

        - `field` (str): a field.
        - `name` (str, default: the field): the field of the result.

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> rows = [{"page": "/b", "ts": 0}, {"page": "/a", "ts": 1}, {"page": "/b", "ts": 2}]
        >>> hits = StreamBuilder.data_stream("docs", "exact").from_array(rows)
        >>> hits.window(TumblingWindow.of(Time.minutes(1), "ts")).count_distinct("page", "pages").map("pages").preview()
        [{'pages': 2}]
        """
        return self._with("count_distinct", field, name)

    def count_distinct_large(self, field: str, name: str | None = None) -> WindowStream[S]:
        """The approximate number of different values (HyperLogLog++, relative standard deviation 5 %); a small state.

        - `field` (str): a field.
        - `name` (str, default: the field): the field of the result.

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> hits = StreamBuilder.data_stream("docs", "large").from_array(
        ...     [{"page": "/b", "ts": 0}, {"page": "/a", "ts": 1}]
        ... )
        >>> hits.window(TumblingWindow.of(Time.minutes(1), "ts")).count_distinct_large("page", "n").map("n").preview()
        [{'n': 2}]
        """
        return self._with("count_distinct_large", field, name)

    def collect(self, field: str, name: str | None = None) -> WindowStream[S]:
        """All values but null as an array, in the order of event time and then of value.

        - `field` (str): a field.
        - `name` (str, default: the field): the field of the result.

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> rows = [{"page": "/b", "ts": 5}, {"page": "/a", "ts": 9}, {"page": "/c", "ts": 1}]
        >>> hits = StreamBuilder.data_stream("docs", "path").from_array(rows)
        >>> hits.window(TumblingWindow.of(Time.minutes(1), "ts")).collect("page", "path").map("path").preview()
        [{'path': ['/c', '/b', '/a']}]
        """
        return self._with("collect", field, name)

    def aggregate(self, **columns: object) -> WindowStream[S]:
        """Any aggregate of Spark, as SQL text or `column(...)`.

        Typical uses: percentiles, conditional counts, sums of expressions. The columns follow those of the other
        methods.

        - `columns` (SQL text or `column(...)`, by field name).

        Refused at the start of the pipeline: expressions that are not aggregates; aggregates that depend on the order
        of rows (`first`, `collect_list` unless sorted, `max_by` unless its order contains the chosen value); the clock;
        distinct values (use `count_distinct`). Approximate aggregates, such as `percentile_approx`, and sums of doubles
        may differ within their error if the input is cut into other batches.

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow, column
        >>> from pyspark.sql import functions as F
        >>> hits = StreamBuilder.data_stream("shop", "hits").from_array([{"ms": 12, "ts": 0}, {"ms": 120, "ts": 1}])
        >>> window = hits.window(TumblingWindow.of(Time.minutes(1), "ts"))
        >>> window = window.aggregate(p95=column(lambda: F.percentile_approx("ms", 0.95)), slow="count_if(ms > 100)")
        >>> window.map("p95", "slow").preview()
        [{'p95': 120, 'slow': 1}]
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
        """The first `n` rows of each window and group in the order of `by`: one output row for each.

        Typical uses: the slowest requests a minute, the best sellers a day. An output row has the group fields, `rank`,
        the fields `by` and `fields`, the window's aggregates and its times.

        - `n` (int): rows a window and group; the state holds as many, at most 100,000.
        - `by` (str or sequence of str): the order. Null is smaller than any value.
        - `fields` (sequence of str, default none): further fields of the rows. They also order rows that are equal in
          `by`, so the ranking never depends on the order of arrival.
        - `descending` (bool, default True): for all of `by` and `fields`.
        - `rank` (str, default "rank"): the field of the rank, from 1.

        With emit="on_window_update" a batch emits the whole ranking of each window that it changed; include `rank` in
        the keys of an upsert.

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> rows = [
        ...     {"page": "/a", "ms": 12, "ts": 0},
        ...     {"page": "/b", "ms": 120, "ts": 1},
        ...     {"page": "/c", "ms": 7, "ts": 2},
        ... ]
        >>> hits = StreamBuilder.data_stream("shop", "slow").from_array(rows)
        >>> slowest = hits.window(TumblingWindow.of(Time.minutes(1), "ts")).top_n(2, by="ms", fields=["page"])
        >>> sorted(slowest.map("rank", "page", "ms").preview(), key=lambda row: row["rank"])
        [{'rank': 1, 'page': '/b', 'ms': 120}, {'rank': 2, 'page': '/a', 'ms': 12}]
        """
        order, shown = (one_or_more(of) for of in (by, fields))
        return replace(self, ranking=Ranking(n=n, by=order, fields=shown, descending=descending, rank=rank))

    def reduce(
        self,
        function: Callable[[Any, Record], Any] | Accumulator,
        *,
        merge: Callable[[Any, Any], Any] | None = None,
        schema: object = None,
        accumulator: str | None = None,
        fields: Sequence[str] = (),
        name: str | None = None,
    ) -> WindowStream[S]:
        """Fields that a Python function computes from the rows of a window: `function(before, row)`, row by row.

        Typical uses: paths through pages, state machines, aggregates that Spark lacks. With `merge` the result may
        depend neither on the order of rows nor on how they are divided, and state has one result for each window.
        Without it rows come in the order of event time and then of `fields`, however the input was cut into batches;
        these rows are the state, which grows with the window. In both cases the function may change while the state is
        kept, and nothing has to be retracted. Functions must be pure: they are called again in repeated batches.

        - `function`: `before` is None for the first row, then the previous result. The last result, a dict or a
          dataclass with exactly the fields of `schema`, is added to the window's row. An object with `create()`,
          `accumulate(accumulator, row)` (returns the accumulator) and `value(accumulator)` works the same way.
        - `merge(one, other)`: the result for the rows of both; it is never called with None. Each row begins a result
          of its own. An object has it as a method, and merges accumulators.
        - `schema` (default: the function's return annotation): the fields of the result.
        - `accumulator` (DDL of a type, default: what `create` is annotated to return): the type of the accumulators of
          an object with `merge`. They are plain values: numbers, texts, times, lists, dicts.
        - `fields` (sequence of str, default: all): the fields of `row`.
        - `name` (str, default: the window's name and `_reduce`): the name of the step.

        If a function raises, the run ends; with "quarantine" the window's row becomes a dead letter, with `merge` the
        row on which `function` raised. What `merge` raises always ends the run.

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> rows = [{"page": "/b", "ts": 5}, {"page": "/a", "ts": 9}, {"page": "/c", "ts": 1}]
        >>> hits = StreamBuilder.data_stream("shop", "last").from_array(rows)
        >>> def path(before, row):
        ...     return {"path": f"{before['path']} {row['page']}" if before else row["page"]}
        >>> paths = hits.window(TumblingWindow.of(Time.minutes(1), "ts")).reduce(path, schema="path string")
        >>> def longest(before, row):
        ...     return {"longest": max(len(row["page"]), before["longest"] if before else 0)}
        >>> def longer(one, other):
        ...     return max(one, other, key=lambda each: each["longest"])
        >>> paths = paths.reduce(longest, merge=longer, schema="longest int", name="longest")
        >>> paths.map("path", "longest").preview()
        [{'path': '/c /b /a', 'longest': 2}]
        """
        made = reduction(
            name or f"{self.name}_reduce",
            function,
            merge=merge,
            schema=schema,
            accumulator=accumulator,
            fields=one_or_more(fields),
        )
        return replace(self, reductions=(*self.reductions, made))

    def water_mark(
        self,
        delay: timedelta,
        *,
        per: Literal["input", "split"] = "input",
        idle_timeout: timedelta | None = None,
        lateness: Literal["batch", "record"] = "batch",
    ) -> WindowStream[S]:
        """How long a window waits for rows that are out of order before it closes.

        Typical uses: a few seconds for one service, minutes for devices that buffer. Without it a window closes as soon
        as a row with a later time than its end was read.

        - `delay` (timedelta, default zero): how far the watermark lags behind the greatest event time.
        - `per` ("input" or "split", default "input"): with "split" each split of the input (a partition of a topic, a
          followed file, any other source as a whole) has its own greatest time and the smallest of them counts, so a
          split that lags is not late because of the others.
        - `idle_timeout` (timedelta, default 1 minute; only for "split"): a split without rows for so long, while others
          have some, is ignored until it has rows again. Rows older than the watermark are late then.
        - `lateness` ("batch" or "record", default "batch"): by default rows of one batch never make each other late.
          With "record" (only for `per="split"`) a row is late if the earlier records of its own split have closed its
          window, however they were cut into batches. A row of a session is late by its own time; a row of several
          windows counts for those that are open. The firing of windows does not change.

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> from rs_assets.testing import PipelineDriver
        >>> hits = StreamBuilder.data_stream("shop", "late").from_array([], schema="ts bigint")
        >>> minutes = hits.window(TumblingWindow.of(Time.minutes(1), "ts")).count("n").water_mark(Time.seconds(5))
        >>> with PipelineDriver(minutes.map("n").to_print().build()) as driver:
        ...     driver.push([{"ts": 1_000}, {"ts": 64_000}])
        ...     driver.step()
        ...     driver.push([{"ts": 59_000}, {"ts": 66_000}])
        ...     driver.step()
        ...     driver.take()
        [{'n': 2}]
        """
        return replace(self, delay=delay, splits=self._split_mark(per, idle_timeout, lateness))

    def _split_mark(self, per: str, idle_timeout: timedelta | None, lateness: str) -> BySplit | None:
        if lateness not in {"batch", "record"} or (lateness == "record" and per != "split"):
            raise TopologyError(
                f"window {self.name!r} cannot have a watermark with per={per!r}, lateness={lateness!r}",
                remedy="use lateness='record' with per='split': records have an order only within a split",
                step=self.name,
            )
        if per not in {"input", "split"} or (per == "input" and idle_timeout is not None):
            given = f"per={per!r}" if idle_timeout is None else f"per={per!r}, idle_timeout={idle_timeout!r}"
            raise TopologyError(
                f"window {self.name!r} cannot have a watermark with {given}",
                remedy="use per='input' without idle_timeout, or per='split'",
                step=self.name,
            )
        if per == "input":
            return None
        by_record = lateness == "record"
        return BySplit(by_record=by_record) if idle_timeout is None else BySplit(idle_timeout, by_record)

    def late_to(self, table: str | PathLike[str], *, name: str | None = None) -> WindowStream[S]:
        """Append late rows to a Delta table, each exactly once.

        Typical uses: to see how late rows are, to correct results later. A row has all fields that it had before the
        window, and `watermark`, by which it was late. Batches with late rows are read a second time; other batches are
        not. Fields that the window does not need are computed for late rows only; if that fails, the run fails.

        - `table` (str or Path): a name in RS_HOME, or a path.
        - `name` (str, default: the table's name and `_table`): the name of the sink.

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> from rs_assets.testing import PipelineDriver
        >>> orders = StreamBuilder.data_stream("shop", "orders").from_array([], schema="id bigint, ts bigint")
        >>> window = orders.window(TumblingWindow.of(Time.minutes(1), "ts")).count("n").late_to("late_orders")
        >>> pipeline = window.to_delta("per_minute").build()
        >>> print(pipeline.describe())
        shop.orders  fingerprint ...
          array              array_source  [0 rows]
        * window             window_aggregate <- array  [tumbling 0:01:00: n]
          late_orders_table  delta_sink <- window  [late rows into late_orders]
          per_minute_table   delta_sink <- window  [append per_minute]
        >>> with PipelineDriver(pipeline) as driver:
        ...     for ts in (1_000, 90_000, 2_000):
        ...         driver.push([{"id": ts, "ts": ts}])
        ...         driver.step()
        ...     [row["id"] for row in driver.take("late_orders_table")]
        [2000]
        """
        return replace(self, late=late_sink(self.name, table, name=name))

    def event_time(
        self,
        *,
        earliest: datetime = EPOCH,
        max_ahead: timedelta = DEFAULT_MAX_AHEAD,
        bad_records: str | BadRecords | None = None,
    ) -> WindowStream[S]:
        """Which event times are valid. A row without a valid time is a bad record.

        Typical uses: clocks that are wrong, dates before the system existed.

        - `earliest` (datetime, default 1970): earlier times are invalid.
        - `max_ahead` (timedelta, default 1 day): times further ahead of the clock are invalid.
        - `bad_records` (default: the policy of the sources): the policy for such rows.

        >>> from datetime import UTC, datetime
        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> times = [datetime(2026, 1, 5, tzinfo=UTC), datetime(1999, 1, 5, tzinfo=UTC)]
        >>> hits = StreamBuilder.data_stream("docs", "clocks").from_array([{"ts": ts} for ts in times])
        >>> days = hits.window(TumblingWindow.of(Time.hours(24), "ts")).count("n")
        >>> days.event_time(earliest=datetime(2020, 1, 1, tzinfo=UTC), bad_records="skip").map("n").preview()
        [{'n': 1}]
        """
        policy = None if bad_records is None else BadRecords.of(bad_records)
        return replace(self, bounds=EventTimeBounds(earliest=earliest, max_ahead=max_ahead, policy=policy))

    def emit_before(self, every: timedelta) -> WindowStream[S]:
        """Also fire each window every `every` from its start until it closes, with the rows so far.

        Typical use: a running total of today. A window without new rows does not fire again. Rows also have `final`:
        whether the window has closed, so that this is its last row.

        - `every` (timedelta, event time).

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> from rs_assets.testing import PipelineDriver
        >>> hits = StreamBuilder.data_stream("docs", "early").from_array([], schema="ts bigint")
        >>> hours = hits.window(TumblingWindow.of(Time.hours(1), "ts")).count("n").emit_before(Time.minutes(15))
        >>> with PipelineDriver(hours.map("n", "final").to_print().build()) as driver:
        ...     for minute in (1, 20, 61):
        ...         driver.push([{"ts": minute * 60_000}])
        ...         driver.step()
        ...     driver.take()
        [{'n': 2, 'final': False}, {'n': 2, 'final': True}]
        """
        return replace(self, firing=replace(self.firing, before=every))

    def emit_after(self, every: timedelta, *, until: timedelta = HOLD) -> WindowStream[S]:
        """Keep each window open for `until` after the watermark has passed its end, and fire it every `every`.

        Typical use: a result at once, and corrections for late rows. The window fires when it ends, again after later
        rows, each time with all its rows, and a last time (`final`) when it closes. Only rows after that are late.

        - `every` (timedelta, event time).
        - `until` (timedelta, event time, default 1 hour).

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> from rs_assets.testing import PipelineDriver
        >>> hits = StreamBuilder.data_stream("docs", "corrected").from_array([], schema="ts bigint")
        >>> window = hits.window(TumblingWindow.of(Time.minutes(1), "ts")).count("n")
        >>> window = window.emit_after(Time.minutes(1), until=Time.minutes(10))
        >>> with PipelineDriver(
        ...     window.map("n", "final", "unix_seconds(start_time) AS start").to_print().build()
        ... ) as driver:
        ...     for second in (3601, 3670, 3602, 3750):
        ...         driver.push([{"ts": second * 1_000}])
        ...         driver.step()
        ...     [row for row in driver.take() if row["start"] == 3600]
        [{'n': 1, 'final': False, 'start': 3600}, {'n': 2, 'final': False, 'start': 3600}]
        """
        return replace(self, firing=replace(self.firing, after=every, hold=until))

    def late_firings(self, tell: LateFirings) -> WindowStream[S]:
        """Fire each window at its end, and again for rows that come later but within the watermark's delay.

        Typical use: results at once and corrections, as in RocketMQ-Streams. Rows after the end wait until another
        window ends, so that they fire together.

        - `tell`: "deltas" emits only the rows since the previous firing, so that the sum of all firings is the window
          (mode 1 of RocketMQ-Streams). "totals" emits the whole window each time, the last time (`final`) when it
          closes (mode 2).

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> from rs_assets.testing import PipelineDriver
        >>> hits = StreamBuilder.data_stream("docs", "deltas").from_array([], schema="ts bigint")
        >>> window = hits.window(TumblingWindow.of(Time.minutes(1), "ts")).count("n").water_mark(Time.minutes(10))
        >>> window = window.late_firings("totals").map("n", "final", "unix_seconds(start_time) AS start")
        >>> with PipelineDriver(window.to_print().build()) as driver:
        ...     for second in (3601, 3670, 3602, 3750):
        ...         driver.push([{"ts": second * 1_000}])
        ...         driver.step()
        ...     [row for row in driver.take() if row["start"] == 3600]
        [{'n': 1, 'final': False, 'start': 3600}, {'n': 2, 'final': False, 'start': 3600}]
        """
        return replace(self, firing=replace(self.firing, late=tell))

    def suppress(self, limit: timedelta) -> WindowStream[S]:
        """Also fire a window when event time has moved by `limit` since its first row that was not emitted yet.

        Typical use: each change is emitted, but not more often than the limit. `final` marks the last row of a window.

        - `limit` (timedelta, event time).

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> from rs_assets.testing import PipelineDriver
        >>> hits = StreamBuilder.data_stream("docs", "calm").from_array([], schema="ts bigint")
        >>> hours = hits.window(TumblingWindow.of(Time.hours(1), "ts")).count("n").suppress(Time.minutes(10))
        >>> with PipelineDriver(hours.map("n", "final").to_print().build()) as driver:
        ...     for minute in (1, 2, 20, 61):
        ...         driver.push([{"ts": minute * 60_000}])
        ...         driver.step()
        ...     driver.take()
        [{'n': 3, 'final': False}, {'n': 3, 'final': True}]
        """
        return replace(self, firing=replace(self.firing, limit=limit))

    def to_data_stream(self) -> S:
        """The rows of windows: group fields, aggregates, `start_time`, `end_time`, `fire_time`; some also have `final`.

        `fire_time` is the event time at which the window may fire: its end plus the watermark's delay. For windows that
        emit on each update it is the driver's clock at the start of the batch, so that it orders the updates of a
        window.

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> hits = StreamBuilder.data_stream("docs", "rows").from_array([{"ts": 0}, {"ts": 9_000}])
        >>> minutes = hits.window(TumblingWindow.of(Time.minutes(1), "ts")).count("n").water_mark(Time.seconds(5))
        >>> for name, value in minutes.to_data_stream().preview()[0].items():
        ...     print(f"{name:<10} {value}")
        n          2
        start_time 1970-01-01 00:00:00+00:00
        end_time   1970-01-01 00:01:00+00:00
        fire_time  1970-01-01 00:01:05+00:00
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
                accumulated=accumulators_kept(self.reductions),
                water_mark=self.delay,
                bounds=self.bounds,
                emit=self.emit,
                firing=self.firing,
                splits=self.splits,
            )
        )
        if self.late is not None:
            self.beside(self.late)
        for fold in folds(self.reductions, after=self.name):
            stream = self.resume(fold)
        return stream

    def _with(self, function: AggregateFunction, field: str | None, name: str | None) -> WindowStream[S]:
        made = Aggregate(function, field, name or field or function)
        return replace(self, aggregates=(*self.aggregates, made))

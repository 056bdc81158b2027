"""A stream of records, and its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from os import PathLike
from typing import TYPE_CHECKING, Any, get_args

from rs_assets.common.names import checked_owners, one_by_one, one_or_more
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.client.names import SHUFFLES
from rs_assets.connectors.memory.nodes import MemorySink
from rs_assets.errors import TopologyError
from rs_assets.expressions.condition.parse import parse_condition
from rs_assets.expressions.functions.formats import checked_zone
from rs_assets.expressions.script.parse import parse_script
from rs_assets.records.policy import OnFail
from rs_assets.records.schema import Schema
from rs_assets.stream.dim_join_stream import DimJoinSteps
from rs_assets.stream.draft import Draft, late_sink
from rs_assets.stream.join_stream import JoinSteps
from rs_assets.stream.method_hints import Fluent
from rs_assets.stream.pipeline import Pipeline
from rs_assets.stream.process_steps import ProcessSteps
from rs_assets.stream.rule_steps import RuleSteps
from rs_assets.stream.sink_steps import SinkSteps
from rs_assets.stream.table_steps import TableSteps
from rs_assets.stream.window_stream import WindowStream
from rs_assets.topology.check.build import check_fields
from rs_assets.topology.check.io_overlap import check_places
from rs_assets.topology.nodes.distinct import Distinct
from rs_assets.topology.nodes.shuffle import DurableStrategy, Shuffle, ShuffleRead, ShuffleWrite, Strategy
from rs_assets.topology.nodes.step import (
    Expect,
    Filter,
    FlatMap,
    ForEach,
    Map,
    MapBatches,
    Script,
    Select,
    SelectFields,
    Split,
    Union,
    WithFields,
)
from rs_assets.topology.nodes.timed import TimedState
from rs_assets.topology.topology import Topology
from rs_assets.topology.user_code.expression import (
    ConditionText,
    Expression,
    PythonFunction,
    Record,
    expression,
    is_spark_column,
    native,
    returned_schema,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from rs_assets.common.node import Node
    from rs_assets.operators.window.output import EmitStrategy
    from rs_assets.operators.window.spec import Window
    from rs_assets.spark.driver import SparkDriver

Rows = Iterable[Mapping[str, Any]]
# The name of a preview's sink.
PREVIEW = "preview"


@dataclass(frozen=True, slots=True)
class DataStream(JoinSteps, DimJoinSteps, TableSteps, ProcessSteps, RuleSteps, SinkSteps, Fluent):
    """The output of one step. Each method adds a step and returns its output; sinks return the same stream.

    A Python function gets a copy of the record as a dict; a filter gets a read-only mapping. Functions must be
    deterministic, because a batch may be computed again. Two arguments are common to most steps:

    - `trace` (bool, default True): translate a Python function into a Spark expression where the result is the same;
      False runs it in Python for every record.
    - `name` (str, default: the kind of step and a number): the name of the step.

    >>> from rs_assets import StreamBuilder
    >>> from rs_assets.testing import run_rows
    >>> rows = [{"page": "/a", "ms": 12}, {"page": "/b", "ms": 120}]
    >>> hits = StreamBuilder.data_stream("docs", "slow").from_array(rows)
    >>> run_rows(hits.filter("ms > 100").with_fields(seconds="ms / 1000"))
    [{'page': '/b', 'ms': 120, 'seconds': 0.12}]
    """

    draft: Draft
    step: str

    def map(
        self, first: object, *more: object, schema: Schema | None = None, trace: bool = True, name: str | None = None
    ) -> DataStream:
        """Turn each record into another.

        Typical uses: choose and compute fields in SQL, call a Python library.

        - `first`, `more`: either a select list in SQL or Columns, one argument a column; or one Python function from
          dict to dict. The function must return exactly the fields of its schema; None means null.
        - `schema` (default: the function's return annotation, a TypedDict or dataclass): the fields of a function's
          result.
        - `trace`, `name`: see `DataStream`.

        >>> from rs_assets import StreamBuilder
        >>> from rs_assets.testing import run_rows
        >>> rows = [{"page": "/a", "ms": 1500}, {"page": "/b", "ms": 20}]
        >>> hits = StreamBuilder.data_stream("docs", "map").from_array(rows)
        >>> run_rows(hits.map("page", "ms / 1000 AS seconds"))
        [{'page': '/a', 'seconds': 1.5}, {'page': '/b', 'seconds': 0.02}]
        >>> run_rows(hits.map(lambda hit: {"page": hit["page"].upper()}, schema="page string"))
        [{'page': '/A'}, {'page': '/B'}]
        """
        step = self.draft.auto_name("map", name, after=self.step)
        if callable(first) and not is_spark_column(first) and not more:
            function = PythonFunction(first, returned_schema(first, schema, step=step), trace)
            return self._then(Map(name=step, inputs=(self.step,), function=function))
        if schema is not None:
            raise TopologyError(f"step {step!r}: a schema is declared only for a Python function")
        select = tuple(native(e, step=step) for e in (first, *more))
        return self._then(Map(name=step, inputs=(self.step,), select=select))

    def map_batches(
        self,
        function: Callable[[pa.RecordBatch], Any],
        *,
        schema: Schema,
        fields: Sequence[str] = (),
        name: str | None = None,
    ) -> DataStream:
        """Turn each record into another, by a function that gets many at once as an Arrow batch.

        Typical uses: predictions of a model, vectorised numpy, pandas or polars.

        - `function`: returns one row for each row of its batch, in the same order, as an Arrow batch or table, a data
          frame, or a dict of columns. How records are divided into batches is Spark's matter, and must not matter. The
          rows of a batch share nothing else: an error is searched by calling the function with parts of the batch.
        - `schema` (text, TypedDict or dataclass): the fields of the result.
        - `fields` (list of str, default: all): the fields that the function gets; the others are not sent to Python.
        - `name`: see `DataStream`.

        Other than with `map`, values that do not fit the schema end the run also where bad records are kept out.

        >>> import pyarrow.compute as pc
        >>> from rs_assets import StreamBuilder
        >>> from rs_assets.testing import run_rows
        >>> rows = [{"page": "/a", "ms": 12}, {"page": "/", "ms": 3}]
        >>> hits = StreamBuilder.data_stream("docs", "batches").from_array(rows)
        >>> def doubled(batch):
        ...     return {"page": batch["page"], "twice": pc.multiply(batch["ms"], 2)}
        >>> run_rows(hits.map_batches(doubled, schema="page string, twice bigint"))
        [{'page': '/a', 'twice': 24}, {'page': '/', 'twice': 6}]
        """
        step = self.draft.auto_name("map_batches", name, after=self.step)
        if not callable(function):
            raise TopologyError(
                f"step {step!r}: map_batches() takes a function, not {function!r}",
                remedy="stream.map_batches(lambda batch: {'n': batch['n']}, schema='n bigint')",
                step=step,
            )
        called = PythonFunction(function, returned_schema(function, schema, step=step), trace=False)
        return self._then(MapBatches(name=step, inputs=(self.step,), function=called, fields=one_or_more(fields)))

    def flat_map(
        self, function: object, *, schema: Schema | None = None, trace: bool = True, name: str | None = None
    ) -> DataStream:
        """Turn each record into any number of records.

        Typical uses: one row for each item of an order, parse a message with several events.

        - `function`: an SQL generator such as "explode(items) AS item", or a Python function that returns a list of
          dicts with exactly the fields of the schema. An empty list and None give no record.
        - `schema` (default: the function's return annotation): the fields of the result.
        - `trace`, `name`: see `DataStream`. With `trace=False` records that give no rows are passed to Python, too.

        >>> from rs_assets import StreamBuilder
        >>> from rs_assets.testing import run_rows
        >>> orders = StreamBuilder.data_stream("docs", "items").from_array([{"id": 1, "items": ["tea", "jam"]}])
        >>> run_rows(orders.flat_map("explode(items) AS item"))
        [{'item': 'tea'}, {'item': 'jam'}]
        >>> def items(order):
        ...     return [{"id": order["id"], "item": item} for item in order["items"]]
        >>> run_rows(orders.flat_map(items, schema="id bigint, item string"))
        [{'id': 1, 'item': 'tea'}, {'id': 1, 'item': 'jam'}]
        """
        step = self.draft.auto_name("flat_map", name, after=self.step)
        if callable(function) and not is_spark_column(function):
            made: Expression = PythonFunction(function, returned_schema(function, schema, step=step), trace)
        else:
            made = expression(function, step=step, schema=schema)
        return self._then(FlatMap(name=step, inputs=(self.step,), expression=made))

    def filter(self, condition: object, *, trace: bool = True, name: str | None = None) -> DataStream:
        """Keep the records for which `condition` is true.

        Typical uses: one kind of event, one country, valid records only.

        - `condition`: SQL text, a Column, or a Python function of a read-only mapping. Spark computes a function
          without calling it, as far as the result is the same; values from outside the function are read when the plan
          is made.
        - `trace`, `name`: see `DataStream`.

        >>> from rs_assets import StreamBuilder
        >>> from rs_assets.testing import run_rows
        >>> rows = [{"page": "/a", "ms": 12}, {"page": "/b", "ms": 120}]
        >>> hits = StreamBuilder.data_stream("docs", "filter").from_array(rows)
        >>> run_rows(hits.filter("ms > 100"))
        [{'page': '/b', 'ms': 120}]
        >>> run_rows(hits.filter(lambda hit: hit["page"].startswith("/a")))
        [{'page': '/a', 'ms': 12}]
        """
        step = self.draft.auto_name("filter", name, after=self.step)
        return self._then(
            Filter(name=step, inputs=(self.step,), condition=expression(condition, step=step, trace=trace))
        )

    def expect(
        self, condition: object, *, on_fail: str = "warn", tolerated: float = 0.0, name: str | None = None
    ) -> DataStream:
        """Expect that `condition` is true for every row, and count the rows for which it is false or null.

        Typical uses: an amount is positive, a country is known, a key is there.

        - `condition`: SQL text or a Column. If null is right as well, say so: `"ms IS NULL OR ms >= 0"`.
        - `on_fail` (str, default "warn"): "warn" passes such a row on; "skip" leaves it out; "dead_letter" leaves it
          out, and writes it to the dead-letter table; "fail" ends the run before its batch is committed.
        - `tolerated` (float, default 0.0): the share of such rows within a day up to which the check of each output in
          Dagster passes.
        - `name`: see `DataStream`; it is the name of the check.

        The counts are in `RunReport.expectations`, and by batch in the table `expectations` of the catalog, where those
        of the batches right before a kill may be missing. TopologyError for a Python function, and for "dead_letter"
        between two steps with state.

        >>> from rs_assets import StreamBuilder
        >>> from rs_assets.testing import run_rows
        >>> rows = [{"page": "/a", "ms": 12}, {"page": "/b", "ms": -1}, {"page": "/c", "ms": None}]
        >>> hits = StreamBuilder.data_stream("docs", "expected").from_array(rows)
        >>> run_rows(hits.expect("ms >= 0", on_fail="skip", name="took_time"))
        [{'page': '/a', 'ms': 12}]
        """
        step = self.draft.auto_name("expect", name, after=self.step)
        given = expression(condition, step=step)
        return self._then(
            Expect(name=step, inputs=(self.step,), condition=given, on_fail=OnFail.of(on_fail), tolerated=tolerated)
        )

    def filter_by_expression(self, condition: str, *, name: str | None = None) -> DataStream:
        """Keep the records that match a condition: `(age,>,int,18)&((name,like,'a%')|(ip,ipContains,'10.'))`.

        Typical use: conditions that people configure, as in RocketMQ-Streams.

        - `condition` (str): atoms `(field,operator,value)`, joined by `&`, `|` and `!`. With
          `(field,operator,type,value)` a text is compared as a number or a time. For null and empty text an atom is
          false; `!in`, `!like`, `!regex` and `notContains` are true.
        - `name`: see `DataStream`.

        TopologyError, with line and column, for a condition that cannot be parsed.

        >>> from rs_assets import StreamBuilder
        >>> from rs_assets.testing import run_rows
        >>> rows = [{"page": "/a", "ms": 12}, {"page": "/b", "ms": 120}, {"page": "/health", "ms": 200}]
        >>> hits = StreamBuilder.data_stream("docs", "wide").from_array(rows)
        >>> run_rows(hits.filter_by_expression("(ms,>,100)&!(page,in,'/health,/ready')"))
        [{'page': '/b', 'ms': 120}]
        """
        step = self.draft.auto_name("filter", name, after=self.step)
        parse_condition(condition)
        return self._then(Filter(name=step, inputs=(self.step,), condition=ConditionText(condition)))

    def script(self, text: str, *, zone: str = "UTC", strict: bool = False, name: str | None = None) -> DataStream:
        """Set, drop and rename fields and drop records by a script: `x=trim(a);if(x==''){break()}else{n=length(x)}`.

        Typical use: rules that people configure, as in RocketMQ-Streams. The functions are listed in docs/functions.md.

        - `text` (str): the script. A bare word is a field, or the word itself if there is no such field. Numbers
          compare as numbers, quoted texts as texts. A function that cannot be computed gives null.
        - `zone` (str, default "UTC"): the time zone of times that are written without one.
        - `strict` (bool, default False): a bare word must be a field.
        - `name`: see `DataStream`.

        TopologyError, with line and column, for a script that cannot be parsed or does not fit the fields.

        >>> from rs_assets import StreamBuilder
        >>> from rs_assets.testing import run_rows
        >>> rows = [{"page": "/A", "ms": 12}, {"page": "/B", "ms": 120}]
        >>> hits = StreamBuilder.data_stream("docs", "kinds").from_array(rows)
        >>> run_rows(hits.script("page=lower(page);if(ms>100){kind='slow'}else{kind='fast'}"))
        [{'page': '/a', 'ms': 12, 'kind': 'fast'}, {'page': '/b', 'ms': 120, 'kind': 'slow'}]
        """
        step = self.draft.auto_name("script", name, after=self.step)
        parse_script(text)
        return self._then(Script(name=step, inputs=(self.step,), text=text, zone=checked_zone(zone), strict=strict))

    def for_each(self, function: Callable[[Record], Any], *, name: str | None = None) -> DataStream:
        """Call `function` for its side effect, once for each record of a batch. A repeated batch calls it again.

        Typical uses: count in a metrics library, call a service that tolerates duplicates.

        - `function`: gets a record as a dict. Its result and its changes to the dict are ignored.
        - `name`: see `DataStream`.

        >>> from rs_assets import StreamBuilder
        >>> from rs_assets.testing import run_rows
        >>> hits = StreamBuilder.data_stream("docs", "each").from_array([{"page": "/a", "ms": 12}])
        >>> run_rows(hits.for_each(lambda hit: hit.clear()))
        [{'page': '/a', 'ms': 12}]
        """
        step = self.draft.auto_name("for_each", name, after=self.step)
        if not callable(function):
            raise TopologyError(f"step {step!r} takes a function, not {function!r}")
        return self._then(ForEach(name=step, inputs=(self.step,), function=PythonFunction(function)))

    def select_fields(self, *fields: str, name: str | None = None) -> DataStream:
        """Keep only these fields, in this order.

        Typical use: drop what later steps do not need.

        - `fields` (str): names of fields.
        - `name`: see `DataStream`.

        >>> from rs_assets import StreamBuilder
        >>> from rs_assets.testing import run_rows
        >>> hits = StreamBuilder.data_stream("docs", "fields").from_array([{"page": "/a", "ip": "10.0.0.1", "ms": 12}])
        >>> run_rows(hits.select_fields("ms", "page"))
        [{'ms': 12, 'page': '/a'}]
        """
        step = self.draft.auto_name("select_fields", name, after=self.step)
        fields = one_by_one(fields, call="select_fields")
        return self._then(SelectFields(name=step, inputs=(self.step,), fields=fields))

    def with_fields(self, *, name: str | None = None, **columns: object) -> DataStream:
        """Add or replace fields. All are computed from the input record.

        Typical uses: units, derived keys, defaults for nulls.

        - `columns` (SQL text or Column, by field name): the new values.
        - `name`: see `DataStream`.

        >>> from rs_assets import StreamBuilder
        >>> from rs_assets.testing import run_rows
        >>> hits = StreamBuilder.data_stream("docs", "more").from_array([{"page": "/a", "ms": 1500}])
        >>> run_rows(hits.with_fields(ms="ms + 1", seconds="ms / 1000"))
        [{'page': '/a', 'ms': 1501, 'seconds': 1.5}]
        """
        step = self.draft.auto_name("with_fields", name, after=self.step)
        if not columns:
            raise TopologyError(f"step {step!r} adds no field")
        made = tuple((field, native(value, step=step)) for field, value in columns.items())
        return self._then(WithFields(name=step, inputs=(self.step,), columns=made))

    def union(self, *others: DataStream | WindowStream[DataStream], name: str | None = None) -> DataStream:
        """Merge this stream with `others` of the same pipeline. Duplicates stay; there is no order.

        Typical use: several topics or folders with the same fields. Branches of one stream may be merged again; before
        a stateful step only if the steps between are SQL or Columns.

        - `others` (DataStream or WindowStream): streams with the same fields.
        - `name`: see `DataStream`.

        >>> from rs_assets import StreamBuilder
        >>> from rs_assets.testing import run_rows
        >>> shop = StreamBuilder.data_stream("docs", "union")
        >>> web, app = (shop.from_array([{"page": page}], name=name) for name, page in (("web", "/a"), ("app", "/b")))
        >>> run_rows(web.union(app))
        [{'page': '/a'}, {'page': '/b'}]
        """
        step = self.draft.auto_name("union", name, after=self.step)
        streams = [other.to_data_stream() if isinstance(other, WindowStream) else other for other in others]
        if not streams or any(stream.draft is not self.draft for stream in streams):
            raise TopologyError(
                f"step {step!r} unites streams of one pipeline only",
                remedy="begin them all from one StreamBuilder.data_stream(...)",
            )
        return self._then(Union(name=step, inputs=(self.step, *(stream.step for stream in streams))))

    def split(self, label: object, *, trace: bool = True, name: str | None = None) -> SplitStream:
        """Label each record; `.select(label)` gives the branch of one label.

        Typical use: different steps or sinks for different kinds of record.

        - `label`: SQL text, a Column, or a Python function that returns the label.
        - `trace`, `name`: see `DataStream`.

        >>> from rs_assets import StreamBuilder
        >>> from rs_assets.testing import run_rows
        >>> rows = [{"page": "/a", "ms": 12}, {"page": "/b", "ms": 120}]
        >>> hits = StreamBuilder.data_stream("docs", "split").from_array(rows)
        >>> kinds = hits.split("if(ms > 100, 'slow', 'fast')")
        >>> run_rows(kinds.select("slow")), run_rows(kinds.select("fast"))
        ([{'page': '/b', 'ms': 120}], [{'page': '/a', 'ms': 12}])
        """
        step = self.draft.auto_name("split", name, after=self.step)
        made = expression(label, step=step, trace=trace)
        return SplitStream(self.draft, self.draft.add(Split(name=step, inputs=(self.step,), label=made)))

    def shuffle(
        self,
        partitions: int,
        *,
        keys: Sequence[str] = (),
        strategy: Strategy = "memory",
        bootstrap_servers: str | KafkaCluster | None = None,
        name: str | None = None,
    ) -> DataStream:
        """Distribute the rows over `partitions`, by `keys` or evenly.

        Typical uses: more parallelism after a source with few splits; a durable intermediate result for several
        stateful steps. "memory" is Spark's exchange inside the query. "delta" (a table in RS_HOME) and "kafka" (a
        topic) split the pipeline into two queries with a checkpoint each: the steps upstream are computed once for all
        steps downstream, and stateful steps may follow one another. The results are the same; a durable shuffle cannot
        be rewound, only started again.

        - `partitions` (int): the number of partitions.
        - `keys` (sequence of str, default none): rows with equal keys go to one partition.
        - `strategy` ("memory", "delta" or "kafka", default "memory").
        - `bootstrap_servers` (as for `from_kafka`): needed for "kafka".
        - `name`: see `DataStream`.

        >>> from rs_assets import StreamBuilder
        >>> from rs_assets.testing import run_rows
        >>> rows = [{"page": "/a"}, {"page": "/b"}]
        >>> hits = StreamBuilder.data_stream("docs", "spread").from_array(rows)
        >>> sorted(hit["page"] for hit in run_rows(hits.shuffle(2, keys=["page"])))
        ['/a', '/b']
        >>> hits = StreamBuilder.data_stream("docs", "durable").from_array([{"page": "/a"}, {"page": "/b"}])
        >>> print(hits.shuffle(2, strategy="delta", name="stored").to_print().build().describe())
        docs.durable  fingerprint ...
          array         array_source  [2 rows]
          stored_write  shuffle_write <- array  [to delta, 2 partitions]
          stored        shuffle_read <- stored_write  [from delta]
          print         print_sink <- stored
        """
        step = self.draft.auto_name("shuffle", name, after=self.step)
        by = one_or_more(keys)
        if strategy == "memory" and bootstrap_servers is None:
            return self._then(Shuffle(name=step, inputs=(self.step,), partitions=partitions, keys=by))
        if strategy not in get_args(DurableStrategy):
            raise TopologyError(
                f"step {step!r}: the strategy of a durable shuffle must be 'delta' or 'kafka', not {strategy!r}",
                remedy="use 'delta' or 'kafka'",
            )
        half: dict[str, Any] = {
            "place": f"{SHUFFLES if strategy == 'kafka' else ''}{self.draft.namespace}.{self.draft.job}.{step}",
            "strategy": strategy,
            "partitions": partitions,
            "keys": by,
            "cluster": KafkaCluster.of(bootstrap_servers) if bootstrap_servers is not None else None,
        }
        write = self.draft.add(ShuffleWrite(name=f"{step}_write", inputs=(self.step,), **half))
        return self._then(ShuffleRead(name=step, after=write, **half))

    def distinct(
        self,
        *fields: str,
        within: timedelta,
        time_field: str | None = None,
        water_mark: timedelta | None = None,
        late_to: str | PathLike[str] | None = None,
        name: str = "distinct",
    ) -> DataStream:
        """Drop rows that equal an earlier row in `fields`. Null equals null.

        Typical uses: producers that send twice, one event for each user. Of rows whose event times are at most `within`
        apart only one passes, that of the earliest batch; of rows further apart a later one may pass, too.

        - `fields` (str): the fields that make a row a duplicate.
        - `within` (timedelta): how long a row is remembered, by event time.
        - `time_field` (str, default None: the time of arrival): the event time.
        - `water_mark` (timedelta, default `within`): how far a row may be older than the greatest time seen before it
          is late.
        - `late_to` (str or Path, default None): a Delta table for late rows, as for windows.
        - `name` (str, default "distinct"): the state is stored under it.

        >>> from rs_assets import StreamBuilder, Time
        >>> rows = [{"id": "a", "ts": 60_000}, {"id": "a", "ts": 60_000}, {"id": "b", "ts": 90_000}]
        >>> orders = StreamBuilder.data_stream("shop", "once").from_array(rows)
        >>> once = orders.distinct("id", within=Time.minutes(10), time_field="ts")
        >>> sorted(once.preview(), key=lambda row: row["ts"])
        [{'id': 'a', 'ts': 60000}, {'id': 'b', 'ts': 90000}]
        >>> print(once.to_print().build().describe())
        shop.once  fingerprint ...
          array     array_source  [3 rows]
        * distinct  distinct <- array  [id within 0:10:00]
          print     print_sink <- distinct
        """
        node = Distinct(
            name=name,
            inputs=(self.step,),
            fields=one_by_one(fields, call="distinct"),
            within=within,
            time_field=time_field,
            water_mark=within if water_mark is None else water_mark,
        )
        stream = self._then(node)
        if late_to is not None:
            self.draft.add(late_sink(name, late_to))
        return stream

    def window(
        self, window: Window, *, name: str = "window", emit: EmitStrategy = "on_window_close"
    ) -> WindowStream[DataStream]:
        """Begin a windowed aggregation.

        Typical uses: counts a minute, sessions of a user, running totals. See docs/windows.md.

        - `window`: such as `TumblingWindow.of(Time.minutes(1), "ts")`.
        - `name` (str, default "window"): the state is stored under it, so two windows of a pipeline need different
          names.
        - `emit` (default "on_window_close"): when a window emits rows.
          - "on_window_close": once, when the watermark has passed its end.
          - "on_window_update": in each batch that changes the window; nothing when it closes, so the last row is the
            result. `to_delta(mode="upsert", keys=[group fields and "start_time"])` keeps one current row a window;
            other sinks get each update, in the order of `fire_time`. Stateful steps and durable shuffles cannot follow.
          - "on_update_and_close": as "on_window_update", and a final row when the window closes.
          - "on_record": at each record; nothing when the window closes.

        Sessions grow and merge: before an updated session is emitted, its previous row is retracted by an equal row
        with `retracted = true` (`to_delta(..., deletes="retracted")`). A `GlobalWindow` does the same: it never closes
        and emits its row, or the ranks of its `top_n`, in each batch that changes them; it takes no `emit`.

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> rows = [{"page": "/a", "ts": 1_000}, {"page": "/a", "ts": 2_000}]
        >>> clicks = StreamBuilder.data_stream("shop", "live").from_array(rows)
        >>> windows = clicks.window(TumblingWindow.of(Time.seconds(10), "ts"), emit="on_window_update").group_by("page")
        >>> counts = windows.count("n").to_data_stream()
        >>> counts.map("page", "n", "unix_millis(end_time) AS until").preview()
        [{'page': '/a', 'n': 2, 'until': 10000}]
        """
        return WindowStream(
            upstream=self.step, assigner=window, name=name, resume=self._then, beside=self.draft.add, emit=emit
        )

    def preview(
        self,
        rows: Rows | Mapping[str, Rows] | int | None = None,
        *,
        records: int = 20,
        spark: SparkDriver | None = None,
    ) -> list[dict[str, Any]]:
        """Compute this step for the first `records` of each file, table or array, with all windows fired.

        Typical uses: a notebook, a first look at a query. It runs in a temporary folder: sinks are not touched and
        nothing is kept.

        - `rows` (rows, a dict of them by source, or an int): read these rows instead; an int is the same as `records`.
        - `records` (int, records of each source, default 20).
        - `spark` (SparkDriver, default: the process's own).

        A step that is only previewed, and leads to no sink, is left out by `build()`.

        TopologyError for a source without first records, such as a topic; other errors as for `run()`.

        >>> from rs_assets import StreamBuilder
        >>> hits = StreamBuilder.data_stream("shop", "look").from_array([{"ms": 12}, {"ms": 120}, {"ms": 7}])
        >>> hits.with_fields(slow="ms > 100").preview(2)
        [{'ms': 12, 'slow': False}, {'ms': 120, 'slow': True}]
        """
        from rs_assets.connectors.memory import MemoryChannel
        from rs_assets.runtime.run.preview import preview
        from rs_assets.runtime.run.trial import try_rows
        from rs_assets.spark.driver import SparkDriver

        nodes = self.draft.preview(self.step)
        end = MemorySink(name=PREVIEW, inputs=(str(self.step),), channel=MemoryChannel())
        topology = Topology(self.draft.namespace, self.draft.job, (*nodes, end))
        check_fields(topology)
        driver = spark or SparkDriver.shared()
        if rows is None or isinstance(rows, int):
            found = preview(topology, records if rows is None else rows, driver)
        else:
            found = try_rows(topology, rows, driver)
        return found[PREVIEW]

    def build(
        self,
        *,
        renamed: Mapping[str, str] | None = None,
        description: str = "",
        owners: Sequence[str] = (),
        fresh_within: timedelta | None = None,
    ) -> Pipeline:
        """Make a pipeline of this stream and of the branches that were written since the last `build()`.

        Streams are values: they do not change, and more steps can be added for the next `build()`. UserError says what
        does not fit: TopologyError, UnknownFieldError or SchemaError.

        - `renamed` (dict from earlier to current step names, default none): state, offsets and sinks are continued
          under the new names. The entry may stay for good.
        - `description` (str, Markdown) and `owners` ("team:orders" or e-mail addresses): shown by Dagster.
        - `fresh_within` (timedelta, default None: no limit): a check of the outputs in Dagster fails if the watermark
          lags the clock by more. TopologyError if no step has event time.

        >>> from rs_assets import StreamBuilder
        >>> hits = StreamBuilder.data_stream("shop", "slow").from_file("hits.jsonl", schema="page string, ms bigint")
        >>> slow = hits.filter("ms > 100").to_delta("slow")
        >>> slow = slow.build(owners=["team:web"], renamed={"slow_hits": "slow_table"})
        >>> slow.name, slow.owners
        ('shop.slow', ('team:web',))
        >>> hits.filter("seconds > 1").to_print().build()
        Traceback (most recent call last):
        rs_assets.errors.UnknownFieldError: step 'filter_1' names the field 'seconds', which does not exist...
        """
        pairs = tuple((renamed or {}).items())
        topology = Topology(self.draft.namespace, self.draft.job, self.draft.take(self.step), pairs)
        # Here, not at the start, so that a pipeline that cannot be computed is refused while it is written.
        plan_queries(topology)
        check_fields(topology)
        check_places(topology)
        _check_fresh(topology, fresh_within)
        return Pipeline(topology, description, checked_owners(owners), fresh_within)

    def _then(self, node: Node) -> DataStream:
        return DataStream(self.draft, self.draft.add(node))

    def _sink(self, node: Node) -> DataStream:
        return DataStream(self.draft, self.draft.add_sink(self.step, node))


@dataclass(frozen=True, slots=True)
class SplitStream(Fluent):
    """A stream whose records have labels."""

    draft: Draft
    step: str

    def select(self, label: str, *, name: str | None = None) -> DataStream:
        """The branch of the records with `label`.

        - `label` (str): a value of the label.
        - `name`: see `DataStream`.

        >>> from rs_assets import StreamBuilder
        >>> from rs_assets.testing import run_rows
        >>> rows = [{"page": "/a", "ms": 12}, {"page": "/b", "ms": 120}]
        >>> hits = StreamBuilder.data_stream("docs", "select").from_array(rows)
        >>> run_rows(hits.split("if(ms > 100, 'slow', 'fast')").select("slow"))
        [{'page': '/b', 'ms': 120}]
        """
        step = self.draft.auto_name("select", name, after=self.step)
        return DataStream(self.draft, self.draft.add(Select(name=step, inputs=(self.step,), label=label)))


def _check_fresh(topology: Topology, within: timedelta | None) -> None:
    """Refuse a `fresh_within` that could not be measured."""
    if within is None:
        return
    if not isinstance(within, timedelta) or within <= timedelta(0):
        raise TopologyError(f"fresh_within must be a time, not {within!r}", remedy="fresh_within=Time.minutes(5)")
    if not any(isinstance(node, TimedState) and not node.untimed for node in topology):
        raise TopologyError("fresh_within needs a step with event time", remedy="leave it out, or add a window")

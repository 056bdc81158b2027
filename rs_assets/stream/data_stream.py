"""A stream of records, and the steps that may follow it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from os import PathLike
from typing import TYPE_CHECKING, Any, get_args

from rs_assets.common.names import checked_owners
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.client.names import SHUFFLES
from rs_assets.errors import TopologyError
from rs_assets.expressions.condition.parse import parse_condition
from rs_assets.expressions.functions.formats import checked_zone
from rs_assets.expressions.script.parse import parse_script
from rs_assets.records.schema import Schema
from rs_assets.stream.dim_join_stream import DimJoinSteps
from rs_assets.stream.draft import Draft, late_sink
from rs_assets.stream.join_stream import JoinSteps
from rs_assets.stream.method_hints import Fluent
from rs_assets.stream.pipeline import Pipeline
from rs_assets.stream.sink_steps import SinkSteps
from rs_assets.stream.window_stream import WindowStream
from rs_assets.topology.check.build import check_fields
from rs_assets.topology.check.io_overlap import check_places
from rs_assets.topology.nodes.distinct import Distinct
from rs_assets.topology.nodes.shuffle import DurableStrategy, Shuffle, ShuffleRead, ShuffleWrite, Strategy
from rs_assets.topology.nodes.sink import MemorySink
from rs_assets.topology.nodes.step import (
    Filter,
    FlatMap,
    ForEach,
    Map,
    Script,
    Select,
    SelectFields,
    Split,
    Union,
    WithFields,
)
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
    from rs_assets.operators.window.output import EmitStrategy
    from rs_assets.operators.window.spec import Window
    from rs_assets.spark.driver import SparkDriver
    from rs_assets.topology.nodes.base import Node

Rows = Iterable[Mapping[str, Any]]
# The sink of a preview.
PREVIEW = "preview"


@dataclass(frozen=True, slots=True)
class DataStream(JoinSteps, DimJoinSteps, SinkSteps, Fluent):
    """The output of one step. Each method adds a step and returns its output; sinks return the same stream.

    A Python function gets a record as a dict of its own, with maps as dicts; a filter gets a mapping that it can only
    read. It must be deterministic, because a batch may be computed again.
    """

    draft: Draft
    step: str

    def map(
        self, first: object, *more: object, schema: Schema | None = None, trace: bool = True, name: str | None = None
    ) -> DataStream:
        """Turn each record into another.

        Either a Python function from dict to dict, with `schema` or a return annotation (TypedDict or dataclass), or a
        select list in SQL or Columns: `.map("page", "ms / 1000 AS seconds")`. The function must return just the fields
        of the schema, each of them: None says that there is no value. `trace=False` leaves it to
        Python, as for `filter`.
        """
        step = self.draft.auto_name("map", name, after=self.step)
        if callable(first) and not is_spark_column(first) and not more:
            function = PythonFunction(first, returned_schema(first, schema, step=step), trace)
            return self._then(Map(name=step, inputs=(self.step,), function=function))
        if schema is not None:
            raise TopologyError(f"step {step!r}: a schema is declared only for a Python function")
        select = tuple(native(e, step=step) for e in (first, *more))
        return self._then(Map(name=step, inputs=(self.step,), select=select))

    def flat_map(
        self, function: object, *, schema: Schema | None = None, trace: bool = True, name: str | None = None
    ) -> DataStream:
        """Turn each record into any number of others: a function that returns a list of dicts, or an SQL generator.

        Each dict must have just the fields of the schema, as for `map`; none and None are no records. `trace=False`
        leaves all records to Python, also those of which it is known that nothing is made.
        """
        step = self.draft.auto_name("flat_map", name, after=self.step)
        if callable(function) and not is_spark_column(function):
            made: Expression = PythonFunction(function, returned_schema(function, schema, step=step), trace)
        else:
            made = expression(function, step=step, schema=schema)
        return self._then(FlatMap(name=step, inputs=(self.step,), expression=made))

    def filter(self, condition: object, *, trace: bool = True, name: str | None = None) -> DataStream:
        """Keep the records for which `condition` is true: SQL text, a Column or a function of a read-only mapping.

        A function is computed by Spark, as far as Spark is known to do the same, without being called; values that it
        takes from outside are those of the moment when the plan is made. `trace=False` leaves it to Python.
        """
        step = self.draft.auto_name("filter", name, after=self.step)
        return self._then(
            Filter(name=step, inputs=(self.step,), condition=expression(condition, step=step, trace=trace))
        )

    def filter_by_expression(self, condition: str, *, name: str | None = None) -> DataStream:
        """Keep the records for which a condition holds: `(age,>,int,18)&((name,like,'a%')|(ip,ipContains,'10.'))`.

        An atom is `(field,operator,value)`, or `(field,operator,type,value)` where a text is to be compared as a number
        or time; `&`, `|` and `!` join atoms. With null or an empty text an atom is false, but for `!in`, `!like`,
        `!regex` and `notContains`, which are true then. TopologyError, with line and column, for what cannot be read.

        >>> from rs_assets import StreamBuilder
        >>> hits = StreamBuilder.data_stream("docs", "wide").from_file("in.jsonl", schema="page string, ms bigint")
        >>> hits.filter_by_expression("(ms,>,100)&!(page,in,'/health,/ready')").to_print().build().name
        'docs.wide'
        """
        step = self.draft.auto_name("filter", name, after=self.step)
        parse_condition(condition)
        return self._then(Filter(name=step, inputs=(self.step,), condition=ConditionText(condition)))

    def script(self, text: str, *, zone: str = "UTC", strict: bool = False, name: str | None = None) -> DataStream:
        """Fill, drop, rename and multiply by a script: `x=trim(a);if(x==''){break()}else{n=length(x)}`.

        Functions are those of docs/functions.md. A bare word is a field, or the word itself where there is no such
        field; with `strict` that is an error. Numbers compare as numbers, texts in quotes as texts. `zone` is that of
        times which are written without one. What a function cannot compute is null. TopologyError, with line and
        column, for what cannot be read, or fits no field.

        >>> from rs_assets import StreamBuilder
        >>> hits = StreamBuilder.data_stream("docs", "kinds").from_file("in.jsonl", schema="page string, ms bigint")
        >>> kinds = hits.script("page=lower(page);if(ms>100){kind='slow'}else{kind='fast'}")
        >>> kinds.to_print().build().name
        'docs.kinds'
        """
        step = self.draft.auto_name("script", name, after=self.step)
        parse_script(text)
        return self._then(Script(name=step, inputs=(self.step,), text=text, zone=checked_zone(zone), strict=strict))

    def for_each(self, function: Callable[[Record], Any], *, name: str | None = None) -> DataStream:
        """Call `function` for its side effect; a batch that is repeated calls it again.

        The record goes on as it came, whatever the function does to its dict.
        """
        step = self.draft.auto_name("for_each", name, after=self.step)
        if not callable(function):
            raise TopologyError(f"step {step!r} takes a function, not {function!r}")
        return self._then(ForEach(name=step, inputs=(self.step,), function=PythonFunction(function)))

    def select_fields(self, *fields: str, name: str | None = None) -> DataStream:
        """Keep only these fields, in this order."""
        step = self.draft.auto_name("select_fields", name, after=self.step)
        return self._then(SelectFields(name=step, inputs=(self.step,), fields=fields))

    def with_fields(self, *, name: str | None = None, **columns: object) -> DataStream:
        """Add or replace fields: `.with_fields(seconds="ms / 1000")`; all are computed from the record as it came."""
        step = self.draft.auto_name("with_fields", name, after=self.step)
        if not columns:
            raise TopologyError(f"step {step!r} adds no field")
        made = tuple((field, native(value, step=step)) for field, value in columns.items())
        return self._then(WithFields(name=step, inputs=(self.step,), columns=made))

    def union(self, *others: DataStream | WindowStream[DataStream], name: str | None = None) -> DataStream:
        """Feed this stream and `others` of the same pipeline into one; duplicates stay, there is no order.

        Branches of one stream may meet again; before a step with state only if the steps between are SQL or Columns.
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
        """Label each record (SQL text, a Column or a function that returns the label); branch with `.select(label)`.

        `trace=False` leaves a function to Python, as for `filter`.
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
        """Spread the rows over `partitions`, by `keys` or evenly.

        `memory` is Spark's exchange inside the query. `delta` (a table below RS_HOME) and `kafka` (a topic, with
        `bootstrap_servers`) part the pipeline into two queries, each with a checkpoint of its own: what stands before
        the shuffle is computed once for all that stands behind it, and steps with state may follow one another.
        All give equal results; a durable one cannot be rewound, only begun anew.
        """
        step = self.draft.auto_name("shuffle", name, after=self.step)
        by = (keys,) if isinstance(keys, str) else tuple(keys)
        if strategy == "memory" and bootstrap_servers is None:
            return self._then(Shuffle(name=step, inputs=(self.step,), partitions=partitions, keys=by))
        if strategy not in get_args(DurableStrategy):
            raise TopologyError(f"step {step!r}: {strategy!r} is no durable shuffle", remedy="use 'delta' or 'kafka'")
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
        """Drop rows that equal an earlier one in `fields`; `name` keys the state. Null equals null.

        Of rows whose event times (`time_field`; without one, of their arrival) lie at most `within` apart just the one
        that comes first passes; of others it may. `water_mark` is how far a row may lie behind the greatest time seen
        before it is late: the same as `within` unless it is given. `late_to` is a Delta table for late rows, as that
        of a window is.

        >>> from rs_assets import StreamBuilder, Time
        >>> orders = StreamBuilder.data_stream("shop", "once").from_file("in.jsonl", schema="id string, ts timestamp")
        >>> once = orders.distinct("id", within=Time.minutes(10), time_field="ts")
        >>> print(once.to_print().build().describe())
        shop.once  fingerprint ...
          file      file_source  [json in.jsonl]
        * distinct  distinct <- file  [id within 0:10:00]
          print     print_sink <- distinct
        """
        node = Distinct(
            name=name,
            inputs=(self.step,),
            fields=fields,
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
        """Begin a windowed aggregation; `name` keys its state, so two windows of a pipeline need names of their own.

        "on_window_close" emits each window once, when the water mark has passed its end. "on_window_update" emits, in
        each batch, the row as it stands of every window that the batch changed, and nothing when a window closes: the
        last row of a window is its result. Into `to_delta(mode="upsert", keys=[group fields and "start_time"])` that
        gives one row a window, always up to date; every other sink gets each update as a row, and `fire_time` tells
        them apart. Steps behind it see updates; steps with state and durable shuffles are refused there. Sessions grow
        and merge: before a session tells another row, the one that it told is taken back by one that is equal but for
        `retracted`, which is true there (`to_delta(..., deletes="retracted")`). So does a `GlobalWindow`, which never
        closes and tells its row, or the ranks of its `top_n`, in each batch that changes them; it takes no `emit`.

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> clicks = StreamBuilder.data_stream("shop", "live").from_file(
        ...     "clicks.jsonl", schema="page string, ts timestamp"
        ... )
        >>> windows = clicks.window(TumblingWindow.of(Time.seconds(10), "ts"), emit="on_window_update").group_by("page")
        >>> live = windows.count("n").to_data_stream().to_delta("live", mode="upsert", keys=["page", "start_time"])
        >>> print(live.build().describe())
        shop.live  fingerprint ...
          file        file_source  [json clicks.jsonl]
        * window      window_aggregate <- file  [tumbling 0:00:10 by page: n, on each update]
          live_table  delta_sink <- window  [upsert live]
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
        """What this step gives for the first `records` of each file, table or array it reads, with all windows fired.

        With `rows` it reads these instead, by the names of the sources if there are several; a number stands for
        `records`. It runs in a folder of its
        own: sinks are not touched, and nothing is kept. `spark` is the SparkDriver to use. TopologyError for a source
        whose first records cannot be told; else errors as for `run()`.

        >>> from rs_assets import StreamBuilder
        >>> hits = StreamBuilder.data_stream("shop", "look").from_array([{"ms": 12}, {"ms": 120}, {"ms": 7}])
        >>> hits.with_fields(slow="ms > 100").preview(2)
        [{'ms': 12, 'slow': False}, {'ms': 120, 'slow': True}]
        """
        from rs_assets.connectors.memory import MemoryChannel
        from rs_assets.runtime.run.preview import preview
        from rs_assets.runtime.run.trial import try_rows
        from rs_assets.spark.driver import SparkDriver

        nodes = self.draft.leading_to(self.step)
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
        """Freeze what leads here, and the branches written beside it since the last `build()`, into a pipeline.

        UserError says what does not fit: TopologyError, UnknownFieldError or SchemaError. Streams are values: they stay
        as they are, and more can be written behind them for the next `build()`.

        `renamed` maps earlier names of steps to those they have now, so that state, offsets and sinks go on under the
        new name: `.build(renamed={"clicks": "page_views"})`. It may stay there for good.

        `description` (Markdown) and `owners` (`team:orders`, or e-mail addresses) are for people: Dagster shows them.
        `fresh_within` is how far the watermark may lie behind the clock before a check of the outputs in Dagster fails;
        no limit without it. TopologyError if no step has event time.
        """
        pairs = tuple((renamed or {}).items())
        topology = Topology(self.draft.namespace, self.draft.job, self.draft.take(self.step), pairs)
        # Here, not at the start: what no query can compute is refused while the pipeline is written.
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
    """A stream whose records carry labels."""

    draft: Draft
    step: str

    def select(self, label: str, *, name: str | None = None) -> DataStream:
        """The branch of the records that carry `label`."""
        step = self.draft.auto_name("select", name, after=self.step)
        return DataStream(self.draft, self.draft.add(Select(name=step, inputs=(self.step,), label=label)))


def _check_fresh(topology: Topology, within: timedelta | None) -> None:
    """Refuse a promise that nothing could be measured by."""
    if within is None:
        return
    if not isinstance(within, timedelta) or within <= timedelta(0):
        raise TopologyError(f"fresh_within must be a time, not {within!r}", remedy="fresh_within=Time.minutes(5)")
    if not any(node.stateful for node in topology):
        raise TopologyError("fresh_within needs a step with event time", remedy="leave it out, or add a window")

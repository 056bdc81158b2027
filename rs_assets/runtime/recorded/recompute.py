"""The rows of partitions of an output, computed from the recorded batches as one batch would."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial, reduce
from itertools import product
from pathlib import Path
from typing import Final

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from rs_assets.common.node import Node
from rs_assets.common.scratch import scratch_folder
from rs_assets.compile.join import joined_of
from rs_assets.compile.planner.context import BadRecordFilter, CompileContext, Flow
from rs_assets.compile.planner.table import LATE as LATE_ROWS
from rs_assets.compile.planner.table import compile_node
from rs_assets.compile.sink import rows_for
from rs_assets.compile.window import windows_of
from rs_assets.connectors.delta.files.event_partitions import EventTimePartitions, PartitionValue
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.delta.table import open_table
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import BadRecordError, DataLossError, SinkError, StepError, TopologyError
from rs_assets.operators.join.spec import AsOf, Interval
from rs_assets.operators.window.durations import EPOCH
from rs_assets.operators.window.event_time import END_OF_TIME
from rs_assets.operators.window.spec import TumblingWindow
from rs_assets.records.admit import expected
from rs_assets.records.columns import ADDRESS, EVENT_TIME, LATE, PASSED, REASON, SOURCE
from rs_assets.records.policy import BadRecords, OnFail
from rs_assets.records.schema import quoted
from rs_assets.runtime.batch.split_watermarks import by_split_of
from rs_assets.runtime.recorded.partitions import Partition
from rs_assets.runtime.recorded.recorded import RecordedQuery, translated
from rs_assets.runtime.replay.replay import Replay
from rs_assets.topology.chain import link_of
from rs_assets.topology.nodes.join import StreamJoin
from rs_assets.topology.nodes.step import ForEach
from rs_assets.topology.nodes.timed import NONE, TimedState
from rs_assets.topology.nodes.window import WindowAggregate
from rs_assets.topology.topology import Topology
from rs_assets.topology.user_code.expression import clock_in

# Batches that are read in one pass; more of them go through files, so that a plan stays small.
AT_ONCE: Final = 24
# Batches of which single records are sought by one job of Spark.
TOGETHER: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """The way of rows to the output over `states`, inputs first; `before` and `after` are the reach of it.

    Rows of a partition `[start, end)` are made of records from `start - before` to `end + after`. `window` is the only
    step with state; None for other ways, and without state.
    """

    topology: Topology
    sink: DeltaSink
    partitions: EventTimePartitions
    window: WindowAggregate | None
    before: timedelta = NONE
    after: timedelta = NONE
    states: tuple[TimedState, ...] = ()

    @classmethod
    def to(cls, topology: Topology, sink: DeltaSink, partitions: EventTimePartitions) -> Way:
        """The way to `sink`; TopologyError if its rows cannot be computed from a part of the records."""
        if sink.mode != "append":
            raise TopologyError(
                f"rows of {sink.name!r} replace each other, so a part of them cannot be computed alone",
                remedy="append them: mode='append'",
                step=sink.name,
            )
        refuse_clock(topology, sink)
        states = states_of(topology, sink)
        unfit = _unfit(states)
        if unfit is not None:
            raise TopologyError(
                f"rows of {sink.name!r} cannot be computed from a part of the records: step {unfit.name!r} is not a"
                " window of a fixed length that emits once, or an inner join with a bound in time before those",
                remedy="begin a new generation, which reads all input again: --new-generation",
                step=unfit.name,
            )
        timed = tuple(node for node in states if isinstance(node, TimedState))
        window = timed[0] if len(timed) == 1 and isinstance(timed[0], WindowAggregate) else None
        before, after = _reach(topology, timed) if window is None else _reach_of_window(window, partitions)
        way = cls(topology=topology, sink=sink, partitions=partitions, window=window)
        return replace(way, before=before, after=after, states=timed)

    @classmethod
    def as_stream(cls, topology: Topology, sink: DeltaSink, partitions: EventTimePartitions) -> Way:
        """That of rows which are computed as a stream, from all records that their steps need."""
        return cls(topology=topology, sink=sink, partitions=partitions, window=None)

    @property
    def root(self) -> TimedState | None:
        """The first step with state, whose rows are judged by the watermark; None without any."""
        return self.states[0] if self.states else None

    @property
    def counted(self) -> bool:
        """Whether each record is known to be in rows of one output, so that it can be accounted for."""
        return self.window is not None or not self.states

    @staticmethod
    def fits(topology: Topology, sink: DeltaSink) -> bool:
        """Whether mode and steps with state let rows of a partition be computed from a part of the records."""
        return sink.mode == "append" and sink.partitions is not None and _unfit(states_of(topology, sink)) is None

    def reach(self, partition: Partition) -> tuple[datetime, datetime]:
        """The event times of the records of a partition: `[start, end)`."""
        return partition.start - self.before, partition.end + self.after


def _reach_of_window(window: WindowAggregate, partitions: EventTimePartitions) -> tuple[timedelta, timedelta]:
    longest, by_start = window.window.longest, partitions.field == "start_time"
    # A window's `fire_time` is after its end by the delay.
    before = NONE if by_start else longest + (window.delay if partitions.field == "fire_time" else NONE)
    return before, longest if by_start else NONE


def _reach(topology: Topology, states: Sequence[TimedState]) -> tuple[timedelta, timedelta]:
    """That of any field with a time of the last step, which may be that of a firing."""
    links = [link_of(topology.links, node) for node in states]
    fired = sum((link.lag + link.water_mark for link in links), NONE)
    longest = sum((age_of(node) or NONE for node in states), fired)
    return longest, longest


def states_of(topology: Topology, sink: DeltaSink) -> Sequence[Node]:
    """The steps with state that the rows of a sink have passed, inputs first."""
    above = topology.ancestors(sink.name)
    return [node for node in topology if node.stateful and node.name in above]


def _unfit(states: Sequence[Node]) -> Node | None:
    """The first step of which a part of the records does not give a part of the rows; None without any."""
    return next((node for number, node in enumerate(states) if not _in_parts(node, first=number == 0)), None)


def _in_parts(node: Node, *, first: bool) -> bool:
    if isinstance(node, StreamJoin):
        # Rows of a hopping window are late for some of its windows, and not for others.
        bounded = isinstance(node.bound, Interval | TumblingWindow)
        return first and bounded and node.how == "inner" and node.variable is None
    return isinstance(node, WindowAggregate) and emits_once(node)


def age_of(node: Node) -> timedelta | None:
    """How much older than a row of a step its records may be; None if that is not limited."""
    if isinstance(node, WindowAggregate):
        return node.window.longest + node.firing.hold if node.window.by_time else None
    if isinstance(node, StreamJoin):
        if isinstance(node.bound, AsOf):
            return node.bound.tolerance
        if isinstance(node.bound, Interval):
            return node.bound.reach
        return None if node.bound is None else node.bound.longest
    # A row that is remembered drops later ones until the watermark has passed it, whatever their time.
    return None


def refuse_clock(topology: Topology, sink: DeltaSink) -> None:
    """TopologyError for a step that asks for the clock: only Spark's stream knows that of a recorded batch."""
    for node in topology:
        asked = clock_in(node) if node.name in topology.ancestors(sink.name) else None
        if asked is not None:
            raise TopologyError(
                f"step {node.name!r} asks for the clock ({asked}), which is another one when rows are computed again",
                remedy="take the time from a field of the records",
                step=node.name,
            )


def emits_once(window: WindowAggregate) -> bool:
    """Whether its windows are emitted once, by Spark's own operator, and have a fixed length."""
    fixed = window.window.by_time and window.event_time is not None
    return fixed and not window.fired and not window.updates


@dataclass(frozen=True, slots=True)
class AsInARun(BadRecordFilter):
    """Filters rows after a window as a run does, without counts and dead letters."""

    def filter_bad_records(self, frame: DataFrame, *, step: str, policy: BadRecords, counted: bool) -> DataFrame:  # noqa: ARG002
        """`frame` without bad rows."""
        return frame.filter(F.col(REASON).isNull()).drop(REASON)

    def expect(self, frame: DataFrame, *, step: str, on_fail: OnFail) -> DataFrame:
        """The rows that an expectation lets pass; one that ends a run raises."""
        return expected(frame, step=step, on_fail=on_fail, counted=False)


@dataclass(frozen=True, slots=True)
class Written:
    """The table of an output as it is, and the mark of the last batch of which it has the rows."""

    path: str
    table: DeltaTable
    mark: BatchMark

    @classmethod
    def by(cls, query: RecordedQuery, sink: DeltaSink) -> Written:
        """The table that a query writes; SinkError if it is gone."""
        session = query.recorded.session
        # Before the table is opened: the rows of these batches are in it.
        committed = query.log.last_committed()
        path = session.options.home.table(session.topology.namespace, sink.table)
        table = open_table(path)
        if table is None:
            remedy = "run the pipeline until this output has rows; if it had some, restore the table"
            raise SinkError("there is no table", remedy=remedy, step=sink.name, table=path)
        name = session.manifest.aliases.get(sink.name, sink.name)
        mark = BatchMark(session.manifest.pipeline_id, session.facts(query.plan).generation, name, committed)
        written = table.transaction_version(mark.writer)
        # A batch may be in the table that Spark has not committed yet.
        return cls(path, table, replace(mark, batch_id=max(committed, -1 if written is None else written)))


@dataclass(frozen=True, slots=True)
class Recompute:
    """The rows of some partitions, the first one first, on the driver's thread.

    `takes_late`: whether the late records of a batch are taken.
    """

    spark: SparkSession
    query: RecordedQuery
    way: Way
    partitions: tuple[Partition, ...]
    takes_late: Callable[[int], bool]

    @property
    def partition(self) -> Partition:
        """The only partition."""
        (only,) = self.partitions
        return only

    @property
    def value(self) -> PartitionValue:
        """The value of the only partition."""
        return self.way.partitions.parse(self.partition.key)

    @property
    def reaches(self) -> Sequence[tuple[datetime, datetime]]:
        """The event times of the records of the partitions, as few spans `[start, end)` in their order."""
        spans = list[tuple[datetime, datetime]]()
        for begin, end in map(self.way.reach, self.partitions):
            # Their ends are in the order of their starts.
            spans.append((spans.pop()[0] if spans and begin <= spans[-1][1] else begin, end))
        return spans

    @contextmanager
    def reading(self, batches: Sequence[int]) -> Iterator[Path]:
        """A folder while the rows of `batches` are computed; a record that ends that is named with its position."""
        try:
            with translated(self.query.plan.name), scratch_folder("rs-recompute-") as folder:
                yield folder
        except (BadRecordError, StepError) as error:
            found = self.query.located(error, batches)
            # As it is if it is a row of a window.
            if found is error:
                raise
            raise found from error

    def batches(self, last: int) -> list[int]:
        """The batches up to `last` that may have records of the partitions.

        DataLossError if one of them is not recorded, or its input was removed or edited.
        """
        known = [batch for batch in self.query.batches(older=self.query.recalls) if batch <= last]
        oldest = min(known, default=last + 1)
        if oldest > 0 and not self._passed_by(oldest):
            raise DataLossError(
                f"the batches before {oldest} are no longer recorded, and may have read records of the partition"
                f" {self.partitions[0].key}",
                remedy="take younger partitions: the catalog keeps batches for RS_CATALOG_DAYS, but about a hundred"
                " where lateness is judged by record or a dimension is looked up; a home that began from an upload has"
                " those since then",
                pipeline=self.way.topology.name,
                query=self.query.plan.name,
            )
        # Without any, one of them gives the columns; none of its records is in reach.
        batches = sorted(self._holding(known)) or known[:1]
        for batch in batches:
            self.query.refuse_removed(batch)
            self.query.verify(batch)
        return batches

    def _passed_by(self, oldest: int) -> bool:
        """Whether all records before a batch were older than those of the partitions, as far as that is known."""
        return self.way.root is not None and passed_by(self.query, oldest, self.reaches[0][0])

    def _holding(self, batches: Sequence[int]) -> Iterator[int]:
        """Those of `batches` that may have records in reach, by the event times that the catalog has."""
        root, reaches = self.way.root, self.reaches
        times = [self.query.times(side.gate) for side in (root.sides if root is not None else ())]
        for batch in batches:
            offsets = self.query.log.offsets(batch)
            asked = product(times, reaches)
            if root is None or offsets is None or any(t.may_hold(batch, offsets.started, *reach) for t, reach in asked):
                yield batch

    def rows(self, batches: Sequence[int], folder: Path) -> DataFrame:
        """The rows of the partitions, made of the records of `batches`."""
        root = self.way.root
        if root is None:
            return together(self.spark, (self._within(self._written(batch)) for batch in batches), folder)
        records = together(self.spark, (self._taken(root, batch) for batch in batches), folder)
        # Dimensions after the state are the current ones.
        versions = self.query.context.noted(self.query.log.last_committed())
        context = replace(self.query.context, record_filter=AsInARun(), versions=versions)
        flows = {root.name: Flow(_emitted(context, root, records))}
        topology, sink = self.way.topology, self.way.sink
        for name in self.query.plan.nodes:
            node = topology[name]
            if root.name not in topology.ancestors(name) or name not in topology.ancestors(sink.name):
                continue
            inputs = tuple(flows[each] for each in node.inputs)
            flow = inputs[0] if isinstance(node, ForEach) else compile_node(context, node, inputs)
            flows[name] = Flow(_emitted(context, node, flow.df)) if isinstance(node, TimedState) else flow
        return self._within(rows_for(sink, flows[sink.inputs[0]].df))

    def _within(self, rows: DataFrame) -> DataFrame:
        """Those of the partitions; others are of windows of which only a part of the records was read."""
        return within(rows, self.way.partitions, *self.partitions)

    def _written(self, batch: int) -> DataFrame:
        """The rows of a batch for the output."""
        sink = self.way.sink
        return rows_for(sink, self._replay(batch).wired.flows[sink.inputs[0]].df)

    def _taken(self, root: TimedState, batch: int) -> DataFrame:
        """The records of a batch that the first state takes, in reach of what is made; PASSED if it closes windows."""
        replay = self._replay(batch)
        rows = replay.wired.flows[root.name].df.drop(SOURCE, *ADDRESS)
        at = F.col(EVENT_TIME)
        rows = rows.filter(reduce(operator.or_, ((at >= F.lit(a)) & (at < F.lit(b)) for a, b in self.reaches)))
        if self.takes_late(batch):
            # Other batches may have PASSED.
            return rows.drop(LATE).withColumn(PASSED, F.lit(None).cast(TimestampType()))
        passed = F.lit(replay.passed(root.name))
        if LATE in rows.columns:
            rows, passed = rows.filter(~F.coalesce(F.col(LATE), F.lit(False))).drop(LATE), F.greatest(passed, PASSED)  # noqa: FBT003
        return rows.withColumn(PASSED, passed).filter(~LATE_ROWS[type(root)](root, F.col(PASSED)))

    def _replay(self, batch: int) -> Replay:
        kept = partial(self.query.kept, batch, into=self.way.sink)
        return self.query.replay(batch, kept, strict=True, addressed=False)


def within(rows: DataFrame, partitions: EventTimePartitions, *chosen: Partition) -> DataFrame:
    """Those of some partitions, of a table that has their column."""
    values = (partitions.parse(each.key) for each in chosen)
    return rows.filter(F.col(quoted(partitions.column)).isin(*map(F.lit, values)))


def latest_before(query: RecordedQuery, batch: int) -> datetime | None:
    """An event time that no record before a batch exceeds: by its watermark, or its clock; None if neither says it."""
    plan, offsets, topology = query.plan, query.log.offsets(batch), query.recorded.session.topology
    steps = [each for each in map(topology.__getitem__, plan.watermark_steps) if isinstance(each, TimedState)]
    if offsets is None or not steps:
        return None
    latest = []
    ahead = max(each.believed.max_ahead for each in steps)
    if ahead <= END_OF_TIME - offsets.started:
        latest.append(offsets.started + ahead)
    sides = plan.sides(topology)
    if len(sides) == 1 and by_split_of(topology, plan) is None and offsets.watermark > EPOCH:
        # Spark's watermark is the greatest event time less the delay.
        latest.append(offsets.watermark + sides[0].water_mark)
    return min(latest, default=None)


def passed_by(query: RecordedQuery, batch: int, begin: datetime) -> bool:
    """Whether all records before a batch were older than `begin`, as far as that is known."""
    latest = latest_before(query, batch)
    return latest is not None and latest < begin


def _emitted(context: CompileContext, node: TimedState, rows: DataFrame) -> DataFrame:
    """The rows that a step with state emits for `rows`, which have its event times, once all windows have closed."""
    if isinstance(node, StreamJoin):
        return joined_of(context, node, rows)
    assert isinstance(node, WindowAggregate)  # a way has no others
    return windows_of(context, node, rows)


def together(spark: SparkSession, frames: Iterator[DataFrame], folder: Path) -> DataFrame:
    """The rows of many batches as one frame: some at once, more of them through files in `folder`."""
    waiting, parts = list[DataFrame](), list[DataFrame]()
    for frame in frames:
        waiting.append(frame)
        if len(waiting) == AT_ONCE:
            parts.append(_stored(spark, union(waiting), folder / str(len(parts))))
            waiting = []
    return union([*parts, *waiting])


def _stored(spark: SparkSession, rows: DataFrame, folder: Path) -> DataFrame:
    rows.write.parquet(str(folder))
    return spark.read.schema(rows.schema).parquet(str(folder))


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of all `frames`, by name; there must be one."""
    return reduce(lambda one, other: one.unionByName(other), frames)

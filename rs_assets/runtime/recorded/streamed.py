"""Recorded batches through the current code as a stream: in their cuts, by their watermarks, into an own table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rs_assets.checkpoint.source_log import SourceLog
from rs_assets.common.home import Home
from rs_assets.common.node import Node
from rs_assets.common.scratch import scratch_folder
from rs_assets.compile.late_sinks import gets_late
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.compile.readers import batch_reader, reader_of
from rs_assets.connectors.delta.log.history import NO_ROWS
from rs_assets.connectors.delta.log.store import rows_at
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.delta.table import open_table
from rs_assets.connectors.files.lines.reader import LinesReader
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.connectors.memory.nodes import MemorySink, MemorySource
from rs_assets.connectors.nodes import Sink, Source
from rs_assets.connectors.sink import BatchMark, Staged
from rs_assets.connectors.source import Ordered
from rs_assets.errors import DataLossError, TopologyChangedError, TopologyError
from rs_assets.operators.window.durations import EPOCH
from rs_assets.operators.window.splits import BySplit, Latest, SplitNotes
from rs_assets.records.admit import admit
from rs_assets.records.columns import LINE, OFFSET, REASON, SPLIT, visible
from rs_assets.records.schema import quoted, schema_text
from rs_assets.runtime.batch.execution import BatchExecution
from rs_assets.runtime.batch.query import QueryRun, every
from rs_assets.runtime.batch.split_watermarks import SplitWatermarks, by_split_of
from rs_assets.runtime.job.opening import opened
from rs_assets.runtime.job.session import JobSession
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.recorded.partitions import Partition
from rs_assets.runtime.recorded.recompute import Written, age_of, passed_by, refuse_clock, states_of
from rs_assets.runtime.recorded.recorded import Recorded, RecordedQuery, translated
from rs_assets.runtime.recorded.since import Since, rows_since, with_rows
from rs_assets.runtime.run.quarantine import process_all
from rs_assets.runtime.run.run import wire_all
from rs_assets.spark.settings import NO_DATA
from rs_assets.topology.nodes.distinct import Distinct
from rs_assets.topology.nodes.join import StreamJoin
from rs_assets.topology.nodes.shuffle import ShuffleWrite
from rs_assets.topology.nodes.step import ForEach
from rs_assets.topology.nodes.timed import NONE
from rs_assets.topology.nodes.window import WindowAggregate
from rs_assets.topology.topology import Topology

# Spark looks up more files by a job of their own.
FEW_FILES: Final = 32
TRIGGER: Final = every(timedelta(milliseconds=20))
# The table that the rows go to, in the folder of the trial.
ROWS: Final = "rows"
# The states whose changes follow from the records of a batch and its watermark.
REPLAYED: Final = (WindowAggregate, StreamJoin, Distinct)
ELSEWHERE: Final = "run it in another home from the beginning of its input (RS_HOME), and compare the tables there"


def refuse_streamed(topology: Topology, sink: DeltaSink) -> None:
    """TopologyError if recorded batches would not give the rows of `sink` again."""
    refuse_clock(topology, sink)
    plan = next(plan for plan in plan_queries(topology) if sink.name in plan.sinks)
    why = next(_reasons(topology, plan, sink), None)
    if why is not None:
        raise TopologyError(f"rows of {sink.name!r} cannot be computed again: {why}", remedy=ELSEWHERE, step=sink.name)


def _reasons(topology: Topology, plan: QueryPlan, sink: DeltaSink) -> Iterator[str]:
    by_split = by_split_of(topology, plan)
    if by_split is not None and by_split.by_record:
        yield "its query judges by record which rows are late, which depends on the order of its splits"
    if sink.mode == "history" and sink.time_field is None:
        yield "its versions are valid from the time at which a batch is written"
    if not plan.states and sink.mode == "upsert" and not sink.order_by and len(plan.sources) > 1:
        yield "of the rows of a key that one stays which was read last, and they come from several sources"
    written = next((name for name in plan.sinks if isinstance(topology[name], ShuffleWrite)), None)
    if written is not None:
        yield f"its query writes the durable shuffle {written!r}"
    for node in map(topology.__getitem__, plan.states):
        if not isinstance(node, REPLAYED):
            yield f"the state of step {node.name!r} depends on the order in which rows arrive"
        elif not node.untimed and any(side.time_field is None for side in node.sides):
            yield f"step {node.name!r} goes by the order or the time of arrival"


@dataclass(frozen=True, slots=True)
class Tables:
    """A table as it is, and as the current code leaves it; without columns of the clock.

    `savepoint` is the id of the one that was gone on from, empty for none.
    """

    written: Written
    batches: Sequence[int]
    stored: DataFrame
    made: DataFrame
    savepoint: str = ""


@contextmanager
def streamed_table(
    spark: SparkSession,
    recorded: Recorded,
    sink: DeltaSink,
    chosen: Sequence[Partition] | None,
    savepoint_id: str | None = None,
) -> Iterator[Tables]:
    """Both tables, as far as closed partitions need it; None: all of it. On the driver's thread.

    With a savepoint its state goes on: of rows that are only appended both have those since then, and the second one
    those that the first one has lost since.
    """
    query = recorded.query(spark, recorded.plan_of(sink.name))
    written = Written.by(query, sink)
    since = None if savepoint_id is None else Since.named(recorded, query.plan, savepoint_id)
    with scratch_folder("rs-streamed-") as folder, translated(query.plan.name):
        streamed = Streamed(spark, query, sink, folder, since)
        batches = streamed.needed(written.mark.batch_id, chosen)
        stored = rows_at(spark, written.path, written.table.version())
        removed = None
        if since is not None and sink.mode != "complete":
            version = since.version(written)
            if sink.mode == "append":
                stored, removed = rows_since(spark, written, version)
            elif version != NO_ROWS:
                streamed.begin_with(written, version)
        made = streamed.rows(batches)
        clock = by_clock(recorded.session.topology, sink)
        made = stored.limit(0) if made is None else made
        made = made if removed is None else with_rows(made, removed)
        yield Tables(written, batches, stored.drop(*clock), made.drop(*clock), since.savepoint.id if since else "")


def by_clock(topology: Topology, sink: DeltaSink) -> tuple[str, ...]:
    """The columns with times of the clock at which a row was emitted: another one when it is computed again."""
    often = (isinstance(node, WindowAggregate) and node.often for node in states_of(topology, sink))
    return ("fire_time",) if any(often) else ()


@dataclass(frozen=True, slots=True)
class Streamed:
    """The rows of one output, on the driver's thread; `folder` has all that is written meanwhile.

    They begin with the state of a savepoint, or with an empty one.
    """

    spark: SparkSession
    query: RecordedQuery
    sink: DeltaSink
    folder: Path
    since: Since | None = None

    @property
    def topology(self) -> Topology:
        """The pipeline, as the current code has it."""
        return self.query.recorded.session.topology

    def needed(self, last: int, chosen: Sequence[Partition] | None) -> Sequence[int]:
        """The batches up to `last` that the rows of closed partitions need, in their order; None: those of the table.

        DataLossError if one of them is not recorded, or its input was removed or edited.
        """
        if not chosen:
            return self._batches(last, None, None)
        closing = self.topology.closings[self.sink.name]
        ends = closing.by_watermark and self.sink.mode == "append"
        return self._batches(last, chosen[0].start, closing.closes(chosen[-1].end) if ends else None)

    def _batches(self, last: int, since: datetime | None, closes: datetime | None) -> Sequence[int]:
        """Those for rows of event times from `since` on, of which the last is emitted by the watermark `closes`."""
        if last <= self._begun:
            return ()
        known = [batch for batch in sorted(self.query.batches(older=True)) if self._begun < batch <= last]
        reach = self._reach()
        begin = None if since is None or reach is None or self.since is not None else since - reach
        ahead = bool(known) and known[0] > self._begun + 1
        if not known or (ahead and (begin is None or not passed_by(self.query, known[0], begin))):
            raise DataLossError(
                f"the batches before {known[0] if known else last} are no longer recorded, and rows of"
                f" {self.sink.name!r} depend on their records",
                remedy="compare the rows since a later savepoint, if there is one (rs-assets try --savepoint ID); or"
                f" begin a new generation, which reads all input again (--new-generation); or {ELSEWHERE}",
                pipeline=self.topology.name,
                query=self.query.plan.name,
            )
        first = next((batch for batch in known if begin is None or self._may_matter(batch, begin)), known[-1])
        needed = [batch for batch in known if first <= batch <= self._end(known, closes)]
        for batch in needed:
            self.query.refuse_removed(batch)
            self.query.verify(batch)
        return needed

    @property
    def _begun(self) -> int:
        """The last batch whose records are in the state at the begin; -1 for none."""
        return -1 if self.since is None else self.since.batch

    def begin_with(self, written: Written, version: int) -> None:
        """Let the table begin with the rows of a version of the compared one."""
        parts = written.table.metadata().partition_columns
        rows = rows_at(self.spark, written.path, version)
        rows.write.format("delta").partitionBy(*parts).save(str(self.folder / ROWS))

    def rows(self, batches: Sequence[int]) -> DataFrame | None:
        """The table after `batches`, as the current code writes it; None if it has no row. Called once."""
        if batches:
            try:
                self._compute(batches)
            except TopologyChangedError as error:
                remedy = "compare from the first recorded batch on, without a savepoint"
                raise TopologyChangedError(error.what, remedy=remedy, **error.facts) from error
        path = str(self.folder / ROWS)
        table = open_table(path)
        return None if table is None else read_made(self.spark, path, table)

    def _compute(self, batches: Sequence[int]) -> None:
        """Write the rows of `batches` into the own table."""
        channels = {source.name: self._channel(source, batches[0]) for source in self._sources}
        options = self.query.recorded.session.options
        apart = RunOptions(
            home=Home(self.folder / "home", tables_of=options.home),
            driver=options.driver,
            max_line_bytes=options.max_line_bytes,
            connector=options.connector,
            max_poisons=options.max_poisons,
            trace=options.trace,
            # The current code goes on from the state of another, and its sources are of another kind.
            keep_state=True,
        ).apart()
        topology = self._apart(channels)
        others = {sink.name: _Unwritten(sink.name) for sink in topology.sinks if sink.name != self.sink.name}
        if self.since is not None:
            self.since.begin(apart.home.job(topology.namespace, topology.job), self.query.plan)
        with opened(topology, apart, writers=others) as session, _own_batches(self.spark):
            wire_all(session, self.spark)
            [run] = session.queries.values()
            again = _Again(session, run, RecordedWatermark.of(run))
            again.start()
            begun = self.query.log.offsets(batches[0])
            if batches[0] > 0 and begun is not None and self.since is None:
                again.batch({}, begun.watermark)
            for batch in batches:
                files = {channels[source.name]: self._files(source, batch) for source in self._sources}
                again.batch(files, self.query.watermark_after(batch))

    @property
    def _sources(self) -> Sequence[Source]:
        return [source for source in self.topology.sources if source.name in self.query.plan.sources]

    def _end(self, known: Sequence[int], closes: datetime | None) -> int:
        for batch in known if closes is not None else ():
            offsets = self.query.log.offsets(batch)
            if offsets is not None and closes is not None and offsets.watermark >= closes:
                return batch
        return known[-1]

    def _reach(self) -> timedelta | None:
        """How much older than a row the records may be that it is made of; None if that is not limited."""
        ages = [age_of(node) for node in map(self.topology.__getitem__, self.query.plan.states)]
        return None if None in ages else sum(filter(None, ages), NONE)

    def _may_matter(self, batch: int, begin: datetime) -> bool:
        """Whether a batch may have records of event times from `begin` on, at any gate; without gates any may."""
        offsets, gates = self.query.log.offsets(batch), self.query.plan.watermark_inputs
        times = (self.query.times(gate) for gate in gates)
        return not gates or offsets is None or any(t.may_hold(batch, offsets.started, begin, None) for t in times)

    def _apart(self, channels: Mapping[str, MemoryChannel]) -> Topology:
        """The steps of the query, with sources and sinks of their own, and without side effects."""
        known, plan = self.topology, self.query.plan
        passed = {node.name: node.inputs[0] for node in known if isinstance(node, ForEach)}

        def before(name: str) -> str:
            return before(passed[name]) if name in passed else name

        def made(node: Node) -> Node:
            if isinstance(node, Source):
                return MemorySource(name=node.name, channel=channels[node.name], policy=node.bad_records)
            inputs = tuple(map(before, node.inputs))
            if isinstance(node, DeltaSink):
                place = ROWS if node.name == self.sink.name else f"other_{node.name}"
                return replace(node, inputs=inputs, table=str(self.folder / place), change_feed=False)
            if isinstance(node, Sink) and not gets_late(node):
                return MemorySink(name=node.name, inputs=inputs, channel=MemoryChannel())
            return replace(node, inputs=inputs)

        nodes = (node for node in known if node.name in plan.nodes and node.name not in passed)
        # A query of the pipeline itself may run in this session, under the name of its job.
        made_of = tuple(map(made, nodes))
        here = {node.name for node in made_of}
        renamed = tuple((old, new) for old, new in known.renamed if new in here)
        return Topology(known.namespace, f"try_{known.job}"[:63], made_of, renamed)

    def _read(self, source: Source, batch: int) -> DataFrame:
        context = self.query.context
        # Without an order of its records a batch is read as the stream has read it.
        context = replace(context, addressed=context.ordered or context.by_record)
        rows = batch_reader(self.query.log, batch)(context, source)
        return self.query.kept(batch, source, rows, into=self.sink)

    def _channel(self, source: Source, batch: int) -> MemoryChannel:
        rows = self._read(source, batch)
        return MemoryChannel(schema=schema_text(rows.select(*_fields(rows)).schema, step=source.name))

    def _files(self, source: Source, batch: int) -> Sequence[Path]:
        """The records of a batch that a source accepts, in files of Parquet, in their order if it matters."""
        log, context = SourceLog(self.query.log, source.name), self.query.context
        if log.offset(batch) == log.offset(batch - 1):
            return ()
        folder = self.folder / "records" / f"{batch}.{source.name}"
        good = self._read(source, batch)
        if REASON in good.columns:
            good = admit(good, gate=source.name, step=source.name, policy=source.bad_records, counted=False)
        if context.ordered or context.by_record:
            good = good.repartition(1).sortWithinPartitions(*self._order(source, log, batch))
        try:
            good.select(*_fields(good)).write.parquet(str(folder))
        except Exception as error:
            found = self.query.replay(batch, lambda _, rows: rows).first_bad()
            if found is None:
                raise
            raise found from error
        return sorted(folder.glob("part-*"))

    def _order(self, source: Source, log: SourceLog, batch: int) -> Sequence[Column]:
        """The order in which a batch has read its records: of files by their times, then by place."""
        place = [F.length(SPLIT), F.col(SPLIT), F.col(LINE), F.col(OFFSET)]
        reader, part = reader_of(source), log.batch(batch)
        if isinstance(reader, Ordered):
            names = [str(file.local) for file in sorted(part.files, key=lambda file: (file.modified_ms, file.path))]
        elif isinstance(reader, LinesReader) and not self.query.context.scattered:
            names = [*reader.splits(part)]
        else:
            return place
        return [F.array_position(F.array(*map(F.lit, names)), F.col(SPLIT)), *place]


def read_made(spark: SparkSession, path: str, table: DeltaTable) -> DataFrame:
    """The rows of a table that its own query has just written: of a few plain files without the jobs of Delta."""
    files = table.file_uris()
    plain = table.protocol().min_reader_version == 1 and not table.metadata().partition_columns
    if not plain or not 0 < len(files) <= FEW_FILES:
        return spark.read.format("delta").load(path)
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    return spark.read.schema(schema).parquet(*files)


def _fields(rows: DataFrame) -> list[Column]:
    return [F.col(quoted(name)) for name in visible(rows.columns)]


@contextmanager
def _own_batches(spark: SparkSession) -> Iterator[None]:
    """Spark adds no batch by itself meanwhile; other queries are started on the same thread, so not until then."""
    before = spark.conf.get(NO_DATA)
    spark.conf.set(NO_DATA, "false")
    try:
        yield
    finally:
        spark.conf.set(NO_DATA, before or "true")


@dataclass(slots=True, kw_only=True)
class RecordedWatermark(SplitWatermarks):
    """The watermark of a query, as it was after the recorded batch, whatever the event times of its rows.

    `delay` is the longest of its gates.
    """

    delay: timedelta
    moves_to: int | None = None

    @classmethod
    def of(cls, run: QueryRun) -> RecordedWatermark:
        """That of a query with state."""
        delays = [side.water_mark for side in run.plan.sides(run.topology)]
        return cls(
            gate="",
            by_split=BySplit(),
            notes=SplitNotes(run.work.folder),
            there=lambda _: iter(()),
            delay=max(delays, default=NONE),
        )

    def move(self, after: datetime | None) -> None:
        """Where the next batch moves it; None, or a time before 1970: nowhere."""
        moves = after is not None and after > EPOCH
        self.moves_to = (after - EPOCH + self.delay) // timedelta.resolution if moves and after is not None else None

    def before(self, batch_id: int) -> Latest:  # noqa: ARG002  the base's form
        """Nothing: no split is judged by its own records."""
        return {}

    def advance(self, execution: BatchExecution, batch_id: int, *, first: int) -> None:  # noqa: ARG002  the base's form
        """Set the event time of the computed batch to that which gives the recorded watermark."""
        execution.move_event_time(self.moves_to)

    def due(self) -> datetime | None:
        """Never: each batch is given."""
        return None


@dataclass(frozen=True, slots=True)
class _Unwritten:
    """The writer of an output that is not compared: it takes no rows."""

    name: str

    def location(self) -> str:
        """Nowhere."""
        return "not written"

    def committed(self, mark: BatchMark) -> bool:  # noqa: ARG002  the protocol's form
        """Never: it has no memory."""
        return False

    def last_committed(self, mark: BatchMark) -> int | None:  # noqa: ARG002  the protocol's form
        """None: it has no memory."""
        return None

    def check_rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> None:
        """Always possible."""

    def rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> str:  # noqa: ARG002  the protocol's form
        """Does nothing."""
        return "is not written"

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:  # noqa: ARG002  the protocol's form
        """Nothing is computed."""
        return Staged(lambda: 0)


@dataclass(frozen=True, slots=True)
class _Again:
    """A query that computes one recorded batch after the other."""

    session: JobSession
    run: QueryRun
    watermark: RecordedWatermark

    def start(self) -> None:
        """Begin with an empty state."""
        if self.run.plan.stateful:
            self.run.work.marks = self.watermark
        self.run.start(TRIGGER)

    def batch(self, files: Mapping[MemoryChannel, Sequence[Path]], after: datetime | None) -> None:
        """One batch of the records in `files`, or without any, which moves the watermark to `after`."""
        with self.run.planning_held():
            rows = sum(channel.add_files(each) for channel, each in files.items())
            self.watermark.move(after)
            if not rows and self.run.plan.stateful:
                # This control row makes a batch; what it moves is replaced.
                self.run.move_watermark(EPOCH, [*self.run.plan.controls][:1])
        process_all(self.session, self.run, TRIGGER)

"""Which records a row of a result is made of: the batches are read again, up to the state or the sink of the row."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, TimestampType

from rs_assets.catalog.batch_times import BatchTimes
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.common.node import Node
from rs_assets.common.plural import count_of
from rs_assets.compile.late_rows import WATERMARK
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.errors import ConfigurationError, DataError, TopologyError
from rs_assets.operators.window.assign import EDGES, WINDOW, assigned, copied
from rs_assets.records.columns import LATE, LINE, PASSED, RAW, SOURCE, SPLIT, visible
from rs_assets.records.schema import quoted
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.recorded.closed import filled_late
from rs_assets.runtime.recorded.recompute import Way
from rs_assets.runtime.recorded.recorded import Recorded, RecordedQuery, named, translated
from rs_assets.runtime.replay.replay import Replay
from rs_assets.topology.nodes.timed import NONE
from rs_assets.topology.nodes.window import WindowAggregate
from rs_assets.topology.topology import Topology


@dataclass(frozen=True, slots=True)
class RecordOf:
    """One record: its source, place, text as far as the source has one, and the batch that read it."""

    source: str
    split: str
    line: int
    text: str | None
    batch_id: int

    def __str__(self) -> str:
        """A line for people."""
        return f"line {self.line} of {self.split!r} ({self.source}), batch {self.batch_id}  {self.text or ''}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """The records of a row: how many, and the first of them, the newest batch first.

    `since` is the oldest batch that was searched, 0 if all of them were. Batches that have no event time of the window,
    as the catalog knows, were not read again.
    """

    rows: int
    since: int
    records: tuple[RecordOf, ...]

    def as_dict(self) -> dict[str, Any]:
        """All of it, as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        """The number of rows, and a line for each record."""
        head = f"{count_of(self.rows, 'row')} of records, in the batches since {self.since}"
        return "\n".join([head, *(f"  {record}" for record in self.records)])


def records_of(
    topology: Topology,
    row: Mapping[str, Any],
    options: RunOptions | None = None,
    *,
    sink: str | None = None,
    limit: int = 20,
) -> Records:
    """The records that rows of `sink` with the fields `row` are made of, the first `limit` of them.

    Times without a zone are in UTC. ConfigurationError for an unknown sink or field, TopologyError if its rows cannot
    be followed back; otherwise as `why`.
    """
    sinks = [node for node in topology.sinks if node.family == "sink"]
    name = named(sinks, sink, what="sink", pipeline=topology.name).name
    recorded = Recorded.of(topology, RunOptions.of(options))
    plan = recorded.plan_of(name)
    given = {field: _in_utc(value) for field, value in row.items()}
    filled = _Filled.of(recorded, topology, topology[name])
    return recorded.on_driver(
        lambda spark: _Back(recorded.query(spark, plan), topology, name, given, limit, filled).records()
    )


@dataclass(frozen=True, slots=True)
class _Filled:
    """The times `edge` of windows whose late records backfills have taken: ranges, each with the last such batch."""

    edge: str = "start"
    ranges: tuple[tuple[datetime, datetime, int], ...] = ()

    @classmethod
    def of(cls, recorded: Recorded, topology: Topology, sink: Node) -> _Filled:
        """Those of an output; none of one that cannot be backfilled, or by another field than the window's."""
        if not isinstance(sink, DeltaSink) or sink.partitions is None or not Way.fits(topology, sink):
            return cls()
        parts, edge = sink.partitions, EDGES.get(sink.partitions.field)
        if edge is None:
            return cls()
        late = filled_late(recorded, Way.as_stream(topology, sink, parts))
        return cls(edge, tuple((at, parts.end(parts.value_of(at)), last) for at, last in sorted(late.items())))

    def holds(self, window: Column, batch: int) -> Column:
        """Whether late rows of a batch are in the row of a window."""
        joined = list[tuple[datetime, datetime]]()
        for start, end, last in self.ranges:
            if batch <= last:
                begun = joined.pop()[0] if joined and joined[-1][1] == start else start
                joined.append((begun, end))
        at = window[self.edge]
        within = ((at >= F.lit(start)) & (at < F.lit(end)) for start, end in joined)
        return reduce(operator.or_, within, F.lit(False))  # noqa: FBT003


@dataclass(frozen=True, slots=True)
class _Index:
    """The event times of batches, and those that are searched: `[start, end)`, None for any."""

    known: BatchTimes
    log: CheckpointLog
    start: datetime | None
    end: datetime | None

    def knows(self, batch: int) -> bool:
        """Whether the catalog has the event times of a batch."""
        offsets = self.log.offsets(batch)
        return offsets is not None and (batch, offsets.started) in self.known.known

    def may_hold(self, batch: int) -> bool:
        """Whether a batch may have such rows."""
        offsets = self.log.offsets(batch)
        return offsets is None or self.known.may_hold(batch, offsets.started, self.start, self.end)


@dataclass(frozen=True, slots=True)
class _Back:
    """The search for the records of rows of one sink, on the driver's thread."""

    query: RecordedQuery
    topology: Topology
    sink: str
    row: Mapping[str, Any]
    limit: int
    filled: _Filled
    # The values that can be compared with their field.
    fitting: set[tuple[str, str]] = field(default_factory=set)

    def records(self) -> Records:
        """All of them are counted; a batch whose input is gone ends the search."""
        window = self._window() if self._late_for is None else None
        last = self.query.log.last_committed()
        rows, records, since = 0, list[RecordOf](), last + 1
        index = self._index(window)
        older = index is not None and self.query.recalls
        for batch in (each for each in self.query.batches(older=older) if each <= last):
            if batch in self.query.log.older and not (index and index.knows(batch)):
                break
            if index is not None and not index.may_hold(batch):
                since = batch
                continue
            try:
                count, first = self._in_batch(window, batch, self.limit - len(records))
            except DataError:
                if since > last:
                    raise
                break
            rows, since = rows + count, batch
            records += first
        return Records(rows=rows, since=since, records=tuple(records))

    @property
    def _late_for(self) -> str | None:
        """The step whose late rows the sink gets; None if it gets other rows."""
        return self.topology[self.sink].inputs[0] if self.sink in self.query.plan.late else None

    def _index(self, window: WindowAggregate | None) -> _Index | None:
        """The batches that may have rows of the windows, by the event times that the catalog has; None without it."""
        times = _times_of(window, self.row) if window is not None else (None, None)
        if window is None or times == (None, None):
            return None
        return _Index(self.query.times(window.name), self.query.log, *times)

    def _in_batch(self, window: WindowAggregate | None, batch: int, limit: int) -> tuple[int, list[RecordOf]]:
        """The number of rows of a batch, and the records of the first `limit` of them."""
        with translated(self.query.plan.name):
            made = self._made(window, self.query.replay(batch, lambda _, rows: rows), batch)
            count = made.count()
            first = made.orderBy(SOURCE, SPLIT, LINE).limit(limit).collect() if count and limit else []
        return count, [RecordOf(row[SOURCE], row[SPLIT], row[LINE], row[RAW], batch) for row in first]

    def _made(self, window: WindowAggregate | None, replay: Replay, batch: int) -> DataFrame:
        """The rows of a batch, just before the state or the sink, that rows of the sink with the fields are made of."""
        if self._late_for is not None:
            rows = replay.wired.late_rows[self._late_for]
            rows = self._with(rows.withColumn(WATERMARK, F.col(PASSED)), self.row)
        elif window is None:
            inputs = [replay.wired.flows[name].df for name in replay.topology[self.sink].inputs]
            rows = reduce(lambda one, other: one.unionByName(other), (self._with(frame, self.row) for frame in inputs))
        else:
            rows = self._in(window, replay, batch)
        return rows.select(SOURCE, SPLIT, LINE, RAW)

    def _in(self, node: WindowAggregate, replay: Replay, batch: int) -> DataFrame:
        """The rows of the windows, without those that came after their window had closed and no backfill has taken."""
        passed, given = replay.passed(node.name), {name: self.row[name] for name in self.row if name in node.group_by}
        rows = self._with(replay.wired.flows[node.name].df, given)
        if LATE in rows.columns:
            rows = rows.filter(~F.coalesce(F.col(LATE), F.lit(False)))  # noqa: FBT003
        placed = rows if node.window.merges else copied(rows, node.window, NONE)
        placed = placed.withColumn(WINDOW, assigned(node.window, NONE))
        placed = placed.filter((F.col(WINDOW)["end"] > F.lit(passed)) | self.filled.holds(F.col(WINDOW), batch))
        for name, part in EDGES.items():
            if name in self.row:
                at, edge = F.col(WINDOW)[part], self._value(rows, name, self.row[name], TimestampType())
                # A session is as long as its rows; one row of it spans a gap.
                inside = (at >= edge) if part == "start" else (at <= edge)
                placed = placed.filter(inside if node.window.merges else at == edge)
        return placed

    def _with(self, frame: DataFrame, fields: Mapping[str, Any]) -> DataFrame:
        """The rows of `frame` with the given fields; null equals null."""
        known = visible(frame.columns)
        unknown = next((name for name in fields if name not in known), None)
        if unknown is not None:
            raise ConfigurationError(
                f"rows of {self.sink!r} have no field {unknown!r}", remedy=f"use some of: {', '.join(known)}"
            )
        for name, value in fields.items():
            given = self._value(frame, name, value, frame.schema[name].dataType)
            frame = frame.filter(F.col(quoted(name)).eqNullSafe(given))
        return frame

    def _value(self, frame: DataFrame, name: str, value: Any, kind: DataType) -> Column:
        """A given value as one of the field's type; ConfigurationError for a text that is none."""
        made = F.lit(value).try_cast(kind)
        if value is not None and (name, str(value)) not in self.fitting:
            if frame.sparkSession.range(1).filter(made.isNull()).count():
                raise ConfigurationError(
                    f"{str(value)!r} cannot be compared with {name!r}, which is {kind.simpleString()}",
                    remedy="give a value of that type, or another field",
                )
            self.fitting.add((name, str(value)))
        return made

    def _window(self) -> WindowAggregate | None:
        """The window whose rows the sink gets; None for a sink without state upstream of it."""
        states = self.query.plan.states
        if not states:
            return None
        node = self.topology[states[-1]]
        if len(states) > 1 or not isinstance(node, WindowAggregate) or node.window.endless or node.window.in_order:
            raise TopologyError(
                f"rows of {self.sink!r} cannot be followed back to records: step {node.name!r} keeps no windows of"
                " time, or follows another step with state",
                remedy=f"look at its state: rs-assets state {self.topology.job} {node.name} --refresh",
                step=node.name,
            )
        known = [*node.group_by, *EDGES]
        unknown = next((name for name in self.row if name not in known), None)
        if unknown is not None:
            raise ConfigurationError(
                f"step {node.name!r} does not make its rows by {unknown!r}", remedy=f"use some of: {', '.join(known)}"
            )
        if node.window.merges and len(EDGES.keys() & self.row.keys()) == 1:
            raise ConfigurationError(
                "a session is named by its start and its end", remedy="add the other one of start_time and end_time"
            )
        return node


def _times_of(node: WindowAggregate, row: Mapping[str, Any]) -> tuple[datetime | None, datetime | None]:
    """The times between which rows of the windows with the edges in `row` lie; None for any."""
    start, end = (_moment(row.get(name)) for name in EDGES)
    if node.window.merges:
        return start, end
    longest = node.window.longest
    return start or (end and end - longest), end or (start and start + longest)


def _moment(value: object) -> datetime | None:
    """A time as Spark reads it; None if that is not certain."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    made = _in_utc(value)
    return made if isinstance(made, datetime) else None


def _in_utc(value: Any) -> Any:
    """`value`; a time without a zone is in UTC, as in rows, and not in the zone of this machine."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value

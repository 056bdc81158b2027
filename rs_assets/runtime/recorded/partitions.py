"""The partitions by event time of an output: which have closed, and what is in them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable

from rs_assets.catalog.catalog import Catalog
from rs_assets.catalog.offsets import storage_named
from rs_assets.catalog.offsets.merge import source_key
from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.manifest import Manifest
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.connectors.delta.backfill import newest_fills
from rs_assets.connectors.delta.files.event_partitions import EventTimePartitions, PartitionValue
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.delta.table import open_table
from rs_assets.errors import ConfigurationError
from rs_assets.operators.window.bounds import DEFAULT_MAX_AHEAD
from rs_assets.operators.window.event_time import END_OF_TIME, has_ended
from rs_assets.recovery import rollback_marker as returning
from rs_assets.runtime.identity import matched
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.recorded.recorded import named
from rs_assets.runtime.upkeep.returns import valid_batches
from rs_assets.topology.closing import Closing
from rs_assets.topology.topology import Topology

# The kind of an operation in the catalog.
BACKFILL: Final = "backfill"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition: its name, `[start, end)` in UTC, its rows, bytes and files, and whether it has closed.

    `late` are the rows that came too late for a window in it, since its last backfill. `known`: whether Dagster has it;
    not if it is before the `since` of the partitions, or after their `until`.
    """

    key: str
    start: datetime
    end: datetime
    rows: int
    bytes: int
    files: int
    closed: bool
    late: int = 0
    known: bool = True

    def as_dict(self) -> dict[str, Any]:
        """All of it, as plain values."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPartitions:
    """The partitions of one output, the oldest first, and the version of the table that they are of.

    `reached` is the watermark of the query, or the greatest time in the table, that decides which have closed; None
    before the first. `without_time` are the rows whose time is null, or in no year from 2 to 9998: they are in no
    partition. `generation` is that of the query's checkpoint, None if that is on another machine; `kept` are those that
    led to it, each with the end of the partitions that had closed in it before the return, None if unknown.
    """

    sink: str
    version: int
    reached: datetime | None
    without_time: int
    partitions: tuple[Partition, ...]
    generation: int | None = None
    kept: tuple[tuple[int, datetime | None], ...] = ()

    @property
    def closed(self) -> tuple[Partition, ...]:
        """The closed ones."""
        return tuple(each for each in self.partitions if each.closed)


def partitions_of(
    topology: Topology,
    options: RunOptions | None = None,
    *,
    sink: str | None = None,
    now: datetime | None = None,
    span: tuple[PartitionValue, PartitionValue] | None = None,
) -> OutputPartitions:
    """The partitions of the output `sink`, or of the only one that has some; none before its table is there.

    Partitions without rows are among them from the first one with rows to the last that has closed, but none that has
    not ended on the clock (`now`, default the present). With `span` they are those from its first to its last value,
    with rows or not. ConfigurationError for an output without such partitions, CheckpointError while the pipeline goes
    back.
    """
    options = RunOptions.of(options)
    node, partitions = parted(topology, sink)
    plan = next(plan for plan in plan_queries(topology) if node.name in plan.sinks)
    closing = topology.closings[node.name]
    folder = options.home.job(topology.namespace, topology.job)
    manifest = manifests.load(folder)
    # Before the table: what the watermark has passed is in the table then.
    query = _Query.of(topology, plan, manifest, options)
    watermark = query.watermark
    table = open_table(options.home.table(topology.namespace, node.table))
    # Sinks go back first, so what the watermark has passed may be gone.
    returning.refuse(folder)
    if table is None:
        return OutputPartitions(sink=node.name, version=-1, reached=watermark, without_time=0, partitions=())
    files = _files(table, partitions)
    now = now or datetime.now(UTC)
    reached = watermark if closing.by_watermark or watermark == END_OF_TIME else _greatest(files, now)
    held = _held(files, partitions)
    listing = _Listing(
        partitions=partitions,
        closing=closing,
        held=held,
        late=_late(topology, plan, node, table, manifest, Catalog(options.home.catalog)),
        reached=reached,
        now=now,
        span=span,
    )
    return OutputPartitions(
        sink=node.name,
        version=table.version(),
        reached=reached,
        without_time=held.get(None, (0, 0, 0))[0],
        partitions=listing.listed(),
        generation=query.generation,
        kept=tuple((generation, listing.closed_by(at)) for generation, at in query.returns),
    )


def parted(topology: Topology, sink: str | None) -> tuple[DeltaSink, EventTimePartitions]:
    """The output with partitions by event time that is called `sink`, or the only one; and its partitions."""
    every = {node.name: (node, partitions) for node, partitions in parted_sinks(topology)}
    if not every:
        raise ConfigurationError(
            f"no output of {topology.name} has partitions by event time",
            remedy="to_delta(..., partitions=EventTimePartitions.hourly('start_time', since='2026-01-01'))",
        )
    nodes = [node for node, _ in every.values()]
    return every[named(nodes, sink, what="output with partitions", pipeline=topology.name).name]


def parted_sinks(topology: Topology) -> list[tuple[DeltaSink, EventTimePartitions]]:
    """The outputs that have partitions by event time, each with them."""
    sinks = (node for node in topology.sinks if isinstance(node, DeltaSink))
    return [(node, node.partitions) for node in sinks if node.partitions is not None]


@dataclass(frozen=True, slots=True)
class _Query:
    """The query of an output: the watermark of its last committed batch, END_OF_TIME once its input has ended.

    `returns` are the generations that led to that of its checkpoint, each with the watermark that was returned to.
    """

    watermark: datetime | None
    generation: int | None = None
    returns: tuple[tuple[int, datetime | None], ...] = ()

    @classmethod
    def of(cls, topology: Topology, plan: QueryPlan, stored: Manifest | None, options: RunOptions) -> _Query:
        """As the manifest and Spark's log have it; renamed steps are known before the first start with them."""
        folder = options.home.job(topology.namespace, topology.job)
        if stored is None:
            return cls(_catalogued(topology, plan, options))
        manifest, folders = matched(topology, plan_queries(topology), stored)
        name = folders[plan.name]
        facts = manifest.queries.get(name)
        if facts is None:
            return cls(END_OF_TIME if manifest.sealed else None)
        log = CheckpointLog(manifest.place(folder, name) / "checkpoint", manifest.aliases)

        def at(batch: int) -> datetime | None:
            offsets = log.offsets(batch) if plan.stateful else None
            return None if offsets is None else _or_end(offsets.watermark)

        watermark = END_OF_TIME if manifest.sealed else at(log.last_committed())
        return cls(watermark, facts.generation, tuple((generation, at(batch)) for generation, batch in facts.path))


def _catalogued(topology: Topology, plan: QueryPlan, options: RunOptions) -> datetime | None:
    """The same from the catalog, for a home whose checkpoints are on another machine."""
    storage = storage_named(options.checkpoint_storage, catalog=options.home.catalog, url=options.storage_url)
    try:
        keys = (source_key(topology.namespace, topology.job, name, plan.name) for name in plan.sources)
        times = [row.watermark for key in keys for row in storage.newest(key, batches=1) if row.watermark is not None]
    finally:
        storage.finish()
    return _or_end(max(times)) if times else None


def _or_end(watermark: datetime) -> datetime:
    """A watermark, which has a delay, or END_OF_TIME if it means that the input has ended."""
    return END_OF_TIME if has_ended(watermark) else watermark


def _late(
    topology: Topology, plan: QueryPlan, node: DeltaSink, table: DeltaTable, manifest: Manifest | None, catalog: Catalog
) -> Counter[datetime]:
    """The late rows of each partition, by its start: of batches that were not undone, after its last backfill."""
    valid = None if manifest is None else valid_batches(manifest, plan)
    late = Counter[datetime]()
    if manifest is None or valid is None:
        return late
    stored = manifest.aliases.get(node.name, node.name)
    rows = catalog.rows("late_partitions", pipeline=topology.name, sink=stored)
    filled = filled_up_to(topology, plan, node, table, manifest, catalog) if rows else {}
    for row in rows:
        if filled.get(row["start"], -1) < row["batch_id"] <= valid.get(row["generation"], -1):
            late[row["start"]] += row["rows"]
    return late


def filled_up_to(
    topology: Topology,
    plan: QueryPlan,
    node: DeltaSink,
    table: DeltaTable | None,
    manifest: Manifest,
    catalog: Catalog,
) -> Mapping[datetime, int]:
    """The last batch whose late records a backfill has taken into a partition, by its start; without undone ones.

    The table knows of backfills that were killed before they were in the catalog, if they are among its newest commits.
    """
    known = filled_by(plan, node.name, manifest, catalog, pipeline=topology.name)
    filled = {start: _late_until(done) for start, done in known.items()}
    partitions, valid = node.partitions, valid_batches(manifest, plan) or {}
    if table is None or partitions is None:
        return filled
    stored = manifest.aliases.get(node.name, node.name)
    for fill in newest_fills(table, manifest.pipeline_id, stored):
        start = partitions.start(partitions.parse(fill.partition))
        later = start not in known or fill.version > known[start]["version"]
        if later and fill.batch <= valid.get(fill.generation, -1):
            filled[start] = fill.late
    return filled


def _late_until(done: Mapping[str, Any]) -> int:
    """The same of one backfill, -1 if it has taken none; releases before did not note it."""
    return int(done.get("late_until", done["batch"] if done["judge"] == "all" else -1))


def filled_by(
    plan: QueryPlan, sink: str, manifest: Manifest, catalog: Catalog, *, pipeline: str
) -> Mapping[datetime, Mapping[str, Any]]:
    """What the catalog has of the last backfill of each partition, by its start; without undone ones."""
    valid = valid_batches(manifest, plan) or {}
    filled = dict[datetime, Mapping[str, Any]]()
    for row in catalog.rows("operations", pipeline=pipeline, kind=BACKFILL):
        done = json.loads(row["details"])
        if done["sink"] == manifest.aliases.get(sink, sink) and done["batch"] <= valid.get(row["generation"], -1):
            filled[datetime.fromisoformat(done["start"])] = done
    return filled


def _files(table: DeltaTable, partitions: EventTimePartitions) -> pa.Table:
    """The files of a table: value of the partition, rows, bytes, and the greatest time if the file says."""
    added = pa.table(table.get_add_actions(flatten=True))
    names = {"value": f"partition.{partitions.column}", "rows": "num_records", "bytes": "size_bytes"}
    columns = {name: added[column] if column in added.column_names else None for name, column in names.items()}
    greatest = f"max.{partitions.field}"
    columns["greatest"] = added[greatest] if greatest in added.column_names else None
    made = {name: column if column is not None else pa.nulls(added.num_rows) for name, column in columns.items()}
    return pa.table(made)


def _greatest(files: pa.Table, now: datetime) -> datetime | None:
    """The greatest time in the files that say it, without files with a row further ahead than windows would accept."""
    latest = now + DEFAULT_MAX_AHEAD
    found = filter(None, map(_instant, files["greatest"].to_pylist()))
    return max((at for at in found if at <= latest), default=None)


def _instant(found: object) -> datetime | None:
    """A time of the log in UTC; None if a file does not say it."""
    if found is None:
        return None
    at = found if isinstance(found, datetime) else datetime.fromisoformat(str(found))
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _held(files: pa.Table, partitions: EventTimePartitions) -> dict[PartitionValue | None, tuple[int, int, int]]:
    """Rows, bytes and files of each partition."""
    held: dict[PartitionValue | None, tuple[int, int, int]] = {}
    for value, rows, size in zip(*(files[name].to_pylist() for name in ("value", "rows", "bytes")), strict=True):
        key = partitions.stored(value)
        before = held.get(key, (0, 0, 0))
        held[key] = (before[0] + (rows or 0), before[1] + (size or 0), before[2] + 1)
    return held


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    """What decides which partitions there are, and which of them have closed."""

    partitions: EventTimePartitions
    closing: Closing
    held: Mapping[PartitionValue | None, tuple[int, int, int]]
    late: Mapping[datetime, int]
    reached: datetime | None
    now: datetime
    span: tuple[PartitionValue, PartitionValue] | None

    def listed(self) -> tuple[Partition, ...]:
        """All of them, the oldest first."""
        return tuple(map(self._partition, self._between(*self.span) if self.span else self._values()))

    def _between(self, value: PartitionValue, last: PartitionValue) -> Iterator[PartitionValue]:
        while self.partitions.start(value) <= self.partitions.start(last):
            yield value
            value = self.partitions.following(value)

    def _values(self) -> Iterator[PartitionValue]:
        start, first = self.partitions.start, self.partitions.start(self.partitions.first)
        known = sorted((value for value in self.held if value is not None), key=start)
        yield from (value for value in known if start(value) < first)
        later = [value for value in known if start(value) >= first]
        for number, value in enumerate(later, 1):
            yield value
            # The end of the input closes all of them, but no time has passed then.
            if number < len(later) or self.reached != END_OF_TIME:
                yield from self._quiet(value, later[number] if number < len(later) else None)

    def _quiet(self, value: PartitionValue, last: PartitionValue | None) -> Iterator[PartitionValue]:
        """The partitions without rows that are over after one, up to `last`; without it as far as they have closed."""
        end = self.partitions.end(value)
        # One row of a far future must not make all partitions until then.
        while end < self.now:
            value = self.partitions.following(value)
            end = self.partitions.end(value)
            if value == last or end > self.now or (last is None and not self._closed(value)):
                return
            yield value

    def closed_by(self, watermark: datetime | None) -> datetime | None:
        """The end of the partitions that close with a watermark, None without one, and after the end of the input."""
        if watermark is None or watermark == END_OF_TIME:
            return None
        end = self.partitions.start(self.partitions.value_of(watermark))
        while self.closing.closes(end) > watermark:
            end = self.partitions.start(self.partitions.value_of(end - timedelta.resolution))
        return end

    def _closed(self, value: PartitionValue) -> bool:
        if self.reached is None or self.reached == END_OF_TIME:
            return self.reached is not None
        return self.closing.closes(self.partitions.end(value)) <= self.reached

    def _partition(self, value: PartitionValue) -> Partition:
        rows, size, files = self.held.get(value, (0, 0, 0))
        return Partition(
            key=self.partitions.key(value),
            start=self.partitions.start(value),
            end=self.partitions.end(value),
            rows=rows,
            bytes=size,
            files=files,
            closed=self._closed(value),
            late=self.late.get(self.partitions.start(value), 0),
            known=self.partitions.holds(value),
        )

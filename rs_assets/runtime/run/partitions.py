"""The partitions by event time of an output: which have closed, and what is in them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from rs_assets.catalog.catalog import Catalog
from rs_assets.catalog.offsets import storage_named
from rs_assets.catalog.offsets.merge import source_key
from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.manifest import Manifest
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.connectors.delta.event_partitions import EventTimePartitions, PartitionValue
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.delta.table import open_table
from rs_assets.errors import ConfigurationError
from rs_assets.operators.window.event_time import END_OF_TIME
from rs_assets.runtime.identity import folder_of, log_of
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.run.recorded import named
from rs_assets.runtime.upkeep.returns import path_of
from rs_assets.topology.closing import Closing
from rs_assets.topology.topology import Topology

# The kind of an operation in the catalog.
BACKFILL: Final = "backfill"
# No batch is greater.
ANY: Final = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition: its name, `[start, end)` in UTC, its rows, bytes and files, and whether it has closed.

    `late` are the rows that came too late for a window in it, since its last backfill. `known`: whether Dagster has it;
    not if it is before the `since` of the partitions.
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
    before the first. `without_time` are the rows whose time is null: they are in no partition.
    """

    sink: str
    version: int
    reached: datetime | None
    without_time: int
    partitions: tuple[Partition, ...]

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
    with rows or not. ConfigurationError for an output without such partitions.
    """
    options, node = options or RunOptions(), parted(topology, sink)
    assert node.partitions is not None  # noqa: S101  `parted` gives no others
    plan = next(plan for plan in plan_queries(topology) if node.name in plan.sinks)
    closing = topology.closings[node.name]
    manifest = manifests.load(options.home.job(topology.namespace, topology.job))
    # Before the table: what the watermark has passed is in the table then.
    watermark = _watermark(topology, plan, manifest, options)
    table = open_table(options.home.table(topology.namespace, node.table))
    if table is None:
        return OutputPartitions(sink=node.name, version=-1, reached=watermark, without_time=0, partitions=())
    files = _files(table, node.partitions)
    reached = watermark if closing.by_watermark or watermark == END_OF_TIME else _greatest(files)
    held = _held(files, node.partitions)
    listing = _Listing(
        partitions=node.partitions,
        closing=closing,
        held=held,
        late=_late(topology, plan, node.name, manifest, Catalog(options.home.catalog)),
        reached=reached,
        now=now or datetime.now(UTC),
        span=span,
    )
    return OutputPartitions(
        sink=node.name,
        version=table.version(),
        reached=reached,
        without_time=held.get(None, (0, 0, 0))[0],
        partitions=listing.listed(),
    )


def parted(topology: Topology, sink: str | None) -> DeltaSink:
    """The output with partitions by event time that is called `sink`, or the only one."""
    nodes = [node for node in topology.sinks if isinstance(node, DeltaSink) and node.partitions is not None]
    if not nodes:
        raise ConfigurationError(
            f"no output of {topology.name} has partitions by event time",
            remedy="to_delta(..., partitions=EventTimePartitions.hourly('start_time', since='2026-01-01'))",
        )
    return named(nodes, sink, what="output with partitions", pipeline=topology.name)


def _watermark(topology: Topology, plan: QueryPlan, manifest: Manifest | None, options: RunOptions) -> datetime | None:
    """The watermark of the last committed batch of a query, END_OF_TIME once its input has ended."""
    folder = options.home.job(topology.namespace, topology.job)
    log = None if manifest is None else log_of(manifest, plan, folder)
    if manifest is None or log is None:
        return _catalogued(topology, plan, options)
    if manifest.sealed:
        return END_OF_TIME
    offsets = log.offsets(log.last_committed()) if plan.stateful else None
    return None if offsets is None else offsets.watermark


def _catalogued(topology: Topology, plan: QueryPlan, options: RunOptions) -> datetime | None:
    """The same from the catalog, for a home whose checkpoints are on another machine."""
    storage = storage_named(options.checkpoint_storage, catalog=options.home.catalog, url=options.storage_url)
    try:
        keys = (source_key(topology.namespace, topology.job, name, plan.name) for name in plan.sources)
        times = [row.watermark for key in keys for row in storage.newest(key, batches=1) if row.watermark is not None]
    finally:
        storage.finish()
    return max(times, default=None)


def _late(
    topology: Topology, plan: QueryPlan, sink: str, manifest: Manifest | None, catalog: Catalog
) -> Counter[datetime]:
    """The late rows of each partition, by its start: of batches that were not undone, after its last backfill."""
    folder = None if manifest is None else folder_of(manifest, plan)
    if manifest is None or folder is None:
        return Counter()
    valid, stored = path_of(manifest.queries[folder], ANY), manifest.aliases.get(sink, sink)
    filled = filled_up_to(topology, plan, sink, manifest, catalog)
    late = Counter[datetime]()
    for row in catalog.rows("late_partitions", pipeline=topology.name, sink=stored):
        if filled.get(row["start"], -1) < row["batch_id"] <= valid.get(row["generation"], -1):
            late[row["start"]] += row["rows"]
    return late


def filled_up_to(
    topology: Topology, plan: QueryPlan, sink: str, manifest: Manifest, catalog: Catalog
) -> Mapping[datetime, int]:
    """The last batch whose late records a backfill has taken into a partition, by its start; without undone ones."""
    folder = folder_of(manifest, plan)
    valid = {} if folder is None else path_of(manifest.queries[folder], ANY)
    filled = dict[datetime, int]()
    for row in catalog.rows("operations", pipeline=topology.name, kind=BACKFILL):
        done = json.loads(row["details"])
        if done["sink"] == manifest.aliases.get(sink, sink) and done["batch"] <= valid.get(row["generation"], -1):
            # The rows of then are those without late records.
            filled[datetime.fromisoformat(done["start"])] = done["batch"] if done["judge"] == "all" else -1
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


def _greatest(files: pa.Table) -> datetime | None:
    """The greatest time in the files that say it."""
    found = pc.max(files["greatest"]).as_py() if files.num_rows else None
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
        if not later:
            return
        yield from self._between(later[0], later[-1])
        value = self.partitions.following(later[-1])
        # The end of the input closes all of them, but no time has passed then.
        while self.reached != END_OF_TIME and self._quiet(value):
            yield value
            value = self.partitions.following(value)

    def _quiet(self, value: PartitionValue) -> bool:
        """Whether a partition after the last row has closed without any, and is over."""
        return self.partitions.end(value) <= self.now and self._closed(value)

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
            known=self.partitions.start(value) >= self.partitions.start(self.partitions.first),
        )

"""From a version of an output table back to its batch, run, offsets of each split, and snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from rs_assets.catalog.offsets.base import CheckpointRow
from rs_assets.cli.recorded.fed_by import SplitRange, fed_by, reaches_back, read_in
from rs_assets.common.home import Home
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.compile.provenance import fields_of, provenance
from rs_assets.connectors.delta.log.commit_info import WRITER
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.delta.table import open_table
from rs_assets.dagster.checkpoint_rows import key_of
from rs_assets.dagster.place import Place
from rs_assets.errors import ConfigurationError, SinkError
from rs_assets.stream.pipeline import Pipeline
from rs_assets.topology.nodes.versioned import VersionedTable
from rs_assets.topology.topology import Topology

# A stateless sink may flush a split so many batches later.
BEFORE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The origin of one version of a table; `columns` has the source and dimension fields of each column.

    `splits` are what its batch read. `fed` is what its rows may come from if stateful steps keep rows of earlier
    batches, since `oldest_batch` (None: the first). `dimensions` are by the step that joins them.
    """

    table: str
    version: int
    pipeline: str
    sink: str
    query: str
    generation: int
    batch_id: int
    written_at: datetime | None
    run_id: str | None
    watermark: datetime | None
    splits: tuple[SplitRange, ...]
    fed: tuple[SplitRange, ...]
    oldest_batch: int | None
    dimensions: dict[str, str]
    savepoint: str | None
    state: str | None
    columns: dict[str, list[str]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        plain = asdict(self)
        return {**plain, **{n: v.isoformat() for n, v in plain.items() if isinstance(v, datetime)}}


def lineage_of(pipelines: Sequence[Pipeline], table: str, *, version: int | None, home: Home) -> Lineage:
    """The lineage of a Delta output, given by its table or its path; `version` None is our newest one.

    ConfigurationError for a table that no pipeline writes, SinkError for a version that no batch of ours wrote.
    """
    place = Place(home=home)
    topology, sink, path = _sink_of(pipelines, table, home)
    opened = open_table(path)
    if opened is None:
        raise SinkError("the table is not there yet", remedy="run the pipeline first", table=path)
    entries = [e for e in opened.history() if WRITER.fullmatch(str(e.get("rs.writer", "")))]
    entry = next((e for e in entries if version in (None, e["version"])), None)
    if entry is None:
        known = ", ".join(str(e["version"]) for e in entries[:10])
        raise SinkError(
            f"no batch made version {version} of the table", remedy=f"versions of batches: {known}", table=path
        )
    match = WRITER.fullmatch(entry["rs.writer"])
    assert match is not None  # filtered above
    plan = next(p for p in plan_queries(topology) if sink.name in p.sinks)
    generation, batch = int(match[2]), int(entry["rs.batch_id"])
    of_query = around(topology, plan, place, batch)
    now = [row for row in of_query if row.place == (generation, batch)]
    fed = fed_by(topology, plan, of_query, (generation, batch))
    snapshots = [s for s in place.catalog.rows("snapshots", pipeline=topology.name) if s["batch_id"] <= batch]
    return Lineage(
        table=path,
        version=entry["version"],
        pipeline=topology.name,
        sink=sink.name,
        query=plan.name,
        generation=generation,
        batch_id=batch,
        written_at=datetime.fromtimestamp(entry["timestamp"] / 1000).astimezone() if "timestamp" in entry else None,
        run_id=now[0].run_id if now else _run_of(place, topology, plan, generation, batch),
        watermark=now[0].watermark if now else None,
        splits=read_in(of_query, (generation, batch)),
        fed=fed.splits if fed is not None else (),
        oldest_batch=fed.oldest_batch if fed is not None else None,
        dimensions={
            node.name: node.dimension.text
            for node in map(topology.__getitem__, plan.nodes)
            if isinstance(node, VersionedTable)
        },
        savepoint=_last(snapshots, "savepoint"),
        state=_last([s for s in snapshots if s["query"] == plan.name], "state"),
        columns={f.name: _text(topology, sink.name, f.name) for f in opened.schema().fields},
    )


def around(topology: Topology, plan: QueryPlan, place: Place, batch: int) -> list[CheckpointRow]:
    """The checkpoints of the last batches up to `batch`, of every generation, as many as its lineage needs.

    That is 100 batches, in which a stateless sink may not have flushed a split, and more if windows may hold older
    rows.
    """
    reach = BEFORE
    while True:
        rows = _stored(topology, plan, place, range(max(batch - reach, 0), batch + 1))
        newest = max((row.generation for row in rows if row.batch_id == batch), default=0)
        if batch <= reach or reaches_back(topology, plan, rows, (newest, batch)):
            return rows
        reach *= 4


def _stored(topology: Topology, plan: QueryPlan, place: Place, batches: range) -> list[CheckpointRow]:
    with place.storage() as storage:
        return [row for source in plan.sources for row in storage.of_batches(key_of(topology, plan, source), batches)]


def show_lineage(found: Lineage) -> None:
    """The lineage as a tree on the terminal."""
    from rich.markup import escape
    from rich.tree import Tree

    from rs_assets.connectors.console.writer import terminal

    at = f", {found.written_at:%Y-%m-%d %H:%M:%S}" if found.written_at else ""
    tree = Tree(f"[bold]{escape(found.table)}[/] version {found.version}{at}")
    batch = tree.add(f"batch {found.batch_id} of {found.pipeline}, query {found.query}, generation {found.generation}")
    batch.add(f"run {found.run_id or 'not in the catalog yet'}")
    if found.watermark:
        batch.add(f"watermark {found.watermark.isoformat()}")
    offsets = batch.add("offsets that the batch read")
    for split in found.splits:
        offsets.add(escape(_range_text(split)))
    if found.run_id and not found.splits:
        offsets.add("none")
    if found.fed:
        since = "the first batch" if found.oldest_batch is None else f"batch {found.oldest_batch}"
        state = batch.add(f"offsets that its rows may be made of: steps with state keep rows, here of {since} or later")
        for split in found.fed:
            state.add(escape(_range_text(split)))
    for name, text in found.dimensions.items():
        batch.add(escape(f"dimension {name}: {text}"))
    snapshots = batch.add("snapshots")
    snapshots.add(f"savepoint {found.savepoint or 'none'}")
    snapshots.add(f"state {found.state or 'none'}")
    columns = tree.add("columns")
    for name, fields in found.columns.items():
        columns.add(escape(f"{name} <- {', '.join(fields) or 'counted'}"))
    terminal().print(tree, soft_wrap=True)


def _range_text(split: SplitRange) -> str:
    return f"{split.source}: {split.split}  {split.start or 'beginning'} -> {split.end}"


def _sink_of(pipelines: Sequence[Pipeline], table: str, home: Home) -> tuple[Topology, DeltaSink, str]:
    known = []
    for pipeline in pipelines:
        for sink in pipeline.topology.sinks:
            if isinstance(sink, DeltaSink):
                path = home.table(pipeline.topology.namespace, sink.table)
                if table in (path, sink.table, f"{pipeline.topology.namespace}.{sink.table}"):
                    return pipeline.topology, sink, path
                known.append(sink.table)
    raise ConfigurationError(f"no pipeline writes a table {table!r}", remedy=f"there are: {', '.join(known) or 'none'}")


def _run_of(place: Place, topology: Topology, plan: QueryPlan, generation: int, batch: int) -> str | None:
    """The run of a batch that read no split, from the messages of that batch; None if the catalog has none yet."""
    of_batch = {"query": plan.name, "generation": generation, "batch_id": batch}
    found = place.catalog.last("system_messages", pipeline=topology.name, **of_batch)
    return None if found is None else str(found["run_id"])


def _last(snapshots: Sequence[dict[str, Any]], kind: str) -> str | None:
    found = [s for s in snapshots if s["kind"] == kind]
    return f"{found[-1]['snapshot_id']} (batch {found[-1]['batch_id']})" if found else None


def _text(topology: Topology, sink: str, column: str) -> list[str]:
    return sorted(f"{source}.{name}" for source, name in fields_of(provenance(topology, sink), column))

"""Queries of a pipeline's stored checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rs_assets.catalog.offsets import CheckpointRow
from rs_assets.catalog.offsets.merge import source_key
from rs_assets.checkpoint import manifest as manifests
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.connectors.delta.log.store import is_table
from rs_assets.connectors.nodes import Source
from rs_assets.dagster.place import Place
from rs_assets.runtime.identity import folder_of, log_of
from rs_assets.runtime.record.journal import queue_of
from rs_assets.runtime.record.positions import positions
from rs_assets.runtime.upkeep.returns import valid_batches
from rs_assets.topology.topology import Topology


def checkpoints_of(
    topology: Topology, place: Place, *, source: str | None = None, batches: int = 1
) -> list[CheckpointRow]:
    """The rows of the newest `batches` checkpoints of each source (or of `source`) in each query, the newest last.

    If the storage is not readable from another process, the newest checkpoint is read from Spark's own log.
    """
    wanted = [
        (plan, name) for plan in plan_queries(topology) for name in plan.sources if source is None or name == source
    ]
    with place.storage() as storage:
        rows = [row for plan, name in wanted for row in storage.newest(key_of(topology, plan, name), batches=batches)]
    if not rows and (storage.name == "memory" or not is_table(str(place.home.catalog / "checkpoints"))):
        rows = [row for plan, name in wanted for row in _from_log(topology, place, plan, name)]
    return sorted(rows, key=lambda row: (row.at, row.place, row.queue))


def undone(topology: Topology, place: Place, rows: Sequence[CheckpointRow]) -> list[bool]:
    """Whether the batch of each row was undone since: by a rewind, a restore or a new generation."""
    manifest = manifests.load(place.job(topology))
    valid = {plan.name: valid_batches(manifest, plan) for plan in plan_queries(topology)} if manifest else {}
    return [
        known is not None and row.batch_id > known.get(row.generation, -1)
        for row, known in ((row, valid.get(row.name)) for row in rows)
    ]


def key_of(topology: Topology, plan: QueryPlan, source: str) -> str:
    """The storage key of a source's checkpoints in a query."""
    return source_key(topology.namespace, topology.job, source, plan.name)


def _from_log(topology: Topology, place: Place, plan: QueryPlan, name: str) -> Iterator[CheckpointRow]:
    """The newest checkpoint in Spark's log."""
    folder = place.job(topology)
    manifest = manifests.load(folder)
    log = log_of(manifest, plan, folder)
    offsets = log.offsets(log.last_committed()) if log is not None else None
    source = topology[name]
    if manifest is None or log is None or offsets is None or not isinstance(source, Source):
        return
    for split, offset in positions(source, log, offsets.batch_id, place.home).items():
        yield CheckpointRow(
            namespace=topology.namespace,
            group=topology.job,
            topic=name,
            name=plan.name,
            queue=queue_of(split),
            offset=offset,
            query=plan.name,
            generation=manifest.queries[folder_of(manifest, plan) or plan.name].generation,
            batch_id=offsets.batch_id,
            run_id="",
            watermark=offsets.watermark if plan.stateful else None,
            at=offsets.started,
            reconciled=True,
        )

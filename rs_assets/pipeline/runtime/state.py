"""The state of a pipeline's steps, as rows: snapshots, served copies, previews. The pipeline may be running."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from rs_assets.engine.checkpoint import manifest as manifests
from rs_assets.engine.checkpoint.catalog import Catalog, row_of
from rs_assets.engine.checkpoint.lease import read_lease
from rs_assets.engine.checkpoint.log import CheckpointLog
from rs_assets.engine.checkpoint.manifest import Manifest
from rs_assets.engine.home import Home
from rs_assets.engine.sink.base import BatchMark
from rs_assets.engine.state.preview import open_windows
from rs_assets.engine.state.served import refresh
from rs_assets.engine.state.snapshot import StateSnapshot, state_at, write_state
from rs_assets.errors import CheckpointError, ConfigurationError
from rs_assets.pipeline.compile.plan import QueryPlan, plan_queries
from rs_assets.pipeline.runtime.identity import folder_of, log_of
from rs_assets.pipeline.runtime.options import RunOptions
from rs_assets.pipeline.topology.topology import Topology
from rs_assets.pipeline.topology.window import WindowAggregate


def state_path(topology: Topology, step: str, home: Home) -> str:
    """The Delta table of a step's state."""
    return str(home.state / topology.namespace / topology.job / step)


def served_folder(topology: Topology, step: str, home: Home) -> Path:
    """The folder of the copy that answers lookups."""
    return home.served / topology.namespace / topology.job / step


def snapshot_state(topology: Topology, options: RunOptions | None = None) -> tuple[StateSnapshot, ...]:
    """Write the state of every stateful step as rows, refresh the copies for lookups, and note it in the catalog.

    CheckpointError before the first batch.
    """
    options = options or RunOptions()
    plans = plan_queries(topology)
    return tuple(_snapshot(topology, plan, plan.stateful, options) for plan in plans if plan.stateful is not None)


def _snapshot(topology: Topology, plan: QueryPlan, step: str, options: RunOptions) -> StateSnapshot:
    manifest, log = _log(topology, plan, options)
    generation = manifest.queries[folder_of(manifest, plan) or plan.name].generation
    lease = read_lease(options.home.leases, topology.name)
    token = lease.token if lease is not None else 0
    mark = BatchMark(manifest.pipeline_id, generation, f"state.{step}", log.last_committed(), token)
    path = state_path(topology, step, options.home)
    taken = options.driver.call(lambda spark: write_state(spark, log.folder, path=path, mark=mark))
    refresh(served_folder(topology, step, options.home), taken, table=lambda: state_at(path))
    if taken.changed or taken.whole:
        row = row_of(
            topology.name,
            generation=generation,
            run_id=options.run_id,
            snapshot_id=f"{step}-v{taken.version}",
            kind="state",
            query=plan.name,
            step=step,
            batch_id=taken.batch_id,
            rows=taken.rows,
            uri=path,
        )
        Catalog(options.home.catalog).append("snapshots", [row])
    return taken


def preview(topology: Topology, step: str, options: RunOptions | None = None, *, rows: int | None = None) -> pa.Table:
    """The open windows of `step` as they would fire now, marked by the column `open`; from the last committed batch.

    With `rows` only so many, those that end first.
    """
    options = options or RunOptions()
    node = topology[step]
    if not isinstance(node, WindowAggregate):
        raise ConfigurationError(f"step {step!r} has no windows", pipeline=topology.name)
    plan = next(p for p in plan_queries(topology) if p.stateful == step)
    _, log = _log(topology, plan, options)

    def read(spark: SparkSession) -> pa.Table:
        frame = open_windows(
            spark,
            log.folder,
            window=node.window,
            group_by=node.group_by,
            aggregates=node.aggregates,
            water_mark=node.water_mark,
        )
        return (frame if rows is None else frame.orderBy("end_time").limit(rows)).toArrow()

    return options.driver.call(read)


def _log(topology: Topology, plan: QueryPlan, options: RunOptions) -> tuple[Manifest, CheckpointLog]:
    job = options.home.job(topology.namespace, topology.job)
    manifest = manifests.load(job)
    log = log_of(manifest, plan, job)
    if manifest is None or log is None:
        raise CheckpointError(f"{topology.name} has no checkpoint yet", remedy="run it first", file=job)
    if log.last_committed() < 0:
        raise CheckpointError(f"no batch of {plan.name} is committed yet", remedy="run it first", file=log.folder)
    if not log.partitions(log.last_committed()):
        lease = read_lease(options.home.leases, topology.name)
        if lease is not None and not lease.free and lease.run_id != options.run_id:
            raise CheckpointError(
                "Spark cannot read the state of a query in its first run", remedy="try again when it was started anew"
            )
        log.pin_partitions(manifest.partitions)
    return manifest, log

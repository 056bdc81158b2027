"""The state of a pipeline's steps, as rows: snapshots, lookup copies, previews. The pipeline may be running."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from rs_assets.catalog.catalog import Catalog, row_of
from rs_assets.catalog.lease import read_lease
from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.manifest import Manifest
from rs_assets.common.home import Home
from rs_assets.common.node import Node
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import CheckpointError, ConfigurationError
from rs_assets.operators.join.stream_join import STORES, keys_of
from rs_assets.operators.state.preview import open_windows, waiting_rows
from rs_assets.operators.state.reader import StateOf
from rs_assets.operators.state.served import refresh
from rs_assets.operators.state.snapshot import StateSnapshot, state_at, write_state
from rs_assets.runtime.identity import folder_of, log_of
from rs_assets.runtime.options import RunOptions
from rs_assets.topology.chain import Link, link_of
from rs_assets.topology.nodes.join import StreamJoin
from rs_assets.topology.nodes.timed import TimedState
from rs_assets.topology.nodes.window import WindowAggregate
from rs_assets.topology.topology import Topology


def state_path(topology: Topology, step: str, home: Home) -> str:
    """The Delta table of a step's state."""
    return str(home.state / topology.namespace / topology.job / step)


def served_folder(topology: Topology, step: str, home: Home) -> Path:
    """The folder of the copy for lookups."""
    return home.served / topology.namespace / topology.job / step


def snapshot_state(topology: Topology, options: RunOptions | None = None) -> tuple[StateSnapshot, ...]:
    """Export the state of every stateful step as rows, refresh the copies for lookups, and record it in the catalog.

    CheckpointError before the first batch.
    """
    options = RunOptions.of(options)
    return tuple(_snapshot(topology, plan, step, options) for step, plan in _keepers(topology).items())


def _keepers(topology: Topology) -> dict[str, QueryPlan]:
    """The query with the state of each step: of several, the one in which it is the last."""
    plans = plan_queries(topology)
    ends = {plan.stateful: plan for plan in reversed(plans)}
    return {step: ends.get(step, plan) for plan in reversed(plans) for step in plan.states}


def _snapshot(topology: Topology, plan: QueryPlan, step: str, options: RunOptions) -> StateSnapshot:
    manifest, log = _log(topology, plan, options)
    generation = manifest.queries[folder_of(manifest, plan) or plan.name].generation
    lease = read_lease(options.home.leases, topology.name)
    token = lease.token if lease is not None else 0
    mark = BatchMark(manifest.pipeline_id, generation, f"state.{step}", log.last_committed(), token)
    path = state_path(topology, step, options.home)
    state = state_of(log, topology, plan, step)
    taken = options.driver.call(lambda spark: write_state(spark, state, path=path, mark=mark))
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


def previews(topology: Topology, plans: Iterable[QueryPlan], options: RunOptions) -> dict[str, pa.Table]:
    """The first `preview_rows` open windows of each window of `plans`; none if the run requests none."""
    steps = dict.fromkeys(step for plan in plans for step in plan.states)
    windows = [step for step in steps if options.preview_rows and _has_windows(topology[step])]
    return {step: preview(topology, step, options, rows=options.preview_rows) for step in windows}


def state_of(log: CheckpointLog, topology: Topology, plan: QueryPlan, step: str) -> StateOf:
    """The location of the state of `step` in the checkpoint of the query."""
    node, number = topology[step], operator_of(topology, plan, step)
    if isinstance(node, StreamJoin) and node.variable is None:
        return StateOf(log.folder, number, stores=STORES, keys=keys_of(node.on, node.bound))
    return StateOf(log.folder, number, node.variable if isinstance(node, TimedState) else None)


def operator_of(topology: Topology, plan: QueryPlan, step: str) -> int:
    """Spark's number of the state of `step` in the query: it counts from the last step upstream."""
    waiting, met = [plan.states[-1]], list[str]()
    while step not in met:
        name = waiting.pop(0)
        met += [name] if name in plan.states and name not in met else []
        waiting = [*topology[name].inputs, *waiting]
    return met.index(step)


def preview(topology: Topology, step: str, options: RunOptions | None = None, *, rows: int | None = None) -> pa.Table:
    """The state of `step`, from the last committed batch; at most `rows` rows of it.

    For a window, the open windows as they would fire now, marked by the column `open`, those that end first; for a
    join, the rows that wait for partners. Columns in a format of Spark's own are null; a ranking has one row per
    window. ConfigurationError for other steps.
    """
    options = RunOptions.of(options)
    node = topology[step]
    if not _is_shown(node):
        others = [each.name for each in topology if _is_shown(each)]
        raise ConfigurationError(
            f"step {step!r} has no windows that close, and no rows that wait for a join",
            remedy=f"name one of: {', '.join(others)}" if others else "read its output: no step here has such state",
            pipeline=topology.name,
        )
    plan = _keepers(topology)[step]
    link = link_of(topology.links, node) if isinstance(node, TimedState) else None
    _, log = _log(topology, plan, options)
    state = state_of(log, topology, plan, step)
    shown = SHOWN[type(node)]
    return options.driver.call(lambda spark: shown(spark, node, state, link, rows).toArrow())


def _windows(spark: SparkSession, node: WindowAggregate, state: StateOf, link: Link, rows: int | None) -> DataFrame:
    frame = open_windows(
        spark,
        state,
        window=node.window,
        group_by=node.group_by,
        aggregates=node.aggregates,
        opaque=node.unseen,
        water_mark=link.water_mark,
        lag=link.lag,
    )
    return frame if rows is None else frame.orderBy("end_time").limit(rows)


def _has_windows(node: Node) -> bool:
    """Whether its state has windows that close, and not rows of windows or one window that has emitted already."""
    return isinstance(node, WindowAggregate) and node.window.shows_open


def _is_shown(node: Node) -> bool:
    """Whether its state has windows that close, or rows that wait for a join."""
    return _has_windows(node) or isinstance(node, StreamJoin)


def _waiting(spark: SparkSession, _node: StreamJoin, state: StateOf, _link: Link, rows: int | None) -> DataFrame:
    frame = waiting_rows(spark, state)
    return frame if rows is None else frame.limit(rows)


SHOWN: Final[Mapping[type[Node], Callable[..., DataFrame]]] = {WindowAggregate: _windows, StreamJoin: _waiting}


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
                "Spark cannot read the state of a query in its first run", remedy="try again after its next start"
            )
        log.pin_partitions(manifest.partitions)
    return manifest, log

"""Asset checks of checkpoints, state and outputs. They read stored data and need no run."""

# No `from __future__ import annotations` here: Dagster reads the annotations of a check's function.
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from dagster import (
    AssetCheckExecutionContext,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetKey,
    asset_check,
)
from deltalake import DeltaTable

from rs_assets.catalog.lease import read_lease
from rs_assets.catalog.offsets import CheckpointRow
from rs_assets.catalog.offsets.merge import compare_offsets
from rs_assets.checkpoint import manifest as manifests
from rs_assets.common.background import background_failures_in
from rs_assets.common.plural import count_of
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.connectors.delta.log.commit_info import NEWEST, WRITER, noted
from rs_assets.connectors.delta.table import open_table
from rs_assets.dagster.assets.expectation_checks import checked_expectations
from rs_assets.dagster.assets.output_checks import OUTPUT_CHECKS, checked_outputs
from rs_assets.dagster.assets.rule_checks import Judge, checked_rules
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.checkpoint_rows import checkpoints_of
from rs_assets.dagster.place import Place, place_of
from rs_assets.errors import RsError
from rs_assets.recovery.savepoints import verify
from rs_assets.runtime.identity import log_of
from rs_assets.runtime.record.journal import queue_of
from rs_assets.runtime.upkeep.ownership import newest_of, readable, savepoints_of
from rs_assets.topology.topology import Topology

# A running stream without a checkpoint for so long is stuck or has no input.
FRESH = timedelta(minutes=15)
# Batches are collected for a while before they are written to the catalog.
BEHIND = timedelta(minutes=2)
# Checkpoints of splits that can be read in a second.
MOST_ROWS = 5_000
# A sink may flush some splits later than others.
OWNED_WITHIN = 100
# Problems in a check's text.
SHOWN = 5


def checks_of(assets: StreamAssets) -> list[AssetChecksDefinition]:
    """All checks of the assets of a pipeline."""
    topology = assets.topology
    return [_check(assets.key(step), name, judge, topology, step) for step, name, judge in judges_of(topology)]


def judges_of(topology: Topology) -> Iterator[tuple[str, str, Judge]]:
    """The checks of each step's asset, with their names: sources, stateful steps, outputs, rules, expectations."""
    steps: tuple[tuple[str, Mapping[str, Judge]], ...] = (
        *((source.name, SOURCE_CHECKS) for source in topology.origins),
        *((node.name, STATE_CHECKS) for node in topology if node.stateful),
        *((sink, OUTPUT_CHECKS) for sink in checked_outputs(topology)),
        *checked_rules(topology),
        *checked_expectations(topology),
    )
    return ((step, name, judge) for step, judges in steps for name, judge in judges.items())


def _check(key: AssetKey, name: str, judge: Judge, topology: Topology, step: str) -> AssetChecksDefinition:
    @asset_check(asset=key, name=name, description=(judge.__doc__ or "").partition("\n")[0])
    def check(context: AssetCheckExecutionContext) -> AssetCheckResult:
        try:
            return judge(topology, step, place_of(context, topology))
        except RsError as error:
            return AssetCheckResult(passed=False, description=str(error))

    return check


def offsets_never_go_back(topology: Topology, source: str, place: Place) -> AssetCheckResult:
    """Within a generation no split's offset is smaller than in an earlier batch; looks at the newest 5,000 rows."""
    splits = len(checkpoints_of(topology, place, source=source))
    rows = checkpoints_of(topology, place, source=source, batches=max(MOST_ROWS // max(splits, 1), 2))
    last: dict[tuple[str, str, int], CheckpointRow] = {}
    back = []
    for row in sorted(rows, key=lambda row: row.place):
        split = (row.name, row.queue, row.generation)
        if split in last and compare_offsets(row.offset, last[split].offset) < 0:
            back.append(f"{row.queue}: batch {row.batch_id} at {row.offset}, after {last[split].offset}")
        last[split] = row
    return _result(back, checkpoints=len(rows))


def no_split_without_owner(topology: Topology, source: str, place: Place) -> AssetCheckResult:
    """Every split that was added and not removed is in the newest checkpoints of its query."""
    rows = checkpoints_of(topology, place, source=source, batches=OWNED_WITHIN)
    newest = {query: max(row.place for row in rows if row.name == query) for query in {row.name for row in rows}}
    there: set[tuple[str, str]] = set()
    for event in place.catalog.rows("splits", pipeline=topology.name, source=source):
        generation, batch = newest.get(event["query"], (-1, -1))
        # Those of a later batch are written before its checkpoint is.
        if event["generation"] == generation and event["batch_id"] <= batch:
            split = event["query"], queue_of(event["split"])
            (there.add if event["event"] == "added" else there.discard)(split)
    owned = {(row.name, row.queue) for row in rows if row.generation == newest[row.name][0]}
    lost = [f"{split} of {query}" for query, split in sorted(there - owned)]
    return _result(lost, splits=len(there))


def checkpoint_is_fresh(topology: Topology, source: str, place: Place) -> AssetCheckResult:
    """While the pipeline runs, its newest checkpoint is less than 15 minutes old."""
    lease = read_lease(place.home.leases, topology.name)
    newest = max((row.at for row in checkpoints_of(topology, place, source=source)), default=None)
    if lease is None or lease.free or newest is None:
        return AssetCheckResult(passed=True, metadata={"running": False})
    age = datetime.now(UTC) - max(newest, lease.acquired_at)
    return AssetCheckResult(
        passed=age <= FRESH,
        severity=AssetCheckSeverity.WARN,
        metadata={"running": True, "age_seconds": age.total_seconds()},
    )


def nothing_fails_beside_the_batches(topology: Topology, source: str, place: Place) -> AssetCheckResult:
    """Background work of the newest run succeeds: the catalog and the savepoints are up to date."""
    plans = [plan for plan in plan_queries(topology) if source in plan.sources]
    lagging = [text for plan in plans if (text := _catalog_lag(topology, plan, place)) is not None]
    return _result([*background_failures_in(place.job(topology)), *lagging], severity=AssetCheckSeverity.WARN)


def _catalog_lag(topology: Topology, plan: QueryPlan, place: Place) -> str | None:
    """A message if the catalog lacks batches that Spark committed a while ago; else None."""
    folder = place.job(topology)
    log = log_of(manifests.load(folder), plan, folder)
    last = -1 if log is None else log.last_committed()
    stored = place.catalog.newest_batch(topology.name, plan.name)
    offsets = log.offsets(stored + 1) if log is not None and stored < last else None
    if offsets is None or datetime.now(UTC) - offsets.started < BEHIND:
        return None
    return f"the catalog lags: it lacks batches {stored + 1} to {last} of query {plan.name!r}"


def savepoint_can_be_read(topology: Topology, _step: str, place: Place) -> AssetCheckResult:
    """Every file of the newest savepoint exists and has its digest."""
    options = place.options()
    mine = readable(options, topology.namespace, topology.job)
    newest = newest_of(options, topology.namespace, topology.job, mine.pipeline_id) if mine is not None else None
    if newest is None:
        return AssetCheckResult(passed=True, description="no savepoint yet", metadata={"files": 0})
    problems = verify(savepoints_of(options), newest)
    return _result(problems, files=len(newest.files), savepoint=newest.id)


def state_rows_equal_the_snapshot(topology: Topology, step: str, place: Place) -> AssetCheckResult:
    """The table of the step's state has as many rows as its newest snapshot says."""
    newest = place.catalog.last("snapshots", pipeline=topology.name, kind="state", step=step)
    if newest is None:
        return AssetCheckResult(passed=True, description="no snapshot of state yet", metadata={"rows": 0})
    table = open_table(newest["uri"])
    rows = -1 if table is None else table.count()
    if table is not None and rows != newest["rows"] and _is_written_since(table, newest):
        return AssetCheckResult(passed=True, description="a newer snapshot is being recorded", metadata={"rows": rows})
    wrong = [] if rows == newest["rows"] else [f"the table has {count_of(rows, 'row')}, the snapshot {newest['rows']}"]
    return _result(wrong, rows=rows, batch_id=newest["batch_id"])


def _is_written_since(table: DeltaTable, snapshot: Mapping[str, Any]) -> bool:
    """Whether a run has written the state again since a snapshot: the table has the rows before the catalog says so."""
    version, mine = int(snapshot["snapshot_id"].rpartition("-v")[2]), f"state.{snapshot['step']}"
    writers = [
        WRITER.fullmatch(str(entry.get("rs.writer", "")))
        for entry in map(noted, table.history(NEWEST))
        if entry["version"] > version
    ]
    return any(writer is not None and writer[3] == mine for writer in writers)


SOURCE_CHECKS: dict[str, Judge] = {
    "offsets_never_go_back": offsets_never_go_back,
    "no_split_without_owner": no_split_without_owner,
    "checkpoint_is_fresh": checkpoint_is_fresh,
    "nothing_fails_beside_the_batches": nothing_fails_beside_the_batches,
}
STATE_CHECKS: dict[str, Judge] = {
    "savepoint_can_be_read": savepoint_can_be_read,
    "state_rows_equal_the_snapshot": state_rows_equal_the_snapshot,
}


def _result(
    problems: Sequence[str], *, severity: AssetCheckSeverity = AssetCheckSeverity.ERROR, **metadata: Any
) -> AssetCheckResult:
    return AssetCheckResult(
        passed=not problems,
        severity=severity,
        description="; ".join(problems[:SHOWN]) or None,
        metadata={**metadata, "problems": len(problems)},
    )

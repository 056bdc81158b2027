"""Asset checks: what must hold of checkpoints and state, judged from the catalog alone."""

# No `from __future__ import annotations` here: Dagster looks at the annotations of a check's function.
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from dagster import AssetCheckResult, AssetChecksDefinition, AssetCheckSeverity, AssetKey, asset_check

from pipelines.runtime.options import RunOptions
from pipelines.runtime.travel import savepoints_of
from pipelines.stream.pipeline import Pipeline
from pipelines.topology.topology import Topology
from resources.background import troubles_in
from resources.checkpoint.catalog import Catalog
from resources.checkpoint.lease import read_lease
from resources.checkpoint.merge import compare_offsets
from resources.checkpoint.savepoints import verify
from resources.checkpoint.storage import CheckpointRow
from resources.errors import RsError
from resources.home import Home
from resources.sink.delta_table import open_table
from rs_assets.catalogued import checkpoints_of
from rs_assets.roles import asset_path

# A running stream that shows no checkpoint for so long is stuck or has no input.
FRESH = timedelta(minutes=15)
# As much as a person reads in a check's text.
SHOWN = 5


def checks_of(pipeline: Pipeline) -> list[AssetChecksDefinition]:
    """All checks over the assets of `pipeline`."""
    topology = pipeline.topology
    made = []
    for source in topology.origins:
        key = AssetKey(asset_path(topology, source.name, "checkpoint"))
        for name, judge in SOURCE_CHECKS.items():
            made.append(_check(key, name, judge, topology, source.name))
    for node in (n for n in topology if n.stateful):
        key = AssetKey(asset_path(topology, node.name, "state"))
        for name, judge in STATE_CHECKS.items():
            made.append(_check(key, name, judge, topology, node.name))
    return made


Judge = Callable[[Topology, str], AssetCheckResult]


def _check(key: AssetKey, name: str, judge: Judge, topology: Topology, step: str) -> AssetChecksDefinition:
    @asset_check(asset=key, name=name, description=(judge.__doc__ or "").splitlines()[0])
    def check() -> AssetCheckResult:
        try:
            return judge(topology, step)
        except RsError as error:
            return AssetCheckResult(passed=False, description=str(error))

    return check


def offsets_never_go_back(topology: Topology, source: str) -> AssetCheckResult:
    """Within a generation no split's offset is smaller than in a batch before."""
    rows = sorted(_rows(topology, source), key=lambda row: row.place)
    last: dict[tuple[str, str, int], CheckpointRow] = {}
    back = []
    for row in rows:
        place = (row.name, row.queue, row.generation)
        if place in last and compare_offsets(row.offset, last[place].offset) < 0:
            back.append(f"{row.queue}: batch {row.batch_id} at {row.offset}, behind {last[place].offset}")
        last[place] = row
    return _result(back, checkpoints=len(rows))


def no_split_without_owner(topology: Topology, source: str) -> AssetCheckResult:
    """Every split that came and did not go is in the newest checkpoint of its query."""
    events = Catalog(Home.default().catalog).rows("splits", pipeline=topology.name)
    there: set[tuple[str, str, int]] = set()
    for event in (e for e in events if e["source"] == source):
        place = (event["query"], event["split"], event["generation"])
        (there.add if event["event"] == "added" else there.discard)(place)
    owned = {(row.name, row.queue, row.generation) for row in _rows(topology, source)}
    lost = [f"{split} of {query}" for query, split, _ in sorted(there - owned)]
    return _result(lost, splits=len(there))


def checkpoint_is_fresh(topology: Topology, source: str) -> AssetCheckResult:
    """While the pipeline is started, its newest checkpoint is younger than 15 minutes."""
    lease = read_lease(Home.default().leases, topology.name)
    newest = max((row.at for row in _rows(topology, source)), default=None)
    if lease is None or lease.free or newest is None:
        return AssetCheckResult(passed=True, metadata={"running": False})
    age = datetime.now(UTC) - max(newest, lease.acquired_at)
    return AssetCheckResult(
        passed=age <= FRESH,
        severity=AssetCheckSeverity.WARN,
        metadata={"running": True, "age_seconds": age.total_seconds()},
    )


def nothing_fails_beside_the_batches(topology: Topology, source: str) -> AssetCheckResult:  # noqa: ARG001  one for all
    """The catalog, savepoints and whatever else is written beside the batches of the newest run are up to date."""
    warnings = troubles_in(Home.default().job(topology.namespace, topology.job))
    return _result(warnings, severity=AssetCheckSeverity.WARN)


def savepoint_can_be_read(topology: Topology, step: str) -> AssetCheckResult:  # noqa: ARG001  one for the pipeline
    """Every file of the newest savepoint is there and has its digest."""
    found = savepoints_of(RunOptions()).savepoints(topology.namespace, topology.job)
    if not found:
        return AssetCheckResult(passed=True, description="no savepoint yet", metadata={"files": 0})
    problems = verify(savepoints_of(RunOptions()), found[0])
    return _result(problems, files=len(found[0].files), savepoint=found[0].id)


def state_rows_equal_the_snapshot(topology: Topology, step: str) -> AssetCheckResult:
    """The table of the step's state has as many rows as its newest snapshot says."""
    snapshots = Catalog(Home.default().catalog).rows("snapshots", pipeline=topology.name, kind="state")
    mine = [row for row in snapshots if row["step"] == step]
    if not mine:
        return AssetCheckResult(passed=True, description="no snapshot of state yet", metadata={"rows": 0})
    table = open_table(mine[-1]["uri"])
    rows = -1 if table is None else table.count()
    wrong = [] if rows == mine[-1]["rows"] else [f"the table has {rows} rows, the snapshot {mine[-1]['rows']}"]
    return _result(wrong, rows=rows, batch_id=mine[-1]["batch_id"])


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


def _rows(topology: Topology, source: str) -> list[CheckpointRow]:
    return checkpoints_of(topology, Home.default(), source)


def _result(
    problems: Sequence[str], *, severity: AssetCheckSeverity = AssetCheckSeverity.ERROR, **metadata: Any
) -> AssetCheckResult:
    return AssetCheckResult(
        passed=not problems,
        severity=severity,
        description="; ".join(problems[:SHOWN]) or None,
        metadata={**metadata, "problems": len(problems)},
    )

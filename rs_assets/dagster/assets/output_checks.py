"""Checks of Delta outputs: the table matches the checkpoints, has its columns, and no record was rejected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from dagster import AssetCheckResult, AssetCheckSeverity
from deltalake import DeltaTable

from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.manifest import Manifest
from rs_assets.common.plural import count_of
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.connectors.dead_letters import dead_letters_of
from rs_assets.connectors.delta.log.commit_info import NEWEST, WRITER, Entry, noted
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.delta.table import open_table
from rs_assets.dagster.place import Place
from rs_assets.records.types import SIMPLE
from rs_assets.runtime.identity import folder_of, log_of
from rs_assets.topology.check.build import check_fields
from rs_assets.topology.topology import Topology

# How long rejected records are reported.
REFUSED_WITHIN = timedelta(days=1)
NOT_WRITTEN = AssetCheckResult(passed=True, description="the table is not written yet")


def table_goes_with_the_checkpoints(topology: Topology, sink: str, place: Place) -> AssetCheckResult:
    """The newest batch in the table is in the pipeline's checkpoints: neither is an older or another copy."""
    table = _table(topology, sink, place)
    if table is None:
        return NOT_WRITTEN
    folder = place.job(topology)
    manifest, plan = manifests.load(folder), _plan(topology, sink)
    if manifest is None:
        return _verdict(["the table exists, but the home has no checkpoint of the pipeline"], version=table.version())
    entry = _newest(table, manifest, sink)
    if entry is None:
        return AssetCheckResult(
            passed=True, description=f"none of the newest {NEWEST} versions is a batch of this pipeline"
        )
    log = log_of(manifest, plan, folder)
    facts = manifest.queries.get(folder_of(manifest, plan) or plan.name)
    now = (facts.generation if facts is not None else 0, log.last_committed() if log is not None else -1)
    there = (int(entry["generation"]), int(entry["rs.batch_id"]))
    # The batch in flight is in the table before Spark has committed it.
    ahead = there[0] > now[0] or (there[0] == now[0] and there[1] > now[1] + 1)
    wrong = f"the table has batch {there[1]} of generation {there[0]}, the checkpoints end with {now[1]} of {now[0]}"
    return _verdict([wrong] * ahead, version=table.version(), batch=there[1], last_committed=now[1])


def columns_are_as_written(topology: Topology, sink: str, place: Place) -> AssetCheckResult:
    """The table has every column that the pipeline writes, with its type, as far as it is known when it is built."""
    table, fields = _table(topology, sink, place), check_fields(topology)[sink]
    if table is None:
        return NOT_WRITTEN
    node = topology[sink]
    gone = {node.deletes} if isinstance(node, DeltaSink) else set()
    there = {field.name.casefold(): str(field.type.type) for field in table.schema().fields}
    plain = {
        name: kind.name for name, kind in fields.types.items() if kind is not None and kind.name in SIMPLE.values()
    }
    lacking = [name for name in fields.types if name.casefold() not in there and name not in gone]
    other = [
        f"{name} is {found}, not {kind}"
        for name, kind in plain.items()
        if (found := SIMPLE.get(there.get(name.casefold(), ""))) not in (None, kind)
    ]
    return _verdict([*(f"it lacks {name}" for name in lacking), *other], columns=len(there))


def no_records_refused(topology: Topology, sink: str, place: Place) -> AssetCheckResult:
    """No record on its way to the table became a dead letter within a day."""
    since, query = datetime.now(UTC) - REFUSED_WITHIN, _plan(topology, sink).name
    letters = dead_letters_of(place.home.dead_letters, topology.namespace, topology.job, after=since)
    refused = sum(name == query for name in letters.column("query").to_pylist())
    found = f"{count_of(refused, 'record')} rejected within a day: rs-assets dead-letters {topology.name}"
    problems = [f"{found}; once the code is corrected: rs-assets redrive {topology.name}"]
    return _verdict(problems * bool(refused), severity=AssetCheckSeverity.WARN, dead_letters=refused)


OUTPUT_CHECKS = {
    "table_goes_with_the_checkpoints": table_goes_with_the_checkpoints,
    "columns_are_as_written": columns_are_as_written,
    "no_records_refused": no_records_refused,
}


def checked_outputs(topology: Topology) -> Iterator[str]:
    """The sinks with these checks; not tables of late rows, which have the columns of the late rows."""
    yield from (sink.name for sink in topology.sinks if isinstance(sink, DeltaSink) and not sink.late)


def _table(topology: Topology, sink: str, place: Place) -> DeltaTable | None:
    node = topology[sink]
    return open_table(place.home.table(topology.namespace, node.table)) if isinstance(node, DeltaSink) else None


def _plan(topology: Topology, sink: str) -> QueryPlan:
    return next(plan for plan in plan_queries(topology) if sink in plan.sinks)


def _newest(table: DeltaTable, manifest: Manifest, sink: str) -> Entry | None:
    """The newest history entry of the table from a batch of this sink, with its generation."""
    names = {sink, manifest.aliases.get(sink, sink)}
    for entry in map(noted, table.history(NEWEST)):
        match = WRITER.fullmatch(str(entry.get("rs.writer", "")))
        if match and match[1] == manifest.pipeline_id and match[3] in names:
            return {**entry, "generation": int(match[2])}
    return None


def _verdict(
    problems: list[str], *, severity: AssetCheckSeverity = AssetCheckSeverity.ERROR, **metadata: int
) -> AssetCheckResult:
    found: Mapping[str, int] = {**metadata, "problems": len(problems)}
    return AssetCheckResult(
        passed=not problems, severity=severity, description="; ".join(problems[:5]) or None, metadata=found
    )

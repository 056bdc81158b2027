"""The checkpoint sensor: reports new batches as events of the checkpoint, state and output assets.

So the lineage is live while a stream runs, and correct for runs outside of Dagster, too: the runtime writes the
catalog, not a Dagster run. What a run of Dagster has reported itself is not reported again: each event of an output
starts the assets downstream.
"""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from dagster import (
    AssetKey,
    AssetMaterialization,
    AssetObservation,
    DagsterInstance,
    DataVersion,
    DefaultSensorStatus,
    MetadataValue,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)
from deltalake import DeltaTable

from rs_assets.catalog.lease import LeaseRow, read_lease
from rs_assets.catalog.offsets import CheckpointRow
from rs_assets.common.background import BackgroundFailures
from rs_assets.common.processes import has_ended
from rs_assets.connectors.delta.log.commit_info import CLAIMED, FENCED, NEWEST, REWOUND, WRITER, Entry, noted
from rs_assets.connectors.delta.log.history import HARMLESS
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.delta.table import open_table
from rs_assets.dagster.assets.output_tables import Metadata, OutputTables
from rs_assets.dagster.assets.positions import as_records
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.checkpoint_rows import checkpoints_of
from rs_assets.dagster.place import Place, instance_of, place_of
from rs_assets.dagster.sensors import cursor
from rs_assets.dagster.sensors.stream_runs import LAUNCHED_WITHIN
from rs_assets.operators.window.event_time import watermark_in_words
from rs_assets.topology.topology import Topology

Event = AssetMaterialization | AssetObservation
# Dagster's tag of an event's data version.
DATA_VERSION = "dagster/data_version"
# The version of each table at the last look.
TABLES = "tables"
# The reported snapshots: those of the last minutes by name, with their times, and when reporting has begun.
SNAPSHOTS = "snapshots"
# Events of snapshots in a tick: a tick has a minute, and a sensor that was off may have missed thousands.
MOST_SNAPSHOTS = 100
# Events of an output among which the last one with a version is looked for.
MOST_EVENTS = 50
# A snapshot may come into the catalog after a later one: another thread takes it, or a machine whose clock lags.
SNAPSHOTS_WITHIN = timedelta(minutes=10)


def checkpoint_sensor(assets: StreamAssets, *, running: bool = True) -> SensorDefinition | None:
    """Reports new checkpoints and snapshots of a pipeline as runless events of its assets.

    Checkpoints of a run of Dagster are left to that run; when it has ended, those that it did not report are reported.
    `running` is whether the sensor is on by default.
    """
    topology = assets.topology

    @sensor(
        name=f"{assets.label}_checkpoints",
        minimum_interval_seconds=30,
        default_status=DefaultSensorStatus.RUNNING if running else DefaultSensorStatus.STOPPED,
        description=f"Reports the batches and snapshots of {assets.name} from the catalog.",
    )
    def checkpoints(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        place = place_of(context, topology)
        seen = cursor.of_home(context.cursor, place, topology)
        instance, going = instance_of(context), _run_that_reports(context, topology, place)
        rows = [row for row in _new_rows(topology, place, seen) if row.run_id != going]
        snapshots = _new_snapshots(topology, place, seen)
        tables, versions = _table_news(assets, place, seen, instance) if going is None else ([], {})
        if not rows and not snapshots and not versions:
            return SkipReason("no new checkpoint")
        states = _state_events(assets, snapshots, instance)
        events = [*_checkpoint_events(assets, rows, seen, instance), *states, *tables]
        moved = {**_moved(seen, rows, snapshots), TABLES: {**seen.get(TABLES, {}), **versions}}
        return SensorResult(
            asset_events=events,
            cursor=cursor.dump(moved),
            skip_reason=None if events else "what is new was reported by its run",
        )

    return checkpoints


def _run_that_reports(context: SensorEvaluationContext, topology: Topology, place: Place) -> str | None:
    """The run of Dagster that had the lease last and reports its own batches; None without one."""
    lease, instance = read_lease(place.home.leases, topology.name), instance_of(context)
    if lease is None or instance is None or not _may_report(lease):
        return None
    run = instance.get_run_by_id(lease.run_id)
    return run.run_id if run is not None and not run.is_finished else None


def _may_report(lease: LeaseRow) -> bool:
    """Whether the process of a lease goes on: a run gives its lease back before it reports its last batches."""
    if not lease.released:
        return not (lease.free or lease.stale)
    return lease.age < LAUNCHED_WITHIN and not has_ended(lease.host, lease.pid, lease.process_started)


def _new_rows(topology: Topology, place: Place, seen: dict[str, Any]) -> list[CheckpointRow]:
    sources = {source.name for source in topology.origins}
    mine = (row for row in checkpoints_of(topology, place) if row.topic in sources)
    return [row for row in mine if list(row.place) > seen.get(_key(row), [0, -1])]


def _new_snapshots(topology: Topology, place: Place, seen: dict[str, Any]) -> list[dict[str, Any]]:
    """Snapshots since the last tick; at the first tick the newest of each kind and step."""
    told = _told(seen)
    if told is not None:
        begun = datetime.fromisoformat(told["begun"])
        since = max(begun, _last(told) - SNAPSHOTS_WITHIN)
        found = place.catalog.rows("snapshots", at_least={"at": since}, pipeline=topology.name)
        return [row for row in found if row["at"] > begun and _name(row) not in told["names"]][-MOST_SNAPSHOTS:]
    kinds = [{"kind": "savepoint"}, *({"kind": "state", "step": node.name} for node in topology if node.stateful)]
    newest = (place.catalog.last("snapshots", pipeline=topology.name, **kind) for kind in kinds)
    return [row for row in newest if row is not None]


def _told(seen: dict[str, Any]) -> dict[str, Any] | None:
    """The reported snapshots; a cursor of an earlier release has the time of the last one alone."""
    told = seen.get(SNAPSHOTS)
    return {"begun": told, "names": {}} if isinstance(told, str) else told


def _name(snapshot: dict[str, Any]) -> str:
    """Unique for each snapshot: a table of state that is made again counts its versions again."""
    return f"{snapshot['snapshot_id']} {snapshot['at'].isoformat()}"


def _last(told: dict[str, Any]) -> datetime:
    return max(map(datetime.fromisoformat, (told["begun"], *told["names"].values())))


def _moved(seen: dict[str, Any], rows: Sequence[CheckpointRow], snapshots: Sequence[dict[str, Any]]) -> dict[str, Any]:
    moved = dict(seen)
    for row in rows:
        moved[_key(row)] = list(row.place)
    if snapshots:
        new = {_name(row): row["at"].isoformat() for row in snapshots}
        told = _told(seen) or {"begun": max(row["at"] for row in snapshots).isoformat(), "names": {}}
        told = {**told, "names": {**told["names"], **new}}
        since = _last(told) - SNAPSHOTS_WITHIN
        names = {name: at for name, at in told["names"].items() if datetime.fromisoformat(at) >= since}
        moved[SNAPSHOTS] = {**told, "names": names}
    return moved


def _key(row: CheckpointRow) -> str:
    return f"{row.name}/{row.topic}"


def _state_event(assets: StreamAssets, row: dict[str, Any], *, reported: bool) -> Event:
    """A snapshot of state; `reported` if its run is one of Dagster, which has materialized the asset.

    A second materialization would hide the numbers of the run, and its outputs would be out of sync.
    """
    key, text = assets.key(row["step"]), f"state after batch {row['batch_id']}, as rows"
    metadata: dict[str, Any] = {
        "dagster/row_count": row["rows"],
        "dagster/uri": MetadataValue.path(row["uri"]),
        "batch_id": row["batch_id"],
        "snapshot": row["snapshot_id"],
        "run": row["run_id"],
    }
    if reported:
        return AssetObservation(key, description=text, metadata=metadata)
    version = DataVersion(f"{row['generation']}-{row['batch_id']}").value
    return AssetMaterialization(key, description=text, metadata=metadata, tags={DATA_VERSION: version})


def _checkpoint_events(
    assets: StreamAssets, rows: Sequence[CheckpointRow], seen: dict[str, Any], instance: DagsterInstance | None
) -> Iterator[AssetMaterialization]:
    """One event for each source and query: its newest checkpoint, with the offset of every split."""
    for key, first in {_key(row): row for row in rows}.items():
        if _is_reported(instance, assets.key(first.topic), first):
            continue
        now = [row for row in rows if _key(row) == key]
        generation, batch = seen.get(key, [0, -1])
        splits = {row.queue: row.offset for row in now}
        yield AssetMaterialization(
            assets.key(first.topic),
            description=f"batch {first.batch_id} of query {first.name}, from the catalog",
            metadata={
                "query": first.name,
                "generation": first.generation,
                "batch_id": first.batch_id,
                "batches": first.batch_id - (batch if generation == first.generation else -1),
                "splits": len(now),
                "committed_offsets": MetadataValue.table(as_records(splits)),
                "run": first.run_id,
                "committed_at": MetadataValue.timestamp(first.at),
                **({"watermark": watermark_in_words(first.watermark)} if first.watermark else {}),
            },
            tags={DATA_VERSION: DataVersion(f"{first.generation}-{first.batch_id}").value},
        )


def _is_reported(instance: DagsterInstance | None, key: AssetKey, row: CheckpointRow) -> bool:
    """Whether a checkpoint was reported: by the run that made it, or in a tick whose cursor was lost."""
    newest = instance.get_latest_materialization_event(key) if instance is not None else None
    if newest is None or newest.asset_materialization is None:
        return False
    told = {name: str(value.value) for name, value in newest.asset_materialization.metadata.items()}
    if newest.run_id == row.run_id and "batch" in told:
        return int(told["batch"]) >= row.batch_id
    return (told.get("query"), told.get("generation"), told.get("batch_id")) == (row.name, *map(str, row.place))


def _table_news(
    assets: StreamAssets, place: Place, seen: dict[str, Any], instance: DagsterInstance | None = None
) -> tuple[list[AssetMaterialization], dict[str, int]]:
    """An event for each Delta output whose rows have changed, unless a run reported it; and the new versions."""
    outputs, events, versions = OutputTables(assets), list[AssetMaterialization](), dict[str, int]()
    for path, key, sink in (
        (place.home.table(assets.topology.namespace, sink.table), assets.key(sink.name), sink.name)
        for sink in assets.topology.sinks
        if isinstance(sink, DeltaSink)
    ):
        table, name = open_table(path), key.to_user_string()
        looked = seen.get(TABLES, {}).get(name, -1)
        if table is None or table.version() == looked:
            continue
        versions[name] = table.version()
        found = _last_batch(assets.name, table, known=(looked, _reported_version(instance, key, path)))
        if found is not None:
            events.append(_table_event(outputs, key, sink, path, table, found))
    return events, versions


def _last_batch(pipeline: str, table: DeltaTable, *, known: Sequence[int]) -> tuple[str, int] | None:
    """What the pipeline did last to the table, in words, and its batch; None if no row has changed since `known`."""
    entries = [noted(entry) for entry in table.history(NEWEST)]
    changed = next((entry["version"] for entry in entries if _changes_rows(entry)), -1)
    # A version that the table has not reached is one of another table, in whose place it is.
    if any(changed <= version <= table.version() for version in known):
        return None
    for entry in entries:
        if not str(entry.get(CLAIMED, "")).startswith(f"{pipeline}/claim/"):
            continue
        # Ops write into the table, too.
        if WRITER.fullmatch(str(entry.get("rs.writer", ""))) is not None:
            return f"version {entry['version']}, by batch {entry['rs.batch_id']}", int(entry["rs.batch_id"])
        if REWOUND in entry:
            return f"version {entry['version']}, back to batch {entry['rs.rewound_to']}", int(entry["rs.rewound_to"])
    return None


def _changes_rows(entry: Entry) -> bool:
    return entry.get("operation") not in HARMLESS and FENCED not in entry


def _table_event(
    outputs: OutputTables, key: AssetKey, sink: str, path: str, table: DeltaTable, found: tuple[str, int]
) -> AssetMaterialization:
    text, batch = found
    shown: Metadata = {"delta_version": table.version()}
    with BackgroundFailures().guarding(f"Dagster does not show the table of {sink}"):
        shown = outputs.metadata(sink, path, table)
    return AssetMaterialization(
        key,
        description=f"{text}, from the table",
        metadata={**shown, "batch_id": batch},
        tags={DATA_VERSION: DataVersion(str(table.version())).value},
    )


def _reported_version(instance: DagsterInstance | None, key: AssetKey, path: str) -> int:
    """The version of the table at `path` in the newest event of its asset that has one; -1 without such an event."""
    records = instance.fetch_materializations(key, limit=MOST_EVENTS).records if instance is not None else ()
    for record in records:
        made = record.asset_materialization
        metadata = made.metadata if made is not None else {}
        if {"dagster/uri", "delta_version"} <= metadata.keys() and metadata["dagster/uri"].value == path:
            return int(str(metadata["delta_version"].value))
    return -1


def _state_events(
    assets: StreamAssets, snapshots: Sequence[dict[str, Any]], instance: DagsterInstance | None
) -> Iterator[Event]:
    stateful = {node.name for node in assets.topology if node.stateful}
    for row in snapshots:
        if row["kind"] == "state" and row["step"] in stateful:
            yield _state_event(assets, row, reported=instance is not None and instance.has_run(row["run_id"]))
        elif row["kind"] == "savepoint":
            for source in assets.topology.origins:
                yield AssetObservation(
                    assets.key(source.name),
                    description=f"savepoint {row['snapshot_id']}",
                    metadata={
                        "savepoint": row["snapshot_id"],
                        "savepoint_bytes": row["bytes"],
                        "batch_id": row["batch_id"],
                    },
                )

"""The checkpoint sensor: what the catalog has of new batches becomes events of the checkpoint and state assets.

So the lineage is live while a stream runs, and stays true whoever runs the pipeline: the catalog is written by the
runtime, not by a Dagster run.
"""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
from collections.abc import Iterator, Sequence
from typing import Any

from dagster import (
    AssetKey,
    AssetMaterialization,
    AssetObservation,
    DataVersion,
    MetadataValue,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    TableRecord,
    sensor,
)

from pipelines.stream.pipeline import Pipeline
from pipelines.topology.topology import Topology
from resources.checkpoint.catalog import Catalog
from resources.checkpoint.storage import CheckpointRow
from resources.home import Home
from rs_assets.assets import pipeline_name
from rs_assets.catalogued import checkpoints_of
from rs_assets.roles import asset_path
from rs_assets.sensors import cursor

Event = AssetMaterialization | AssetObservation
# Dagster's tag for what version of the data an event speaks of.
DATA_VERSION = "dagster/data_version"


def checkpoint_sensor(pipeline: Pipeline) -> SensorDefinition | None:
    """Reports new checkpoints and snapshots of `pipeline` as runless events of its assets."""
    topology = pipeline.topology

    @sensor(
        name=f"{pipeline_name(topology)}_checkpoints",
        minimum_interval_seconds=30,
        description=f"Reports the batches and snapshots of {pipeline.name} from the catalog.",
    )
    def checkpoints(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        home, seen = Home.default(), cursor.load(context.cursor)
        rows = _new_rows(topology, home, seen)
        snapshots = _new_snapshots(topology, home, seen)
        if not rows and not snapshots:
            return SkipReason("no new checkpoint")
        events = [*_checkpoint_events(topology, rows), *_state_events(topology, snapshots)]
        return SensorResult(asset_events=events, cursor=cursor.dump(_moved(seen, rows, snapshots)))

    return checkpoints


def _new_rows(topology: Topology, home: Home, seen: dict[str, Any]) -> list[CheckpointRow]:
    sources = {source.name for source in topology.origins}
    mine = (row for row in checkpoints_of(topology, home) if row.topic in sources)
    return [row for row in mine if list(row.place) > seen.get(f"{row.name}/{row.topic}", [0, -1])]


def _new_snapshots(topology: Topology, home: Home, seen: dict[str, Any]) -> list[dict[str, Any]]:
    found = Catalog(home.catalog).rows("snapshots", pipeline=topology.name)
    return [row for row in found if row["at"].isoformat() > seen.get("snapshots", "")]


def _moved(seen: dict[str, Any], rows: Sequence[CheckpointRow], snapshots: Sequence[dict[str, Any]]) -> dict[str, Any]:
    moved = dict(seen)
    for row in rows:
        key = f"{row.name}/{row.topic}"
        moved[key] = max(moved.get(key, [0, -1]), list(row.place))
    if snapshots:
        moved["snapshots"] = max(row["at"].isoformat() for row in snapshots)
    return moved


def _checkpoint_events(topology: Topology, rows: Sequence[CheckpointRow]) -> Iterator[AssetMaterialization]:
    """One event for each source and query: its newest checkpoint, with the offset of every split."""
    newest: dict[tuple[str, str], tuple[int, int]] = {}
    for row in rows:
        newest[row.topic, row.name] = max(newest.get((row.topic, row.name), (0, -1)), row.place)
    for (source, query), place in newest.items():
        now = [row for row in rows if (row.topic, row.name, row.place) == (source, query, place)]
        batches = {row.place for row in rows if (row.topic, row.name) == (source, query)}
        records = [TableRecord({"split": row.queue, "offset": row.offset}) for row in now]
        yield AssetMaterialization(
            AssetKey(asset_path(topology, source, "checkpoint")),
            description=f"batch {place[1]} of query {query}, from the catalog",
            metadata={
                "query": query,
                "generation": place[0],
                "batch_id": place[1],
                "batches": len(batches),
                "splits": len(now),
                "committed_offsets": MetadataValue.table(records),
                "run": now[0].run_id,
                "committed_at": MetadataValue.timestamp(now[0].at),
                **({"watermark": MetadataValue.timestamp(now[0].watermark)} if now[0].watermark else {}),
            },
            tags={DATA_VERSION: DataVersion(f"{place[0]}-{place[1]}").value},
        )


def _state_events(topology: Topology, snapshots: Sequence[dict[str, Any]]) -> Iterator[Event]:
    stateful = {node.name for node in topology if node.stateful}
    for row in snapshots:
        if row["kind"] == "state" and row["step"] in stateful:
            yield AssetMaterialization(
                AssetKey(asset_path(topology, row["step"], "state")),
                description=f"state after batch {row['batch_id']}, as rows",
                metadata={
                    "dagster/row_count": row["rows"],
                    "dagster/uri": MetadataValue.path(row["uri"]),
                    "batch_id": row["batch_id"],
                    "snapshot": row["snapshot_id"],
                    "run": row["run_id"],
                },
                tags={DATA_VERSION: DataVersion(f"{row['generation']}-{row['batch_id']}").value},
            )
        elif row["kind"] == "savepoint":
            for source in topology.origins:
                yield AssetObservation(
                    AssetKey(asset_path(topology, source.name, "checkpoint")),
                    description=f"savepoint {row['snapshot_id']}",
                    metadata={
                        "savepoint": row["snapshot_id"],
                        "savepoint_bytes": row["bytes"],
                        "batch_id": row["batch_id"],
                    },
                )

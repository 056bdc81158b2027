"""The split sensor: splits of a source that were added or removed, also while nothing runs."""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
from dagster import (
    AssetKey,
    AssetObservation,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.place import place_of
from rs_assets.dagster.sensors import cursor
from rs_assets.dagster.sensors.inputs import ends_of, watched
from rs_assets.errors import SourceReadError

# Names in an event.
SHOWN = 20


def split_change_sensor(assets: StreamAssets) -> SensorDefinition | None:
    """Observes a source's checkpoint asset when its splits have changed; None without sources that can change."""
    topology = assets.topology
    sources = watched(topology)
    if not sources:
        return None

    @sensor(
        name=f"{assets.label}_split_change",
        minimum_interval_seconds=30,
        description=f"Reports added and removed splits of {assets.name}.",
    )
    def split_change(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        known: dict[str, list[str]] = cursor.load(context.cursor)
        try:
            now = {name: sorted(ends) for name, ends in ends_of(sources, place_of(context, topology).home).items()}
        except SourceReadError as error:
            return SkipReason(str(error))
        events = [
            _observation(assets.key(name), set(known.get(name, ())), set(splits))
            for name, splits in now.items()
            if known.get(name) != splits
        ]
        if not events:
            return SkipReason("no split was added or removed")
        return SensorResult(asset_events=events, cursor=cursor.dump(now))

    return split_change


def _observation(key: AssetKey, known: set[str], now: set[str]) -> AssetObservation:
    added, removed = sorted(now - known), sorted(known - now)
    return AssetObservation(
        key,
        description=f"{len(added)} splits added, {len(removed)} removed",
        metadata={
            "splits": len(now),
            "splits_added": len(added),
            "splits_removed": len(removed),
            "added": ", ".join(added[:SHOWN]) or "none",
            "removed": ", ".join(removed[:SHOWN]) or "none",
        },
    )

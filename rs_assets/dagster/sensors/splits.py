"""The split sensor: splits of a source that were added or removed, also while nothing runs."""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
from dataclasses import dataclass

from dagster import (
    AssetKey,
    AssetObservation,
    AssetRecordsFilter,
    DagsterInstance,
    DefaultSensorStatus,
    EventLogRecord,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from rs_assets.checkpoint import manifest as manifests
from rs_assets.common.plural import count_of
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.place import place_of
from rs_assets.dagster.sensors import cursor
from rs_assets.dagster.sensors.inputs import ends_of, lasting
from rs_assets.errors import SourceReadError

# Names in an event.
SHOWN = 20
# Events of an asset that are read at once.
PAGE = 100
SPLITS, ADDED, REMOVED, FIRST_LOOK = "splits", "splits_added", "splits_removed", "first_look"


def split_change_sensor(assets: StreamAssets, *, running: bool = True) -> SensorDefinition | None:
    """Observes a source's checkpoint asset when its splits have changed; None without sources that can change.

    It looks after the first run of the pipeline; its first look is an event that says so. `running` is whether the
    sensor is on by default.
    """
    topology = assets.topology
    sources = lasting(topology)
    if not sources:
        return None

    @sensor(
        name=f"{assets.label}_split_change",
        minimum_interval_seconds=15,
        default_status=DefaultSensorStatus.RUNNING if running else DefaultSensorStatus.STOPPED,
        description=f"Reports added and removed splits of {assets.name}.",
    )
    def split_change(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        place = place_of(context, topology)
        if manifests.load(place.job(topology)) is None:
            return SkipReason("it has not run yet")
        known: dict[str, list[str]] = cursor.load(context.cursor)
        try:
            now = {name: sorted(ends) for name, ends in ends_of(sources, place.home).items()}
        except SourceReadError as error:
            return SkipReason(str(error))
        events = [
            _observation(assets.key(name), known.get(name), splits)
            for name, splits in now.items()
            if known.get(name) != splits
        ]
        if not events:
            return SkipReason("no split was added or removed")
        return SensorResult(asset_events=events, cursor=cursor.dump(now))

    return split_change


def _observation(key: AssetKey, known: list[str] | None, splits: list[str]) -> AssetObservation:
    before, now = set(known or ()), set(splits)
    added, removed = sorted(now - before), sorted(before - now)
    there = count_of(len(now), "split")
    change = f"{count_of(len(added), 'split')} added, {len(removed)} removed: {there}"
    return AssetObservation(
        key,
        description=change if known is not None else f"first look: {there}",
        metadata={
            SPLITS: len(now),
            ADDED: len(added),
            REMOVED: len(removed),
            FIRST_LOOK: known is None,
            "added": ", ".join(added[:SHOWN]) or "none",
            "removed": ", ".join(removed[:SHOWN]) or "none",
        },
    )


@dataclass(frozen=True, slots=True)
class SplitEvent:
    """An event of the split sensor in Dagster's log. `change` is how many splits were added; 0 at a first look."""

    record: EventLogRecord
    description: str
    splits: int
    change: int


def split_events(instance: DagsterInstance, key: AssetKey, after: int | None) -> tuple[list[SplitEvent], int | None]:
    """The events of the split sensor on an asset after the event `after`, the oldest first, and the last event read.

    Without `after`: those among the newest events of the asset.
    """
    if after is None:
        found = list(reversed(instance.fetch_observations(key, limit=PAGE).records))
    else:
        since = AssetRecordsFilter(asset_key=key, after_storage_id=after)
        found = list(instance.fetch_observations(since, limit=PAGE, ascending=True).records)
    events = [event for event in map(_event, found) if event is not None]
    return events, found[-1].storage_id if found else after


def _event(record: EventLogRecord) -> SplitEvent | None:
    """The record as an event of the split sensor; None if it is another one."""
    observed = record.asset_observation
    if observed is None or ADDED not in observed.metadata:
        return None
    added, removed, splits = (int(str(observed.metadata[name].value)) for name in (ADDED, REMOVED, SPLITS))
    first = FIRST_LOOK in observed.metadata and bool(observed.metadata[FIRST_LOOK].value)
    return SplitEvent(record, observed.description or "", splits, 0 if first else added - removed)

"""The partition sensor: each partition that has closed is a materialized partition of the asset of closed ones.

Only this sensor reports them, so each is reported once, and downstream assets start once.
"""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from dagster import (
    AssetKey,
    AssetMaterialization,
    AssetObservation,
    DefaultSensorStatus,
    MetadataValue,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from rs_assets.dagster.assets.closed_partitions import closed_key, parted_sinks
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.place import place_of
from rs_assets.dagster.sensors import cursor
from rs_assets.operators.window.event_time import watermark_in_words
from rs_assets.runtime.run.partitions import OutputPartitions, Partition, partitions_of

Event = AssetMaterialization | AssetObservation
HOME = "home"
# Partitions in a tick: a first run over years of input closes thousands at once, and a tick has a minute.
MOST = 500
# Of so many of the newest reported partitions of an output it is noticed that rows came after they had closed.
WATCHED = 200


def partition_sensor(assets: StreamAssets, *, running: bool = True) -> SensorDefinition | None:
    """Reports closed partitions of a pipeline's outputs; None if no output has partitions by event time.

    `running` is whether the sensor is on by default.
    """
    sinks = parted_sinks(assets)
    if not sinks:
        return None

    @sensor(
        name=f"{assets.label}_partitions",
        minimum_interval_seconds=30,
        default_status=DefaultSensorStatus.RUNNING if running else DefaultSensorStatus.STOPPED,
        description=f"Reports the closed partitions of {assets.name}, from its tables and watermarks.",
    )
    def partitions(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        place, seen = place_of(context, assets.topology), cursor.load(context.cursor)
        if seen.get(HOME) not in (None, str(place.home.root)):
            # The cursor is of another home.
            seen = {}
        events, moved = list[Event](), dict[str, Any]({HOME: str(place.home.root)})
        for sink in sinks:
            found = partitions_of(assets.topology, place.options(), sink=sink.name)
            reported = Reported.of(seen.get(sink.name, {}))
            events += reported.events(closed_key(assets, sink.name), found, datetime.now(UTC))
            moved[sink.name] = reported.cursor()
        if not events and moved == seen:
            return SkipReason("no partition has closed")
        return SensorResult(asset_events=events, cursor=cursor.dump(moved))

    return partitions


@dataclass(slots=True)
class Reported:
    """What was reported of one output: partitions that end at `until` or before.

    Of the newest ones `seen` has the rows, and the late rows, as they were reported.
    """

    until: datetime | None
    seen: dict[str, list[int]]

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        """As a cursor has it; {} for nothing."""
        until = stored.get("until")
        return cls(None if until is None else datetime.fromisoformat(until), dict(stored.get("seen", {})))

    def cursor(self) -> dict[str, Any]:
        """For a cursor."""
        return {"until": None if self.until is None else self.until.isoformat(), "seen": self.seen}

    def events(self, key: AssetKey, found: OutputPartitions, now: datetime) -> list[Event]:
        """The events of partitions that have closed since, and of closed ones whose rows have changed.

        Dagster has no partition that is not over on the clock: those are reported later.
        """
        closed = [each for each in found.closed if each.known and each.end <= now]
        # After a rewind partitions close once more.
        ends = [each.end for each in closed[-1:]]
        self.until = min(self.until, *ends) if self.until is not None and ends else None
        until = self.until
        fresh = [each for each in closed if until is None or each.end > until][:MOST]
        told = self.seen
        changed = [each for each in closed if each not in fresh and told.get(each.key, _now(each)) != _now(each)]
        events: list[Event] = [_changed(key, each, told[each.key], found) for each in changed]
        events += [_closed(key, each, found) for each in fresh]
        if fresh:
            self.until = fresh[-1].end
        seen = told | {each.key: _now(each) for each in (*changed, *fresh)}
        reported = [each.key for each in closed if each.key in seen][-WATCHED:]
        self.seen = {name: seen[name] for name in reported}
        return events


def _now(partition: Partition) -> list[int]:
    """What is noticed when it changes."""
    return [partition.rows, partition.late]


def _closed(key: AssetKey, partition: Partition, found: OutputPartitions) -> AssetMaterialization:
    return AssetMaterialization(
        key,
        partition=partition.key,
        description=f"closed with {partition.rows:,} rows",
        metadata=_metadata(partition, found),
    )


def _changed(key: AssetKey, partition: Partition, before: list[int], found: OutputPartitions) -> AssetObservation:
    rows, late = before
    now = f"{partition.rows:,} now; {partition.late:,} late rows"
    return AssetObservation(
        key,
        partition=partition.key,
        description=f"changed since it closed: {rows:,} rows then, {now}",
        metadata={**_metadata(partition, found), "rows_before": rows, "rows_late_before": late},
    )


def _metadata(partition: Partition, found: OutputPartitions) -> dict[str, Any]:
    return {
        "dagster/row_count": partition.rows,
        "rows_late": partition.late,
        "bytes": partition.bytes,
        "files": partition.files,
        "start": MetadataValue.timestamp(partition.start),
        "end": MetadataValue.timestamp(partition.end),
        "delta_version": found.version,
        "watermark": watermark_in_words(found.reached) if found.reached is not None else "none",
    }

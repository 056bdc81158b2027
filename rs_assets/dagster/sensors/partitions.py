"""The partition sensor: each partition that has closed is a materialized partition of the asset of closed ones.

Only this sensor reports them, so each is reported once, and downstream assets start once.
"""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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

from rs_assets.catalog.lease import read_lease
from rs_assets.common.plural import count_of
from rs_assets.dagster.assets.closed_partitions import closed_key
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.place import Place, place_of
from rs_assets.dagster.sensors import cursor
from rs_assets.operators.window.event_time import watermark_in_words
from rs_assets.recovery import rollback_marker
from rs_assets.runtime.recorded.partitions import OutputPartitions, Partition, parted_sinks, partitions_of
from rs_assets.topology.topology import Topology

Event = AssetMaterialization | AssetObservation
# The partitions that a cursor is of.
BY = "by"
# Partitions in a tick: a first run over years of input closes thousands at once, and a tick has a minute.
MOST = 500
# Before all partitions.
NOTHING = datetime.min.replace(tzinfo=UTC)
# Of so many of the newest reported partitions of an output it is noticed that rows came after they had closed.
WATCHED = 200


def partition_sensor(assets: StreamAssets, *, running: bool = True) -> SensorDefinition | None:
    """Reports closed partitions of a pipeline's outputs; None if no output has partitions by event time.

    `running` is whether the sensor is on by default.
    """
    sinks = parted_sinks(assets.topology)
    if not sinks:
        return None

    @sensor(
        name=f"{assets.label}_partitions",
        minimum_interval_seconds=30,
        default_status=DefaultSensorStatus.RUNNING if running else DefaultSensorStatus.STOPPED,
        description=f"Reports the closed partitions of {assets.name}, from its tables and watermarks.",
    )
    def partitions(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        place = place_of(context, assets.topology)
        seen = cursor.of_home(context.cursor, place, assets.topology)
        events, moved = list[Event](), {name: seen[name] for name in (cursor.HOME, cursor.PIPELINE) if name in seen}
        unread: Exception | None = None
        for sink, parts in sinks:
            # Partitions by another unit, field or zone are others.
            before, parted = seen.get(sink.name, {}), str(parts)
            reported = Reported.of(before if before.get(BY) == parted else {})
            try:
                found = partitions_of(assets.topology, place.options(), sink=sink.name)
            except Exception as error:
                if _goes_back(place, assets.topology):
                    return SkipReason("the pipeline is being rolled back")
                # A damaged table must not hold back the other outputs.
                context.log.exception("the partitions of %s cannot be read", sink.name)
                moved |= {sink.name: before} if before else {}
                unread = error
                continue
            events += reported.events(closed_key(assets, sink.name), found, datetime.now(UTC))
            moved[sink.name] = {BY: parted, **reported.cursor()}
        if events or moved != cursor.load(context.cursor):
            return SensorResult(asset_events=events, cursor=cursor.dump(moved))
        if unread is not None:
            # Nothing of the others is lost: the tick shows what is wrong.
            raise unread
        return SkipReason("no partition has closed")

    return partitions


@dataclass(slots=True)
class Reported:
    """What was reported of one output: partitions from `since` to `until`.

    Of the newest ones `seen` has the rows, and the late rows, as they were reported. `generation` is that of the
    query's checkpoint at that time.
    """

    since: datetime | None = None
    until: datetime | None = None
    seen: dict[str, list[int]] = field(default_factory=dict)
    generation: int | None = None

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        """As a cursor has it; {} for nothing."""
        since, until = (datetime.fromisoformat(at) if (at := stored.get(edge)) else None for edge in ("since", "until"))
        return cls(since, until, dict(stored.get("seen", {})), stored.get("generation"))

    def cursor(self) -> dict[str, Any]:
        """For a cursor."""
        times = {"since": self.since, "until": self.until}
        shown = {name: None if at is None else at.isoformat() for name, at in times.items()}
        return {**shown, "seen": self.seen, "generation": self.generation}

    def events(self, key: AssetKey, found: OutputPartitions, now: datetime) -> list[Event]:
        """The events of partitions that have closed since, and of closed ones whose rows have changed.

        Dagster has no partition that is not over on the clock: those are reported later.
        """
        if found.reached is None:
            # As before the first batch, or of a step with a new name: what was reported stays.
            return []
        closed = [each for each in found.closed if each.known and each.end <= now]
        self._go_back(found, [each.end for each in closed[-1:]])
        fresh, told = self._fresh(closed), self.seen
        new = {each.key for each in fresh}
        changed = [each for each in closed if each.key not in new and told.get(each.key, _now(each)) != _now(each)]
        events: list[Event] = [_changed(key, each, told[each.key], found) for each in changed]
        events += [_closed(key, each, found) for each in fresh]
        seen = told | {each.key: _now(each) for each in (*changed, *fresh)}
        reported = [each.key for each in closed if each.key in seen][-WATCHED:]
        self.seen = {name: seen[name] for name in reported}
        return events

    def _go_back(self, found: OutputPartitions, ends: Sequence[datetime]) -> None:
        """Forget what was reported of batches that were undone: those partitions close once more.

        `ends` has the end of the last closed partition. A query that has begun from scratch has undone all of them.
        """
        before, self.generation = self.generation, found.generation or self.generation
        if before not in (None, self.generation):
            kept = next((end for generation, end in reversed(found.kept) if generation <= before), NOTHING)
            ends = [*ends, *([] if kept is None else [kept])]
        self.until = min(self.until, *ends) if self.until is not None and ends else None
        if self.until is None or (self.since is not None and self.until <= self.since):
            self.since = self.until = None

    def _fresh(self, closed: Sequence[Partition]) -> list[Partition]:
        """The closed partitions that were not reported: after the others, or before them, if rows came there later."""
        since, until = self.since, self.until
        earlier = [each for each in closed if since is not None and each.start < since][-MOST:]
        later = [each for each in closed if until is None or each.end > until][: MOST - len(earlier)]
        fresh = [*earlier, *later]
        if fresh:
            self.since = min(fresh[0].start, since or fresh[0].start)
        if later:
            self.until = later[-1].end
        return fresh


def _goes_back(place: Place, topology: Topology) -> bool:
    """Whether a rollback is running: one that was interrupted must fail the tick."""
    lease = read_lease(place.home.leases, topology.name)
    return lease is not None and not lease.free and rollback_marker.under_way(place.job(topology)) is not None


def _now(partition: Partition) -> list[int]:
    """What is noticed when it changes."""
    return [partition.rows, partition.late]


def _closed(key: AssetKey, partition: Partition, found: OutputPartitions) -> AssetMaterialization:
    return AssetMaterialization(
        key,
        partition=partition.key,
        description=f"closed with {count_of(partition.rows, 'row')}",
        metadata=_metadata(partition, found),
    )


def _changed(key: AssetKey, partition: Partition, before: list[int], found: OutputPartitions) -> AssetObservation:
    rows, late = before
    now = f"{partition.rows:,} now; {count_of(partition.late, 'late row')}"
    return AssetObservation(
        key,
        partition=partition.key,
        description=f"changed since it closed: {count_of(rows, 'row')} then, {now}",
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

"""The rescale sensor: a change of splits, or a lasting lag, requests another number of state partitions."""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from dagster import (
    AssetKey,
    DagsterInstance,
    DefaultSensorStatus,
    RunRequest,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from rs_assets.checkpoint import manifest as manifests
from rs_assets.common.plural import count_of
from rs_assets.connectors.source import Lag
from rs_assets.dagster.assets.causes import tags_of
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.place import Place, place_of
from rs_assets.dagster.runs.run_tags import WHY
from rs_assets.dagster.sensors import cursor
from rs_assets.dagster.sensors.inputs import lasting
from rs_assets.dagster.sensors.splits import split_events
from rs_assets.errors import ConfigurationError, SourceReadError
from rs_assets.runtime.run.lag import unread
from rs_assets.topology.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class RescalePolicy:
    """When the number of state partitions changes: with the splits of the sources, and if asked with a lasting lag.

    - `least`, `most` (int, partitions, default 1 and 32): bounds.
    - `splits_per_partition` (int, default 4): added splits raise the number to one partition for so many splits,
      removed ones lower it, if half as many partitions are enough.
    - `lag_lasts` (timedelta, default None: never): after this time a lag of more than `lag_bytes` (int, bytes of files,
      default 256 MiB) or `lag_records` (int, records of topics, default 1,000,000) doubles the number.
    - `cooldown` (timedelta, default 30 minutes): the least time between two changes.

    A number that a person has set stays until the splits change. ConfigurationError for bounds that allow no number.

    >>> policy = RescalePolicy(most=8)
    >>> policy.wanted(2, splits=12, change=4), policy.wanted(4, splits=8, change=-4)
    (3, 2)
    """

    least: int = 1
    most: int = 32
    splits_per_partition: int = 4
    lag_bytes: int = 256 << 20
    lag_records: int = 1_000_000
    lag_lasts: timedelta | None = None
    cooldown: timedelta = timedelta(minutes=30)

    def __post_init__(self) -> None:
        """Refuse bounds that allow no number."""
        if not 1 <= self.least <= self.most or min(self.splits_per_partition, self.lag_bytes, self.lag_records) < 1:
            raise ConfigurationError(f"the rescale policy allows no number of partitions: {self}")

    def exceeded(self, lag: Lag) -> bool:
        """Whether `lag` is more than a pipeline catches up with by itself."""
        return lag.bytes > self.lag_bytes or lag.records > self.lag_records

    def lasts(self, since: float | None, now: float) -> bool:
        """Whether a lag since `since` lasts long enough; times are seconds, without a lag None."""
        return since is not None and self.lag_lasts is not None and now - since >= self.lag_lasts.total_seconds()

    def wanted(self, now: int, *, splits: int, change: int = 0, lagging: bool = False) -> int:
        """What `now` partitions should become after `change` splits more; a negative change is splits fewer."""
        fitting = self._bounded(-(-splits // self.splits_per_partition))
        if change > 0:
            now = max(now, fitting)
        elif change < 0 and fitting * 2 <= now:
            now = fitting
        return max(now, self._bounded(now * 2)) if lagging else now

    def _bounded(self, partitions: int) -> int:
        return min(max(partitions, self.least), self.most)


def rescale_sensor(
    assets: StreamAssets, policy: RescalePolicy = RescalePolicy(), *, running: bool = True
) -> SensorDefinition | None:
    """Requests a rescale of a pipeline by `policy`; None without state or without sources whose splits change.

    It acts on the events of the split sensor in Dagster's log, and names them in the run that it requests. A running
    stream rescales itself at the request of that run, and goes on. `running` is whether the sensor is on by default.
    """
    topology = assets.topology
    sources = lasting(topology)
    if not sources or not any(node.stateful for node in topology):
        return None

    @sensor(
        name=f"{assets.label}_rescale",
        job_name=f"{assets.label}_upkeep",
        minimum_interval_seconds=15,
        default_status=DefaultSensorStatus.RUNNING if running else DefaultSensorStatus.STOPPED,
        description=f"Rescales {assets.name} when its splits have changed.",
    )
    def rescale(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        place, seen, now = place_of(context, topology), cursor.load(context.cursor), time.time()
        manifest = manifests.load(place.job(topology))
        if manifest is None or not manifest.partitions:
            return SkipReason("it has not run yet")
        seen = _with_events(seen, {each.name: assets.key(each.name) for each in sources}, context.instance)
        try:
            since = _lagging_since(seen.get("lagging_since"), policy, topology, place, now)
        except SourceReadError as error:
            return SkipReason(str(error))
        return _decided(assets, policy, {**seen, "lagging_since": since}, manifest.partitions, now, context)

    return rescale


def _with_events(seen: dict[str, Any], keys: Mapping[str, AssetKey], instance: DagsterInstance) -> dict[str, Any]:
    """The cursor after the new events of the split sensor on the assets `keys`, by source.

    It has the splits by source, and the change to answer: the sum of all since the last answer, with the newest event.
    """
    read, splits, change = dict(seen.get("read", {})), dict(seen.get("splits", {})), seen.get("change")
    for source, key in keys.items():
        events, read[source] = split_events(instance, key, read.get(source))
        for event in events:
            splits[source] = event.splits
            if event.change:
                by = event.change + (change["by"] if change else 0)
                change = {"by": by, "tags": tags_of(event.record, key, event.description)}
    return {**seen, "read": read, "splits": splits, "change": change}


def _lagging_since(
    since: float | None, policy: RescalePolicy, topology: Topology, place: Place, now: float
) -> float | None:
    """Since when the lag exceeds the policy; None if it does not, or if the policy ignores it."""
    if policy.lag_lasts is None or not policy.exceeded(unread(topology, place.home)):
        return None
    return since or now


def _decided(
    assets: StreamAssets,
    policy: RescalePolicy,
    seen: dict[str, Any],
    partitions: int,
    now: float,
    context: SensorEvaluationContext,
) -> SensorResult | SkipReason:
    """A request, or why there is none; the cursor keeps a change until the partitions fit it."""
    change, splits = seen["change"], sum(seen["splits"].values())
    lagging = policy.lasts(seen["lagging_since"], now)
    wanted = policy.wanted(partitions, splits=splits, change=change["by"] if change else 0, lagging=lagging)
    if wanted == partitions:
        context.update_cursor(cursor.dump({**seen, "change": None}))
        return SkipReason(f"nothing to change: {count_of(partitions, 'partition')} for {count_of(splits, 'split')}")
    if now - seen.get("changed_at", 0.0) < policy.cooldown.total_seconds():
        context.update_cursor(cursor.dump(seen))
        return SkipReason(f"{count_of(wanted, 'partition')} would be right, but the last change is too recent")
    tags = change["tags"] if change else {WHY: "a lasting lag"}
    request = RunRequest(
        run_key=f"rescale:{partitions}:{wanted}:{int(now)}",
        run_config={"ops": {"upkeep": {"config": {"rescale": {"partitions": wanted}}}}},
        tags={"rs/pipeline": assets.name, "rs/rescale": f"{partitions} -> {wanted}", **tags},
    )
    moved = {**seen, "lagging_since": None, "changed_at": now}
    return SensorResult(run_requests=[request], cursor=cursor.dump(moved))

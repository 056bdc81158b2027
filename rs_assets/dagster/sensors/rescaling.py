"""The rescale sensor: more splits or a lasting lag request more state partitions, within bounds."""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
import time
from dataclasses import astuple, dataclass
from datetime import timedelta

from dagster import RunRequest, SensorDefinition, SensorEvaluationContext, SensorResult, SkipReason, sensor

from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.source_log import SourceLog
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.compile.readers import reader_of
from rs_assets.connectors.source import Lag, Lagging
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.place import Place, place_of
from rs_assets.dagster.sensors import cursor
from rs_assets.dagster.sensors.inputs import PATIENCE, ends_of, watched
from rs_assets.errors import ConfigurationError, SourceReadError
from rs_assets.runtime.identity import log_of
from rs_assets.topology.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class RescalePolicy:
    """When the number of state partitions changes.

    - `least`, `most` (int, partitions, default 1 and 32): bounds.
    - `splits_per_partition` (int, default 4).
    - `lag_bytes` (int, bytes of files, default 256 MiB), `lag_records` (int, records of topics, default 1,000,000): a
      greater lag doubles the partitions if it lasts for `lag_lasts` (timedelta, default 5 minutes).
    - `cooldown` (timedelta, default 30 minutes): the least time between two changes.

    The number only shrinks if half as many partitions are enough, so small variations change nothing.
    """

    least: int = 1
    most: int = 32
    splits_per_partition: int = 4
    lag_bytes: int = 256 << 20
    lag_records: int = 1_000_000
    lag_lasts: timedelta = timedelta(minutes=5)
    cooldown: timedelta = timedelta(minutes=30)

    def __post_init__(self) -> None:
        """Refuse bounds that allow no number."""
        if not 1 <= self.least <= self.most or min(self.splits_per_partition, self.lag_bytes, self.lag_records) < 1:
            raise ConfigurationError(f"a rescale policy that allows no number: {self}")

    def exceeded(self, lag: Lag) -> bool:
        """Whether `lag` is more than a pipeline catches up with by itself."""
        return lag.bytes > self.lag_bytes or lag.records > self.lag_records

    def wanted(self, now: int, *, splits: int, lagging: bool) -> int:
        """The number of partitions that `now` partitions should become.

        >>> policy = RescalePolicy(most=8)
        >>> policy.wanted(2, splits=12, lagging=False), policy.wanted(2, splits=5, lagging=True)
        (3, 4)
        >>> policy.wanted(4, splits=9, lagging=False), policy.wanted(4, splits=8, lagging=False)
        (4, 2)
        """
        fitting = -(-splits // self.splits_per_partition)
        target = max(fitting, now * 2 if lagging else 0)
        if target < now and target * 2 > now:
            target = now
        return min(max(target, self.least), self.most)


def rescale_sensor(assets: StreamAssets, policy: RescalePolicy = RescalePolicy()) -> SensorDefinition | None:
    """Requests a rescale of a pipeline by `policy`; None without state or without sources whose splits change.

    It is off by default: a rescale stops the stream while its state is rewritten.
    """
    topology = assets.topology
    sources = watched(topology)
    if not sources or not any(node.stateful for node in topology):
        return None

    @sensor(
        name=f"{assets.label}_rescale",
        job_name=f"{assets.label}_upkeep",
        minimum_interval_seconds=60,
        description=f"Rescales {assets.name} when its splits or its lag require it.",
    )
    def rescale(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        place, seen, now = place_of(context, topology), cursor.load(context.cursor), time.time()
        manifest = manifests.load(place.job(topology))
        if manifest is None or not manifest.partitions:
            return SkipReason("it has not run yet")
        try:
            splits = sum(len(ends) for ends in ends_of(sources, place.home).values())
            exceeded = policy.exceeded(lags(topology, place))
        except SourceReadError as error:
            return SkipReason(str(error))
        lagging_since = (seen.get("lagging_since") or now) if exceeded else None
        lagging = lagging_since is not None and now - lagging_since >= policy.lag_lasts.total_seconds()
        wanted = policy.wanted(manifest.partitions, splits=splits, lagging=lagging)
        kept = {"lagging_since": lagging_since, "changed_at": seen.get("changed_at", 0.0)}
        context.update_cursor(cursor.dump(kept))
        if wanted == manifest.partitions:
            return SkipReason(f"{wanted} partitions are right for {splits} splits")
        if now - kept["changed_at"] < policy.cooldown.total_seconds():
            return SkipReason(f"{wanted} partitions would be right, but the last change is too recent")
        why = "a lasting lag" if lagging else f"{splits} splits"
        request = RunRequest(
            run_key=f"rescale:{manifest.generation}:{manifest.partitions}:{wanted}:{int(now)}",
            run_config={"ops": {"upkeep": {"config": {"rescale": {"partitions": wanted}}}}},
            tags={"rs/pipeline": assets.name, "rs/rescale": f"{manifest.partitions} -> {wanted}", "rs/why": why},
        )
        return SensorResult(run_requests=[request], cursor=cursor.dump({"lagging_since": None, "changed_at": now}))

    return rescale


def lags(topology: Topology, place: Place) -> Lag:
    """The lag of the queries to the ends of their sources, by Spark's log; of several queries the greatest counts.

    Archives do not count. SourceReadError if a broker does not answer.
    """
    folder = place.job(topology)
    manifest = manifests.load(folder)
    lags = []
    for source in watched(topology):
        reader = reader_of(source, place.home)
        if isinstance(reader, Lagging):
            logs = [log_of(manifest, plan, folder) for plan in plan_queries(topology) if source.name in plan.sources]
            read = [SourceLog(log, source.name).committed if log is not None else None for log in logs]
            lags.append(max((reader.lag(offset, PATIENCE) for offset in read), key=astuple))
    return Lag(bytes=sum(lag.bytes for lag in lags), records=sum(lag.records for lag in lags))

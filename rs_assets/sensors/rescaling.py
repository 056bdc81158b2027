"""The rescale sensor: more splits or a lag that lasts ask for more state partitions, within bounds."""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
import time
from dataclasses import dataclass
from datetime import timedelta

import orjson
from dagster import RunRequest, SensorDefinition, SensorEvaluationContext, SensorResult, SkipReason, sensor

from pipelines.runtime.journal import queue_of
from pipelines.stream.pipeline import Pipeline
from pipelines.topology.source import FileSource, KafkaSource
from resources.checkpoint import manifest as manifests
from resources.errors import ConfigurationError, SourceReadError
from resources.home import Home
from rs_assets.assets import pipeline_name
from rs_assets.catalogued import checkpoints_of
from rs_assets.sensors import cursor
from rs_assets.sensors.inputs import ends_of, watched

# Followed archives count in unpacked bytes, so their size tells nothing.
ARCHIVES = (".gz", ".zst")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """How far a pipeline lies behind the ends of its sources."""

    bytes: int = 0
    records: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RescalePolicy:
    """When the number of state partitions changes.

    Partitions follow the splits, `splits_per_partition` to one, between `least` and `most`. A lag of more than
    `lag_bytes` of files or `lag_records` of topics that lasts for `lag_lasts` doubles them. Fewer are asked for only
    when half as many would do, and no two changes come within `cooldown`: so a number that wavers changes nothing.
    """

    least: int = 1
    most: int = 32
    splits_per_partition: int = 4
    lag_bytes: int = 256 << 20
    lag_records: int = 1_000_000
    lag_lasts: timedelta = timedelta(minutes=5)
    cooldown: timedelta = timedelta(minutes=30)

    def __post_init__(self) -> None:
        """Refuse bounds that leave no number."""
        if not 1 <= self.least <= self.most or min(self.splits_per_partition, self.lag_bytes, self.lag_records) < 1:
            raise ConfigurationError(f"a rescale policy that leaves no number: {self}")

    def behind(self, lag: Lag) -> bool:
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


def rescale_sensor(pipeline: Pipeline, policy: RescalePolicy = RescalePolicy()) -> SensorDefinition | None:
    """Asks for a rescale of `pipeline` by `policy`; None without state or without sources whose splits change.

    It is off until it is switched on: a rescale stops the stream for as long as its state takes to be rewritten.
    """
    topology = pipeline.topology
    sources = watched(topology)
    if not sources or not any(node.stateful for node in topology):
        return None

    @sensor(
        name=f"{pipeline_name(topology)}_rescale",
        job_name=f"{pipeline_name(topology)}_rescale",
        minimum_interval_seconds=60,
        description=f"Rescales {pipeline.name} when its splits or its lag ask for it.",
    )
    def rescale(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        home, seen, now = Home.default(), cursor.load(context.cursor), time.time()
        manifest = manifests.load(home.job(topology.namespace, topology.job))
        if manifest is None or not manifest.partitions:
            return SkipReason("it has not run yet")
        try:
            splits = sum(len(ends) for ends in ends_of(sources).values())
            behind = policy.behind(lags(pipeline, home))
        except SourceReadError as error:
            return SkipReason(str(error))
        lagging_since = (seen.get("lagging_since") or now) if behind else None
        lagging = lagging_since is not None and now - lagging_since >= policy.lag_lasts.total_seconds()
        wanted = policy.wanted(manifest.partitions, splits=splits, lagging=lagging)
        kept = {"lagging_since": lagging_since, "changed_at": seen.get("changed_at", 0.0)}
        context.update_cursor(cursor.dump(kept))
        if wanted == manifest.partitions:
            return SkipReason(f"{wanted} partitions are right for {splits} splits")
        if now - kept["changed_at"] < policy.cooldown.total_seconds():
            return SkipReason(f"{wanted} partitions would be right, but the last change is too young")
        why = "a lag that lasts" if lagging else f"{splits} splits"
        request = RunRequest(
            run_key=f"rescale:{manifest.generation}:{manifest.partitions}:{wanted}:{int(now)}",
            run_config={"ops": {"rescale": {"config": {"partitions": wanted}}}},
            tags={"rs/pipeline": pipeline.name, "rs/rescale": f"{manifest.partitions} -> {wanted}", "rs/why": why},
        )
        return SensorResult(run_requests=[request], cursor=cursor.dump({"lagging_since": None, "changed_at": now}))

    return rescale


def lags(pipeline: Pipeline, home: Home) -> Lag:
    """How far the sources' ends lie behind the last checkpoint in the catalog. Archives do not count.

    SourceReadError if a broker does not answer.
    """
    topology = pipeline.topology
    read: dict[tuple[str, str], int] = {}
    for row in checkpoints_of(topology, home):
        place = row.topic, _last_part(row.queue)
        read[place] = max(read.get(place, 0), _position(row.offset))
    behind = {
        source.name: sum(
            max(end - read.get((source.name, _last_part(queue_of(split))), 0), 0)
            for split, end in ends_of([source])[source.name].items()
            if not split.endswith(ARCHIVES)
        )
        for source in watched(topology)
        if isinstance(source, KafkaSource) or (isinstance(source, FileSource) and source.tail)
    }
    kafka = {source.name for source in topology.sources if isinstance(source, KafkaSource)}
    return Lag(
        bytes=sum(lag for name, lag in behind.items() if name not in kafka),
        records=sum(lag for name, lag in behind.items() if name in kafka),
    )


def _last_part(split: str) -> str:
    """A file's name: checkpoints have it from the folder that is followed on, sources have all of its path."""
    return split.rsplit("/", 1)[-1]


def _position(offset: str) -> int:
    """The byte of a followed file, or the offset of a partition."""
    found = orjson.loads(offset)
    return int(found.get("byte", 0)) if isinstance(found, dict) else int(found or 0)

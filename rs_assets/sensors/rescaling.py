"""The rescale sensor: more splits or a lag that lasts ask for more state partitions, within bounds."""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
import time
from dataclasses import dataclass
from datetime import timedelta

from dagster import RunRequest, SensorDefinition, SensorEvaluationContext, SensorResult, SkipReason, sensor

from pipelines.stream.pipeline import Pipeline
from pipelines.topology.source import FileSource
from resources.checkpoint import manifest as manifests
from resources.checkpoint.storage import storage_named
from resources.errors import ConfigurationError
from resources.home import Home
from resources.source.native import existing_files
from rs_assets.assets import pipeline_name
from rs_assets.sensors import cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class RescalePolicy:
    """When the number of state partitions changes.

    Partitions follow the splits, `splits_per_partition` to one, between `least` and `most`. A lag of more than
    `lag_bytes` that lasts for `lag_lasts` doubles them. Fewer are asked for only when half as many would do, and no two
    changes come within `cooldown`: so a number that wavers changes nothing.
    """

    least: int = 1
    most: int = 32
    splits_per_partition: int = 4
    lag_bytes: int = 256 << 20
    lag_lasts: timedelta = timedelta(minutes=5)
    cooldown: timedelta = timedelta(minutes=30)

    def __post_init__(self) -> None:
        """Refuse bounds that leave no number."""
        if not 1 <= self.least <= self.most or self.splits_per_partition < 1 or self.lag_bytes < 1:
            raise ConfigurationError(f"a rescale policy that leaves no number: {self}")

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
    sources = [s for s in topology.sources if isinstance(s, FileSource) and not s.bounded]
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
        files = [f for source in sources for f in existing_files(source.path)]
        since = seen.get("lagging_since") if lag_bytes(pipeline, home) > policy.lag_bytes else None
        lagging_since = since or (now if lag_bytes(pipeline, home) > policy.lag_bytes else None)
        lagging = lagging_since is not None and now - lagging_since >= policy.lag_lasts.total_seconds()
        wanted = policy.wanted(manifest.partitions, splits=len(files), lagging=lagging)
        kept = {"lagging_since": lagging_since, "changed_at": seen.get("changed_at", 0.0)}
        context.update_cursor(cursor.dump(kept))
        if wanted == manifest.partitions:
            return SkipReason(f"{wanted} partitions are right for {len(files)} splits")
        if now - kept["changed_at"] < policy.cooldown.total_seconds():
            return SkipReason(f"{wanted} partitions would be right, but the last change is too young")
        why = "a lag that lasts" if lagging else f"{len(files)} splits"
        request = RunRequest(
            run_key=f"rescale:{manifest.generation}:{manifest.partitions}:{wanted}:{int(now)}",
            run_config={"ops": {"rescale": {"config": {"partitions": wanted}}}},
            tags={"rs/pipeline": pipeline.name, "rs/rescale": f"{manifest.partitions} -> {wanted}", "rs/why": why},
        )
        return SensorResult(run_requests=[request], cursor=cursor.dump({"lagging_since": None, "changed_at": now}))

    return rescale


def lag_bytes(pipeline: Pipeline, home: Home) -> int:
    """How much followed files hold beyond the last checkpoint in the catalog, in bytes; archives do not count."""
    import orjson

    topology = pipeline.topology
    followed = {s.name: s for s in topology.sources if isinstance(s, FileSource) and s.tail}
    stored = storage_named("delta", catalog=home.catalog).rows() if followed else ()
    read: dict[tuple[str, str], int] = {}
    for row in stored:
        if (row.namespace, row.group) == (topology.namespace, topology.job) and row.topic in followed:
            offset = orjson.loads(row.offset)
            byte = offset.get("byte", 0) if isinstance(offset, dict) else 0
            read[row.topic, row.queue.rsplit("/", 1)[-1]] = max(read.get((row.topic, row.queue), 0), byte)
    return sum(
        max(file.stat().st_size - read.get((source.name, file.name), 0), 0)
        for source in followed.values()
        for file in existing_files(source.path)
        if file.suffix not in (".gz", ".zst")
    )

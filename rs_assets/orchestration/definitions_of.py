"""`build_definitions`: everything that Dagster shows of some pipelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rs_assets.errors import ConfigurationError, TopologyError

if TYPE_CHECKING:
    from dagster import Definitions

    from rs_assets.pipeline.stream.pipeline import Pipeline


def build_definitions(pipelines: Sequence[Pipeline], resources: Mapping[str, Any] | None = None) -> Definitions:
    """Assets, checks, jobs, sensors and schedules for `pipelines`, with the families' resources.

    Use it in a code location of your own: `defs = build_definitions([pipeline])`. `resources` replaces those of some
    families (spark, source, shuffle, window, sink, run) by others of the same class: made with `configure_at_launch`
    its settings are defaults, which the Launchpad shows and may change; made directly they are fixed.
    TopologyError if two pipelines have one name, ConfigurationError if a resource is of no family.

    >>> from rs_assets import StreamBuilder
    >>> pipeline = StreamBuilder.data_stream("shop", "hello").from_array([{"page": "/"}]).to_delta("hello").build()
    >>> jobs = build_definitions([pipeline]).resolve_all_job_defs()
    >>> [job.name for job in jobs if job.name.endswith(("_run", "_start", "_savepoint", "_rescale"))]
    ['shop_hello_rescale', 'shop_hello_run', 'shop_hello_savepoint', 'shop_hello_start']
    """
    from dagster import Definitions, mem_io_manager

    from rs_assets.orchestration.assets import pipeline_assets
    from rs_assets.orchestration.checks import checks_of
    from rs_assets.orchestration.compaction import compaction_job, compaction_schedule
    from rs_assets.orchestration.jobs import pipeline_job
    from rs_assets.orchestration.ops import IN_PROCESS
    from rs_assets.orchestration.runtime import RuntimeResource
    from rs_assets.orchestration.sensors import sensors_of
    from rs_assets.orchestration.upkeep import upkeep_jobs

    names = [pipeline.name for pipeline in pipelines]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TopologyError(f"two pipelines are called {twice[0]}", remedy="give one another job name")
    assets = {pipeline.name: pipeline_assets(pipeline) for pipeline in pipelines}
    families = _families(resources or {})
    compaction = compaction_job(pipelines)
    return Definitions(
        assets=list(assets.values()),
        jobs=[
            compaction,
            *(pipeline_job(p, assets[p.name], mode) for p in pipelines for mode in ("run", "start")),
            *(job for p in pipelines for job in upkeep_jobs(p)),
        ],
        schedules=[compaction_schedule(compaction)],
        sensors=[sensor for p in pipelines for sensor in sensors_of(p)],
        asset_checks=[check for p in pipelines for check in checks_of(p)],
        resources={
            IN_PROCESS: mem_io_manager,
            **families,
            "runtime": RuntimeResource(**families),
        },
    )


def _families(given: Mapping[str, Any]) -> dict[str, Any]:
    """The resource of each family: the given one, else one that is configured in the Launchpad."""
    from rs_assets.engine.shuffle.resource import ShuffleResource
    from rs_assets.engine.sink.resource import SinkResource
    from rs_assets.engine.source.resource import SourceResource
    from rs_assets.engine.spark.resource import SparkResource
    from rs_assets.engine.window.resource import WindowResource
    from rs_assets.orchestration.runtime import RunResource

    classes: dict[str, Any] = {
        "spark": SparkResource,
        "source": SourceResource,
        "shuffle": ShuffleResource,
        "window": WindowResource,
        "sink": SinkResource,
        "run": RunResource,
    }
    strays = sorted(given.keys() - classes)
    if strays:
        raise ConfigurationError(
            f"there is no family {', '.join(map(repr, strays))} of resources", remedy=f"use: {', '.join(classes)}"
        )
    return {name: made.configure_at_launch() for name, made in classes.items()} | dict(given)

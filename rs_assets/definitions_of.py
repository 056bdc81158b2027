"""`build_definitions`: everything that Dagster shows of some pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from resources.errors import TopologyError

if TYPE_CHECKING:
    from dagster import Definitions

    from pipelines.stream.pipeline import Pipeline


def build_definitions(pipelines: Sequence[Pipeline]) -> Definitions:
    """Assets, checks, jobs, sensors and schedules for `pipelines`, with the families' resources.

    Use it in a code location of your own: `defs = build_definitions([pipeline])`.

    >>> from rs_assets import StreamBuilder
    >>> pipeline = StreamBuilder.data_stream("shop", "hello").from_array([{"page": "/"}]).to_delta("hello").build()
    >>> jobs = build_definitions([pipeline]).resolve_all_job_defs()
    >>> [job.name for job in jobs if job.name.endswith(("_run", "_start", "_savepoint", "_rescale"))]
    ['shop_hello_rescale', 'shop_hello_run', 'shop_hello_savepoint', 'shop_hello_start']
    """
    from dagster import Definitions, mem_io_manager

    from resources.shuffle.resource import ShuffleResource
    from resources.sink.resource import SinkResource
    from resources.source.resource import SourceResource
    from resources.spark.resource import SparkResource
    from resources.window.resource import WindowResource
    from rs_assets.assets import pipeline_assets
    from rs_assets.checks import checks_of
    from rs_assets.compaction import compaction_job, compaction_schedule
    from rs_assets.jobs import pipeline_job
    from rs_assets.ops import IN_PROCESS
    from rs_assets.runtime import RunResource, RuntimeResource
    from rs_assets.sensors import sensors_of
    from rs_assets.upkeep import upkeep_jobs

    names = [pipeline.name for pipeline in pipelines]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TopologyError(f"two pipelines are called {twice[0]}", remedy="give one another job name")
    assets = {pipeline.name: pipeline_assets(pipeline) for pipeline in pipelines}
    families: dict[str, Any] = {
        "spark": SparkResource.configure_at_launch(),
        "source": SourceResource.configure_at_launch(),
        "shuffle": ShuffleResource.configure_at_launch(),
        "window": WindowResource.configure_at_launch(),
        "sink": SinkResource.configure_at_launch(),
        "run": RunResource.configure_at_launch(),
    }
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

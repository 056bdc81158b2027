"""`deployed_definitions`: the definitions of deployed pipelines for Dagster."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from rs_assets.common.home import Home
from rs_assets.dagster.resources.families import resources_of

if TYPE_CHECKING:
    from dagster import Definitions

    from rs_assets.dagster.assets.stream_assets import StreamAssets
    from rs_assets.dagster.assets.translator import StreamTranslator
    from rs_assets.stream.pipeline import Pipeline


def deployed_definitions(
    resources: Mapping[str, Any] | None = None,
    *,
    translator: StreamTranslator | None = None,
    others: Collection[Pipeline] = (),
) -> Definitions:
    """Assets of the pipelines in the table of deployments of RS_HOME, the job that runs them, and its sensor.

    Merge it with your own: `Definitions.merge(build_definitions([pipeline]), deployed_definitions())`. The assets are
    those of the versions that run when it is called; the sensor reloads the code location when they change.

    - `resources`, `translator`: as for `build_definitions`.
    - `others` (collection of Pipeline, default none): a deployed pipeline with the name of one of these, or of a
      pipeline that `build_definitions` got before, is left out and reported by the sensor.

    >>> definitions = deployed_definitions()
    >>> definitions.resolve_job_def("rs_deployed").name
    'rs_deployed'
    """
    from dagster import Definitions

    from rs_assets.dagster.assets.stream_assets import StreamAssets, with_lineage
    from rs_assets.dagster.definitions_of import labels_of_code
    from rs_assets.dagster.deployed.job import deployed_job
    from rs_assets.dagster.deployed.sensor import deployment_sensor
    from rs_assets.dagster.deployed.visible import VisibleVersion, visible_pipelines

    taken = {pipeline.topology.label for pipeline in others} | labels_of_code()
    pipelines = visible_pipelines(Home.default(), taken)
    every = with_lineage([StreamAssets.of(pipeline, translator) for _, pipeline in pipelines])
    shown = [VisibleVersion(version, assets) for (version, _), assets in zip(pipelines, every, strict=True)]
    own = Definitions(
        jobs=[deployed_job(translator)],
        sensors=[deployment_sensor(shown, taken)],
        resources=resources_of(resources or {}),
    )
    return Definitions.merge(own, *(_definitions(assets) for assets in every))


def _definitions(assets: StreamAssets) -> Definitions:
    """The definitions of one deployed pipeline; the common job runs it."""
    from dagster import Definitions

    from rs_assets.dagster.assets.checks import checks_of
    from rs_assets.dagster.assets.closed_partitions import closed_assets
    from rs_assets.dagster.assets.freshness import freshness_checks
    from rs_assets.dagster.assets.graph import pipeline_assets
    from rs_assets.dagster.assets.proofs import nightly_proof, proof_checks
    from rs_assets.dagster.runs.upkeep import nightly_compaction, upkeep_job
    from rs_assets.dagster.sensors import events_of

    upkeep = upkeep_job(assets)
    proof_jobs, proof_schedules = nightly_proof(assets)
    return Definitions(
        assets=[pipeline_assets(assets), *assets.dimensions.values(), *closed_assets(assets)],
        jobs=[upkeep, *proof_jobs],
        schedules=[nightly_compaction(assets, upkeep), *proof_schedules],
        sensors=events_of(assets),
        asset_checks=[*checks_of(assets), *freshness_checks(assets), *proof_checks(assets)],
    )

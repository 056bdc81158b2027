"""`build_definitions`: all definitions of some pipelines for Dagster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakValueDictionary

from rs_assets.dagster.resources.families import resources_of
from rs_assets.errors import ConfigurationError, TopologyError

if TYPE_CHECKING:
    from dagster import Definitions

    from rs_assets.dagster.assets.stream_assets import StreamAssets
    from rs_assets.dagster.assets.translator import StreamTranslator
    from rs_assets.dagster.sensors import RecoveryPolicy, RescalePolicy, Watching
    from rs_assets.dagster.sensors.alerts import OnAlert
    from rs_assets.stream.pipeline import Pipeline

# Their names are taken while their definitions exist.
_OF_CODE: WeakValueDictionary[int, Pipeline] = WeakValueDictionary()


def build_definitions(
    pipelines: Iterable[Pipeline],
    resources: Mapping[str, Any] | None = None,
    *,
    translator: StreamTranslator | None = None,
    on_alert: OnAlert | None = None,
    watch: bool = True,
    rescale: RescalePolicy | Literal["by_splits"] | None = "by_splits",
    recovery: RecoveryPolicy | None = None,
) -> Definitions:
    """Assets, checks, jobs, sensors and schedules for `pipelines`, with the families' resources.

    Use it in your own code location: `defs = build_definitions([pipeline])`, or merge it with your definitions:
    `Definitions.merge(mine, build_definitions([pipeline]))`, as often as needed; merged calls need the same objects.

    - `pipelines` (list, or another iterable, of Pipeline).
    - `resources` (dict by family, default: configured in the Launchpad): replacements for "spark", "source", "shuffle",
      "window", "join", "sink" or "run", of the same class. The settings of one made with `configure_at_launch` are
      defaults of the Launchpad; one that is made directly is fixed. Dagster's keys are `rs_spark`, `rs_source`, ...
    - `translator` (StreamTranslator, default: `StreamTranslator()`): describes the steps as assets. Assets that read a
      Delta table of another pipeline, or use it as a dimension, depend on that table.
    - `on_alert` (function of an `Alert`, default none): called when a run has failed, an output has become stale, or
      there are new dead letters.
    - `watch` (bool, default True): changes of splits and checkpoints are events in Dagster's log without anything to
      switch on, and a change of splits rescales. False: their sensors are off until they are switched on in the UI.
    - `rescale` (RescalePolicy, default one partition for four splits): how a change of splits rescales a pipeline with
      state. None: no sensor does.
    - `recovery` (RecoveryPolicy, default six restarts an hour): how often a lost stream is restarted.

    TopologyError if two pipelines have one name, ConfigurationError for an unknown family of resources.

    >>> from rs_assets import StreamBuilder
    >>> pipeline = StreamBuilder.data_stream("shop", "hello").from_array([{"page": "/"}]).to_delta("pages").build()
    >>> definitions = build_definitions([pipeline])
    >>> [job.name for job in definitions.resolve_all_job_defs() if not job.name.startswith("__")]
    ['shop_hello_run', 'shop_hello_start', 'shop_hello_upkeep']
    >>> sorted(spec.key.to_user_string() for spec in definitions.resolve_all_asset_specs())
    ['shop/hello/array', 'shop/hello/pages']
    """
    from dagster import Definitions

    from rs_assets.dagster.assets.stream_assets import StreamAssets, with_lineage
    from rs_assets.dagster.sensors import RecoveryPolicy, RescalePolicy, Watching

    pipelines = _built(pipelines)
    _check_names(pipelines)
    shared = resources_of(resources or {})
    every = with_lineage([StreamAssets.of(pipeline, translator) for pipeline in pipelines])
    _OF_CODE.update((id(pipeline), pipeline) for pipeline in pipelines)
    watching = Watching(
        events=watch,
        rescale=RescalePolicy() if rescale == "by_splits" else rescale,
        recovery=recovery or RecoveryPolicy(),
        on_alert=on_alert,
    )
    return Definitions.merge(*(_definitions(assets, shared, watching) for assets in every))


def labels_of_code() -> set[str]:
    """The names in Dagster of all pipelines with definitions in this process."""
    return {pipeline.topology.label for pipeline in _OF_CODE.values()}


def _definitions(assets: StreamAssets, resources: Mapping[str, Any], watching: Watching) -> Definitions:
    """The definitions of one pipeline."""
    from dagster import Definitions

    from rs_assets.dagster.assets.checks import checks_of
    from rs_assets.dagster.assets.closed_partitions import closed_assets
    from rs_assets.dagster.assets.freshness import freshness_checks
    from rs_assets.dagster.assets.graph import pipeline_assets
    from rs_assets.dagster.assets.proofs import nightly_proof, proof_checks
    from rs_assets.dagster.runs.jobs import pipeline_job
    from rs_assets.dagster.runs.upkeep import nightly_compaction, upkeep_job
    from rs_assets.dagster.sensors import sensors_of

    graph, upkeep = pipeline_assets(assets), upkeep_job(assets)
    proof_jobs, proof_schedules = nightly_proof(assets)
    return Definitions(
        assets=[graph, *assets.dimensions.values(), *closed_assets(assets)],
        jobs=[*(pipeline_job(assets, graph, mode) for mode in ("run", "start")), upkeep, *proof_jobs],
        schedules=[nightly_compaction(assets, upkeep), *proof_schedules],
        sensors=sensors_of(assets, watching),
        asset_checks=[*checks_of(assets), *freshness_checks(assets), *proof_checks(assets)],
        resources=dict(resources),
    )


def _check_names(pipelines: Sequence[Pipeline]) -> None:
    """Names must differ, also in Dagster, where `a_b.c` and `a.b_c` would be the same."""
    known: dict[str, str] = {}
    for pipeline in pipelines:
        name, label = pipeline.name, pipeline.topology.label
        other = known.setdefault(label, name)
        if other != name:
            what = f"the pipelines {other} and {name} are both called {label} in Dagster"
            raise TopologyError(what, remedy="give one another job name")
    names = [pipeline.name for pipeline in pipelines]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TopologyError(f"two pipelines are called {twice[0]}", remedy="give one another job name")


def _built(pipelines: Iterable[Pipeline]) -> tuple[Pipeline, ...]:
    """All of them, of an iterator too; ConfigurationError for anything but pipelines."""
    from rs_assets.stream.pipeline import Pipeline

    if isinstance(pipelines, Pipeline) or not isinstance(pipelines, Iterable):
        raise ConfigurationError(
            "build_definitions() takes a list of pipelines", remedy="build_definitions([pipeline]), with brackets"
        )
    found = tuple(pipelines)
    wrong = [type(each).__name__ for each in found if not isinstance(each, Pipeline)]
    if wrong:
        raise ConfigurationError(
            f"build_definitions() takes pipelines, not a {wrong[0]}",
            remedy="end it with a sink and .build()" if wrong[0].endswith("Stream") else "begin with StreamBuilder",
        )
    return found

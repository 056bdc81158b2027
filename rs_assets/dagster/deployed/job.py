"""The job that runs one deployed pipeline in its desired version."""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dagster import (
    AssetMaterialization,
    DagsterExecutionInterruptedError,
    Field,
    JobDefinition,
    OpExecutionContext,
    String,
    in_process_executor,
    job,
    op,
)

from rs_assets.catalog.deployments import DeploymentTable, Version, is_name
from rs_assets.common.interrupts import held_back
from rs_assets.dagster.assets.events import StepEvents
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.assets.translator import StreamTranslator
from rs_assets.dagster.assets.verdicts import RunResults, report_verdicts
from rs_assets.dagster.runs.compaction import delta_outputs
from rs_assets.dagster.runs.outcome import (
    AT_ONCE,
    DRAINED,
    UNBEGUN,
    refuse_if_unfinished,
    refuse_interrupted,
    shown_in,
    stop_was_requested,
)
from rs_assets.dagster.runs.runtime import RuntimeResource
from rs_assets.deploy.supervisor import Supervisor
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.report import BatchProgress, RunReport
from rs_assets.stream.pipeline import Pipeline

JOB = "rs_deployed"
# The tag of a run: the newest version when it was launched, so that its stop does not count for later versions.
DESIRED = "rs/desired"


def deployed_job(translator: StreamTranslator | None) -> JobDefinition:
    """One job for all deployed pipelines; its setting names the pipeline of a run."""

    @op(name="deployed", config_schema={"pipeline": Field(String, description="namespace.job of a deployed pipeline")})
    def deployed(context: OpExecutionContext, rs_runtime: RuntimeResource) -> None:
        name = context.op_config["pipeline"]
        # The sensor finds the run by these tags, even if a person launched it.
        context.instance.add_run_tags(context.run_id, {"rs/pipeline": name, **_desired(name, rs_runtime)})
        events = _VersionEvents(context, rs_runtime, translator)
        options = rs_runtime.options(context.run_id)
        supervisor = Supervisor(name, options, events.begun)
        events.computing_s = supervisor.computing_s
        with shown_in(context), events.closing():
            try:
                report, interrupted, requested = _supervised(supervisor, context)
            except DagsterExecutionInterruptedError:
                refuse_interrupted(context, AT_ONCE)
                raise
        if interrupted and report is None:
            refuse_interrupted(context, UNBEGUN)
        if interrupted:
            context.log.info(DRAINED)
            refuse_if_unfinished("start", requested=requested)

    @job(
        name=JOB,
        description="Runs a deployed pipeline; the sensor rs_deployments launches it. Terminate drains and stops it.",
        tags={"rs/mode": "start", "dagster/max_runtime": "0", "dagster/max_retries": "0"},
        executor_def=in_process_executor,
    )
    def rs_deployed() -> None:
        deployed()

    return rs_deployed


def version_text(version: Version) -> str:
    """A version and its table."""
    return f"{version.version} {version.mark}"


def _desired(name: str, runtime: RuntimeResource) -> dict[str, str]:
    """The tag of the newest version of a pipeline."""
    versions = DeploymentTable(runtime.run.place().home.deployments).of(name) if is_name(name) else ()
    return {DESIRED: version_text(versions[-1])} if versions else {}


def _supervised(supervisor: Supervisor, context: OpExecutionContext) -> tuple[RunReport | None, bool, bool]:
    """Run to the end: the report, whether it was interrupted, and whether a person asked for that.

    The report is None if no version ran. An interrupt drains the running version.
    """
    interrupted = requested = False
    report = None
    try:
        report = supervisor.run()
    except DagsterExecutionInterruptedError:
        interrupted = True
        with held_back():
            requested = stop_was_requested(context)
            if requested:
                supervisor.request_stop()
    finally:
        report = supervisor.stop() or report
    return report, interrupted, requested


class _VersionEvents:
    """Reports the batches of the running version to Dagster, as events of its assets."""

    def __init__(
        self, context: OpExecutionContext, runtime: RuntimeResource, translator: StreamTranslator | None
    ) -> None:
        self.context = context
        self.runtime = runtime
        self.translator = translator
        self.computing_s: Callable[[], float] = float
        self._events: StepEvents | None = None
        self._results = RunResults(context.instance, context.run)

    def begun(self, version: Version, pipeline: Pipeline) -> RunOptions:
        """Called with the version that is about to run; returns its run options."""
        self._close(going=True)
        assets = StreamAssets.of(pipeline, self.translator)
        place = self.runtime.run.place()
        tables = delta_outputs(pipeline.topology, place.home)
        computing_s = self.computing_s
        self._events = StepEvents(
            assets,
            self.context,
            place,
            live=True,
            tables=tables,
            computing_s=computing_s,
            judge=lambda going: report_verdicts(
                self.context.instance, assets, place, self._results.take if going else None
            ),
        )
        self.context.log.info("%s runs version %d", pipeline.name, version.version)
        return self.runtime.options(self.context.run_id)

    def put(self, progress: BatchProgress) -> None:
        """Queue a finished batch."""
        if self._events is not None:
            self._events.put(progress)

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Report batches within this block."""
        self.runtime.listen(self.put)
        try:
            yield
        finally:
            self._close(going=False)

    def _close(self, *, going: bool) -> None:
        """Report the remaining batches of the previous version; `going` is whether another one follows in the run."""
        events, self._events = self._events, None
        if events is None:
            return
        events.close()
        for step, role in events.seen():
            key = events.assets.key(step)
            self.context.log_event(AssetMaterialization(key, metadata=events.metadata(step, role)))
        events.judge(going=going)

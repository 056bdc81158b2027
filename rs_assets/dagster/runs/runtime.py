"""The pipeline runtime as a Dagster resource: it connects the families' resources for one run."""

# No `from __future__ import annotations` here: Dagster reads the nested resources from the annotations themselves.
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Literal

from dagster import ConfigurableResource, DagsterExecutionInterruptedError, DagsterInstance, InitResourceContext
from pydantic import Field, PrivateAttr

from rs_assets.catalog.desired_state import read_desired_state
from rs_assets.common.interrupts import held_back
from rs_assets.common.node import Node
from rs_assets.common.storage import use_storage
from rs_assets.compile.planner.context import Flow
from rs_assets.dagster.place import Place
from rs_assets.dagster.resources.family import FamilyResource
from rs_assets.dagster.resources.join import JoinResource
from rs_assets.dagster.resources.processor import ProcessorResource
from rs_assets.dagster.resources.resource_keys import OPERATORS
from rs_assets.dagster.resources.shuffle import ShuffleResource
from rs_assets.dagster.resources.sink import SinkResource
from rs_assets.dagster.resources.source import SourceResource
from rs_assets.dagster.resources.spark import SparkResource
from rs_assets.dagster.resources.step import StepResource
from rs_assets.dagster.resources.table import TableResource
from rs_assets.dagster.resources.window import WindowResource
from rs_assets.dagster.runs.orphans import end_former, end_orphans
from rs_assets.dagster.runs.run_tags import ANSWERS, answers_of, takeover_tags
from rs_assets.dagster.sensors.stream_runs import refuse_if_stopped
from rs_assets.runtime.job.ending import record
from rs_assets.runtime.job.opening import opened
from rs_assets.runtime.job.session import JobSession
from rs_assets.runtime.job.unchanged import is_unchanged
from rs_assets.runtime.options import (
    RunOptions,
    SavepointPolicy,
    default_metrics_endpoint,
    default_metrics_port,
    default_openlineage,
    default_upload,
)
from rs_assets.runtime.report import BatchProgress, RunReport
from rs_assets.runtime.run.run import run_wired
from rs_assets.runtime.run.running import RunningPipeline
from rs_assets.runtime.run.standby import Standby, Vacancy
from rs_assets.runtime.run.stopping import drain_and_stop
from rs_assets.topology.topology import Topology

Listener = Callable[[BatchProgress], None]
# Listeners for the batches of runs in this process, such as a progress bar.
LISTENERS: list[Listener] = []
# Called when Spark has started and the steps of a run in this process are wired.
BEGUN: list[Callable[[], None]] = []
# Called with what a standby in this process does, in words.
SAID: list[Callable[[str], None]] = []
# The reports of finished runs by run id, for their launcher in this process.
LAST_REPORTS: dict[str, RunReport] = {}
# Seconds that a stopping run waits for its batch in flight.
DRAIN_S = 60.0


class RunResource(ConfigurableResource[None]):
    """Settings of a run in the Launchpad.

    `mode` run processes the current input and ends; start runs until the run is terminated, which drains it.
    """

    mode: Literal["run", "start"] = Field(default="run", description="run: to the end of the input; start: until stop")
    standby: bool = Field(
        default=False, description="start: wait with Spark running, and start when the driver of the stream is gone"
    )
    home: str = Field(default="", description="The folder of catalog, checkpoints and tables; empty: RS_HOME, else .rs")
    interval_seconds: float = Field(
        default=1.0, gt=0, description="Least time between two batches of a started pipeline"
    )
    new_generation: bool = Field(default=False, description="Begin a fresh checkpoint and read the input again")
    reset_steps: list[str] = Field(default_factory=list, description="Forget the state of these steps only")
    preview_rows: int = Field(default=0, ge=0, description="How many open windows of each step the report shows")
    keep_state: bool = Field(default=False, description="Use state that another version of the pipeline wrote")
    savepoint_every_seconds: float = Field(
        default=600.0, ge=0, description="Time between two savepoints of a started pipeline; 0: none"
    )
    savepoint_at_end: bool = Field(default=True, description="Take a savepoint when a run had batches")
    savepoints_keep: int = Field(default=10, gt=0, description="How many savepoints are kept")
    savepoints_uri: str = Field(
        default="", description="Where savepoints go; use EnvVar for passwords; empty: RS_SAVEPOINTS, else the home"
    )
    upload: bool | None = Field(
        default=None,
        description="Upload the checkpoint of each batch to savepoints_uri before its rows are committed, and continue"
        " from there if the home is lost; none: RS_UPLOAD, else false",
    )
    local_storage_only: bool = Field(default=False, description="No savepoints, no uploads, no recovery from them")
    checkpoint_storage: str = Field(
        default="",
        description="Where checkpoints are published: delta, memory or db; empty: RS_CHECKPOINT_STORAGE, else delta",
    )
    flush_batches: int = Field(
        default=50, gt=0, description="Write batches to the catalog when so many wait; 1 writes each one by itself"
    )
    flush_seconds: float = Field(
        default=10.0, ge=0, description="Write batches to the catalog when the first one has waited so long"
    )
    metrics_port: int | None = Field(
        default=None, ge=0, description="A port of loopback for Prometheus; 0: any; none: RS_METRICS_PORT, else none"
    )
    metrics_endpoint: str = Field(
        default="", description="An OpenTelemetry collector, http://host:4318/v1/metrics; empty: RS_METRICS_ENDPOINT"
    )
    openlineage: bool | None = Field(
        default=None,
        description="Send OpenLineage events; OPENLINEAGE_URL says where to; none: RS_OPENLINEAGE, else false",
    )
    object_stores: dict[str, str] = Field(
        default_factory=dict,
        description="Access to object stores, such as AWS_ENDPOINT_URL; use EnvVar for secrets; empty: the environment",
    )
    storage_url: str = Field(
        default="", description="The SQLAlchemy URL of the storage db; use EnvVar for passwords; empty: RS_STORAGE_URL"
    )

    def place(self) -> Place:
        """Where the run stores its data; gives this process access to the object stores."""
        if self.object_stores:
            use_storage(self.object_stores)
        return Place.of(
            home=self.home,
            savepoints_uri=self.savepoints_uri,
            checkpoint_storage=self.checkpoint_storage,
            storage_url=self.storage_url,
        )

    def savepoint_policy(self) -> SavepointPolicy:
        """When savepoints are taken automatically."""
        every = timedelta(seconds=self.savepoint_every_seconds) if self.savepoint_every_seconds else None
        return SavepointPolicy(
            every=every,
            at_end=self.savepoint_at_end,
            keep=self.savepoints_keep,
            uri=self.savepoints_uri or None,
            upload=default_upload() if self.upload is None else self.upload,
            local_storage_only=self.local_storage_only,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The end of a run: `interrupted` before its end, `requested` by a person."""

    report: RunReport
    interrupted: bool = False
    requested: bool = False


def _stop_requested(session: JobSession, on_interrupt: Callable[[], bool]) -> bool:
    """Whether a person asked for the stop. If so it is stored before a second interrupt is handled."""
    with held_back():
        requested = on_interrupt()
        if requested:
            session.request_stop()
    return requested


def _run(session: JobSession, finish: bool | None, on_interrupt: Callable[[], bool]) -> Ended:  # noqa: FBT001
    try:
        return Ended(report=run_wired(session, finish=finish))
    except DagsterExecutionInterruptedError:
        requested = _stop_requested(session, on_interrupt)
        drain_and_stop(session, patience_s=DRAIN_S)
        return Ended(report=record(session, sealed=False), interrupted=True, requested=requested)


def _start(session: JobSession, _finish: bool | None, on_interrupt: Callable[[], bool]) -> Ended:  # noqa: FBT001
    running, interrupted, requested = RunningPipeline.over(session), False, False
    try:
        running.begin()
        running.await_termination()
    except DagsterExecutionInterruptedError:
        interrupted, requested = True, _stop_requested(session, on_interrupt)
    finally:
        report = running.end(patience_s=DRAIN_S)
    return Ended(report=report, interrupted=interrupted, requested=requested)


# How the wired queries are run, by mode.
PROCESS = MappingProxyType({"run": _run, "start": _start})


class RuntimeResource(ConfigurableResource[None]):
    """Runs one pipeline in one Dagster run.

    It has no settings of its own: Dagster configures nested resources at launch only if they have keys of their own.
    """

    spark: SparkResource
    source: SourceResource
    step: StepResource
    shuffle: ShuffleResource
    window: WindowResource
    join: JoinResource
    table: TableResource
    processor: ProcessorResource
    sink: SinkResource
    run: RunResource

    _session: JobSession | None = PrivateAttr(default=None)
    # The context of the Dagster run, if there is one.
    _context: InitResourceContext | None = PrivateAttr(default=None)
    _listeners: list[Listener] = PrivateAttr(default_factory=list)

    def setup_for_execution(self, context: InitResourceContext) -> None:
        """Keep the context of the run."""
        self._context = context

    def teardown_after_execution(self, context: InitResourceContext) -> None:  # noqa: ARG002  Dagster's form
        """Stop what still runs and release the pipeline's lease."""
        self.close()

    def close(self) -> None:
        """Stop what still runs and release the pipeline's lease; may be called twice."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def listen(self, listener: Listener) -> None:
        """Call `listener` after each batch, from a thread of the runtime."""
        self._listeners.append(listener)

    def computing_s(self) -> float:
        """For how many seconds the current batch has been computed; 0 without one."""
        return self._session.computing_s if self._session is not None else 0.0

    def wire(
        self, topology: Topology, step: str, inputs: Mapping[str, Mapping[str, Flow]], *, run_id: str
    ) -> Mapping[str, Flow]:
        """The flows of `step` by query, from those of its inputs; the first call opens the pipeline.

        The resource of the step's family wires it, unless nothing is new: then there are no queries.
        A standby wires its steps later; see `stand_by`.
        """
        if self._waits:
            return {}
        session = self._open(topology, run_id)
        return {} if session.unchanged_since else self._family(topology[step]).wire(session, step, inputs)

    def process(self, *, on_interrupt: Callable[[], bool] = bool) -> Ended:
        """Run the wired queries in `mode`. An interrupt drains and stops them; it is not an error by itself.

        `on_interrupt` is called before that, and returns whether a person asked for the stop.
        """
        assert self._session is not None  # ops wired it before
        session, go_on = self._session, PROCESS[self.run.mode]
        for begun in () if session.unchanged_since else BEGUN:
            begun()
        ended = go_on(session, self._finish, on_interrupt)
        LAST_REPORTS[session.options.run_id] = ended.report
        self._session = None
        session.close()
        return ended

    @property
    def _finish(self) -> bool | None:
        """Whether all windows are fired; None: if the pipeline is bounded."""
        return True if self.window.finish else None

    def _open(self, topology: Topology, run_id: str) -> JobSession:
        if self._session is None:
            self._session = opened(topology, self.options(run_id))
            if self.run.mode == "start":
                self._begin_stream(self._session)
            if self._instance is not None:
                end_former(self._instance, self._session.held.before)
            if self.run.mode == "start" or not is_unchanged(self._session, finish=self._finish):
                self._session.options.driver.call(self._session.prepare)
        return self._session

    def stand_by(self, topology: Topology, *, run_id: str) -> None:
        """In a standby: wait until the stream has no driver, make this run the stream, and wire its steps.

        The ops of the steps have ended by then: to record them takes longer than to wire all steps.
        """
        if not self._waits:
            return
        standby = Standby(topology, self.options(run_id))
        standby.prepare()
        self._say("standby: ready, and waits for the end of the driver")
        self._session = session = standby.take_over(begin=self._begin_stream)
        assert session is not None  # there is no limit
        self._say("the driver is gone: taking over")
        session.options.driver.call(session.prepare)
        for node in topology:
            self._family(node).wire(session, node.name, {})
        if self._instance is not None:
            end_orphans(self._instance, topology)
            end_former(self._instance, session.held.before)

    @property
    def _instance(self) -> DagsterInstance | None:
        return self._context.instance if self._context is not None else None

    @property
    def _waits(self) -> bool:
        return self.run.standby and self.run.mode == "start"

    def _family(self, node: Node) -> FamilyResource:
        family: FamilyResource = getattr(self, node.family)
        return family

    def _say(self, text: str) -> None:
        if self._context is not None and self._context.log is not None:
            self._context.log.info(text)
        for said in SAID:
            said(text)

    def _begin_stream(self, session: JobSession, vacancy: Vacancy | None = None) -> None:
        """Record that this run is the stream; PipelineBusyError for a restart if the stream was stopped since.

        The lease is held, so no other run starts or stops the stream meanwhile. The tags of a standby, which takes
        over, say from now on what it follows.
        """
        run, instance = self._context.run if self._context is not None else None, self._instance
        tags = takeover_tags(vacancy) if vacancy is not None else {}
        answers = tags.get(ANSWERS) if run is None or tags else answers_of(run.tags)
        if run is not None and instance is not None and answers is not None:
            now = run.with_tags({**run.tags, **tags})
            refuse_if_stopped(instance, now, read_desired_state(session.folder), session.held.before)
        session.run_on(answers=answers)
        if run is not None and instance is not None and tags:
            instance.add_run_tags(run.run_id, tags)

    def options(self, run_id: str) -> RunOptions:
        """The options of a run: those of its place and course, and those that each family sets."""
        place = self.run.place()
        families = [getattr(self, family) for family in OPERATORS]
        return RunOptions(
            home=place.home,
            driver=self.spark.driver,
            on_progress=self._report,
            interval=timedelta(seconds=self.run.interval_seconds),
            new_generation=self.run.new_generation,
            reset_steps=tuple(self.run.reset_steps),
            keep_state=self.run.keep_state,
            preview_rows=self.run.preview_rows,
            savepoints=self.run.savepoint_policy(),
            checkpoint_storage=place.checkpoint_storage,
            storage_url=place.storage_url,
            flush_batches=self.run.flush_batches,
            flush_after=timedelta(seconds=self.run.flush_seconds),
            metrics_port=default_metrics_port() if self.run.metrics_port is None else self.run.metrics_port,
            metrics_endpoint=self.run.metrics_endpoint or default_metrics_endpoint(),
            openlineage=default_openlineage() if self.run.openlineage is None else self.run.openlineage,
            run_id=run_id,
            **{name: value for family in families for name, value in family.settings().items()},
        )

    def _report(self, progress: BatchProgress) -> None:
        for listener in (*self._listeners, *LISTENERS):
            listener(progress)

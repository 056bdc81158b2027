"""Streams that are stopped, or killed, in each of their phases and in each of the ways, under the recovery sensor.

A case is a stream of its own in a home of its own, run through a real instance of Dagster. A stop is a real signal to
this process, at the moment at which the run comes to a phase; a kill is SIGKILL to a process of its own.
"""

from __future__ import annotations

import inspect
import itertools
import multiprocessing
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from dagster import (
    DagsterExecutionInterruptedError,
    DagsterInstance,
    DagsterRun,
    DagsterRunStatus,
    Failure,
    SensorResult,
    build_sensor_context,
)

from rs_assets import Pipeline, StreamBuilder, build_definitions
from rs_assets.catalog.lease import Lease, read_lease
from rs_assets.common.home import Home
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.instance import ensure_home
from rs_assets.dagster.resources.spark import SparkResource
from rs_assets.dagster.runs import runtime
from rs_assets.dagster.runs.external_runs import run_recorded
from rs_assets.dagster.runs.launch import launch
from rs_assets.dagster.sensors import recovery_sensor
from rs_assets.errors import RsError
from rs_assets.runtime.batch.query import QueryRun
from rs_assets.runtime.job import opening
from rs_assets.runtime.job.session import JobSession
from rs_assets.runtime.run import running

# What a run calls when it comes to a phase, in their order; those behind the word need Spark.
PHASES: dict[str, tuple[object, str]] = {
    "is recorded": (DagsterInstance, "create_run_for_job"),
    "takes the lease": (Lease, "acquire"),
    "is checked": (opening, "_preflight"),
    "writes its word": (JobSession, "run_on"),
    "prepares": (JobSession, "prepare"),
    "wires": (JobSession, "wire"),
    "starts a query": (QueryRun, "start"),
    "computes a batch": (QueryRun, "process"),
    "has committed": (runtime.RuntimeResource, "_tell"),
    "drains": (running, "drain_and_stop"),
    "sums up": (running, "record"),
}
WITHOUT_SPARK = tuple(PHASES)[:4]
# The last two begin with a stop: theirs is the second one.
BEHIND_A_STOP = tuple(PHASES)[-2:]
WAYS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGINT twice", "Terminate")
NOT_REACHED = "not reached"
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
TICKS = 3


@dataclass(frozen=True, slots=True)
class Case:
    """One stream: in which phase it is stopped or killed, how, and whether just before or just behind the call."""

    number: int
    phase: str
    way: str
    behind: bool

    def __str__(self) -> str:
        """As it is told."""
        return f"{self.number}: {self.way} {'behind' if self.behind else 'before'} it {self.phase}"

    @property
    def by_hand(self) -> bool:
        """Whether the run goes on at a terminal, and not because Dagster has launched it."""
        return self.way not in ("Terminate", "SIGKILL of Dagster's")


def planned(seed: int, count: int, *, kills: int) -> Iterator[Case]:
    """The cases of a seed: so many stops, and then so many kills, which need a Spark of their own one time in eight."""
    chance = random.Random(seed)
    stops = itertools.cycle(itertools.product(PHASES, WAYS, (False, True)))
    every = list(itertools.islice(stops, max(count, len(PHASES) * len(WAYS) * 2)))
    chance.shuffle(every)
    for number, (phase, way, behind) in enumerate(every[:count]):
        yield Case(number, phase, way, behind)
    for number in range(count, count + kills):
        phase = chance.choice(WITHOUT_SPARK if number % 8 else tuple(PHASES)[4:])
        yield Case(number, phase, chance.choice(("SIGKILL", "SIGKILL of Dagster's")), chance.random() < 0.5)


def done(case: Case, folder: Path) -> str:
    """What is wrong behind a case; empty if nothing is. Its home lies below `folder`, as does that of Dagster.

    NOT_REACHED if the run failed before it came to the phase, as on a machine that is too busy to start a worker.
    """
    place = folder / f"case-{case.number}"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("DAGSTER_HOME", str(folder / "dagster"))
        patched.setenv("RS_HOME", str(place / "rs"))
        ensure_home()
        pipeline = stream(case, place)
        try:
            came = _in_a_process(case, place) if case.way.startswith("SIGKILL") else _run(case, pipeline)
            return _judged(case, pipeline) if came else NOT_REACHED
        finally:
            shutil.rmtree(place, ignore_errors=True)


def stream(case: Case, place: Path) -> Pipeline:
    """A stream over a folder with a few lines."""
    (place / "in").mkdir(parents=True, exist_ok=True)
    (place / "in" / "a.jsonl").write_text('{"n": 1}\n{"n": 2}\n')
    made = StreamBuilder.data_stream("shop", f"stream{case.number}")
    return made.from_file(place / "in", schema="n bigint", tail=True).to_delta("rows").build()


def _in_a_process(case: Case, place: Path) -> bool:
    """Run the stream in a process of its own; whether that was killed."""
    process = multiprocessing.get_context("forkserver").Process(target=_killed, args=(case, str(place)))
    process.start()
    process.join()
    return process.exitcode == -signal.SIGKILL


def _killed(case: Case, place: str) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _run(case, stream(case, Path(place)))


def _run(case: Case, pipeline: Pipeline) -> bool:
    """Run the stream until it ends by what is done to it; whether it did."""
    with _struck(case, pipeline) as struck:
        try:
            with suppress(KeyboardInterrupt, DagsterExecutionInterruptedError, Failure):
                _start(case, pipeline)
        except RsError:
            if struck.is_set():
                raise
        return struck.is_set()


def _start(case: Case, pipeline: Pipeline) -> None:
    if case.by_hand:
        launch(pipeline, "start")
        return
    definitions = build_definitions([pipeline], {"spark": SparkResource(share=True)})
    with DagsterInstance.get() as instance:
        run_recorded(definitions.resolve_job_def(_job_of(pipeline)), instance, run_config=QUIET, tags={})


@contextmanager
def _struck(case: Case, pipeline: Pipeline) -> Iterator[threading.Event]:
    """Within this, the stop or kill comes when the run comes to the phase of the case, which sets the event."""
    struck, begun = threading.Event(), threading.Event()

    def once(done: threading.Event, do: Callable[[], None]) -> Callable[[], None]:
        def act() -> None:
            if not done.is_set():
                done.set()
                do()

        return act

    strike = once(struck, lambda: _strike(case, pipeline))
    interrupt = partial(os.kill, os.getpid(), signal.SIGINT)
    first = once(begun, interrupt if case.way.startswith("SIGKILL") else lambda: _strike(case, pipeline))
    with pytest.MonkeyPatch.context() as patched:
        _patch(patched, case.phase, strike, behind=case.behind)
        if case.phase in BEHIND_A_STOP:
            _patch(patched, "has committed", first, behind=True)
        yield struck


def _patch(patched: pytest.MonkeyPatch, phase: str, do: Callable[[], None], *, behind: bool) -> None:
    owner, name = PHASES[phase]
    real = getattr(owner, name)
    is_class_method = isinstance(inspect.getattr_static(owner, name), classmethod)

    def called(*given: object, **named: object) -> object:
        given = given[1:] if is_class_method else given
        if not behind:
            do()
        result = real(*given, **named)
        if behind:
            do()
        return result

    patched.setattr(owner, name, classmethod(called) if is_class_method else called)


def _strike(case: Case, pipeline: Pipeline) -> None:
    """What is done to the run, from whatever thread came to the phase."""
    if case.way.startswith("SIGKILL"):
        os.kill(os.getpid(), signal.SIGKILL)
    if case.way == "Terminate":
        # As Dagster does: the word to its store, then the signal.
        with DagsterInstance.get() as instance:
            run = newest(instance, pipeline)
            if run is not None and not run.is_finished and run.status != DagsterRunStatus.CANCELING:
                instance.report_run_canceling(run)
        os.kill(os.getpid(), signal.SIGINT)
        return
    name, _, twice = case.way.partition(" ")
    os.kill(os.getpid(), signal.Signals[name])
    if twice:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.Signals[name])).start()


def newest(instance: DagsterInstance, pipeline: Pipeline) -> DagsterRun | None:
    """The only run of the stream; None before it is recorded."""
    return next((run for run in instance.get_runs(limit=5) if run.job_name == _job_of(pipeline)), None)


def _job_of(pipeline: Pipeline) -> str:
    return f"{pipeline.topology.label}_start"


def _judged(case: Case, pipeline: Pipeline) -> str:
    killed = case.way.startswith("SIGKILL")
    with DagsterInstance.get() as instance:
        run = newest(instance, pipeline)
        if run is None:
            # Whoever has started it has seen the end of it.
            return _stays(pipeline, instance)
        if killed and not case.by_hand and not run.is_finished:
            # As Dagster's code server does when a process that it watches is gone.
            instance.report_run_failed(run)
        was_stopped = killed and case.phase in BEHIND_A_STOP and case.by_hand
        if killed and not was_stopped:
            return _comes_back(pipeline, instance, run)
        if not killed and run.status not in (DagsterRunStatus.SUCCESS, DagsterRunStatus.CANCELED):
            return f"its run is {run.status.value}"
        return _stays(pipeline, instance)


def _comes_back(pipeline: Pipeline, instance: DagsterInstance, run: DagsterRun) -> str:
    result = recovery_sensor(StreamAssets.of(pipeline))(build_sensor_context(instance=instance))
    asked = result.run_requests if isinstance(result, SensorResult) else []
    behind = [request.tags.get("rs/recovers") for request in asked]
    return "" if behind == [run.run_id] else f"it was killed and is not started again: {result}"


def _stays(pipeline: Pipeline, instance: DagsterInstance) -> str:
    cursor = None
    for _ in range(TICKS):
        result = recovery_sensor(StreamAssets.of(pipeline))(build_sensor_context(instance=instance, cursor=cursor))
        if isinstance(result, SensorResult):
            return f"it was stopped and is started again: {result.run_requests}"
    lease = read_lease(Home.default().leases, pipeline.name)
    return "" if lease is None or lease.free else f"its lease is still held: {lease}"


def stops(folder: Path, seed: int, count: int, kills: int, minutes: float) -> int:
    """The cases of a seed, one after the other in this process; how many were wrong."""
    began, wrong, tried = time.monotonic(), 0, {"stops": 0, "kills": 0}
    multiprocessing.get_context("forkserver").set_forkserver_preload([__name__])
    # Kills first: what they start must not share the machine with the Spark of this process.
    plan = sorted(planned(seed, count, kills=kills), key=lambda case: not case.way.startswith("SIGKILL"))
    for case in plan:
        if time.monotonic() - began > minutes * 60:
            break
        at = time.monotonic()
        finding = done(case, folder)
        reached = finding != NOT_REACHED
        tried["kills" if case.way.startswith("SIGKILL") else "stops"] += reached
        wrong += reached and bool(finding)
        print(f"{case}: {finding or 'right'} ({time.monotonic() - at:.1f} s)", flush=True)
    spent = time.monotonic() - began
    print(f"seed {seed}: {tried['stops']} stops, {tried['kills']} kills in {spent:.0f} s: {wrong} wrong", flush=True)
    return wrong

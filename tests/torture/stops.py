"""Streams that are stopped, or killed, in each of their phases and in each of the ways, under the recovery sensor.

A case is a stream of its own in a home of its own, run through a real instance of Dagster: started by a person, by
recovery or by a standby after a kill, or deployed. A stop is a real signal to this process, or a row in the table of
deployments, at the moment at which the run comes to a phase; a kill is SIGKILL to a process of its own.
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from dagster import DagsterExecutionInterruptedError, DagsterInstance, DagsterRunStatus, Failure, SensorResult

from rs_assets.catalog.lease import Lease, read_lease
from rs_assets.common.home import Home
from rs_assets.dagster.instance import ensure_home
from rs_assets.dagster.runs import runtime
from rs_assets.errors import RsError
from rs_assets.runtime.batch.query import QueryRun
from rs_assets.runtime.job import opening
from rs_assets.runtime.job.session import JobSession
from rs_assets.runtime.run import running
from rs_assets.spark.driver import SparkDriver
from tests.torture.stop_origins import (
    AT_TERMINAL,
    OF_DAGSTER,
    STARTS,
    StopByTable,
    Stream,
    requests_of,
    sensor_of,
    tick,
)

# What a run calls when it comes to a phase, in their order; those behind the word need Spark.
PHASES: dict[str, tuple[object, str]] = {
    "is recorded": (DagsterInstance, "create_run_for_job"),
    "takes the lease": (Lease, "acquire"),
    "is checked": (opening, "_preflight"),
    "writes its word": (JobSession, "run_on"),
    "waits for Spark": (SparkDriver, "_ready_session"),
    "prepares": (JobSession, "prepare"),
    "wires": (JobSession, "wire"),
    "starts a query": (QueryRun, "start"),
    "computes a batch": (QueryRun, "process"),
    "has committed": (runtime.RuntimeResource, "_report"),
    "drains": (running, "drain_and_stop"),
    "sums up": (running, "record"),
}
WITHOUT_SPARK = tuple(PHASES)[:4]
# The last two begin with a stop: theirs is the second one.
BEHIND_A_STOP = tuple(PHASES)[-2:]
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGINT twice")
# The signal of a machine that is shut down, to a run that Dagster launched: no person asked for that.
EVICTION = "eviction"
WAYS = (*SIGNALS, "Terminate", "deploy --stop", EVICTION)
NOT_REACHED = "not reached"
TICKS = 3


@dataclass(frozen=True, slots=True)
class Case:
    """One stream: who starts it, in which phase it is stopped or killed, how, and just before or behind the call."""

    number: int
    phase: str
    way: str
    behind: bool
    origin: str = "a terminal"

    def __str__(self) -> str:
        """As it is told."""
        when = "behind" if self.behind else "before"
        return f"{self.number}: {self.way} {when} it {self.phase}, started by {self.origin}"

    @property
    def by_hand(self) -> bool:
        """Whether the run goes on at a terminal, and not because Dagster has launched it."""
        return self.origin in AT_TERMINAL

    @property
    def wished(self) -> bool:
        """Whether a person asked for the end of the stream, also before a kill."""
        return not (self.kills or self.way == EVICTION or self.waits)

    @property
    def waits(self) -> bool:
        """Whether it is a standby that does not have the stream yet: to stop it stops no stream."""
        order, word = tuple(PHASES), "writes its word"
        return self.origin == "a standby" and (order.index(self.phase), self.behind) < (order.index(word), True)

    @property
    def kills(self) -> bool:
        """Whether it is a kill and not a stop."""
        return self.way == "SIGKILL"


def every_stop() -> Iterator[tuple[str, str, str, bool]]:
    """The origin, way, phase and side of each stop there is; Dagster's own runs are recorded before they start."""
    ways = [*itertools.product(AT_TERMINAL, SIGNALS), *itertools.product(OF_DAGSTER, ("Terminate", EVICTION))]
    ways.append(("deployments", "deploy --stop"))
    for (origin, way), phase, behind in itertools.product(ways, PHASES, (False, True)):
        if origin == "a terminal" or phase != "is recorded":
            yield origin, way, phase, behind


def planned(seed: int, count: int, *, kills: int) -> Iterator[Case]:
    """The cases of a seed: so many stops, and then so many kills, which need a Spark of their own one time in eight."""
    chance = random.Random(seed)
    every = list(every_stop())
    every *= -(-count // len(every))
    chance.shuffle(every)
    for number, (origin, way, phase, behind) in enumerate(every[:count]):
        yield Case(number, phase, way, behind, origin)
    for number in range(count, count + kills):
        phase = chance.choice(WITHOUT_SPARK[1:] if number % 8 else tuple(PHASES)[4:])
        yield Case(number, phase, "SIGKILL", chance.random() < 0.5, chance.choice(tuple(STARTS)))


def done(case: Case, folder: Path) -> str:
    """What is wrong behind a case; empty if nothing is. Its home lies below `folder`, as does that of Dagster.

    NOT_REACHED if the run failed before it came to the phase, as on a machine that is too busy to start a worker.
    """
    place = folder / f"case-{case.number}"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("DAGSTER_HOME", str(folder / "dagster"))
        patched.setenv("RS_HOME", str(place / "rs"))
        patched.delenv("RS_DAGSTER_URL", raising=False)
        ensure_home()
        stream = Stream.made(case.number, place)
        try:
            if case.kills:
                return _judged(case, stream) if _in_a_process(case, place) else NOT_REACHED
            return _run(case, stream)
        finally:
            shutil.rmtree(place, ignore_errors=True)


def _in_a_process(case: Case, place: Path) -> bool:
    """Run the stream in a process of its own; whether that was killed."""
    # The server of forks has the environment of the first case.
    homes = {name: os.environ[name] for name in ("DAGSTER_HOME", "RS_HOME")}
    process = multiprocessing.get_context("forkserver").Process(target=_killed, args=(case, str(place), homes))
    process.start()
    process.join()
    return process.exitcode == -signal.SIGKILL


def _killed(case: Case, place: str, homes: Mapping[str, str]) -> None:
    os.environ.update(homes)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _run(case, Stream.made(case.number, Path(place)))


def _run(case: Case, stream: Stream) -> str:
    """Run the stream until it ends by what is done to it; what is wrong then."""
    by_table, start = StopByTable(stream), STARTS[case.origin](stream)
    with _struck(case, stream, by_table) as struck, by_table.looking():
        try:
            with suppress(KeyboardInterrupt, DagsterExecutionInterruptedError, Failure):
                start()
        except RsError:
            if struck.is_set():
                raise
    if not struck.is_set():
        return NOT_REACHED
    if by_table.requested:
        return f"it is started again while it stops: {by_table.requested}"
    return _judged(case, stream)


@contextmanager
def _struck(case: Case, stream: Stream, by_table: StopByTable) -> Iterator[threading.Event]:
    """Within this, the stop or kill comes when the run comes to the phase of the case, which sets the event."""
    struck, begun = threading.Event(), threading.Event()

    def once(done: threading.Event, do: Callable[[], None]) -> Callable[[], None]:
        def act() -> None:
            if not done.is_set():
                done.set()
                do()

        return act

    stop = by_table.strike if case.way == "deploy --stop" else lambda: _strike(case, stream)
    interrupt = partial(os.kill, os.getpid(), signal.SIGINT)
    with pytest.MonkeyPatch.context() as patched:
        # The second stop of a drain is in another way: the sensor runs already.
        second = partial(_terminate, stream) if case.way == "deploy --stop" and case.phase in BEHIND_A_STOP else stop
        _patch(patched, case.phase, once(struck, second), behind=case.behind)
        if case.phase in BEHIND_A_STOP:
            _patch(patched, "has committed", once(begun, interrupt if case.kills else stop), behind=True)
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


def _strike(case: Case, stream: Stream) -> None:
    """What is done to the run, from whatever thread came to the phase."""
    if case.kills:
        os.kill(os.getpid(), signal.SIGKILL)
    if case.way == EVICTION:
        os.kill(os.getpid(), signal.SIGTERM)
        return
    if case.way == "Terminate":
        _terminate(stream)
        return
    name, _, twice = case.way.partition(" ")
    os.kill(os.getpid(), signal.Signals[name])
    if twice:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.Signals[name])).start()


def _terminate(stream: Stream) -> None:
    """As Dagster does: the word to its store, then the signal."""
    with DagsterInstance.get() as instance:
        run = stream.newest(instance)
        if run is not None and not run.is_finished and run.status != DagsterRunStatus.CANCELING:
            instance.report_run_canceling(run)
    os.kill(os.getpid(), signal.SIGINT)


def _judged(case: Case, stream: Stream) -> str:
    with DagsterInstance.get() as instance:
        run = stream.newest(instance)
        if run is None:
            if not case.wished and case.phase != "is recorded":
                return "the run that was killed is not known"
            # Whoever has started it has seen the end of it.
            return _stays(case, stream, instance)
        if case.kills and not case.by_hand and not run.is_finished:
            # As Dagster's code server does when a process that it watches is gone.
            instance.report_run_failed(run)
        was_stopped = case.kills and case.phase in BEHIND_A_STOP and case.by_hand
        if not case.wished and not was_stopped:
            result = tick(sensor_of(case.origin, stream), instance)
            return (
                "" if len(requests_of(result)) == 1 else f"its end was no stop, and it is not started again: {result}"
            )
        if not case.kills and run.status not in (DagsterRunStatus.SUCCESS, DagsterRunStatus.CANCELED):
            return f"its run is {run.status.value}"
        return _stays(case, stream, instance)


def _stays(case: Case, stream: Stream, instance: DagsterInstance) -> str:
    cursor, sensor = None, sensor_of(case.origin, stream)
    for _ in range(TICKS):
        result = tick(sensor, instance, cursor)
        if requests_of(result):
            return f"it was stopped and is started again: {requests_of(result)}"
        cursor = result.cursor if isinstance(result, SensorResult) else cursor
    lease = read_lease(Home.default().leases, stream.name)
    return "" if lease is None or lease.free else f"its lease is still held: {lease}"


def stops(folder: Path, seed: int, count: int, kills: int, minutes: float, *, part: tuple[int, int] = (1, 1)) -> int:
    """The cases of a seed, one after the other in this process; how many were wrong. `part` 2, 5: the second fifth."""
    began, wrong, tried = time.monotonic(), 0, {"stops": 0, "kills": 0}
    multiprocessing.get_context("forkserver").set_forkserver_preload([__name__])
    # Kills first: what they start must not share the machine with the Spark of this process.
    plan = sorted([*planned(seed, count, kills=kills)][part[0] - 1 :: part[1]], key=lambda case: not case.kills)
    for case in plan:
        if time.monotonic() - began > minutes * 60:
            break
        at = time.monotonic()
        finding = done(case, folder)
        reached = finding != NOT_REACHED
        tried["kills" if case.kills else "stops"] += reached
        wrong += reached and bool(finding)
        print(f"{case}: {finding or 'right'} ({time.monotonic() - at:.1f} s)", flush=True)
    spent = time.monotonic() - began
    print(f"seed {seed}: {tried['stops']} stops, {tried['kills']} kills in {spent:.0f} s: {wrong} wrong", flush=True)
    return wrong

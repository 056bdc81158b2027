"""A standby: a process with Spark running that takes a stream over when its driver is gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from rs_assets.catalog import requests
from rs_assets.catalog.desired_state import read_desired_state
from rs_assets.catalog.lease import LeaseRow, is_abandoned, read_lease
from rs_assets.errors import CheckpointError, PipelineBusyError, RsError, SinkError
from rs_assets.recovery.uploads import SignOfLife
from rs_assets.runtime.job.analysis import analyse
from rs_assets.runtime.job.session import JobSession
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.run.run import open_stream, started
from rs_assets.runtime.run.running import RunningPipeline
from rs_assets.runtime.run.trial import try_rows
from rs_assets.runtime.run.warming import warm_up
from rs_assets.runtime.upkeep.ownership import readable
from rs_assets.runtime.upkeep.uploads import current_home
from rs_assets.topology.topology import Topology

# How often the process of the driver is looked for, in seconds, and how often the lease is read.
LOOK_S = 0.1
READ_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacancy:
    """A stream that is to run and has no driver.

    `answers` is the id of the request that it runs, `run_id` the run that is gone; both are empty if only its uploads
    are known here. `silent_s`: seconds since its last sign of life.
    """

    answers: str = ""
    run_id: str = ""
    silent_s: float = 0.0


# Records that the run of an opened session is the stream; PipelineBusyError if another start or stop came first.
Begin = Callable[[JobSession, Vacancy], None]


def run_on(session: JobSession, vacancy: Vacancy) -> None:
    """Record it in the home."""
    session.run_on(answers=vacancy.answers)


class Standby:
    """Waits for the end of the driver of one pipeline, in this home or, by its uploads, in another one.

    A stream that was stopped, or is stopped for an upkeep job, has no vacancy; neither has one that never ran.
    """

    def __init__(self, topology: Topology, options: RunOptions) -> None:
        self.topology = topology
        self.options = options
        self._folder = options.home.job(topology.namespace, topology.job)
        self._lease: LeaseRow | None = None
        self._read_at = 0.0
        self._sign: SignOfLife | None = None
        self._sign_at = 0.0
        # The request whose stream is not to be taken over.
        self._refused: str | None = None

    def prepare(self) -> None:
        """Start Spark, analyse each step, run the pipeline once without input and without its sinks, and `warm_up`.

        So classes are loaded and compiled. A pipeline that cannot be tried without input is only analysed.
        """
        driver = self.options.driver
        driver.call(lambda spark: spark.range(1).count())
        with suppress(RsError):
            analyse(self.topology, driver)
        with suppress(RsError):
            try_rows(self.topology, {source.name: () for source in self.topology.origins}, driver)
        with suppress(RsError):
            warm_up(driver)

    def vacancy(self) -> Vacancy | None:
        """The vacancy at this moment, None if there is none. CheckpointError if lease or uploads cannot be read."""
        now = time.monotonic()
        if now - self._read_at >= READ_S:
            self._read_at = now
            self._lease = read_lease(self.options.home.leases, self.topology.name)
            self._hear(now)
        found = self._there() if self._sign is not None else self._here()
        return None if found is None or found.answers == self._refused else found

    def await_vacancy(self, *, timeout_s: float | None = None, stop: threading.Event | None = None) -> Vacancy | None:
        """Wait for a vacancy; None if `timeout_s` or `stop` came first. What cannot be read is read again."""
        until, pause = None if timeout_s is None else time.monotonic() + timeout_s, stop or threading.Event()
        while not pause.is_set() and (until is None or time.monotonic() < until):
            with suppress(CheckpointError, SinkError, OSError):
                found = self.vacancy()
                if found is not None:
                    return found
            pause.wait(LOOK_S)
        return None

    def take_over(
        self,
        *,
        timeout_s: float | None = None,
        stop: threading.Event | None = None,
        begin: Begin = run_on,
    ) -> JobSession | None:
        """Wait for a vacancy, and open the stream; None as for `await_vacancy`.

        It waits again if another standby, or a person, was first. A stream that `begin` refuses is left until another
        request for it.
        """
        until, pause = None if timeout_s is None else time.monotonic() + timeout_s, stop or threading.Event()
        while True:
            left = None if until is None else until - time.monotonic()
            vacancy = self.await_vacancy(timeout_s=left, stop=pause)
            if vacancy is None:
                return None
            with suppress(PipelineBusyError):
                return open_stream(self.topology, self.options, partial(self._begin, vacancy, begin))
            pause.wait(READ_S)

    def _begin(self, vacancy: Vacancy, begin: Begin, session: JobSession) -> None:
        try:
            begin(session, vacancy)
        except PipelineBusyError:
            # A request that was stopped or replaced is never valid again.
            self._refused = vacancy.answers
            raise

    def _here(self) -> Vacancy | None:
        """By the lease and the desired state of this home."""
        lease, desired = self._lease, read_desired_state(self._folder)
        if lease is None or desired is None or desired.stopped or not is_abandoned(self.options.home.leases, lease):
            return None
        stop, resume = (requests.asked(self._folder, each) for each in ("stop", "resume"))
        if resume is not None or (stop is not None and not requests.is_left(stop)):
            return None
        return Vacancy(answers=desired.id, run_id=desired.run_id, silent_s=max(lease.age.total_seconds(), 0.0))

    def _hear(self, now: float) -> None:
        stored = readable(self.options, self.topology.namespace, self.topology.job)
        sign = current_home(self.topology, self.options, stored)
        if sign != self._sign:
            self._sign, self._sign_at = sign, now

    def _there(self) -> Vacancy | None:
        """By the signs of life of another home. The start waits as long again."""
        assert self._sign is not None  # asked for before
        silent_s = time.monotonic() - self._sign_at
        if self._sign.ended or silent_s < self._sign.ttl_s / 2:
            return None
        desired = read_desired_state(self._folder)
        return Vacancy(answers=desired.id if desired is not None else "", silent_s=silent_s)


def stand_by(
    topology: Topology,
    options: RunOptions | None = None,
    *,
    timeout_s: float | None = None,
    stop: threading.Event | None = None,
) -> RunningPipeline | None:
    """Wait for a vacancy and start the stream; see `Pipeline.stand_by`."""
    standby = Standby(topology, RunOptions.of(options))
    standby.prepare()
    session = standby.take_over(timeout_s=timeout_s, stop=stop)
    return None if session is None else started(session)

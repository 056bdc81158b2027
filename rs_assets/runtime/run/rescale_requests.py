"""Rescales a stream that another process runs: asks its driver for it, by a file in its folder, and reads the answer.

A request names the lease of the run that it is made to, so no other run carries it out, nor does that run much later.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rs_assets.catalog import requests
from rs_assets.catalog.desired_state import read_desired_state
from rs_assets.catalog.lease import LeaseRow, read_lease
from rs_assets.catalog.requests import Progress
from rs_assets.common.background import LOG
from rs_assets.common.plural import count_of
from rs_assets.errors import (
    CheckpointError,
    ConfigurationError,
    EngineError,
    LeaseLostError,
    PipelineBusyError,
    RsError,
    SinkError,
)
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.run.rescaled import RescaleReport, check_partitions
from rs_assets.topology.topology import Topology

if TYPE_CHECKING:
    from rs_assets.runtime.run.running import RunningPipeline

# How often the driver looks for a request, and how often the process that asks looks for the answer and the driver.
DRIVER_LOOKS = timedelta(seconds=0.5)
LOOK_S = 0.2
# The lease is read at one in so many looks.
LEASE_EVERY = 5
# How long a request waits until the driver takes it: a start prepares its queries first.
PATIENCE_S = 60.0
# A request of this age is not carried out. Longer than the patience, as the clocks of two machines differ.
LIFETIME = timedelta(minutes=10)
NOT_SEEN = "requests to rescale are not answered"
ASK_AGAIN = "request it again"
# The errors that an answer names; others are errors of the engine.
ERRORS: Mapping[str, type[RsError]] = MappingProxyType(
    {each.__name__: each for each in (CheckpointError, ConfigurationError, LeaseLostError, PipelineBusyError)}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a request to the run `run_id`: a report, or the reason why there is none.

    `gone`: the driver ended before it answered. `replaced`: a later request, to another number, took its place.
    """

    run_id: str
    report: RescaleReport | None = None
    refused: RsError | None = None
    gone: bool = False
    replaced: bool = False


# In the process that asks.


def rescale_running(topology: Topology, options: RunOptions, partitions: int, *, reason: str) -> Outcome | None:
    """Let the driver of the running stream rescale it, and wait for that; None, with nothing done, if no stream runs.

    `reason` is for people. An interrupted wait withdraws a request that the driver has not taken. ConfigurationError
    for an invalid number, for a pipeline without state, and for state that cannot be redistributed; CheckpointError if
    the request cannot be written.
    """
    check_partitions(topology, partitions)
    folder = options.home.job(topology.namespace, topology.job)
    lease = _stream(topology, options, folder)
    if lease is None:
        return None
    details = {"partitions": partitions, "token": lease.token}
    try:
        asked = requests.ask(folder, "rescale", reason=reason, run_id=options.run_id, **details)
    except OSError as error:
        raise CheckpointError(
            f"the request to rescale cannot be written: {error.strerror}",
            remedy="request it as the user who runs the stream",
            file=folder,
        ) from error
    try:
        return _Wait(topology, options, lease, folder, asked).outcome()
    finally:
        with suppress(OSError):
            requests.withdraw(folder, "rescale", asked)


def _stream(topology: Topology, options: RunOptions, folder: Path) -> LeaseRow | None:
    """The lease of the running stream; None without one, for a run that ends, and for a driver without heartbeats."""
    lease, desired = read_lease(options.home.leases, topology.name), read_desired_state(folder)
    if lease is None or lease.free or lease.stale or desired is None or desired.stopped:
        return None
    return lease if desired.run_id == lease.run_id else None


@dataclass(slots=True)
class _Wait:
    """The wait for the answer to a request to the holder of `lease`. Time is counted, since a machine may pause."""

    topology: Topology
    options: RunOptions
    lease: LeaseRow
    folder: Path
    asked: str
    looks: int = 0
    # Those since the last sign of life.
    silent: int = 0

    def outcome(self) -> Outcome:
        """What became of the request, when that is known."""
        tick = threading.Event()
        while True:
            found = self._known()
            if found is not None:
                return found
            tick.wait(LOOK_S)
            self.looks += 1
            self.silent += 1

    def _known(self) -> Outcome | None:
        progress = self._progress()
        if progress.state not in ("answered", "gone") and self.looks % LEASE_EVERY:
            return None
        holds = self._holds()
        if progress.state != "answered":
            # A driver answers, and then ends.
            progress = self._progress()
        if progress.state == "answered":
            return _answered(progress, self.lease.run_id)
        if not holds:
            return self._without("its driver ended before it answered", gone=True)
        if progress.state == "gone":
            return self._without("a later request to rescale took the place of this one", replaced=True)
        if progress.state == "pending" and self.looks * LOOK_S >= PATIENCE_S:
            return self._without(f"its driver did not answer within {PATIENCE_S:.0f} s")
        return None

    def _progress(self) -> Progress:
        return requests.progress(self.folder, "rescale", self.asked)

    def _without(self, why: str, *, gone: bool = False, replaced: bool = False) -> Outcome:
        """The outcome without an answer."""
        error = PipelineBusyError(
            f"{self.topology.name} was not rescaled while it runs: {why}",
            remedy="request it again, or stop the stream first",
            run=self.lease.run_id,
        )
        return Outcome(run_id=self.lease.run_id, refused=error, gone=gone, replaced=replaced)

    def _holds(self) -> bool:
        """Whether the driver still has its lease and gives signs of life; True while the lease cannot be read."""
        now: LeaseRow | None = self.lease
        with suppress(CheckpointError, SinkError, OSError):
            now = read_lease(self.options.home.leases, self.topology.name)
        if now is None or now.free or now.token != self.lease.token:
            return False
        if now.beat != self.lease.beat:
            self.lease, self.silent = now, 0
        return self.silent * LOOK_S < now.ttl_ms / 1000


def _answered(progress: Progress, run_id: str) -> Outcome:
    done, refused = (progress.answer.get(name) for name in ("done", "refused"))
    if done is not None:
        return Outcome(run_id=run_id, report=RescaleReport(**done))
    assert refused is not None  # an answer has one of them
    kind = ERRORS.get(refused["error"], EngineError)
    return Outcome(run_id=run_id, refused=kind(refused["what"], remedy=refused["remedy"], **refused["facts"]))


# In the driver.


def answer_requests(running: RunningPipeline) -> None:
    """Carry out the pending request to rescale, if there is one, and answer it.

    One that was made to a later run is left to that: this driver was paused, and another one has taken over.
    """
    folder = running.session.folder
    pending = requests.asked(folder, "rescale")
    if pending is None or pending.get("token", 0) > running.session.held.token:
        return
    request = requests.take(folder, "rescale")
    if request is None:
        return
    try:
        answer = _carried_out(running, request)
    except RsError as error:
        answer = _refusal(error)
    except Exception as error:  # noqa: BLE001  whatever it is, the process that asks waits for an answer
        answer = _refusal(EngineError(f"{type(error).__name__}: {error}"))
    requests.answer(folder, "rescale", str(request.get("id")), answer)
    LOG.info("rescale, requested by %s: %s", _who(request), _in_words(answer))


def _carried_out(running: RunningPipeline, request: Mapping[str, Any]) -> dict[str, Any]:
    _refuse_outdated(running, request)
    running.session.held.check()
    return {"done": asdict(running.rescale(request["partitions"]))}


def _refuse_outdated(running: RunningPipeline, request: Mapping[str, Any]) -> None:
    """PipelineBusyError for a request that was made to another run, is old, or whose process has ended."""
    if request.get("token") != running.session.held.token:
        raise PipelineBusyError("the rescale was requested of another run of the pipeline", remedy=ASK_AGAIN)
    if requests.is_left(dict(request)):
        raise PipelineBusyError("the process that requested the rescale has ended", remedy=ASK_AGAIN)
    age = abs(datetime.now(UTC) - datetime.fromisoformat(request["at"]))
    if age > LIFETIME:
        raise PipelineBusyError(
            f"the rescale was requested {count_of(age // timedelta(minutes=1), 'minute')} ago",
            remedy="request it again; if it is new, the clocks of the two machines differ: set them",
        )


def _refusal(error: RsError) -> dict[str, Any]:
    facts = {name: str(value) for name, value in error.facts.items()}
    return {"refused": {"error": type(error).__name__, "what": error.what, "remedy": error.remedy, "facts": facts}}


def _who(request: Mapping[str, Any]) -> str:
    run = f"run {request['run']}" if request.get("run") else f"process {request.get('pid')}"
    return f"{run} ({request.get('reason')})"


def _in_words(answer: Mapping[str, Any]) -> str:
    if "refused" in answer:
        return f"refused: {answer['refused']['what']}"
    done = answer["done"]
    return f"{done['before']} -> {count_of(done['after'], 'partition')}"

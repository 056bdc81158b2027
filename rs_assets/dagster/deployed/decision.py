"""The sensor's decision about one deployed pipeline. It reads and changes nothing outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from dagster import DagsterRun, DagsterRunStatus

from rs_assets.catalog.lease import LeaseRow
from rs_assets.common.plural import count_of
from rs_assets.dagster.sensors.recovery import RecoveryPolicy
from rs_assets.deploy.history import Standing

Act = Literal["nothing", "launch", "ask", "settle"]
ALIVE = (DagsterRunStatus.STARTED, DagsterRunStatus.STARTING, DagsterRunStatus.QUEUED, DagsterRunStatus.NOT_STARTED)
HOUR_S = timedelta(hours=1).total_seconds()
POLICY = RecoveryPolicy()
STOPPED = "it was stopped by a person; a new version starts it again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The state of a pipeline at one tick.

    `run` is its current run, else the run that decides (`sensors.verdict`). `failed` is whether that run is to be
    restarted; `calm` is the reason if not. `stopped` is whether a person stopped it, `newest` whether it was launched
    for the desired version. `resume` is the id of an unanswered request to start it again. `restarts` are the times of
    restarts after failed runs.
    """

    standing: Standing
    lease: LeaseRow | None = None
    run: DagsterRun | None = None
    failed: bool = False
    calm: str = ""
    stopped: bool = False
    newest: bool = False
    resume: str | None = None
    restarts: Sequence[float] = ()
    now: float = 0.0

    @property
    def held(self) -> bool:
        """Whether a run holds the pipeline's lease."""
        return self.lease is not None and not self.lease.free

    @property
    def died(self) -> bool:
        """Whether the run ended without releasing the lease."""
        lease, run = self.lease, self.run
        if lease is None or run is None or lease.run_id != run.run_id or lease.released:
            return False
        return lease.free or lease.stale


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do, and the reason in words. `restart`: the reason is a failed run."""

    act: Act
    why: str
    restart: bool = False


def decide(known: Known, policy: RecoveryPolicy = POLICY) -> Decision:
    """Launch a run, ask the current run to change, record a result that needs no run, or do nothing."""
    if known.held and not known.died:
        return _of_a_holder(known)
    if known.run is not None and known.run.status in ALIVE and not (known.died or known.failed):
        return Decision(act="nothing", why="its run begins or ends")
    if known.standing.chosen is None:
        settled = known.standing.settled
        return Decision(act="nothing" if settled else "settle", why=_rest(known.standing) if settled else "nothing ran")
    return _of_none(known, policy)


def _of_none(known: Known, policy: RecoveryPolicy) -> Decision:
    """What to do for a pipeline that should run and does not."""
    desired = known.standing.desired
    if known.stopped and (known.standing.last is not None or known.newest):
        return Decision(act="nothing", why=STOPPED)
    news = known.resume or ("it has no run" if known.run is None else None)
    if known.standing.last is None or news is not None:
        return Decision(act="launch", why=news or f"version {desired.version} is new")
    assert known.run is not None  # there is no news
    if known.died or known.failed or known.run.status == DagsterRunStatus.FAILURE:
        return _restarted(known, policy)
    return Decision(act="nothing", why=STOPPED)


def _of_a_holder(known: Known) -> Decision:
    state, lease = known.standing, known.lease
    assert lease is not None  # it is held
    if known.run is None or known.run.run_id != lease.run_id:
        return Decision(act="nothing", why=f"run {lease.run_id} holds it, which does not follow the table")
    if state.last is None:
        return Decision(act="ask", why=f"version {state.desired.version} is new")
    return Decision(act="nothing", why=_rest(state))


def _restarted(known: Known, policy: RecoveryPolicy) -> Decision:
    recent = [at for at in known.restarts if known.now - at < HOUR_S]
    if known.calm and not known.died:
        return Decision(act="nothing", why=known.calm)
    if len(recent) >= policy.restarts_per_hour:
        return Decision(
            act="nothing", why=f"it was restarted {count_of(len(recent), 'time')} within the hour: see why it fails"
        )
    wait = policy.wait_s(len(recent)) - (known.now - max(recent, default=0.0))
    if wait > 0:
        return Decision(act="nothing", why=f"its run failed; the next restart comes in {wait:.0f} s")
    return Decision(act="launch", why="its run failed" if not known.died else "its process ended", restart=True)


def _rest(state: Standing) -> str:
    last = f"version {state.desired.version} {state.last.event}" if state.last is not None else "new"
    if state.broken:
        runs = f"version {state.chosen.version} runs on" if state.chosen is not None else "no version runs"
        return f"{last}: {runs}"
    return last


def restarts_of(seen: dict[str, Any], now: float) -> list[float]:
    """The restarts within the last hour in a cursor."""
    return [at for at in seen.get("restarts", []) if now - at < HOUR_S]

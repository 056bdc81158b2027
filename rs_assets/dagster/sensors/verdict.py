"""Whether a stream is to be restarted: a pure function of its runs.

The run that ended last decides. A start that was refused because the stream was running is ignored, and so is a restart
that failed before it became the stream. So a stop counts until a later start, and a kill until a later stop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rs_assets.catalog.desired_state import DesiredState

# How a run ended. stopped: by a person. ended: well, by itself or for an upkeep job. busy: its start was refused
# because another run was active. refused: its start was refused for good. failed: anything else, SIGKILL too.
Kind = Literal["stopped", "ended", "busy", "refused", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A run of a stream: `began` is its launch, `ended` its end, or None if it may be running.

    Times are seconds since the epoch. If the end of a run is unknown, `ended` is its last sign of life. `asked_for` is
    whether recovery launched it, not a person. If `ended` is a heartbeat, the run may have lived `silent_s` longer.
    """

    run_id: str
    began: float
    ended: float | None = None
    asked_for: bool = False
    silent_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a run ended, and the same in words."""

    kind: Kind
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What to do with a stream: restart it with the settings of `run_id`, wait for a running run, or leave it; and why.

    `end` is how the deciding run ended, None if there is none, and `ended` when.
    """

    act: Literal["restart", "wait", "leave"]
    why: str
    run_id: str = ""
    end: Kind | None = None
    ended: float = 0.0


def judge(
    desired: DesiredState | None, runs: Sequence[Ran], end_of: Callable[[Ran], End], *, holder: str = ""
) -> Verdict:
    """The verdict, from the desired state `desired`, the newest `runs` and the run `holder` that has the lease.

    `end_of` returns how a run ended; it is called for as few runs as possible. `runs` contains that of `desired`.

    >>> runs = [Ran(run_id="a", began=1.0, ended=9.0), Ran(run_id="b", began=2.0, ended=3.0)]
    >>> ends = {"a": End(kind="failed", why="its run failed"), "b": End(kind="busy", why="busy")}
    >>> judge(None, runs, lambda run: ends[run.run_id]).act
    'restart'
    >>> stopped = DesiredState(run_id="a", since=1.0, at=8.0, stopped=True)
    >>> judge(stopped, runs, lambda run: ends[run.run_id]).why
    'it was stopped by a person'
    """
    if holder:
        return Verdict(act="wait", why=f"run {holder} goes on")
    going = next((run for run in runs if run.ended is None), None)
    if going is not None:
        return Verdict(act="wait", why=f"run {going.run_id} begins or ends", run_id=going.run_id)
    for run in _last_first(desired, runs):
        if desired is not None and desired.stopped and run.run_id == desired.run_id:
            return Verdict(act="leave", why="it was stopped by a person", run_id=run.run_id, end="stopped")
        end = end_of(run)
        begun = desired is not None and run.run_id == desired.run_id
        # A restart that failed before it became the stream is ignored: the previous run decides.
        if end.kind != "busy" and not (end.kind == "failed" and run.asked_for and not begun):
            act: Literal["restart", "leave"] = "restart" if end.kind == "failed" else "leave"
            return Verdict(act=act, why=end.why, run_id=run.run_id, end=end.kind, ended=run.ended or 0.0)
    return Verdict(act="leave", why="it was never started by Dagster")


def _last_first(desired: DesiredState | None, runs: Sequence[Ran]) -> Iterator[Ran]:
    """The runs that may decide, the one that ended last first; none that ended before the run of `desired`."""
    ended = sorted(runs, key=lambda run: run.ended or 0.0, reverse=True)
    if desired is None:
        yield from ended
        return
    mine = next((run for run in runs if run.run_id == desired.run_id), Ran(run_id=desired.run_id, began=desired.since))
    # It ran until then, at least. Its clock may lag that of Dagster, by which the previous run has ended.
    at = max(mine.began, desired.at, 0.0 if desired.stopped else mine.ended or 0.0)
    for run in ended:
        # Between its last heartbeat and its death another start may have ended while it ran; not one of recovery.
        silent_s = 0.0 if run.asked_for or desired.stopped else mine.silent_s
        if run.run_id != desired.run_id and (run.ended or 0.0) > at + silent_s:
            yield run
    yield mine

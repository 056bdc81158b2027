"""Whether a stream is to be started again: a function of what is known of its runs, which touches nothing.

The run that ended last decides. A start that was refused because the stream was going decides nothing, as if it had
never been asked for. So a stop counts as long as no start came after it, and a kill as long as no stop did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rs_assets.engine.checkpoint.wish import Wish

# How a run ended. stopped: by a person. ended: well, by itself or at the request of an upkeep job. busy: its start was
# refused because another run was going. refused: its start was refused for good. failed: whatever else, SIGKILL too.
Kind = Literal["stopped", "ended", "busy", "refused", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A run of a stream. `began` is when it was launched, `ended` when it ended, None if it may go on.

    Times are seconds since the epoch. A run whose end nobody has seen `ended` with its last sign of life.
    """

    run_id: str
    began: float
    ended: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a run ended, and the same in words."""

    kind: Kind
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What to do of a stream: start it again as `run_id` was, wait for a run that goes on, or leave it, and why.

    `end` is how the run ended that decides; None if there is none.
    """

    act: Literal["restart", "wait", "leave"]
    why: str
    run_id: str = ""
    end: Kind | None = None


def judge(wish: Wish | None, runs: Sequence[Ran], end_of: Callable[[Ran], End], *, holder: str = "") -> Verdict:
    """What to do, by the last word `wish` on the stream, its newest `runs` and the run `holder` that has its lease.

    `end_of` tells how a run ended; it is asked of as few as possible. `runs` must have that of `wish`, if it is known.

    >>> runs = [Ran(run_id="a", began=1.0, ended=9.0), Ran(run_id="b", began=2.0, ended=3.0)]
    >>> ends = {"a": End(kind="failed", why="its run failed"), "b": End(kind="busy", why="busy")}
    >>> judge(None, runs, lambda run: ends[run.run_id]).act
    'restart'
    >>> stopped = Wish(run_id="a", since=1.0, at=8.0, stopped=True)
    >>> judge(stopped, runs, lambda run: ends[run.run_id]).why
    'it was stopped by a person'
    """
    if holder:
        return Verdict(act="wait", why=f"run {holder} goes on")
    going = next((run for run in runs if run.ended is None), None)
    if going is not None:
        return Verdict(act="wait", why=f"run {going.run_id} begins or ends", run_id=going.run_id)
    for run in _last_first(wish, runs):
        if wish is not None and wish.stopped and run.run_id == wish.run_id:
            return Verdict(act="leave", why="it was stopped by a person", run_id=run.run_id, end="stopped")
        end = end_of(run)
        if end.kind != "busy":
            act: Literal["restart", "leave"] = "restart" if end.kind == "failed" else "leave"
            return Verdict(act=act, why=end.why, run_id=run.run_id, end=end.kind)
    return Verdict(act="leave", why="it was never started by Dagster")


def _last_first(wish: Wish | None, runs: Sequence[Ran]) -> Iterator[Ran]:
    """The runs that may decide, the one that ended last first; none that ended before what `wish` is about."""
    ended = sorted(runs, key=lambda run: run.ended or 0.0, reverse=True)
    if wish is None:
        yield from ended
        return
    # A run that Dagster does not know decides, too: it was not failed, as far as is known.
    mine = next((run for run in runs if run.run_id == wish.run_id), Ran(run_id=wish.run_id, began=wish.since))
    at = wish.at if wish.stopped or mine.ended is None else mine.ended
    yield from (
        run for run in ended if run.run_id != wish.run_id and run.began > wish.since and (run.ended or 0.0) > at
    )
    yield mine

"""How a run of Dagster ends that was told to stop, and what of its threads is seen in its log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from dagster import (
    DagsterExecutionInterruptedError,
    DagsterInstance,
    DagsterRun,
    DagsterRunStatus,
    Failure,
    OpExecutionContext,
)

from rs_assets.common.background import LOG
from rs_assets.common.interrupts import held_back
from rs_assets.dagster.runs.run_tags import PARENT
from rs_assets.dagster.runs.runtime import Ended
from rs_assets.errors import RsError

DRAINED = "drained and stopped; the next run goes on from here"
UNBEGUN = "told to stop before it had read anything; nothing was changed"
AT_ONCE = "told to stop again while it drained: stopped at once; the next start goes on from its last commit"
UNREQUESTED = "its process was told to end, but not by way of Dagster"
# The tag of a run that a person has launched on a terminal; the value does not matter.
BY_HAND = "rs/by_hand"


def stop_was_requested(context: OpExecutionContext) -> bool:
    """Whether a person asked for the interrupt of this run: in Dagster, or at the terminal that it runs in.

    The latter is noted in Dagster too, so that nobody starts the run again, whatever becomes of it now. A run that
    Dagster made of one at a terminal has its tags, and no terminal.
    """
    return note_stop(context.instance, context.run_id)


def note_stop(instance: DagsterInstance, run_id: str) -> bool:
    """As `stop_was_requested`, of a run by its id."""
    run = instance.get_run_by_id(run_id)
    if run is None:
        return False
    if run.status in (DagsterRunStatus.CANCELING, DagsterRunStatus.CANCELED):
        return True
    if not _at_terminal(run):
        return False
    instance.report_run_canceling(run, message="told to stop at its terminal")
    return True


def _at_terminal(run: DagsterRun) -> bool:
    return BY_HAND in run.tags and PARENT not in run.tags


def refuse_interrupted(context: OpExecutionContext, said: str) -> None:
    """Failure in one line, without a trace, of what was told to stop and has no good end: `said` is what became of it.

    For a run at a terminal it is the interrupt itself, which is told there.
    """
    with held_back():
        requested = stop_was_requested(context)
    if _at_terminal(context.run):
        raise DagsterExecutionInterruptedError(said) from None
    raise Failure(said if requested else UNREQUESTED, allow_retries=False) from None


def refuse_if_unfinished(ended: Ended, mode: str) -> None:
    """A stream that was told to stop has done what it should; anything else that was interrupted has not."""
    if not ended.requested:
        raise Failure(UNREQUESTED, allow_retries=False) from None
    if mode == "run":
        raise Failure("terminated before the end of its input", allow_retries=False) from None


@contextmanager
def cause_first(context: OpExecutionContext) -> Iterator[None]:
    """Within this, an error of ours is in the log with its remedy, in front of the failure with its traces."""
    try:
        yield
    except RsError as error:
        context.log.error("%s", error)  # noqa: TRY400  the traces come with the failure
        raise


@contextmanager
def shown_in(context: OpExecutionContext) -> Iterator[None]:
    """Within this, what threads beside the batches log is in the log of the run."""
    handler = _RunLog(context)
    LOG.addHandler(handler)
    try:
        yield
    finally:
        LOG.removeHandler(handler)


class _RunLog(logging.Handler):
    def __init__(self, context: OpExecutionContext) -> None:
        super().__init__()
        self.context = context

    def emit(self, record: logging.LogRecord) -> None:
        """Hand a message on; the log of the run may be what fails."""
        try:
            self.context.log.log(record.levelno, record.getMessage())
        except Exception:  # noqa: BLE001  logging has a way of its own to tell
            self.handleError(record)

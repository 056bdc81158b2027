"""The outcome of a Dagster run that was asked to stop, and the logs of its threads."""

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
from rs_assets.errors import RsError

DRAINED = "drained and stopped; the next run goes on from here"
UNBEGUN = "asked to stop before it had read anything; nothing was changed"
AT_ONCE = "asked to stop again while it drained: stopped at once; the next start goes on from its last commit"
UNREQUESTED = "its process got a signal to end, but not from Dagster"
# The tag of a run that was launched at a terminal; the value does not matter.
BY_HAND = "rs/by_hand"


def stop_was_requested(context: OpExecutionContext) -> bool:
    """Whether a person asked for the interrupt of this run: in Dagster, or at the terminal of the run.

    A stop at the terminal is recorded in Dagster, too, so that the run is not started again. A run that Dagster copied
    from a run at a terminal has its tags, but no terminal.
    """
    return note_stop(context.instance, context.run_id)


def note_stop(instance: DagsterInstance, run_id: str) -> bool:
    """`stop_was_requested` for a run by its id."""
    run = instance.get_run_by_id(run_id)
    if run is None:
        return False
    if run.status in (DagsterRunStatus.CANCELING, DagsterRunStatus.CANCELED):
        return True
    if not _at_terminal(run):
        return False
    instance.report_run_canceling(run, message="asked to stop at its terminal")
    return True


def _at_terminal(run: DagsterRun) -> bool:
    return BY_HAND in run.tags and PARENT not in run.tags


def refuse_interrupted(context: OpExecutionContext, said: str) -> None:
    """Raise Failure in one line, without a trace, for an interrupted run without a good end; `said` is its outcome.

    A run at a terminal raises the interrupt itself, which shows it there.
    """
    with held_back():
        requested = stop_was_requested(context)
    if _at_terminal(context.run):
        raise DagsterExecutionInterruptedError(said) from None
    raise Failure(said if requested else UNREQUESTED, allow_retries=False) from None


def refuse_if_unfinished(mode: str, *, requested: bool) -> None:
    """A stream that a person stopped is finished; any other interrupted run is not and raises Failure."""
    if not requested:
        raise Failure(UNREQUESTED, allow_retries=False) from None
    if mode == "run":
        raise Failure("terminated before the end of its input", allow_retries=False) from None


@contextmanager
def cause_first(context: OpExecutionContext) -> Iterator[None]:
    """Log errors of ours with their remedy before the failure with its traces."""
    try:
        yield
    except RsError as error:
        context.log.error("%s", error)  # noqa: TRY400  the failure has the traces
        raise


@contextmanager
def shown_in(context: OpExecutionContext) -> Iterator[None]:
    """Show the logs of background threads in the log of the run, what is not a warning as well."""
    handler, level = _RunLog(context), LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOG.setLevel(level)
        LOG.removeHandler(handler)


class _RunLog(logging.Handler):
    def __init__(self, context: OpExecutionContext) -> None:
        super().__init__()
        self.context = context

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a message on; the log of the run may be what fails."""
        try:
            self.context.log.log(record.levelno, record.getMessage())
        except Exception:  # noqa: BLE001  logging reports errors itself
            self.handleError(record)

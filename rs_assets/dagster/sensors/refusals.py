"""Why a run failed: our errors in its events in Dagster."""

from __future__ import annotations

from collections.abc import Iterator

from dagster import DagsterEventType, DagsterInstance
from dagster_shared.error import SerializableErrorInfo

from rs_assets.dagster.assets.roles import PROCESS
from rs_assets.errors import CheckpointError, PipelineBusyError, StartRefused, UserError

# Refusals that pass: the other run ends, and an unreadable file may be readable later. All others would happen again
# until a person changes something.
PASSING = (PipelineBusyError, CheckpointError)
KINDS = {kind for base in (StartRefused, UserError) for kind in (base, *base.__subclasses__())}
REFUSALS = frozenset(kind.__name__ for kind in KINDS.difference(PASSING))


def refusal_of(instance: DagsterInstance, run_id: str) -> str | None:
    """The error that refused the start of a run for good; None if it failed for another reason or later."""
    found = (refusal(error) for step, error in _failures(instance, run_id) if step != PROCESS)
    return next((name for name in found if name is not None), None)


def refusal(error: SerializableErrorInfo | None) -> str | None:
    """The class of a refused start in a chain of errors, which needs a person; None if there is none."""
    return next((name for name in _chain(error) if name in REFUSALS), None)


def failed_with(instance: DagsterInstance, run_id: str, kind: type[Exception]) -> bool:
    """Whether a run has failed with an error of that class."""
    return any(kind.__name__ in _chain(error) for _, error in _failures(instance, run_id))


def was_canceled(instance: DagsterInstance, run_id: str) -> bool:
    """Whether a person asked for the end of a run, however it has ended."""
    return bool(instance.all_logs(run_id, of_type=DagsterEventType.PIPELINE_CANCELING))


def _failures(instance: DagsterInstance, run_id: str) -> Iterator[tuple[str, SerializableErrorInfo | None]]:
    """The steps that failed, by the names of their ops, with their errors."""
    for entry in instance.all_logs(run_id, of_type=DagsterEventType.STEP_FAILURE):
        event = entry.dagster_event
        if event is not None:
            yield (event.step_key or "").rpartition(".")[2], event.step_failure_data.error


def _chain(error: SerializableErrorInfo | None) -> Iterator[str]:
    while error is not None:
        if error.cls_name is not None:
            yield error.cls_name
        error = error.cause or error.context

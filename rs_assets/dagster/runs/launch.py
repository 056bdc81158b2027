"""Running a pipeline's job in this process, recorded in Dagster's instance."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rs_assets.common.loading import uncollected
from rs_assets.errors import ConfigurationError, EngineError, RsError
from rs_assets.runtime.report import RunReport
from rs_assets.stream.pipeline import Pipeline

if TYPE_CHECKING:
    from dagster import DagsterInstance


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """Settings of a run from the command line; RunResource describes them."""

    finish: bool = False
    new_generation: bool = False
    reset_steps: tuple[str, ...] = ()
    keep_state: bool = False
    standby: bool = False


@dataclass(frozen=True, slots=True)
class Launched:
    """A finished run: its id in Dagster and its report."""

    run_id: str
    report: RunReport


@contextmanager
def _stored() -> Iterator[None]:
    """ConfigurationError if Dagster cannot store runs: its home belongs to another user, or the disk is full."""
    from sqlalchemy.exc import DBAPIError

    try:
        yield
    except DBAPIError as error:
        raise ConfigurationError(
            f"Dagster cannot store its runs: {error.orig}",
            remedy="let this user write to DAGSTER_HOME, whose disk must have room, or name another folder there",
            folder=os.environ.get("DAGSTER_HOME", ""),
        ) from error


@_stored()
def launch(
    pipeline: Pipeline,
    mode: Literal["run", "start"],
    *,
    request: LaunchRequest = LaunchRequest(),
    listener: Any = None,
    begun: Callable[[], None] | None = None,
    preview_rows: int = 0,
    verbose: bool = False,
    said: Callable[[str], None] | None = None,
) -> Launched:
    """Run the job of `pipeline` through Dagster in this process; raises the RsError that ended it, or that refused it.

    `begun` is called when Spark has started and all steps are wired, `listener` with the BatchProgress of every batch,
    `said` with what a standby does.
    """
    with uncollected():
        from dagster import DagsterError, DagsterInstance

        from rs_assets.dagster.definitions_of import build_definitions
        from rs_assets.dagster.instance import ensure_home
        from rs_assets.dagster.resources.spark import SparkResource
        from rs_assets.dagster.runs import runtime
        from rs_assets.dagster.runs.external_runs import run_recorded
        from rs_assets.dagster.runs.interrupts import heard_at_terminal
        from rs_assets.dagster.runs.orphans import end_orphans
        from rs_assets.dagster.runs.outcome import BY_HAND

        ensure_home()
        # The session of this process may be there already, and ends with it.
        spark = {"spark": SparkResource(share=True)}
        job = build_definitions([pipeline], spark).resolve_job_def(f"{pipeline.topology.label}_{mode}")
        config = _run_config(mode, request, preview_rows=preview_rows, log_level="INFO" if verbose else "CRITICAL")
        instance = DagsterInstance.get()
    with (
        heard_at_terminal(),
        _listening(runtime.LISTENERS, listener),
        _listening(runtime.BEGUN, begun),
        _listening(runtime.SAID, said),
        instance,
        _unheard_by_helpers(instance),
    ):
        end_orphans(instance, pipeline.topology)
        try:
            run_id = run_recorded(job, instance, run_config=config, tags={BY_HAND: mode})
        except DagsterError as error:
            ours = cause_of(error)
            if ours is None:
                raise
            raise ours from error
        report = runtime.LAST_REPORTS.pop(run_id, None)
    if report is None:
        raise EngineError("the run ended without a report", run=run_id)
    return Launched(run_id, report)


def _run_config(mode: str, request: LaunchRequest, *, preview_rows: int, log_level: str) -> dict[str, Any]:
    """Dagster's configuration of the run."""
    from rs_assets.dagster.resources.resource_keys import RUN, key_of

    asked = {
        "mode": mode,
        "new_generation": request.new_generation,
        "reset_steps": list(request.reset_steps),
        "keep_state": request.keep_state,
        "standby": request.standby,
        "preview_rows": preview_rows,
    }
    return {
        "loggers": {"console": {"config": {"log_level": log_level}}},
        "resources": {RUN: {"config": asked}, key_of("window"): {"config": {"finish": request.finish}}},
    }


def cause_of(error: BaseException) -> RsError | None:
    """Our error in the chain of an error of Dagster."""
    current: BaseException | None = error
    while current is not None:
        if isinstance(current, RsError):
            return current
        current = current.__cause__ or current.__context__
    return None


@contextmanager
def _unheard_by_helpers(instance: DagsterInstance) -> Iterator[None]:
    """Protect the processes that show the output of steps from Ctrl-C and hang-ups.

    A terminal signals them, too. They would end with a trace, and lose the output of a stream that drains.
    """
    manager = instance.compute_log_manager
    capture = manager.capture_logs

    @contextmanager
    def unheard(log_key: Sequence[str]) -> Iterator[Any]:
        with ExitStack() as open_until_the_end:
            # Signals that are blocked here stay blocked in a process that is started meanwhile.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
            try:
                captured = open_until_the_end.enter_context(capture(log_key))
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            yield captured

    manager.capture_logs = unheard  # type: ignore[method-assign]
    try:
        yield
    finally:
        del manager.capture_logs


@contextmanager
def _listening(listeners: list[Any], listener: Any) -> Iterator[None]:
    if listener is None:
        yield
        return
    listeners.append(listener)
    try:
        yield
    finally:
        listeners.remove(listener)

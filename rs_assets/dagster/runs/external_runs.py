"""Runs of this process that Dagster shows like those that it launched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rs_assets.common.interrupts import held_back
from rs_assets.common.project import project_folder
from rs_assets.dagster.runs.orphans import note_process

if TYPE_CHECKING:
    from dagster import DagsterInstance, JobDefinition
    from dagster._core.remote_origin import RemoteJobOrigin

# Dagster's name of the repository of a code location with one `Definitions` object.
REPOSITORY = "__repository__"
# The module that `rs-assets ui` opens in a project without a workspace file.
DEFAULT_MODULE = "rs_assets.definitions"


def run_recorded(
    job: JobDefinition, instance: DagsterInstance, *, run_config: Mapping[str, Any], tags: Mapping[str, str]
) -> str:
    """Execute `job` here, record it in `instance` as a run of this project's code location, and return the run's id.

    The error of the failed step is raised. An interrupt at any point is a stop that a person requested.
    """
    from dagster import DagsterExecutionInterruptedError
    from dagster._core.definitions.job_base import InMemoryJob
    from dagster._core.execution.api import execute_run
    from dagster._core.utils import make_new_run_id

    from rs_assets.dagster.runs.stoppable import stoppable

    job = job.with_executor_def(stoppable(job.executor_def))
    run_id = make_new_run_id()
    try:
        note_process(instance, job.name, run_id)
        run = instance.create_run_for_job(
            job_def=job,
            run_id=run_id,
            run_config=run_config,
            tags={**job.run_tags, **tags},
            remote_job_origin=job_origin(job.name),
        )
        execute_run(InMemoryJob(job), run, instance, raise_on_error=True)
    except (KeyboardInterrupt, DagsterExecutionInterruptedError):
        with held_back():
            _end_as_stopped(instance, run_id)
        raise
    return run_id


def _end_as_stopped(instance: DagsterInstance, run_id: str) -> None:
    """Mark a run as canceled that was interrupted where Dagster does not handle it."""
    from dagster import DagsterRunStatus

    from rs_assets.dagster.runs.outcome import note_stop

    run = instance.get_run_by_id(run_id)
    if run is not None and run.status not in (DagsterRunStatus.CANCELED, DagsterRunStatus.SUCCESS):
        note_stop(instance, run_id)
        instance.report_run_canceled(run)


def job_origin(job: str) -> RemoteJobOrigin:
    """The location of `job` for the web server: the first one of workspace.yaml, else that of `rs-assets ui`."""
    from dagster._core.remote_origin import RemoteJobOrigin, RemoteRepositoryOrigin
    from dagster._core.workspace.load_target import ModuleTarget, WorkspaceFileTarget

    file = project_folder() / "workspace.yaml"
    origins = WorkspaceFileTarget([str(file)]).create_origins() if file.exists() else ()
    if not origins:
        target = ModuleTarget(
            module_name=DEFAULT_MODULE, attribute=None, working_directory=None, location_name=DEFAULT_MODULE
        )
        origins = target.create_origins()
    return RemoteJobOrigin(RemoteRepositoryOrigin(origins[0], REPOSITORY), job)

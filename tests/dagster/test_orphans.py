"""Runs of terminals whose process has ended without a word."""

import subprocess
import sys

import psutil
import pytest
from dagster import DagsterInstance, DagsterRunStatus

from rs_assets import StreamBuilder, build_definitions
from rs_assets.dagster.runs import orphans, runtime
from rs_assets.dagster.runs.orphans import GONE, OVERTAKEN, end_orphans, is_gone, note_process

PIPELINE = StreamBuilder.data_stream("shop", "hits").from_array([{"n": 1}]).to_delta("hits").build()


@pytest.fixture
def instance():
    with DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def job():
    return build_definitions([PIPELINE]).resolve_job_def("shop_hits_start")


@pytest.fixture
def ended():
    """A process that has ended, as it was while it lived."""
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as started:
        process = psutil.Process(started.pid)
        process.create_time()
    return process


def made(instance, job, status=DagsterRunStatus.STARTED):
    return instance.create_run_for_job(job, tags=job.run_tags, status=status)


def told(instance, run):
    return [entry.dagster_event.message for entry in instance.all_logs(run.run_id) if entry.dagster_event]


def status_of(instance, run):
    return instance.get_run_by_id(run.run_id).status


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (DagsterRunStatus.STARTED, DagsterRunStatus.FAILURE),
        (DagsterRunStatus.STARTING, DagsterRunStatus.FAILURE),
        (DagsterRunStatus.CANCELING, DagsterRunStatus.CANCELED),
        (DagsterRunStatus.SUCCESS, DagsterRunStatus.SUCCESS),
    ],
)
def test_should_end_a_run_whose_process_is_gone(instance, job, ended, before, after):
    run = made(instance, job, before)
    note_process(instance, run.job_name, run.run_id, ended)
    end_orphans(instance, PIPELINE.topology)
    assert status_of(instance, run) == after
    assert (GONE in told(instance, run)) == (before != after)


def test_should_find_the_process_of_a_run_without_reading_all_its_events(instance, job, ended, monkeypatch):
    run = made(instance, job)
    note_process(instance, run.job_name, run.run_id, ended)
    for number in range(20):
        instance.report_engine_event(f"{number} rows read", run)
    monkeypatch.setattr(instance, "all_logs", lambda *_, **__: pytest.fail("all events were read"))
    assert is_gone(instance, run)


def test_should_leave_a_run_alone_that_may_go_on(instance, job, ended, monkeypatch):
    alive, unknown = made(instance, job), made(instance, job)
    note_process(instance, alive.job_name, alive.run_id)
    with monkeypatch.context() as patched:
        patched.setattr(orphans, "this_host", lambda: "another/boot/1")
        elsewhere = made(instance, job)
        note_process(instance, elsewhere.job_name, elsewhere.run_id, ended)
    # What Dagster makes of a run, here of one that is gone, has its tags and no terminal.
    again = instance.create_run_for_job(job, tags=elsewhere.tags, status=DagsterRunStatus.STARTED)
    end_orphans(instance, PIPELINE.topology)
    assert {status_of(instance, run) for run in (alive, unknown, elsewhere, again)} == {DagsterRunStatus.STARTED}


def test_should_leave_the_runs_of_other_pipelines_alone(instance, ended):
    other = StreamBuilder.data_stream("shop", "misses").from_array([{"n": 1}]).to_delta("misses").build()
    run = made(instance, build_definitions([other]).resolve_job_def("shop_misses_run"))
    note_process(instance, run.job_name, run.run_id, ended)
    end_orphans(instance, PIPELINE.topology)
    assert status_of(instance, run) == DagsterRunStatus.STARTED


HOLDER = """
import os, sys
from rs_assets.catalog.lease import Lease
from rs_assets.common.home import Home

with Lease.acquire(Home.default().leases, pipeline="shop.hits", run_id=sys.argv[1]):
    os._exit(9)
"""


def test_should_end_the_run_that_held_the_pipeline_and_was_killed_with_dagster(instance, tmp_path, monkeypatch):
    monkeypatch.setenv("RS_HOME", str(tmp_path / "rs"))
    job = build_definitions([PIPELINE]).resolve_job_def("shop_hits_run")
    killed, other = made(instance, job), made(instance, job)
    subprocess.run([sys.executable, "-c", HOLDER, killed.run_id], check=False)

    def held(*_, **__):
        raise RuntimeError("the pipeline is held")

    monkeypatch.setattr(runtime, "is_unchanged", held)
    assert not job.execute_in_process(instance=instance, raise_on_error=False).success
    assert status_of(instance, killed) == DagsterRunStatus.FAILURE
    assert OVERTAKEN in told(instance, killed)
    assert status_of(instance, other) == DagsterRunStatus.STARTED

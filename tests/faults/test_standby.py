"""A standby takes a stream over when its driver is killed, and leaves a stream that was stopped."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from dagster import DagsterEventType, DagsterInstance, DagsterRunStatus
from deltalake import DeltaTable

from rs_assets import Home, Pipeline, RunOptions, StreamBuilder, Time, TumblingWindow, build_definitions
from rs_assets.catalog import requests
from rs_assets.catalog.desired_state import read_desired_state
from rs_assets.dagster.instance import ensure_home
from rs_assets.dagster.runs.launch import LaunchRequest, launch
from rs_assets.dagster.runs.run_tags import ANSWERS, RECOVERS
from rs_assets.errors import RsError, SinkError
from rs_assets.runtime.batch.work import BatchWork
from rs_assets.runtime.job.opening import opened
from rs_assets.runtime.options import SavepointPolicy
from rs_assets.runtime.run import standby as standing
from rs_assets.runtime.run.run import open_stream
from rs_assets.runtime.run.standby import Standby
from rs_assets.runtime.run.warming import RUNS, warm_up
from tests.faults.processes import started, wait_for

PROGRAM = """
import sys, threading
from pathlib import Path
from tests.faults.test_standby import options_of, stream_of

root, home, ready = map(Path, sys.argv[1:])
running = stream_of(root).start(options_of(root, home))
while not running.status()["rows_in"]:
    threading.Event().wait(0.05)
ready.touch()
running.await_termination()
"""


def stream_of(root: Path) -> Pipeline:
    hits = StreamBuilder.data_stream("web", "spare").from_file(
        root / "in", schema="page string, ms bigint", name="file"
    )
    hits.to_delta(str(root / "copy"), name="copy")
    windows = hits.window(TumblingWindow.of(Time.seconds(10), "ms"), name="windows").group_by("page").count("hits")
    return windows.water_mark(Time.seconds(0)).to_data_stream().to_delta(str(root / "windows"), name="counted").build()


def options_of(root: Path, home: Path) -> RunOptions:
    return RunOptions(
        home=Home(home),
        interval=timedelta(milliseconds=100),
        lease_ttl=timedelta(seconds=3),
        savepoints=SavepointPolicy(uri=str(root / "store"), upload=True),
    )


def put(root: Path, number: int) -> None:
    rows = [{"page": f"p{n % 3}", "ms": 10_000 * number + n} for n in range(100)]
    hidden = root / ".new"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (root / "in").mkdir(exist_ok=True)
    hidden.rename(root / "in" / f"{number:04d}.jsonl")


def rows(root: Path, table: str) -> int:
    place = str(root / table)
    return DeltaTable(place).to_pyarrow_table().num_rows if DeltaTable.is_deltatable(place) else 0


def first_commit_after(root: Path, table: str, known: int) -> float:
    """Seconds until the table has more rows; the standby runs on another thread."""
    began = time.monotonic()
    while rows(root, table) <= known:
        assert time.monotonic() - began < 120
        time.sleep(0.02)
    return time.monotonic() - began


@pytest.mark.timeout(600)
@pytest.mark.faults
@pytest.mark.parametrize("elsewhere", [False, True], ids=["in its home", "from its uploads in another home"])
def test_a_standby_continues_a_stream_whose_driver_was_killed(tmp_path, driver, elsewhere):
    put(tmp_path, 0)
    home, ready = tmp_path / "home", tmp_path / "ready"
    options = replace(options_of(tmp_path, tmp_path / "other" if elsewhere else home), driver=driver)
    taken = []
    with started(PROGRAM, tmp_path, home, ready) as process:
        wait_for(ready, process)
        waiting = threading.Thread(target=lambda: taken.append(stream_of(tmp_path).stand_by(options, timeout_s=120)))
        standby = Standby(stream_of(tmp_path).topology, options)
        standby.prepare()
        waiting.start()
        assert standby.await_vacancy(timeout_s=4) is None
        put(tmp_path, 1)
        os.killpg(process.pid, signal.SIGKILL)
        took = first_commit_after(tmp_path, "copy", 100)
    waiting.join(timeout=60)
    (running,) = taken
    put(tmp_path, 2)
    first_commit_after(tmp_path, "copy", 200)
    report = running.stop()
    assert report.recovered_from.startswith("upload") is elsewhere
    assert rows(tmp_path, "copy") == 300
    print(f"first commit {took:.1f} s after the kill")


@pytest.mark.timeout(600)
@pytest.mark.faults
def test_the_start_job_of_dagster_waits_as_a_standby(tmp_path, driver):
    """Launched beside the stream it waits; when the driver is killed it runs the stream, until that is stopped."""
    put(tmp_path, 0)
    home, ready = tmp_path / "home", tmp_path / "ready"
    job = build_definitions([stream_of(tmp_path)]).resolve_job_def("web_spare_start")
    run = {"mode": "start", "standby": True, "home": str(home), "savepoint_every_seconds": 0.0}
    resources = {"rs_spark": {"config": {"share": True}}, "rs_run": {"config": run}}
    config = {"resources": resources, "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    folder = Home(home).job("web", "spare")
    with started(PROGRAM, tmp_path, home, ready) as process, DagsterInstance.ephemeral() as instance:

        def lose_driver() -> None:
            wait_for(ready, process)
            put(tmp_path, 1)
            first_commit_after(tmp_path, "copy", 100)
            os.killpg(process.pid, signal.SIGKILL)
            put(tmp_path, 2)
            first_commit_after(tmp_path, "copy", 200)
            requests.ask(folder, "stop", reason="the test is over")

        meanwhile = threading.Thread(target=lose_driver)
        meanwhile.start()
        done = job.execute_in_process(run_config=config, instance=instance)
        meanwhile.join(timeout=60)
    assert done.success
    assert rows(tmp_path, "copy") == 300
    assert read_desired_state(folder).run_id == done.run_id


def test_the_warm_up_of_a_standby_commits_batches_and_leaves_nothing(tmp_path, driver, monkeypatch):
    """Whatever the environment asks of runs."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    monkeypatch.chdir(tmp_path)
    for name in ("RS_HOME", "RS_SAVEPOINTS"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for name in ("RS_UPLOAD", "RS_OPENLINEAGE"):
        monkeypatch.setenv(name, "1")
    places, commit = [], BatchWork.commit

    def seen(work, *arguments, **more):
        places.append(work.folder)
        return commit(work, *arguments, **more)

    monkeypatch.setattr(BatchWork, "commit", seen)
    warm_up(driver)
    assert len(places) >= 2 * RUNS
    assert all(place.is_relative_to(tmp_path / "scratch") for place in places)
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "scratch"]


@pytest.fixture
def lost(tmp_path, monkeypatch):
    """A stream in RS_HOME whose driver is gone, and a Dagster of its own."""
    monkeypatch.setenv("RS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    ensure_home()
    put(tmp_path, 0)
    pipeline = stream_of(tmp_path)
    with opened(pipeline.topology, RunOptions(run_id="first")) as session:
        session.run_on()
    return pipeline


def test_the_run_of_a_standby_at_a_terminal_is_at_its_last_op_before_it_takes_the_lease(lost, driver, monkeypatch):
    """Only what depends on the lease is left for afterwards. The tags of the run say then what it follows."""
    before, said = [], []

    def seen(*arguments):
        with DagsterInstance.get() as instance:
            (run,) = instance.get_runs()
            steps = instance.all_logs(run.run_id, of_type=DagsterEventType.STEP_SUCCESS)
            before.append((run.status, len(steps), ANSWERS in run.tags))
        return open_stream(*arguments)

    monkeypatch.setattr(standing, "open_stream", seen)
    stop = {"reason": "the test is over"}
    done = launch(
        lost,
        "start",
        request=LaunchRequest(standby=True),
        listener=lambda _: requests.ask(Home.default().job("web", "spare"), "stop", **stop),
        said=said.append,
    )
    assert before == [(DagsterRunStatus.STARTED, len(lost.topology.nodes), False)]
    assert [words.split(":")[0] for words in said] == ["standby", "the driver is gone"]
    with DagsterInstance.get() as instance:
        run = instance.get_run_by_id(done.run_id)
        told = [each for each in instance.all_logs(done.run_id) if "restarted" in str(each.dagster_event)]
    assert (run.status, run.tags[RECOVERS]) == (DagsterRunStatus.SUCCESS, "first")
    assert told
    assert done.report.rows_in == 100


def test_a_first_batch_of_a_standby_that_fails_is_the_failure_of_its_run(lost, driver, monkeypatch):
    def fails(*_, **__):
        raise SinkError("the disk is full", remedy="make room")

    monkeypatch.setattr("rs_assets.runtime.batch.work.BatchWork._stage", fails)
    with pytest.raises(RsError, match="the disk is full"):
        launch(lost, "start", request=LaunchRequest(standby=True))
    with DagsterInstance.get() as instance:
        (run,) = instance.get_runs()
    assert (run.status, run.tags[RECOVERS]) == (DagsterRunStatus.FAILURE, "first")

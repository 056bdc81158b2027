"""A running stream is rescaled at the request of another process: the command, with stops and kills meanwhile."""

import json
import os
import signal
import threading
from dataclasses import replace
from datetime import timedelta

import pytest
from deltalake import DeltaTable

from rs_assets import Home, RunOptions, StreamBuilder, Time, TumblingWindow
from rs_assets.catalog import requests
from rs_assets.catalog.catalog import Catalog
from rs_assets.checkpoint import manifest as manifests
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.errors import CheckpointError, ConfigurationError, PipelineBusyError
from rs_assets.runtime.run import live_rescale
from rs_assets.runtime.run.rescale import rescale
from rs_assets.runtime.run.rescale_requests import rescale_running
from rs_assets.runtime.upkeep import beside
from tests.dagster.projects import call, imported_project
from tests.faults.processes import started, wait_for
from tests.recovery.test_rescale import PARTS, SCHEMA, WINDOWS, folder, pipeline, rows
from tests.torture.history import process_all

CODE = """
from rs_assets import StreamBuilder, Time, TumblingWindow

hits = StreamBuilder.data_stream("shop", "hits").from_file("in", schema="page string, ts timestamp", name="file")
pages = hits.window(TumblingWindow.of(Time.seconds(10), "ts"), name="pages").group_by("page").count("n")
pipeline = pages.water_mark(Time.seconds(60)).to_data_stream().to_delta("pages").build()
"""
# The driver waits in its rescale until it is killed.
PROGRAM = """
import sys, threading
from pathlib import Path
from rs_assets.runtime.upkeep import beside
from tests.recovery.test_requested_rescale import options_of, stream_of

root, ready, taken = map(Path, sys.argv[1:])

def write(*_, **named):
    taken.touch()
    threading.Event().wait()

beside.write = write
running = stream_of(root).start(options_of(root))
while not running.status()["rows_in"]:
    threading.Event().wait(0.05)
ready.touch()
running.await_termination()
"""


@pytest.fixture
def quick(options):
    return replace(options, interval=timedelta(milliseconds=20))


def put(running, channel, part):
    channel.put(*part)
    process_all(running)


def asker(options):
    """The options of another process."""
    return RunOptions(home=options.home, run_id="asker")


def test_command_rescales_a_running_stream_and_its_run_goes_on(tmp_path, driver, monkeypatch):
    project = imported_project(tmp_path, monkeypatch, driver, module="hits_rescaled", code=CODE)
    (tmp_path / "in").mkdir()

    def grow(number):
        hidden = tmp_path / ".new"
        found = (json.dumps({"page": f"p{n % 7}", "ts": f"2026-01-01T00:00:{n:02}"}) for n in range(40))
        hidden.write_text("\n".join(found))
        hidden.rename(tmp_path / "in" / f"{number}.jsonl")

    grow(0)
    options = RunOptions(home=Home.default(), driver=driver, interval=timedelta(milliseconds=20))
    with project.pipeline.start(options) as running:
        process_all(running)
        code, text = call("rescale", "hits", "--partitions", "5")
        assert (code, "2 -> 5 partitions" in text) == (0, True)
        assert "equal before and after; the stream stopped for" in text
        assert "its state has 5 partitions already" in call("rescale", "hits", "--partitions", "5")[1]
        code, text = call("rescale", "hits", "--partitions", "0", "--json")
        assert (code, json.loads(text)["what"]) == (1, "0 is not a number of partitions")
        grow(1)
        process_all(running)
        assert running.active
    noted = [row for row in Catalog(options.home.catalog).rows("operations") if row["kind"] == "rescale"]
    assert {row["run_id"] for row in noted} == {options.run_id}
    # A stopped pipeline is rescaled as before.
    code, text = call("rescale", "hits", "--partitions", "3", "--json")
    assert (code, json.loads(text)["waited_s"]) == (0, None)
    project.pipeline.run(options, finish=True)
    table = DeltaTable(options.home.table("shop", "pages")).to_pyarrow_table().to_pylist()
    assert sum(row["n"] for row in table) == 80


def test_pipeline_that_cannot_be_rescaled_live_says_why_and_runs_on(quick, monkeypatch):
    channel = MemoryChannel(schema=SCHEMA)
    job = pipeline(channel, WINDOWS["tumbling"])
    with job.start(quick) as running:
        put(running, channel, PARTS[0])
        monkeypatch.setattr(type(quick.home), "exchange", "s3://bucket/state")
        outcome = rescale_running(job.topology, asker(quick), 3, reason="a test")
        monkeypatch.undo()
        assert isinstance(outcome.refused, ConfigurationError)
        assert outcome.refused.what == "the state of a running stream in an object store cannot be rescaled"
        put(running, channel, PARTS[1])
    assert manifests.load(folder(quick)).partitions == 2


def test_requests_that_were_made_to_an_earlier_run_are_removed_by_a_start(quick):
    channel = MemoryChannel(schema=SCHEMA)
    job = pipeline(channel, WINDOWS["tumbling"])
    with job.start(quick) as running:
        put(running, channel, PARTS[0])
        token = running.session.held.token
    for taken in (False, True):
        requests.ask(folder(quick), "rescale", reason="a test", partitions=5, token=token)
        if taken:
            requests.take(folder(quick), "rescale")
        with job.start(quick) as running:
            put(running, channel, PARTS[1])
        assert not list(folder(quick).glob("rescale.*"))
    assert manifests.load(folder(quick)).partitions == 2


def test_stop_comes_before_a_rescale_that_is_under_way(quick, monkeypatch):
    """The stop waits for the thread of the rescale, which must not wait for the stop."""
    channel, write, stops = MemoryChannel(schema=SCHEMA), beside.write, []
    job = pipeline(channel, WINDOWS["tumbling"])
    running = job.start(quick)
    put(running, channel, PARTS[0])

    def written(*args, **named):
        stops.append(threading.Thread(target=running.stop))
        stops[0].start()
        while not running._closed:
            threading.Event().wait(0.01)
        return write(*args, **named)

    monkeypatch.setattr(beside, "write", written)
    outcome = rescale_running(job.topology, asker(quick), 5, reason="a test")
    stops[0].join(timeout=120)
    assert isinstance(outcome.refused, PipelineBusyError)
    assert outcome.refused.remedy == "nothing has changed; rescale the stopped pipeline"
    assert (manifests.load(folder(quick)).partitions, (folder(quick) / beside.FOLDER).exists()) == (2, False)
    assert rescale(job.topology, 5, quick).after == 5
    channel.put(*PARTS[1])
    job.run(quick, finish=True)
    assert sum(row["rows"] for row in rows(quick)) == 80


def test_rescale_that_ends_the_stream_is_the_failure_of_its_run(quick, monkeypatch):
    channel, ended = MemoryChannel(schema=SCHEMA), []
    job = pipeline(channel, WINDOWS["tumbling"])
    running = job.start(quick)
    put(running, channel, PARTS[0])

    def fail(*_):
        raise CheckpointError("the disk is full")

    monkeypatch.setattr(live_rescale, "_go_on", fail)

    def wait():
        with pytest.raises(CheckpointError, match="the disk is full"):
            running.await_termination()
        ended.append(True)

    waiting = threading.Thread(target=wait)
    waiting.start()
    outcome = rescale_running(job.topology, asker(quick), 5, reason="a test")
    waiting.join(timeout=120)
    assert ended
    # Its lease is given back before it answers.
    assert outcome.gone or outcome.refused.what == "the disk is full"
    channel.put(*PARTS[1])
    job.run(quick, finish=True)
    assert manifests.load(folder(quick)).partitions == 5
    assert sum(row["rows"] for row in rows(quick)) == 80


def test_two_requests_at_once_are_carried_out_one_after_the_other_or_replaced(quick):
    channel, outcomes = MemoryChannel(schema=SCHEMA), {}
    job = pipeline(channel, WINDOWS["tumbling"])

    def ask(number):
        outcomes[number] = rescale_running(job.topology, asker(quick), number, reason="a test")

    with job.start(quick) as running:
        put(running, channel, PARTS[0])
        asking = [threading.Thread(target=ask, args=(number,)) for number in (3, 5)]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join(timeout=120)
        put(running, channel, PARTS[1])
    done = {number: outcome.report for number, outcome in outcomes.items() if not outcome.replaced}
    assert done
    assert all(report.after == number for number, report in done.items())
    assert manifests.load(folder(quick)).partitions in done
    job.run(quick, finish=True)
    assert sum(row["rows"] for row in rows(quick)) == 80


def stream_of(root):
    source = StreamBuilder.data_stream("shop", "hits")
    hits = source.from_file(root / "in", schema="page string, ms bigint", name="file")
    windows = hits.window(TumblingWindow.of(Time.seconds(10), "ms"), name="windows").group_by("page").count("n")
    return windows.water_mark(Time.seconds(0)).to_data_stream().to_delta(str(root / "pages"), name="pages").build()


def options_of(root):
    return RunOptions(home=Home(root / "home"), interval=timedelta(milliseconds=100), lease_ttl=timedelta(seconds=3))


@pytest.mark.faults
def test_driver_killed_in_a_rescale_is_gone_and_the_stopped_pipeline_is_rescaled(tmp_path, driver):
    ready, taken, outcomes = tmp_path / "ready", tmp_path / "taken", []
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text("".join(f'{{"page":"p{n % 7}","ms":{n}}}\n' for n in range(100)))
    options, topology = replace(options_of(tmp_path), driver=driver), stream_of(tmp_path).topology
    with started(PROGRAM, tmp_path, ready, taken) as process:
        wait_for(ready, process)
        asking = threading.Thread(
            target=lambda: outcomes.append(rescale_running(topology, options, 5, reason="a test"))
        )
        asking.start()
        wait_for(taken, process)
        os.killpg(process.pid, signal.SIGKILL)
        asking.join(timeout=120)
    assert outcomes[0].gone
    assert rescale_running(topology, options, 5, reason="a test") is None
    assert rescale(topology, 5, options).after == 5
    stream_of(tmp_path).run(options, finish=True)
    table = DeltaTable(str(tmp_path / "pages")).to_pyarrow_table().to_pylist()
    assert sum(row["n"] for row in table) == 100

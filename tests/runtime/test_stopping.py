"""Stop means stop: behind the batch in flight, whatever waits; and what runs beside goes on until then."""

import errno
import os
import threading
import traceback
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.catalog.lease import read_lease
from rs_assets.checkpoint import manifest as manifests
from rs_assets.errors import CheckpointError
from rs_assets.runtime.batch.query import BatchNotDone, QueryRun
from rs_assets.runtime.options import SavepointPolicy
from rs_assets.runtime.report import QueryReport
from rs_assets.runtime.run import running as module
from tests.forgetful import Forgetful

LINES = 400


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text("".join(f'{{"id":{n}}}\n' for n in range(LINES)))
    return path


def rows(out):
    return sorted(row["id"] for row in out.rows())


def test_a_stop_with_a_backlog_ends_behind_the_batch_in_flight(log, options):
    out, begun, made = MemoryChannel(), threading.Event(), []

    def listen(batch):
        made.append(batch.batch_id)
        if len(made) == 3:
            begun.set()

    stream = StreamBuilder.data_stream("shop", "backlog").from_file(
        log, schema="id long", tail=True, max_rows_per_batch=1
    )
    pipeline = stream.to_memory(out).build()
    running = pipeline.start(replace(options, interval=timedelta(milliseconds=1), on_progress=listen))
    assert begun.wait(120)
    before = len(made)
    report = running.stop()
    # The one in flight, and one that may have begun while the stop was on its way.
    assert len(made) <= before + 2
    assert rows(out) == list(range(len(made)))
    assert report.batches == len(made)
    log.write_text("".join(f'{{"id":{n}}}\n' for n in range(LINES)))
    stream = StreamBuilder.data_stream("shop", "backlog").from_file(log, schema="id long", tail=True)
    rest = stream.to_memory(out).build().run(options)
    assert rest.rows_in == LINES - len(made)
    assert rows(out) == list(range(LINES))


class SlowSink(Forgetful):
    """Holds the first batch until it is let go."""

    name = "slow"

    def __init__(self):
        self.begun, self.go_on = threading.Event(), threading.Event()

    def stage(self, batch, mark):
        from rs_assets.connectors.sink import Staged

        batch.collect()
        self.begun.set()
        self.go_on.wait(60)
        batch.collect()
        return Staged(lambda: 1)


def test_a_batch_that_is_cut_off_is_no_failure(log, options):
    sink = SlowSink()
    pipeline = StreamBuilder.data_stream("shop", "slow").from_file(log, schema="id long", tail=True).to(sink).build()
    running = pipeline.start(options)
    assert sink.begun.wait(120)
    threading.Timer(1, sink.go_on.set).start()
    report = running.stop(drain=False)
    assert (report.batches, report.warnings) == (0, ())


def test_savepoints_by_the_clock_go_on_behind_a_fault_of_the_store(log, options, monkeypatch):
    done, tries, handle = threading.Event(), [], []

    def savepoint(*_, **__):
        tries.append(handle[0].status()["warnings"] if handle else [])
        if len(tries) < 4:
            raise OSError("the store is away")
        done.set()

    monkeypatch.setattr("rs_assets.runtime.run.running.savepoint", savepoint)
    monkeypatch.setattr("rs_assets.common.background.FIRST_PAUSE", timedelta(milliseconds=10))
    policy = SavepointPolicy(every=timedelta(seconds=1), state_rows=False)
    stream = StreamBuilder.data_stream("shop", "saved").from_file(log, schema="id long", tail=True)
    with stream.to_memory(MemoryChannel()).build().start(replace(options, savepoints=policy)) as running:
        handle.append(running)
        assert done.wait(120), "no savepoint was tried again"
    assert "no savepoint was taken: OSError: the store is away" in tries[3][0]
    assert running.stop().warnings == ()


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def beside():
    """The threads that renew a lease or work beside batches."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("rs-") and "spark" not in thread.name}


def test_a_stop_whose_end_cannot_be_written_ends_what_runs_beside_the_batches(log, options, monkeypatch):
    """A lease that went on beating beside the dead run would refuse all others as long as the process lives."""
    policy, before = SavepointPolicy(every=timedelta(hours=1), state_rows=False), beside()
    stream = StreamBuilder.data_stream("shop", "unwritten").from_file(log, schema="id long", tail=True)
    pipeline = stream.to_memory(out := MemoryChannel()).build()
    running = pipeline.start(replace(options, savepoints=policy))
    with monkeypatch.context() as broken:
        broken.setattr(module, "drain_and_stop", full)
        with pytest.raises(OSError, match="No space left"):
            running.stop()
    assert beside() == before
    assert read_lease(options.home.leases, "shop.unwritten").free
    pipeline.run(replace(options, run_id="next"))
    assert rows(out) == list(range(LINES))


def test_a_start_whose_manifest_cannot_be_written_says_what_to_do(log, options, monkeypatch):
    def read_only(*_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    stream = StreamBuilder.data_stream("shop", "unwritten").from_file(log, schema="id long", tail=True)
    pipeline = stream.to_memory(out := MemoryChannel()).build()
    with monkeypatch.context() as broken:
        broken.setattr(manifests, "save", read_only)
        with pytest.raises(CheckpointError, match="manifest cannot be written: Read-only file system") as refused:
            pipeline.run(options)
    assert "mounted read-only" in refused.value.remedy
    pipeline.run(options)
    assert rows(out) == list(range(LINES))


def test_a_stop_drains_though_an_old_request_cannot_be_taken_back(log, options, monkeypatch):
    stream = StreamBuilder.data_stream("shop", "asked").from_file(log, schema="id long", tail=True)
    running = stream.to_memory(out := MemoryChannel()).build().start(options)
    running.session.options.driver.call(lambda _: [q.process_all() for q in running.session.queries.values()])
    with monkeypatch.context() as broken:
        broken.setattr(module.requests, "clear", full)
        report = running.stop()
    assert "No space left on device" in report.warnings[0]
    assert read_lease(options.home.leases, "shop.asked").released
    assert rows(out) == list(range(LINES))


def test_a_query_starts_again_when_spark_has_let_go_of_its_name(monkeypatch):
    """On a busy machine a query is over a moment before its name is free."""
    waited = []

    class Ending:
        isActive = False  # noqa: N815  Spark's name

        def awaitTermination(self, timeout=None):  # noqa: N802  Spark's name
            waited.append(timeout)

    query = object.__new__(QueryRun)
    query.__post_init__()
    query.work = SimpleNamespace(context=SimpleNamespace(spark=None))
    monkeypatch.setattr("rs_assets.runtime.batch.query.end_monitors", lambda spark: None)
    query._query = Ending()
    query._wait_until_gone()
    assert waited == [None]


class StoppedMeanwhile:
    """The work of a query that fails, and is stopped while it reads the batch again to say on what."""

    def __init__(self):
        self.query, self.context = None, SimpleNamespace(quarantines=False)

    def commit(self, *_, **__):
        raise OSError("a record is bad")

    def explained(self, error, batch_id):
        self.query._cut_off = True
        raise RuntimeError(f"py4j.protocol.Py4JJavaError: An error occurred while calling {'x' * 100_000}")


def test_what_a_stopped_query_raises_is_short_enough_for_the_expression_that_spark_searches_it_by():
    """Spark's recursion for each letter ended the thread by a StackOverflowError, a thousand lines on the terminal."""
    work = StoppedMeanwhile()
    query = work.query = QueryRun(
        work=work, partitions=1, on_progress=print, report=QueryReport(query="q"), tables=None, _query=object()
    )
    query._started.set()
    with pytest.raises(BatchNotDone, match="the query was stopped") as raised:
        query.process(None, 7)
    # What py4j sends to Java.
    assert len("".join(traceback.format_exception(raised.value))) < 2_000
    assert query.failure is None

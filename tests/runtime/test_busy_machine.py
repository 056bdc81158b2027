"""Spark waits ten seconds for a Python worker; on a machine that is busy with other work a batch is tried again."""

import threading
from dataclasses import replace

import pytest

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.compile.planner import table
from rs_assets.connectors.sink import Staged
from rs_assets.errors import WorkerStartError
from rs_assets.runtime.batch.worker_start import RESTARTS
from tests.forgetful import Forgetful

# Spark's own words.
SLOW = "Python worker failed to connect back."


class Starved(Forgetful):
    """A sink whose first tries meet a machine that starts no worker."""

    name = "starved"

    def __init__(self, fails):
        self.fails, self.tries, self.rows = fails, 0, []

    def stage(self, batch, mark):
        self.tries += 1
        if self.tries <= self.fails:
            raise RuntimeError(f"org.apache.spark.SparkException: {SLOW}")
        self.rows += [row["id"] for row in batch.collect()]
        return Staged(lambda: len(self.rows))


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text("".join(f'{{"id":{n}}}\n' for n in range(10)))
    return path


def pipeline(log, sink):
    return StreamBuilder.data_stream("shop", "busy").from_file(log, schema="id long", tail=True).to(sink).build()


def test_a_batch_is_tried_again(log, options):
    sink = Starved(RESTARTS)
    assert pipeline(log, sink).run(options).rows_in == 10
    assert (sink.rows, sink.tries) == (list(range(10)), 1 + RESTARTS)


def test_a_pipeline_that_was_started_goes_on(log, options):
    sink = Starved(RESTARTS)
    done = threading.Event()
    with pipeline(log, sink).start(replace(options, on_progress=lambda _: done.set())) as running:
        assert done.wait(120)
        assert running.active
    assert (sink.rows, sink.tries) == (list(range(10)), 1 + RESTARTS)


def test_it_is_not_tried_for_ever(log, options):
    sink = Starved(100)
    with pytest.raises(WorkerStartError, match="too busy"):
        pipeline(log, sink).run(options)
    assert sink.tries == 1 + RESTARTS
    sink.fails = 0
    assert pipeline(log, sink).run(options).rows_in == 10


def test_a_source_whose_schema_is_asked_for_in_vain_is_asked_again(log, options, monkeypatch):
    compile_node, fails, out = table.compile_node, [1, 1], MemoryChannel()

    def starved(*arguments):
        if fails:
            fails.pop()
            raise RuntimeError(SLOW)
        return compile_node(*arguments)

    monkeypatch.setattr("rs_assets.compile.planner.table.compile_node", starved)
    stream = StreamBuilder.data_stream("shop", "asked").from_file(log, schema="id long", tail=True)
    stream.to_memory(out).build().run(options)
    assert sorted(row["id"] for row in out.rows()) == list(range(10))

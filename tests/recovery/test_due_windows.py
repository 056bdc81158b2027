"""A query that ends behind the batch that moved its watermark, before the empty one that closes windows by it.

Spark makes that batch of a query that goes on. One that is started again must make it as well, without any input.
"""

import json
import time
from dataclasses import replace
from datetime import timedelta

import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.errors import RsError
from rs_assets.operators.shuffle.purging import ShufflePurge
from rs_assets.runtime.upkeep import savepoints
from tests.crash import Crash

ROWS = [{"page": f"/{n % 3}", "n": n, "ts": f"2024-01-01T00:00:{n:02d}Z"} for n in range(40)]
# The watermark is at 34 s behind all rows: three windows close, and each has three pages.
DELAY_S, CLOSED = 5, 3 * 3
PATIENCE_S = 120


def plain(stream):
    return by_page(stream).water_mark(Time.seconds(DELAY_S)).to_data_stream()


def shuffled(stream):
    return plain(stream.shuffle(1, keys=["page"], strategy="delta", name="spread"))


def by_split(stream):
    return by_page(stream).water_mark(Time.seconds(DELAY_S), per="split").to_data_stream()


def fired(stream):
    counted = by_page(stream).water_mark(Time.seconds(DELAY_S)).emit_before(Time.seconds(3))
    return counted.to_data_stream().filter("final")


def joined(stream, other):
    """A query with two watermarks, in which no row finds a counterpart: each comes when both have passed it."""
    bound = {"within": Time.seconds(0), "water_mark": Time.seconds(DELAY_S), "prefix": "r_", "name": "window"}
    return stream.join(other, on="page", how="left", time_field="ts", condition="right.n < 0", **bound)


def by_page(stream):
    return stream.window(TumblingWindow.of(Time.seconds(10), "ts"), name="window").group_by("page").count("rows")


@pytest.fixture
def made(tmp_path):
    """A pipeline over all rows, by what stands between its source and its output `windows`."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "0.jsonl").write_text("\n".join(json.dumps(row) for row in ROWS))

    def pipeline(form):
        builder, schema = StreamBuilder.data_stream("shop", "due"), "page string, n bigint, ts timestamp"
        names = ("one", "two") if form is joined else ("one",)
        streams = [builder.from_file(folder, schema=schema, name=name) for name in names]
        return form(*streams).to_delta("windows", name="windows").build()

    return pipeline


def held(options):
    place = str(options.home.table("shop", "windows"))
    return DeltaTable(place).count() if DeltaTable.is_deltatable(place) else 0


def log_of(options):
    return CheckpointLog(options.home.job("shop", "due") / "g0001" / "window" / "checkpoint")


@pytest.mark.parametrize(
    ("form", "due", "rows"),
    [(plain, CLOSED, 12), (shuffled, CLOSED, 12), (by_split, CLOSED, 12), (fired, CLOSED, 12), (joined, 35, 40)],
)
def test_a_run_behind_a_kill_closes_what_the_watermark_has_passed(made, options, monkeypatch, form, due, rows):
    pipeline, log = made(form), log_of(options)
    Crash(monkeypatch, DeltaWriter, behind=False, name="windows", skip=1)
    # A purge is news to the query behind a shuffle, which makes a batch of it.
    monkeypatch.setattr(ShufflePurge, "committed", lambda *_: None)
    with pytest.raises(RsError, match="crash"):
        pipeline.run(options)
    # What a kill leaves between the commit of the first batch and the plan of the empty one.
    log.withdraw(1)
    assert (log.planned_batches(), log.committed_batches(), held(options)) == ([0], [0], 0)
    pipeline.run(options)
    assert held(options) == due
    assert pipeline.run(options).batches == 0, "and then there is nothing to do"
    pipeline.run(options, finish=True)
    assert held(options) == rows


def test_a_run_behind_a_stream_that_was_stopped_between_the_two(made, options):
    pipeline, log = made(plain), log_of(options)
    deadline = time.monotonic() + PATIENCE_S
    with pipeline.start(replace(options, interval=timedelta(hours=1))):
        while log.last_committed() < 0:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert held(options) == 0
    pipeline.run(options)
    assert held(options) == CLOSED


def test_a_run_behind_a_rewind_to_the_first_of_the_two(made, options):
    pipeline = made(plain)
    pipeline.run(options)
    assert held(options) == CLOSED
    savepoints.rewind(pipeline.topology, 0, options)
    assert held(options) == 0
    pipeline.run(options)
    assert held(options) == CLOSED

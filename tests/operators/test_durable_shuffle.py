"""shuffle: memory, delta and kafka give equal results."""

import shutil
from datetime import UTC, datetime, timedelta

import pytest
from deltalake import DeltaTable

from pipelines.runtime.travel import savepoint
from resources.errors import CheckpointError, ConfigurationError, TopologyError
from resources.home import Home
from rs_assets import RunOptions, StreamBuilder, Time, TumblingWindow
from rs_assets.testing import PipelineDriver

START = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = [{"key": f"k{n % 5}", "n": n, "ts": START + timedelta(seconds=n // 5)} for n in range(200)]
SCHEMA = "key string, n bigint, ts timestamp"


def totals(stream):
    windowed = stream.window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("key").count("rows").sum("n", "total")
    return windowed.water_mark(Time.seconds(5)).to_data_stream()


@pytest.mark.parametrize("strategy", ["memory", "delta"])
def test_should_give_equal_windows_behind_every_strategy(source, driver, strategy):
    stream = totals(source(SCHEMA).filter("n % 3 = 0").shuffle(3, keys=["key"], strategy=strategy))
    with PipelineDriver(stream.to_print().build(), spark=driver) as pipeline:
        pipeline.push(ROWS[:100])
        pipeline.step()
        early = pipeline.take()
        pipeline.restart()
        pipeline.push(ROWS[100:])
        pipeline.finish()
        rows = early + pipeline.take()
        report = pipeline.report()
    used = [row for row in ROWS if row["n"] % 3 == 0]
    assert sum(row["rows"] for row in rows) == len(used)
    assert sum(row["total"] for row in rows) == sum(row["n"] for row in used)
    assert len(rows) == 20
    assert report.rows_in == 100
    assert report.rows_out == len(rows) - len(early)


def test_should_chain_windows_which_one_query_cannot(source, driver):
    by_key = totals(source(SCHEMA)).shuffle(2, keys=["key"], strategy="delta")
    again = by_key.window(TumblingWindow.of(Time.seconds(20), "start_time"), name="longer").group_by("key")
    stream = again.sum("total").count("windows").water_mark(Time.seconds(5)).to_data_stream()
    with PipelineDriver(stream.to_print().build(), spark=driver) as pipeline:
        pipeline.push(ROWS)
        pipeline.finish()
        rows = pipeline.take()
        report = pipeline.report()
    assert {(row["key"], row["windows"]) for row in rows} == {(f"k{n}", 2) for n in range(5)}
    assert sum(row["total"] for row in rows) == sum(row["n"] for row in ROWS)
    assert (report.rows_in, report.rows_out) == (200, 10)


def test_should_write_two_branches_once_and_purge_what_both_have_read(driver, tmp_path):
    shuffled = StreamBuilder.data_stream("test", "branches").from_array(ROWS).shuffle(2, strategy="delta")
    totals(shuffled).to_delta("totals")
    pipeline = shuffled.filter("n < 10").to_delta("few").build()
    options = RunOptions(home=Home(tmp_path), driver=driver)
    report = pipeline.run(options)
    assert (report.rows_in, report.rows_out, report.sealed) == (200, 20 + 10, True)
    place = DeltaTable(str(tmp_path / "shuffles" / "test" / "branches" / "shuffle_1"))
    assert place.count() == 0
    assert sum(1 for entry in place.history() if entry["operation"] == "WRITE") == 1
    assert pipeline.run(options).rows_in == 0


def test_should_not_go_on_without_the_half_that_was_begun_anew(driver, tmp_path):
    pipeline = (
        StreamBuilder.data_stream("test", "halves")
        .from_array(ROWS)
        .shuffle(2, strategy="delta")
        .to_delta("out")
        .build()
    )
    options = RunOptions(home=Home(tmp_path), driver=driver)
    pipeline.run(options)
    shutil.rmtree(tmp_path / "checkpoints" / "test" / "halves" / "g0001" / "shuffle_1")
    with pytest.raises(CheckpointError):
        pipeline.run(options)
    report = pipeline.run(RunOptions(home=Home(tmp_path), driver=driver, new_generation=True))
    assert report.rows_out == len(ROWS)
    assert DeltaTable(str(tmp_path / "tables" / "test" / "out")).count() == len(ROWS)


def test_should_refuse_to_go_back(driver, tmp_path):
    pipeline = (
        StreamBuilder.data_stream("test", "back").from_array(ROWS).shuffle(2, strategy="delta").to_print().build()
    )
    with pytest.raises(ConfigurationError, match="durable shuffle"):
        savepoint(pipeline.topology, RunOptions(home=Home(tmp_path), driver=driver))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"strategy": "disk"}, "no durable shuffle"),
        ({"strategy": "kafka"}, "needs bootstrap_servers"),
        ({"strategy": "delta", "bootstrap_servers": "localhost:9092"}, "and only it"),
    ],
)
def test_should_refuse_strategies_that_are_none(source, options, what):
    with pytest.raises(TopologyError, match=what):
        source("n bigint").shuffle(2, **options)

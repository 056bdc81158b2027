"""Tables of late rows: each row that a step refused, once, with the watermark that it was judged by."""

import json
import os
from dataclasses import replace

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets import CountWindow, SessionWindow, SlidingWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.compile.provenance import fields_of, provenance
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.errors import RsError, TopologyError
from rs_assets.runtime.upkeep.savepoints import rewind
from rs_assets.testing import PipelineDriver
from tests.crash import Crash
from tests.operators.driving import cut, driven
from tests.operators.model import at, closed

SCHEMA = "n bigint, key string, ts timestamp"
TEN = TumblingWindow.of(Time.seconds(10), "ts")


def window(source):
    return source.window(TEN, name="step").group_by("key").count("hits").late_to("late").water_mark(Time.seconds(5))


def end_of_ten(ts):
    return ts - (ts - at(0)) % TEN.size + TEN.size


def of_sessions(source, emit="on_window_close"):
    sessions = source.window(SessionWindow.of(Time.seconds(4), "ts"), name="step", emit=emit)
    return sessions.count("hits").water_mark(Time.seconds(5)).late_to("late").to_data_stream()


def in_order(source, kind):
    windows = source.window(kind, name="step").group_by("key").count("hits")
    return windows.water_mark(Time.seconds(5)).late_to("late").to_data_stream()


def chained(source):
    minutes = TumblingWindow.of(Time.minutes(1), "end_time")
    return window(source).to_data_stream().window(minutes, name="second").sum("hits").to_data_stream()


def summed(before, row):
    return {"total": (before["total"] if before else 0) + row["n"]}


# How long after the greatest time windows close that are held open for 7 seconds.
HELD = 5 + 7
# How a step is made, and the time at which a row is late for it.
STEPS = {
    "window": (lambda source: window(source).to_data_stream(), end_of_ten),
    "updates": (
        lambda source: (
            source.window(TEN, name="step", emit="on_window_update")
            .count("hits")
            .water_mark(Time.seconds(5))
            .late_to("late")
            .to_data_stream()
        ),
        end_of_ten,
    ),
    "fired": (lambda source: window(source).late_firings("totals").to_data_stream(), end_of_ten),
    "held": (
        lambda source: window(source).emit_after(Time.seconds(3), until=Time.seconds(7)).to_data_stream(),
        end_of_ten,
    ),
    "reduced": (
        lambda source: window(source).reduce(summed, schema="total bigint").to_data_stream(),
        end_of_ten,
    ),
    "chain": (chained, end_of_ten),
    "growing": (lambda source: of_sessions(source, emit="on_update_and_close"), lambda ts: ts + Time.seconds(4)),
    "counted": (lambda source: in_order(source, CountWindow.of(3, "ts")), lambda ts: ts),
    "sliding": (lambda source: in_order(source, SlidingWindow.of(Time.seconds(4), "ts")), lambda ts: ts),
    "session": (of_sessions, lambda ts: ts + Time.seconds(4)),
    "distinct": (
        lambda source: source.distinct(
            "n", within=Time.seconds(20), time_field="ts", water_mark=Time.seconds(5), name="step", late_to="late"
        ),
        lambda ts: ts,
    ),
}


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(seconds=st.lists(st.integers(0, 90), min_size=12, max_size=30), data=st.data())
def test_should_have_each_late_row_once_with_its_watermark(driver, seconds, data):
    kind = data.draw(st.sampled_from(sorted(STEPS)))
    (stream, end), delay = STEPS[kind], HELD if kind == "held" else 5
    rows = [{"n": n, "key": "ab"[n % 2], "ts": at(second)} for n, second in enumerate(seconds)]
    batches = cut(data, rows, least=2)
    # All fields of a row are kept, also those that the step has no use for.
    source = StreamBuilder.data_stream("test", "late").from_file("in.jsonl", schema=SCHEMA)
    made = stream(source.with_fields(twice="n * 2").filter("n >= 0")).to_print()
    with driven(made.build(), driver, batches, restart=lambda: data.draw(st.booleans())) as (running, late):
        taken = running.take("late_table")
    expected = [
        {**row, "twice": 2 * row["n"], "watermark": passed}
        for batch, passed in closed(batches, delay=delay)
        for row in batch
        if end(row["ts"]) <= passed
    ]
    assert sorted(taken, key=lambda row: row["n"]) == expected
    assert late == len(expected)


class World:
    """Files of which each makes a batch, with late rows in the second and the fourth."""

    SECONDS = ([1, 40], [2, 41], [60], [3, 4, 61], [100])

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        for number, seconds in enumerate(self.SECONDS):
            file = folder / f"in-{number}.jsonl"
            rows = [{"n": second, "key": "a", "ts": at(second).isoformat()} for second in seconds]
            file.write_text("".join(json.dumps(row) + "\n" for row in rows))
            os.utime(file, (1000 + number, 1000 + number))

    def pipeline(self, job="files"):
        source = StreamBuilder.data_stream("shop", job).from_file(
            self.folder / "in-*.jsonl", schema=SCHEMA, max_files_per_batch=1
        )
        return window(source).to_data_stream().to_delta("counts").build()

    def read(self, table):
        return DeltaTable(self.options.home.table("shop", table)).to_pyarrow_table().to_pylist()

    def check(self, passed=55):
        late = sorted((row["n"], row["watermark"]) for row in self.read("late"))
        assert late == [(2, at(35)), (3, at(passed)), (4, at(passed))]
        assert sum(row["hits"] for row in self.read("counts")) == 6


@pytest.fixture
def world(options, tmp_path):
    return World(options, tmp_path)


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize(("name", "skip"), [("late_table", 0), pytest.param("counts_table", 1, marks=pytest.mark.long)])
def test_should_be_exact_where_a_commit_of_its_batch_fails(world, monkeypatch, name, skip, behind):
    """The sinks commit one after the other, that of late rows last; each may fail before or behind its commit."""
    Crash(monkeypatch, DeltaWriter, behind=behind, name=name, skip=skip)
    with pytest.raises(RsError, match="crash"):
        world.pipeline().run(world.options, finish=True)
    report = world.pipeline().run(world.options, finish=True)
    assert report.tables.keys() == {"counts_table", "late_table"}
    world.check()


def test_should_go_back_with_the_pipeline(world):
    world.pipeline().run(world.options)
    rewind(world.pipeline().topology, 1, world.options)
    assert [row["n"] for row in world.read("late")] == [2]
    world.pipeline().run(world.options, finish=True)
    # Spark takes files that it had planned before in one batch, so that those rows are judged by what came before.
    world.check(passed=36)


def test_a_new_generation_has_none_of_the_late_rows_of_the_former_one(options):
    """The first batch of a generation replaces the rows of all outputs, also if nothing is late in it."""
    folder = options.home.root.parent / "in"
    folder.mkdir()
    stream = StreamBuilder.data_stream("test", "again").from_file(folder, schema="n bigint, key string, ts timestamp")
    job = window(stream).to_data_stream().to_delta("hits").build()
    for name, second in (("a", 1), ("b", 40), ("c", 2)):
        (folder / f"{name}.jsonl").write_text(json.dumps({"n": second, "key": "k", "ts": str(at(second))}) + "\n")
        report = job.run(options)
    table = options.home.table("test", "late")
    assert (report.rows_late, DeltaTable(table).to_pyarrow_table()["n"].to_pylist()) == (1, [2])
    for again in (replace(options, new_generation=True), replace(options, reset_steps=("step",))):
        assert job.run(again).rows_late == 0
        assert DeltaTable(table).to_pyarrow_table().num_rows == 0
        (folder / f"{again.new_generation}.jsonl").write_text(json.dumps({"n": 7, "key": "k", "ts": str(at(2))}) + "\n")
        job.run(options)
        assert DeltaTable(table).to_pyarrow_table()["n"].to_pylist() == [7]


def test_should_say_what_a_missing_water_mark_costs(source, driver):
    made = source(SCHEMA).window(TEN, name="hasty").count("n").to_data_stream().to_print().build()
    with PipelineDriver(made, spark=driver) as running:
        for second in (1, 30, 2, 3, 60):
            running.push([{"n": 1, "key": "a", "ts": at(second)}])
            running.step()
        (warning,) = running.report().warnings
        assert warning.startswith("2 rows came too late for step 'hasty', which has no water_mark")


@pytest.mark.parametrize(("unit", "told"), [(1, 1), (1000, 0)])
def test_should_warn_of_seconds_that_are_taken_for_milliseconds(source, driver, unit, told):
    ten = TumblingWindow.of(Time.seconds(10), "happened")
    counts = (
        source("n int, key string, happened bigint").window(ten, name="tens").count("n").water_mark(Time.seconds(5))
    )
    with PipelineDriver(counts.to_data_stream().to_print().build(), spark=driver) as running:
        running.push([{"n": 1, "key": "a", "happened": int(at(second).timestamp()) * unit} for second in (1, 30)])
        running.step()
        running.step()
        warnings = running.report().warnings
        assert len(warnings) == told
        assert all("step 'tens' is after 1970-01-2" in each for each in warnings)
        assert all(".with_fields(happened='timestamp_seconds(happened)')" in each for each in warnings)


def test_should_say_what_its_columns_are_made_of(source):
    made = window(source(SCHEMA).with_fields(twice="n * 2")).to_data_stream().to_print().build()
    assert {field for _, field in fields_of(provenance(made.topology, "late_table"), "twice")} == {"n"}


def test_should_refuse_rows_that_nobody_finds_late(source):
    stream = window(source(SCHEMA)).to_data_stream()
    with pytest.raises(TopologyError, match="only the late rows of step 'step' go anywhere"):
        stream.build()
    second = stream.window(TumblingWindow.of(Time.minutes(1), "start_time"), name="second").sum("hits")
    chained = second.late_to("later").to_data_stream().to_print()
    with pytest.raises(TopologyError, match="no row is ever late for step 'second'"):
        chained.build()
    stream = window(source(SCHEMA)).to_data_stream()
    with pytest.raises(TopologyError, match="share the target late"):
        stream.to_delta("late", name="counts").build()
    stream = window(source(SCHEMA)).to_data_stream()
    second = stream.window(TumblingWindow.of(Time.minutes(1), "start_time"), name="second").sum("hits").to_data_stream()
    printed = second.to_print()
    assert printed.build().topology["late_table"].late
    stream.to_print(name="too")
    with pytest.raises(TopologyError, match="step 'step' is in several queries"):
        printed.build()


def test_should_refuse_a_field_of_the_name_that_it_adds(source, driver):
    made = window(source(SCHEMA).with_fields(Watermark="n")).to_data_stream().to_print().build()
    with pytest.raises(TopologyError, match="have a field 'watermark'"):
        PipelineDriver(made, spark=driver).__enter__()

"""Rescaling in the middle of input: the same output as without, also when it is cut short."""

import subprocess
import sys
from dataclasses import replace

import pytest
from deltalake import DeltaTable

from rs_assets import CalendarWindow, CountWindow, HoppingWindow, SessionWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.catalog.catalog import Catalog
from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.common.home import Home
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.errors import CheckpointError, ConfigurationError, PipelineBusyError
from rs_assets.recovery.rewinding import state_version
from rs_assets.runtime.run.rescale import rescale
from rs_assets.runtime.upkeep import repartition as module
from rs_assets.runtime.upkeep.savepoints import savepoint
from tests.operators.model import at

SUMMED = """
import sys
from pathlib import Path
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.runtime.upkeep.repartition import state_sum
from rs_assets.spark.driver import SparkDriver
from rs_assets.spark.settings import SparkSettings

log = CheckpointLog(Path(sys.argv[1]))
driver = SparkDriver(SparkSettings(master="local[1]"))
print(driver.call(lambda spark: state_sum(spark, log)).rows)
driver.stop()
"""
SCHEMA = "key string, n bigint, ts timestamp"
WINDOWS = {
    "tumbling": TumblingWindow.of(Time.seconds(10), "ts"),
    "hopping": HoppingWindow.of(Time.seconds(10), Time.seconds(5), "ts"),
    "session": SessionWindow.of(Time.seconds(6), "ts"),
    "counted": CountWindow.of(5, "ts"),
    "merging": SessionWindow.of(Time.seconds(6), "ts"),
    "totals": TumblingWindow.of(Time.seconds(10), "ts"),
    "days": CalendarWindow.days("Europe/Berlin", "ts"),
    "offset": TumblingWindow.of(Time.seconds(10), "ts", offset=Time.seconds(4)),
}
PARTS = [[{"key": f"k{n % 7}", "n": n, "ts": at(n // 2 + 3 * part)} for n in range(40)] for part in range(4)]


def pipeline(channel, window, job="scaled", group_by=("key",)):
    stream = StreamBuilder.data_stream("shop", job).from_memory(channel, name="input")
    emit = "on_update_and_close" if window is WINDOWS["merging"] else "on_window_close"
    grouped = stream.window(window, emit=emit).group_by(*group_by).count("rows").sum("n", "total").avg("n", "mean")
    grouped = grouped.collect("n", "all")
    if window is WINDOWS["totals"]:
        grouped = grouped.late_firings("totals").emit_before(Time.seconds(4))
    if isinstance(window, CalendarWindow):
        grouped = grouped.aggregate(p95="percentile_approx(n, 0.95)").top_n(3, by="n", fields=["ts"])
    return grouped.water_mark(Time.seconds(60)).to_data_stream().to_delta(job).build()


def rows(options, job="scaled"):
    found = DeltaTable(options.home.table("shop", job)).to_pyarrow_table().to_pylist()
    # What a window tells before it closes depends on the batches that its rows come in.
    last = [row for row in found if row.get("final", True) and not row.get("retracted")]
    return sorted(last, key=lambda row: (row.get("key") or "", row["start_time"], row["end_time"], row.get("rank")))


def folder(options):
    return options.home.job("shop", "scaled")


@pytest.mark.parametrize(
    "kind",
    [
        "merging",
        "totals",
        "days",
        *(pytest.param(k, marks=pytest.mark.long) for k in ("tumbling", "hopping", "offset", "session", "counted")),
    ],
)
def test_the_output_is_the_same_as_without(options, kind):
    scaled, plain = MemoryChannel(schema=SCHEMA), MemoryChannel(schema=SCHEMA)
    job, other = pipeline(scaled, WINDOWS[kind]), pipeline(plain, WINDOWS[kind], job="plain")
    for part, partitions in zip(PARTS, (5, 3, 1, None), strict=True):
        scaled.put(*part)
        plain.put(*part)
        job.run(options)
        if partitions:
            report = rescale(job.topology, partitions, options)
            assert report.after == partitions
            assert sum(report.state_rows.values()) > 0
    job.run(options, finish=True)
    other.run(options, finish=True)
    assert rows(options) == rows(options, "plain")
    assert savepoint(job.topology, options).manifest["partitions"] == 1
    assert [r["summary"] for r in Catalog(options.home.catalog).rows("operations")] == [
        "2 -> 5 partitions",
        "5 -> 3 partitions",
        "3 -> 1 partition",
    ]


@pytest.mark.long
def test_a_window_over_the_whole_stream_can_be_rescaled(options):
    channel = MemoryChannel(schema=SCHEMA)
    job = pipeline(channel, WINDOWS["session"], group_by=())
    channel.put(*PARTS[0])
    job.run(options)
    rescale(job.topology, 4, options)
    channel.put(*PARTS[1])
    job.run(options, finish=True)
    assert sum(row["rows"] for row in rows(options)) == 80


def test_a_rescale_may_be_the_very_first_thing(options, tmp_path):
    """The first batch of a query does not say how many partitions its state has, and Spark's reader asks for it."""
    log = tmp_path / "in.jsonl"
    log.write_text("".join(f'{{"key":"k{n % 7}","n":{n},"ts":"2026-01-01T00:00:{n:02}"}}\n' for n in range(40)))
    stream = StreamBuilder.data_stream("shop", "scaled").from_file(log, schema=SCHEMA, tail=True)
    counted = stream.window(WINDOWS["tumbling"]).group_by("key").count("rows").water_mark(Time.seconds(60))
    job = counted.to_data_stream().to_delta("scaled").build()
    report = rescale(job.topology, 5, options)
    assert (report.before, report.after, report.state_rows) == (2, 5, {"window": 28})
    job.run(options, finish=True)
    assert sum(row["rows"] for row in rows(options)) == 40


@pytest.mark.parametrize("moment", ["before", "behind"])
def test_a_rescale_that_is_cut_short_is_finished_by_the_next_start(options, monkeypatch, moment):
    channel = MemoryChannel(schema=SCHEMA)
    job = pipeline(channel, WINDOWS["tumbling"])
    channel.put(*PARTS[0])
    job.run(options)
    with monkeypatch.context() as crash:
        rewritten = module._rewritten

        def cut(*args):
            if moment == "behind":
                rewritten(*args)
            raise KeyboardInterrupt

        crash.setattr(module, "_rewritten", cut)
        with pytest.raises(KeyboardInterrupt):
            rescale(job.topology, 5, options)
    assert manifests.load(folder(options)).rescaling == 5
    channel.put(*PARTS[1])
    job.run(options, finish=True)
    manifest = manifests.load(folder(options))
    assert (manifest.partitions, manifest.rescaling) == (5, 0)
    log = CheckpointLog(folder(options) / "g0001" / "window" / "checkpoint")
    assert log.partitions(log.last_committed()) == 5
    assert sum(row["rows"] for row in rows(options)) == 80


@pytest.mark.long
def test_a_process_that_ends_an_interrupted_rescale_can_read_state_before_its_first_query(options):
    channel = MemoryChannel(schema=SCHEMA)
    job = pipeline(channel, WINDOWS["tumbling"])
    channel.put(*PARTS[0])
    job.run(options)
    report = rescale(job.topology, 5, options)
    log = folder(options) / "g0001" / "window" / "checkpoint"
    program = [sys.executable, "-W", "ignore", "-c", SUMMED, str(log)]
    found = subprocess.run(program, capture_output=True, text=True, check=False)
    assert found.stdout.split() == [str(report.state_rows["window"])], found.stderr[-2000:]


def test_state_that_would_differ_is_put_back(options, monkeypatch):
    channel = MemoryChannel(schema=SCHEMA)
    job = pipeline(channel, WINDOWS["tumbling"])
    channel.put(*PARTS[0])
    job.run(options)
    with monkeypatch.context() as lossy:
        sums = iter([module.StateSum(7, 1), module.StateSum(6, 1)])
        lossy.setattr(module, "state_sum", lambda *_: next(sums))
        with pytest.raises(CheckpointError, match="6 rows after the rescale, 7 before"):
            rescale(job.topology, 5, options)
    manifest = manifests.load(folder(options))
    assert manifest.partitions == 2
    checkpoint = folder(options) / "g0001" / "window" / "checkpoint"
    # Spark would load a snapshot that was left in place of the state of the next batch.
    newest = max(state_version(path.name) or 0 for path in (checkpoint / "state").rglob("*"))
    assert newest == CheckpointLog(checkpoint).last_committed() + 1
    channel.put(*PARTS[1])
    job.run(options, finish=True)
    assert sum(row["rows"] for row in rows(options)) == 80


@pytest.mark.parametrize("number", [0, -1, True, 1.5, "3", 10_000])
def test_a_number_that_is_none_is_refused(options, number):
    with pytest.raises(ConfigurationError, match="is not a number of partitions"):
        rescale(pipeline(MemoryChannel(schema=SCHEMA), WINDOWS["tumbling"]).topology, number, options)


def test_a_step_that_cannot_be_rescaled_is_refused_before_anything_happens(options, monkeypatch):
    job = pipeline(MemoryChannel(schema=SCHEMA), WINDOWS["tumbling"])
    monkeypatch.setattr(type(job.topology["window"]), "rescalable", False)
    with pytest.raises(ConfigurationError, match="the state of window cannot be redistributed"):
        rescale(job.topology, 3, options)
    assert not options.home.root.exists()


def test_state_that_cannot_be_redistributed_begins_with_another_number_of_partitions(options, monkeypatch):
    channel = MemoryChannel(schema=SCHEMA)
    job = pipeline(channel, WINDOWS["tumbling"])
    channel.put(*PARTS[0])
    job.run(options)
    monkeypatch.setattr(type(job.topology["window"]), "rescalable", False)
    with pytest.raises(ConfigurationError, match="cannot be redistributed") as refused:
        rescale(job.topology, 3, options)
    assert refused.value.remedy == "begin a new generation with another number (--new-generation)"
    three = replace(options, partitions=3)
    with pytest.raises(ConfigurationError, match="has 2 partitions; requested: 3") as pinned:
        job.run(three)
    assert pinned.value.remedy == "leave the number out, or begin a new generation (--new-generation)"
    assert job.run(options).generation == 1
    report = job.run(replace(three, new_generation=True))
    assert (report.generation, manifests.load(folder(options)).partitions) == (2, 3)


def test_a_running_pipeline_is_not_rescaled(options):
    channel = MemoryChannel(schema=SCHEMA)
    job = pipeline(channel, WINDOWS["tumbling"])
    with job.start(options), pytest.raises(PipelineBusyError):
        rescale(job.topology, 3, replace(options, run_id="other"))


@pytest.mark.long
def test_state_is_read_and_rewritten_in_a_home_whose_path_has_blanks(options, tmp_path):
    options = replace(options, home=Home(tmp_path / "my home" / "rs"), preview_rows=5)
    source = MemoryChannel(schema=SCHEMA)
    windows = (
        StreamBuilder.data_stream("shop", "blanks")
        .from_memory(source)
        .window(WINDOWS["session"], name="visits", emit="on_update_and_close")
        .group_by("key")
        .count("rows")
        .to_data_stream()
    )
    table = windows.to_delta("visits", mode="upsert", keys=["key", "start_time"], deletes="retracted")
    pipeline = table.build()

    def run(*rows):
        source.put(*({"key": key, "n": 1, "ts": at(second)} for key, second in rows))
        return pipeline.run(options)

    assert run(("a", 1), ("b", 2), ("a", 3)).previews["visits"].num_rows == 2
    assert pipeline.rescale(3, options).state_rows == {"visits": 2}
    pipeline.savepoint(options)
    run(("a", 5))
    # Spark reads the names of the schemas of a processor's state as they are.
    pipeline.restore(options)
    run(("b", 4))
    assert pipeline.state("visits", options)["rows"].to_pylist() == [3, 2]
    pipeline.forget({"key": ["b"]}, options, savepoints="remove")
    pipeline.run(options, finish=True)
    found = DeltaTable(options.home.table("shop", "visits")).to_pyarrow_table().to_pylist()
    assert [(row["key"], row["rows"]) for row in found] == [("a", 3)]

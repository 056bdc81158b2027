"""Event times: their forms, their bounds, late rows, and the sums that must hold."""

from collections import Counter
from datetime import timedelta

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

from rs_assets import Time, TumblingWindow
from rs_assets.errors import BadRecordError, TopologyError
from rs_assets.operators.window.bounds import EventTimeBounds
from rs_assets.operators.window.durations import EPOCH
from rs_assets.operators.window.event_time import time_reason
from rs_assets.testing import PipelineDriver
from tests.operators.model import START, at

FORMS = {
    "timestamp": ("timestamp", at),
    "epoch milliseconds": ("bigint", lambda s: int(at(s).timestamp() * 1000)),
    "text": ("string", lambda s: at(s).strftime("%Y-%m-%d %H:%M:%S")),
    "ISO text": ("string", lambda s: at(s).isoformat()),
}
BAD = [None, "1969-12-31 23:59:59", "2999-01-01 00:00:00", "tomorrow", "10:00", "2026"]


def counts(source, kind, **options):
    window = source(f"ts {kind}", **options).window(TumblingWindow.of(Time.seconds(10), "ts"), name="w")
    return window.count("n").water_mark(Time.seconds(5))


@pytest.mark.parametrize("form", FORMS)
def test_should_read_every_form(source, drive, form):
    kind, made = FORMS[form]
    rows = drive(counts(source, kind).to_data_stream(), [{"ts": made(1)}, {"ts": made(2)}, {"ts": made(11)}])
    assert sorted((row["start_time"], row["n"]) for row in rows) == [(START, 2), (at(10), 1)]


def test_should_keep_bad_times_in_dead_letters_and_late_rows_too(source, driver, tmp_path):
    pipeline = counts(source, "string").event_time(bad_records="dead_letter").to_data_stream().to_print().build()
    with PipelineDriver(pipeline, spark=driver, home=tmp_path) as running:
        running.push([{"ts": at(1).isoformat()}, *({"ts": bad} for bad in BAD), {"ts": at(30).isoformat()}])
        running.step()
        running.push([{"ts": at(2).isoformat()}, {"ts": at(26).isoformat()}])
        running.step()
        running.finish()
        assert [(row["start_time"], row["n"]) for row in running.take()] == [(START, 1), (at(20), 1), (at(30), 1)]
        query = running.report().queries[0]
        assert (query.rows_in, query.rows_dead, query.rows_late, query.rows_on) == (10, 6, 1, 3)
    letters = DeltaTable(str(tmp_path / "catalog" / "dead_letters")).to_pyarrow_table().to_pylist()
    reasons = {row["line"]: row["reason"].split(":")[0] for row in letters}
    assert reasons == {
        2: "no event time",
        3: "event time before the earliest",
        4: "event time too far ahead",
        5: "no event time",
        6: "no event time",
        7: "no event time",
        9: "late",
    }
    assert {row["step"] for row in letters} == {"w"}


@pytest.mark.parametrize("asked_of", ["source", "window"])
def test_should_only_count_them_under_skip(source, driver, asked_of):
    policy = {"bad_records": "skip"}
    windows = counts(source, "string", **(policy if asked_of == "source" else {}))
    windows = windows.event_time(**policy) if asked_of == "window" else windows
    with PipelineDriver(windows.to_data_stream().to_print().build(), spark=driver) as running:
        running.push([{"ts": at(1).isoformat()}, *({"ts": bad} for bad in BAD)])
        running.finish()
        assert running.report().rows_dead == len(BAD)
        assert [row["n"] for row in running.take()] == [1]


@pytest.mark.parametrize("bad", BAD)
def test_should_end_the_run_under_fail_and_name_the_record(source, driver, bad):
    with PipelineDriver(counts(source, "string").to_data_stream().to_print().build(), spark=driver) as running:
        running.push([{"ts": at(1).isoformat()}, {"ts": bad}])
        with pytest.raises(BadRecordError, match="event time") as caught:
            running.step()
    assert (caught.value.facts["step"], caught.value.facts["line"]) == ("w", 2)


@pytest.mark.parametrize("policy", ["dead_letter", "quarantine"])
def test_should_keep_numbers_that_are_no_milliseconds_in_dead_letters(source, driver, tmp_path, policy):
    good = int(at(1).timestamp() * 1000)
    bad = [good * 1000, good * 1_000_000, 2**63 - 1, -(2**63), None]
    pipeline = counts(source, "bigint", bad_records=policy).to_data_stream().to_print().build()
    with PipelineDriver(pipeline, spark=driver, home=tmp_path) as running:
        running.push([{"ts": good}, *({"ts": value} for value in bad)])
        running.finish()
        assert [row["n"] for row in running.take()] == [1]
        assert running.report().rows_dead == len(bad)
    letters = DeltaTable(str(tmp_path / "catalog" / "dead_letters")).to_pyarrow_table().to_pylist()
    reasons = [row["reason"].split(":")[0] for row in sorted(letters, key=lambda row: row["line"])]
    assert reasons == [*["event time too far ahead"] * 3, "event time before the earliest", "no event time"]


def test_should_refuse_a_field_that_is_no_time_and_bounds_before_1970(source, drive):
    with pytest.raises(TopologyError, match="is a boolean"):
        drive(counts(source, "boolean").to_data_stream(), [{"ts": True}])
    with pytest.raises(TopologyError, match="is a int"):
        drive(counts(source, "int").to_data_stream(), [{"ts": 1}])
    with pytest.raises(TopologyError, match="and not before 1970"):
        counts(source, "timestamp").event_time(earliest=START.replace(year=1969))


def test_should_use_the_time_of_arrival_without_a_field(source, drive):
    stream = source("page string").window(TumblingWindow.of(Time.days(365_000))).group_by("page").count("n")
    assert [row["n"] for row in drive(stream.to_data_stream(), [{"page": "/"}], [{"page": "/"}])] == [2]


def test_should_judge_times_in_code_that_is_compiled_once_for_all_batches(driver):
    """The clock of a batch must not be a constant in the code, nor keep Spark from making code at all."""

    def code_at(seconds):
        def of(spark):
            times = spark.range(10).select(F.timestamp_seconds("id").alias("at"))
            good = times.filter(time_reason(F.col("at"), EventTimeBounds(), now=F.lit(at(seconds))).isNull())
            plan = good._jdf.queryExecution().executedPlan()
            return spark._jvm.org.apache.spark.sql.execution.debug.package.codegenString(plan)

        code = driver.call(of)
        # What stands before the code is the plan, which shows the clock.
        assert "Filter" in code.split("Generated code:")[0].splitlines()[3]
        return code.split("Generated code:")[1:]

    assert code_at(0) == code_at(5)


def test_should_take_any_time_before_the_end_of_time_for_a_bound_that_is_longer_than_time(source, drive):
    window = source("page string, ts timestamp").window(TumblingWindow.of(Time.seconds(10), "ts"))
    counted = window.event_time(max_ahead=Time.days(9_000_000)).group_by("page").count("n")
    rows = [{"page": "/", "ts": START.replace(year=year)} for year in (2024, 8990)]
    assert [row["n"] for row in drive(counted.to_data_stream(), rows)] == [1, 1]


def test_believed_rows_before_the_watermark_can_begin_are_refused_where_windows_fire_again(source):
    windows = counts(source, "bigint")
    plain = windows.to_data_stream().to_print().build().topology["w"]
    early = windows.emit_before(Time.seconds(2)).to_data_stream().to_print().build().topology["w"]
    assert (plain.believed.earliest, early.believed.earliest) == (EPOCH, EPOCH + timedelta(seconds=5))


def test_windows_near_1970_that_fire_once_fire_and_refuse_late_rows_as_a_plain_model_says(source, driver):
    """In milliseconds; the watermark begins at 0 and lies `delay` after which rows of windows before it are late."""
    size, delay = 2_000, 3_000
    batches = [[1000, 2000, 3000], [4000, 500], [7000], [1500, 3999, 4001], [30_000, 8000]]
    window = source("ts bigint").window(TumblingWindow.of(Time.milliseconds(size), "ts"), name="w").count("n")
    stream = window.water_mark(Time.milliseconds(delay)).to_data_stream()
    newest, late, waiting = 0, 0, Counter[int]()

    def closed(watermark):
        ends = [start for start in waiting if start + size <= watermark]
        return {start: waiting.pop(start) for start in ends}

    with PipelineDriver(stream.to_print().build(), spark=driver) as running:
        for times in batches:
            starts = [ts // size * size for ts in times]
            late += sum(start + size <= newest - delay for start in starts)
            waiting.update(start for start in starts if start + size > newest - delay)
            newest = max(newest, *times)
            running.push([{"ts": ts} for ts in times])
            running.step()
            assert _counted(running.take()) == closed(newest - delay)
        running.finish()
        assert _counted(running.take()) == waiting
        assert running.report().rows_late == late == 2


def _counted(rows):
    return {round((row["start_time"] - EPOCH) / timedelta(milliseconds=1)): row["n"] for row in rows}


def test_windows_near_1970_that_fire_again_keep_rows_before_the_watermark_can_begin_in_dead_letters(source, driver):
    windows = counts(source, "bigint").emit_before(Time.seconds(2)).event_time(bad_records="dead_letter")
    with PipelineDriver(windows.to_data_stream().to_print().build(), spark=driver) as running:
        for times in ([1000, 2000, 4999, 5000], [6000, 12_000], [40_000]):
            running.push([{"ts": ts} for ts in times])
            running.step()
        running.finish()
        last = Counter[int]()
        for row in running.take():
            last |= Counter(_counted([row]))
        assert last == {0: 2, 10_000: 1, 40_000: 1}
        assert (running.report().rows_dead, running.report().rows_late) == (3, 0)

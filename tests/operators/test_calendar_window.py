"""Windows of a time zone's calendar, and windows that are offset from the epoch, against plain Python."""

from datetime import UTC, datetime, timedelta

import duckdb
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from rs_assets import CalendarWindow, HoppingWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.errors import TopologyError
from rs_assets.operators.window.calendar_columns import calendar_window
from rs_assets.testing import PipelineDriver
from tests.operators.driving import cut, driven
from tests.operators.model import counted, dated, emitted, emitted_slices, windows_of

# Where clocks went over midnight, back over it, half an hour, or over a whole day.
CHANGES = {
    "Europe/Berlin": datetime(2024, 3, 31, 1, tzinfo=UTC),
    "America/New_York": datetime(2024, 11, 3, 6, tzinfo=UTC),
    "Asia/Beirut": datetime(2024, 3, 30, 22, tzinfo=UTC),
    "America/Havana": datetime(2024, 11, 3, 5, tzinfo=UTC),
    "America/St_Johns": datetime(2010, 11, 7, 2, 31, tzinfo=UTC),
    "Australia/Lord_Howe": datetime(2024, 4, 6, 15, tzinfo=UTC),
    "Pacific/Apia": datetime(2011, 12, 30, 10, tzinfo=UTC),
    "UTC": datetime(2024, 2, 29, tzinfo=UTC),
}
# Where clocks do not change at midnight, which DuckDB takes otherwise.
BY_DUCKDB = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC")
SCHEMA = "key string, ts timestamp"


@pytest.mark.parametrize("zone", CHANGES)
def test_should_begin_with_the_first_instant_of_a_date(spark, zone):
    around = CHANGES[zone]
    instants = [around + timedelta(minutes=10 * n) for n in range(-500, 500)]
    instants += [around + timedelta(days=n) for n in range(-40, 40)]
    frame = spark.createDataFrame([(ts,) for ts in instants], "ts timestamp")
    units = {unit: getattr(CalendarWindow, f"{unit}s")(zone, "ts") for unit in ("day", "week", "month")}
    windows = [calendar_window(F.col("ts"), window).alias(unit) for unit, window in units.items()]
    edges = [F.unix_seconds(f"{unit}.{edge}") for unit in units for edge in ("start", "end")]
    found = frame.select("ts", *windows).select(F.unix_seconds("ts"), *edges).collect()
    rows = [{"key": n, "ts": ts} for n, ts in enumerate(instants)]
    expected = [[ts.timestamp()] for ts in instants]
    for unit in units:
        for n, start, end in dated(rows, unit=unit, zone=zone):
            expected[n] += [start.timestamp(), end.timestamp()]
    assert [list(row) for row in found] == expected
    if zone in BY_DUCKDB:
        instants_of_all = pd.DataFrame({"ts": instants})  # noqa: F841  DuckDB finds it by its name
        starts = [f"epoch(date_trunc('{unit}', ts at time zone '{zone}') at time zone '{zone}')" for unit in units]
        assert duckdb.sql(f"select {', '.join(starts)} from instants_of_all").fetchall() == [
            tuple(row[1::2]) for row in expected
        ]


def begun(zone, minutes):
    return CHANGES[zone] + timedelta(minutes=minutes)


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_should_equal_the_model_under_any_cut_with_late_rows_and_restarts(driver, data):
    """Each window with and without groups: two queries of one pipeline."""
    delay = data.draw(st.sampled_from([0, 3 * 3600]))
    zone = data.draw(st.sampled_from(sorted(CHANGES)))
    window, model = data.draw(
        st.sampled_from(
            [
                (CalendarWindow.days(zone, "ts"), lambda rows: dated(rows, unit="day", zone=zone)),
                (CalendarWindow.weeks(zone, "ts"), lambda rows: dated(rows, unit="week", zone=zone)),
                (TumblingWindow.of(Time.hours(8), "ts", offset=Time.hours(3)), (28800, 28800, 10800)),
                (HoppingWindow.of(Time.hours(8), Time.hours(3), "ts", offset=Time.hours(1)), (28800, 10800, 3600)),
            ]
        )
    )
    minutes = data.draw(st.lists(st.integers(-2200, 2200), min_size=30, max_size=60))
    rows = [{"key": "ab"[n % 2], "ts": begun(zone, m)} for n, m in enumerate(minutes)]
    rows = rows if data.draw(st.booleans()) else sorted(rows, key=lambda row: row["ts"])
    batches = cut(data, rows, most=3)
    source = StreamBuilder.data_stream("test", "calendar").from_file("in.jsonl", schema=SCHEMA)
    for name, fields in (("by_key", ["key"]), ("whole", [])):
        grouped = source.window(window, name=name).group_by(*fields).count("n").water_mark(Time.seconds(delay))
        stream = grouped.to_data_stream().to_print(name=f"{name}_rows")
    with driven(stream.build(), driver, batches, restart=lambda: data.draw(st.booleans())) as (running, late):
        by_key, whole = running.take("by_key_rows"), running.take("whole_rows")
        assert running.report().rows_open == 0
    one = [[{**row, "key": None} for row in batch] for batch in batches]
    if isinstance(model, tuple):
        size, slide, offset = model
        found = [emitted_slices(each, size=size, slide=slide, offset=offset, delay=delay) for each in (batches, one)]
    else:
        found = [emitted(each, model, delay=delay) for each in (batches, one)]
    assert windows_of(by_key) == counted(found[0][0])
    assert sorted((row["start_time"], row["end_time"], row["n"]) for row in whole) == [
        group[1:] for group in counted(found[1][0])
    ]
    assert late == found[0][2] + found[1][2]


def test_should_fire_a_short_day_when_the_watermark_passes_its_midnight(source, driver):
    window = source(SCHEMA).window(CalendarWindow.days("Europe/Berlin", "ts")).group_by("key").count("n")
    pipeline = window.water_mark(Time.hours(1)).to_data_stream().to_print().build()
    midnight = datetime(2024, 3, 31, 22, tzinfo=UTC)
    with PipelineDriver(pipeline, spark=driver) as running:
        running.push([{"key": "a", "ts": midnight - Time.hours(23)}, {"key": "a", "ts": midnight + Time.minutes(59)}])
        running.step()
        assert running.take() == []
        running.push([{"key": "b", "ts": midnight + Time.hours(1)}])
        running.step()
        assert running.take() == [
            {
                "key": "a",
                "n": 1,
                "start_time": midnight - Time.hours(23),
                "end_time": midnight,
                "fire_time": midnight + Time.hours(1),
            }
        ]


@pytest.mark.parametrize("zone", ["Europe/Atlantis", "", None, "+02:00"])
def test_should_refuse_a_zone_that_is_none(zone):
    with pytest.raises(TopologyError, match="there is no time zone"):
        CalendarWindow.days(zone, "ts")
    with pytest.raises(TopologyError, match="cannot have the unit 'year'"):
        CalendarWindow("year", "UTC")


def test_should_refuse_an_offset_that_is_none():
    with pytest.raises(TopologyError, match="is not below 0:00:10"):
        TumblingWindow.of(Time.seconds(10), "ts", offset=Time.seconds(10))
    with pytest.raises(TopologyError, match="is not below 0:00:05"):
        HoppingWindow.of(Time.seconds(10), Time.seconds(5), "ts", offset=Time.seconds(7))
    with pytest.raises(TopologyError, match="the offset of a window must not be negative") as refused:
        TumblingWindow.of(Time.seconds(10), "ts", offset=-Time.seconds(1))
    assert "add multiples of 0:00:10" in refused.value.remedy
    assert TumblingWindow.of(Time.seconds(10), "ts", offset=-Time.seconds(1) + Time.seconds(10)).offset == Time.seconds(
        9
    )

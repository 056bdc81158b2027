"""Defects that windows of other stream engines had, by what they did: each has a test that shows its absence here."""

from pathlib import Path

import pytest

from rs_assets import SessionWindow, Time, TumblingWindow
from rs_assets.errors import TopologyError
from rs_assets.testing import PipelineDriver
from tests.operators.model import at, counted, sessions, windows_of

HERE = Path(__file__).parent
SHOWN_BY = {
    "distinct drops nothing": "test_distinct.py::test_should_let_the_first_of_each_pass_under_any_cut_and_restarts",
    "distinct forgets all keys when a bound is reached": (
        "test_distinct.py::test_should_forget_a_row_when_the_watermark_has_passed_it_by_within"
    ),
    "children of one record count as duplicates": "test_defects.py::test_should_count_all_that_came_in_time",
    "numbers compare as text, and come out as text": (
        "test_aggregates.py::test_should_compare_numbers_as_numbers_and_text_as_text"
    ),
    "one value that is no number skips the aggregates behind it": (
        "test_aggregates.py::test_should_refuse_to_add_up_what_is_no_number"
    ),
    "a mean of whole numbers is cut": "test_defects.py::test_should_count_all_that_came_in_time",
    "an older row stretches a session, or keys share one": (
        "test_defects.py::test_should_make_a_session_of_an_older_row"
    ),
    "results depend on the clock, or on the cut into batches": (
        "test_tumbling_window.py::test_should_not_depend_on_disorder_within_the_water_mark_or_on_cuts"
    ),
    "a water mark is seconds here and milliseconds there": "test_defects.py::test_should_take_durations_only",
    "rows are dropped although their window has not fired": (
        "test_defects.py::test_should_count_all_that_came_in_time"
    ),
    "a row is late by its own time, not by its window's end": (
        "test_defects.py::test_should_count_all_that_came_in_time"
    ),
    "groups of empty values vanish": (
        "test_tumbling_window.py::test_should_group_the_whole_stream_without_fields_and_null_as_a_value"
    ),
    "aggregates count twice after a crash": "../faults/test_commit_points.py::test_should_write_every_window_once",
    "a ranking is never emitted, or in any order": (
        "test_top_n.py::test_should_equal_plain_python_under_any_cut_and_restarts"
    ),
    "late rows are lost without a word": "test_late_to.py::test_should_have_each_late_row_once_with_its_watermark",
    "day windows know no time zone": "test_calendar_window.py::test_should_begin_with_the_first_instant_of_a_date",
}


@pytest.mark.parametrize("defect", SHOWN_BY)
def test_should_be_shown_to_be_absent(defect):
    file, _, name = SHOWN_BY[defect].partition("::")
    assert f"\ndef {name}(" in (HERE / file).read_text()


def test_should_count_all_that_came_in_time(source, driver):
    # Each record has two children of one place and time.
    children = source("n bigint, ts timestamp").flat_map(
        lambda row: [row, {**row, "n": row["n"] + 1}], schema="n bigint, ts timestamp"
    )
    window = children.window(TumblingWindow.of(Time.seconds(10), "ts")).count("rows").avg("n", "mean").max("n", "most")
    pipeline = window.water_mark(Time.seconds(5)).to_data_stream().to_print().build()
    with PipelineDriver(pipeline, spark=driver) as running:
        for second in (1, 14.999, 2):
            running.push([{"n": 9, "ts": at(second)}])
            running.step()
        # The watermark is 9.999: the row at 2 lies behind it, but its window has not fired.
        assert running.take() == []
        running.push([{"n": 9, "ts": at(15)}])
        running.step()
        (first,) = running.take()
        assert (first["start_time"], first["rows"], first["mean"], first["most"]) == (at(0), 4, 9.5, 10)
        running.push([{"n": 9, "ts": at(9)}])
        running.step()
        running.finish()
        assert [row["rows"] for row in running.take()] == [4]
        # The children of the row at 9.
        assert running.report().rows_late == 2


def test_should_make_a_session_of_an_older_row(source, driver):
    keys = {100: "a", 103: "b", 104: "a", 10: "a", 98: "b"}
    rows = [{"key": key, "ts": at(second)} for second, key in keys.items()]
    window = source("key string, ts timestamp").window(SessionWindow.of(Time.seconds(5), "ts")).group_by("key")
    stream = window.count("n").water_mark(Time.seconds(200)).to_data_stream()
    with PipelineDriver(stream.to_print().build(), spark=driver) as running:
        for row in rows:
            running.push([row])
            running.step()
        running.finish()
        assert windows_of(running.take()) == counted(sessions(rows, gap=5))


@pytest.mark.parametrize("delay", [5, 5.0, "5 seconds", -Time.seconds(1)])
def test_should_take_durations_only(source, delay):
    window = source("ts timestamp").window(TumblingWindow.of(Time.seconds(10), "ts")).count("n").water_mark(delay)
    with pytest.raises(TopologyError, match="the watermark delay must be"):
        window.to_data_stream()

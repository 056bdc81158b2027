"""All aggregates of a window against plain Python."""

import pytest

from resources.errors import UnknownFieldError
from rs_assets import Time, TumblingWindow
from tests.operators.model import at

VALUES = [7, 3, None, 7, 10]
ROWS = [{"key": "a", "v": v, "ts": at(9 - n)} for n, v in enumerate(VALUES)]


def test_should_compute_all_of_them_over_values_that_are_there(source, drive):
    window = (
        source("key string, v bigint, ts timestamp").window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("key")
    )
    window = window.count("rows").sum("v", "total").avg("v", "mean").min("v", "least").max("v", "most")
    window = window.distinct("v", "different").count_distinct("v", "exactly").count_distinct_large("v", "about")
    rows = drive(window.collect("v", "in_order").water_mark(Time.seconds(10)).to_data_stream(), ROWS[:2], ROWS[2:])
    there = [v for v in VALUES if v is not None]
    assert len(rows) == 1
    assert rows[0] | {"start_time": 0, "end_time": 0, "fire_time": 0} == {
        "key": "a",
        "rows": len(VALUES),
        "total": sum(there),
        "mean": sum(there) / len(there),
        "least": min(there),
        "most": max(there),
        "different": sorted(set(there)),
        "exactly": len(set(there)),
        "about": len(set(there)),
        # By event time: the rows came latest first.
        "in_order": there[::-1],
        "start_time": 0,
        "end_time": 0,
        "fire_time": 0,
    }


def test_should_compare_numbers_as_numbers_and_text_as_text(source, drive):
    window = source("v bigint, t string, ts timestamp").window(TumblingWindow.of(Time.seconds(10), "ts"))
    rows = [{"v": v, "t": str(v), "ts": at(1)} for v in (9, 10)]
    found = drive(window.max("v").max("t").to_data_stream(), rows)
    assert [(row["v"], row["t"]) for row in found] == [(10, "9")]


def test_should_give_null_where_there_is_no_value(source, drive):
    window = (
        source("v bigint, ts timestamp").window(TumblingWindow.of(Time.seconds(10), "ts")).sum("v").collect("v", "all")
    )
    assert [(r["v"], r["all"]) for r in drive(window.to_data_stream(), [{"v": None, "ts": at(1)}])] == [(None, [])]


def test_should_name_the_unknown_field(source, drive):
    window = source("v bigint, ts timestamp").window(TumblingWindow.of(Time.seconds(10), "ts"), name="w").sum("w")
    with pytest.raises(UnknownFieldError, match="step 'w' names the field 'w'.*\n.*v, ts"):
        drive(window.to_data_stream(), ROWS[:1])

"""All aggregates of a window against plain Python."""

import io
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest
from rich.console import Console

from rs_assets import MemoryChannel, StreamBuilder, Time, TumblingWindow
from rs_assets.cli.run.console import show_open
from rs_assets.errors import TopologyError, UnknownFieldError
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


def test_values_without_a_reader_are_not_shown_as_empty_of_an_open_window(options):
    channel = MemoryChannel(schema="v bigint, ts timestamp")
    window = StreamBuilder.data_stream("test", "unread").from_memory(channel)
    window = window.window(TumblingWindow.of(Time.seconds(10), "ts"), name="tens").sum("v").collect("v", "all")
    job = window.distinct("v", "different").to_data_stream().to_memory(MemoryChannel()).build()
    channel.put({"v": 3, "ts": at(1)})
    report = job.run(replace(options, preview_rows=5))
    shown = report.previews["tens"]
    assert [column.name for column in shown.schema if pa.types.is_null(column.type)] == ["all", "different"]
    assert shown["v"].to_pylist() == [3]
    show_open(report, out := Console(width=100, file=io.StringIO()))
    assert "known when they fire: all, different\n" in out.file.getvalue()
    assert out.file.getvalue().count("different") == 1


def test_should_name_the_unknown_field(source, drive):
    window = source("v bigint, ts timestamp").window(TumblingWindow.of(Time.seconds(10), "ts"), name="w").sum("w")
    with pytest.raises(UnknownFieldError, match="step 'w' names the field 'w'.*\n.*v, ts"):
        drive(window.to_data_stream(), ROWS[:1])


@pytest.mark.parametrize(
    ("function", "kind"), [("sum", "string"), ("avg", "string"), ("sum", "timestamp"), ("avg", "date")]
)
def test_should_refuse_to_add_up_what_is_no_number(source, drive, function, kind):
    window = source(f"v {kind}, ts timestamp").window(TumblingWindow.of(Time.seconds(10), "ts"), name="w")
    with pytest.raises(
        TopologyError, match=f"step 'w' cannot take the {function} of 'v', which is a {kind}"
    ) as refused:
        drive(getattr(window, function)("v").to_data_stream())
    assert refused.value.remedy.startswith("convert it to a number first (text: .with_fields(v='cast(v as double)'));")


def test_should_follow_the_remedy(source, drive):
    numbers = source("v string, ts timestamp").with_fields(v="cast(v as double)")
    window = numbers.window(TumblingWindow.of(Time.seconds(10), "ts")).sum("v", "total")
    assert [row["total"] for row in drive(window.to_data_stream(), [{"v": v, "ts": at(1)} for v in ("1.5", "2")])] == [
        3.5
    ]


def test_should_give_the_mean_of_decimals_as_a_double(source, drive):
    window = source("v decimal(12,3), ts timestamp").window(TumblingWindow.of(Time.seconds(10), "ts")).avg("v", "mean")
    (row,) = drive(window.to_data_stream(), [{"v": Decimal(v), "ts": at(1)} for v in ("0.100", "0.200", "0.300")])
    assert (type(row["mean"]), row["mean"]) == (float, 0.2)


@pytest.mark.parametrize("alias", ["Start_Time", "K", "END_TIME"])
def test_should_refuse_names_that_differ_in_case_only(source, alias):
    window = source("k string, ts timestamp").window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("k")
    with pytest.raises(TopologyError, match="would have two columns called"):
        window.count(alias).to_data_stream()

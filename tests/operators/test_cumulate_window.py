"""Windows that begin together and end step by step, against plain Python."""

from collections import defaultdict
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets import CumulateWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.errors import TopologyError
from tests.operators.driving import cut, driven
from tests.operators.model import at, counted, emitted, second, windows_of

SCHEMA = "key string, ts timestamp"


def cumulated(rows, *, size, step, offset=0):
    """Rows by key and window: those of one start, each a step longer than the one before."""
    groups = defaultdict(list)
    for row in rows:
        seconds = row["ts"].timestamp()
        start = int(seconds - (seconds - offset) % size)
        for end in range(start + step, start + size + 1, step):
            if seconds < end:
                groups[row["key"], datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC)].append(row)
    return groups


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_should_equal_the_model_under_any_cut_with_late_rows_and_restarts(driver, data):
    delay = data.draw(st.sampled_from([0, 15]))
    size, step, offset = data.draw(st.sampled_from([(60, 10, 0), (30, 30, 0), (40, 5, 25), (12, 4, 7)]))
    seconds = data.draw(st.lists(st.integers(0, 2000), min_size=20, max_size=50))
    rows = [{"key": "ab"[n % 2], "ts": at(s / 10)} for n, s in enumerate(seconds)]
    batches = cut(data, rows if data.draw(st.booleans()) else sorted(rows, key=lambda row: row["ts"]), most=3)
    source = StreamBuilder.data_stream("test", "cumulate").from_file("in.jsonl", schema=SCHEMA)
    window = CumulateWindow.of(Time.seconds(size), Time.seconds(step), "ts", offset=Time.seconds(offset))
    for name, fields in (("by_key", ["key"]), ("whole", [])):
        grouped = source.window(window, name=name).group_by(*fields).count("n").water_mark(Time.seconds(delay))
        stream = grouped.to_data_stream().to_print(name=f"{name}_rows")
    with driven(stream.build(), driver, batches, restart=lambda: data.draw(st.booleans())) as (running, late):
        by_key, whole = running.take("by_key_rows"), running.take("whole_rows")
        assert running.report().rows_open == 0
    one = [[{**row, "key": "all"} for row in batch] for batch in batches]
    found = [
        emitted(each, lambda rows: cumulated(rows, size=size, step=step, offset=offset), delay=delay)
        for each in (batches, one)
    ]
    assert windows_of(by_key) == counted(found[0][0])
    assert windows_of([{**row, "key": "all"} for row in whole]) == counted(found[1][0])
    assert late == found[0][2] + found[1][2]


def test_should_stand_before_and_behind_other_windows(driver):
    rows = [{"key": "ab"[n % 2], "ts": at(n * 1.7)} for n in range(60)]
    source = StreamBuilder.data_stream("test", "chained").from_file("in.jsonl", schema=SCHEMA)
    minute = CumulateWindow.of(Time.seconds(60), Time.seconds(20), "ts")
    after = source.window(minute, name="first").group_by("key").count("n").to_data_stream()
    after = after.window(TumblingWindow.of(Time.seconds(20), "end_time"), name="second").sum("n").to_data_stream()
    stream = after.to_print(name="after_rows")
    tens = source.window(TumblingWindow.of(Time.seconds(10), "ts"), name="tens").group_by("key").count("n")
    over = CumulateWindow.of(Time.seconds(60), Time.seconds(20), "start_time")
    over = tens.to_data_stream().window(over, name="over").group_by("key").sum("n").to_data_stream()
    over.to_print(name="over_rows")
    with driven(stream.build(), driver, [rows[:25], rows[25:40], rows[40:]], restart=lambda: True) as (running, late):
        found, over_rows = running.take("after_rows"), running.take("over_rows")
    assert late == 0
    model = cumulated(rows, size=60, step=20)
    sums = defaultdict(int)
    for (_, _, end), of in model.items():
        sums[end] += len(of)
    assert sorted((row["start_time"], row["n"]) for row in found) == sorted(sums.items())
    assert windows_of(over_rows) == counted(model)


def test_should_fire_each_window_early_too(driver):
    source = StreamBuilder.data_stream("test", "early").from_file("in.jsonl", schema=SCHEMA)
    window = source.window(CumulateWindow.of(Time.seconds(60), Time.seconds(30), "ts")).group_by("key").count("n")
    pipeline = window.emit_before(Time.seconds(10)).to_data_stream().to_print(name="rows").build()
    rows = [{"key": "a", "ts": at(s)} for s in (1, 12, 35)]
    with driven(pipeline, driver, [[row] for row in rows], restart=lambda: False) as (running, late):
        found = running.take("rows")
    assert late == 0
    early = {second(row["end_time"]) for row in found if not row["final"]}
    assert early == {30, 60}
    assert windows_of([row for row in found if row["final"]]) == counted(cumulated(rows, size=60, step=30))


@pytest.mark.parametrize(("size", "step"), [(60, 7), (60, 0), (10, 20), (86_400_000, 1)])
def test_should_refuse_steps_that_do_not_fill_the_window(size, step):
    with pytest.raises(TopologyError):
        CumulateWindow.of(Time.seconds(size), Time.seconds(step), "ts")

"""Deduplication against plain Python, alone and in a chain with windows."""

from math import inf, nan

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.errors import TopologyError, UnknownFieldError
from rs_assets.testing import PipelineDriver
from tests.operators.model import at, counted, sliced, windows_of

SCHEMA = "id bigint, key string, ts timestamp"
# Each id comes thrice within ten seconds, with another key each time.
ROWS = [{"id": n, "key": "abc"[copy], "ts": at(3 * n + 5 * copy)} for n in range(30) for copy in range(3)]


def cut(data, rows):
    cuts = sorted(data.draw(st.sets(st.integers(1, len(rows) - 1), max_size=4)))
    return [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_should_let_the_first_of_each_pass_under_any_cut_and_restarts(driver, source, data):
    # Out of order by less than is waited for, so nothing is late.
    rows = [row for block in range(0, 90, 9) for row in data.draw(st.permutations(ROWS[block : block + 9]))]
    batches = cut(data, rows)
    stream = source(SCHEMA).distinct("id", within=Time.seconds(40), time_field="ts")
    with PipelineDriver(stream.to_print().build(), spark=driver) as running:
        for batch in batches:
            running.push(batch)
            running.step()
            running.restart()
        running.finish()
        assert running.report().rows_late == 0
        taken = running.take()
    # Spark picks one of the equal rows of a batch.
    firsts = {}
    for number, batch in enumerate(batches):
        for row in batch:
            firsts.setdefault(row["id"], (number, []))
            if firsts[row["id"]][0] == number:
                firsts[row["id"]][1].append(row)
    assert sorted(row["id"] for row in taken) == list(range(30))
    assert all(row in firsts[row["id"]][1] for row in taken)


def test_should_forget_a_row_when_the_watermark_has_passed_it_by_within(source, drive):
    def once():
        return source(SCHEMA).distinct("id", within=Time.seconds(10), time_field="ts")

    same = [{"id": 1, "key": "a", "ts": at(second)} for second in (0, 9, 40)]
    rows = drive(once(), same[:1], same[1:2], [{"id": 2, "key": "b", "ts": at(60)}], same[2:])
    # The third came behind the watermark, 60 less ten seconds.
    assert [row["id"] for row in rows] == [1, 2]
    rows = drive(once(), same[:1], [{"id": 2, "key": "b", "ts": at(35)}], same[2:])
    assert [row["id"] for row in rows] == [1, 2, 1]


def test_should_count_late_rows_and_take_null_for_a_value(driver, source):
    stream = source(SCHEMA, bad_records="skip").distinct(
        "id", "key", within=Time.hours(1), time_field="ts", water_mark=Time.seconds(5)
    )
    with PipelineDriver(stream.to_print().build(), spark=driver) as running:
        running.push([{"id": None, "key": "a", "ts": at(50)}, {"id": None, "key": "a", "ts": at(51)}])
        running.push([{"id": None, "key": "b", "ts": at(60)}, {"id": 1, "key": "b", "ts": None}])
        running.step()
        running.push([{"id": 7, "key": "a", "ts": at(55)}, {"id": 8, "key": "a", "ts": at(56)}])
        running.step()
        running.finish()
        report = running.report()
        assert (report.rows_in, report.rows_dead, report.rows_late) == (6, 1, 1)
        assert sorted((row["id"] or 0, row["key"]) for row in running.take()) == [(0, "a"), (0, "b"), (8, "a")]


def test_should_stand_before_a_window_in_one_query(driver, source):
    once = source(SCHEMA).distinct("id", within=Time.seconds(30), time_field="ts")
    stream = once.window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("key").count("n").to_data_stream()
    with PipelineDriver(stream.to_print().build(), spark=driver) as running:
        for first in range(0, 90, 30):
            running.push(ROWS[first : first + 30])
            running.step()
        running.finish()
        assert [query.query for query in running.report().queries] == ["window"]
        taken = running.take()
    firsts = {row["id"]: row for row in reversed(ROWS) if row["key"] == "a"}
    assert windows_of(taken) == counted(sliced(firsts.values(), size=10, slide=10))


def test_should_count_different_values_exactly_with_state_on_the_disk(source, drive):
    rows = [{"id": n * n % 11, "key": "ab"[n % 2], "ts": at(n * 7 % 60)} for n in range(60)]
    tens = source(SCHEMA).with_fields(ten="timestamp_seconds(unix_seconds(ts) div 10 * 10)")
    once = tens.distinct("ten", "key", "id", within=Time.seconds(60), time_field="ts")
    window = once.window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("key").count("n").count_distinct("id")
    taken = drive(window.to_data_stream(), rows[:25], rows[25:])
    expected = {group: len({row["id"] for row in of}) for group, of in sliced(rows, size=10, slide=10).items()}
    assert windows_of(taken) == windows_of(taken, "id") == sorted((*group, n) for group, n in expected.items())


def test_should_stand_behind_a_window_in_one_query(source, drive):
    window = source(SCHEMA).window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("id").count("n")
    stream = window.water_mark(Time.seconds(30)).to_data_stream()
    once = stream.distinct("id", within=Time.hours(1), time_field="start_time")
    rows = drive(once, ROWS[:45], ROWS[45:])
    assert sorted(row["id"] for row in rows) == list(range(30))


def test_should_refuse_what_tells_no_rows_apart(driver, options, source):
    with pytest.raises(TopologyError, match="at least one field"):
        source(SCHEMA).distinct(within=Time.seconds(1))
    with pytest.raises(TopologyError, match="must be a timedelta"):
        source(SCHEMA).distinct("id", within=10)
    stream = StreamBuilder.data_stream("test", "unknown").from_memory(MemoryChannel(schema=SCHEMA))
    tags = StreamBuilder.data_stream("test", "maps").from_memory(MemoryChannel(schema="tags map<string,int>"))
    with pytest.raises(TopologyError, match="cannot compare 'tags'"):
        tags.distinct("tags", within=Time.seconds(1)).to_print().build().run(options)
    with pytest.raises(UnknownFieldError, match="idd"):
        stream.distinct("idd", within=Time.seconds(1)).to_print().build().run(options)


def test_distinct_takes_all_nan_and_both_zeros_for_equal_as_windows_do(drive, source):
    """Within structs and arrays too; the row keeps the value that it came with."""
    stream = source("id bigint, d double, e double, ts timestamp").with_fields(g="d - e")
    stream = stream.with_fields(n="named_struct('a', array(g), 'f', cast(g as float))")
    values = [(inf, inf), (nan, 0.0), (0.0, 0.0), (-0.0, 0.0), (1.0, 0.0)]
    rows = [{"id": n, "d": d, "e": e, "ts": at(n)} for n, (d, e) in enumerate(values)]
    for fields in (["g"], ["n"]):
        kept = drive(stream.distinct(*fields, within=Time.seconds(40), time_field="ts"), *([row] for row in rows))
        assert [row["id"] for row in kept] == [0, 2, 4]

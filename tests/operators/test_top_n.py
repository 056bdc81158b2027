"""Rankings within windows against plain Python and DuckDB."""

import duckdb
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets import CalendarWindow, HoppingWindow, SessionWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.errors import TopologyError
from rs_assets.testing import PipelineDriver
from tests.operators.driving import cut, driven
from tests.operators.model import at, sessions, sliced

SCHEMA = "key string, ms bigint, page string, ts timestamp"
WINDOWS = [
    (TumblingWindow.of(Time.seconds(10), "ts"), lambda rows: sliced(rows, size=10, slide=10)),
    (HoppingWindow.of(Time.seconds(10), Time.seconds(5), "ts"), lambda rows: sliced(rows, size=10, slide=5)),
    (SessionWindow.of(Time.seconds(2), "ts"), lambda rows: sessions(rows, gap=2)),
]
rows_of = st.lists(
    st.tuples(st.sampled_from("ab"), st.none() | st.integers(0, 5), st.sampled_from("xyz"), st.integers(0, 40)),
    min_size=10,
    max_size=40,
)


def ranked(groups, *, n, descending):
    """Rows of the model: null is the smallest, rows of one `ms` are in the order of their pages."""
    found = []
    for group, rows in groups.items():
        order = sorted(((row["ms"] is not None, row["ms"] or 0, row["page"]) for row in rows), reverse=descending)
        for rank, (there, ms, page) in enumerate(order[:n], start=1):
            found.append((*group, rank, ms if there else None, page, len(rows)))
    return sorted(found, key=lambda row: row[:4])


def shown(rows):
    names = ("key", "start_time", "end_time", "rank", "ms", "page", "n")
    return sorted((tuple(row[name] for name in names) for row in rows), key=lambda row: row[:4])


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(made=rows_of, data=st.data())
def test_should_equal_plain_python_under_any_cut_and_restarts(driver, made, data):
    window, model = data.draw(st.sampled_from(WINDOWS))
    n, descending = data.draw(st.integers(1, 4)), data.draw(st.booleans())
    rows = [{"key": key, "ms": ms, "page": page, "ts": at(second)} for key, ms, page, second in made]
    batches = cut(data, rows, least=1, most=1)
    source = StreamBuilder.data_stream("test", "ranked").from_file("in.jsonl", schema=SCHEMA)
    stream = source.window(window).group_by("key").top_n(n, by="ms", fields=["page"], descending=descending).count("n")
    pipeline = stream.water_mark(Time.minutes(1)).to_data_stream().to_print().build()
    with driven(pipeline, driver, batches, restart=lambda: True) as (running, _):
        taken = running.take()
    assert shown(taken) == ranked(model(rows), n=n, descending=descending)


def test_should_rank_windows_of_a_window_as_duckdb_does(source, drive):
    rows = [
        {"key": "abcdefg"[n * n % 7], "ms": n * 37 % 11, "page": "xyz"[n % 3], "ts": at(n // 4)} for n in range(240)
    ]
    tens = (
        source(SCHEMA).window(TumblingWindow.of(Time.seconds(10), "ts"), name="tens").group_by("key").sum("ms", "all")
    )
    minutes = tens.water_mark(Time.minutes(2)).to_data_stream()
    top = minutes.window(TumblingWindow.of(Time.seconds(30), "start_time"), name="top")
    stream = top.top_n(3, by=["all", "key"], fields=["start_time"], rank="place")
    with pytest.raises(TopologyError, match="two columns called start_time"):
        stream.to_data_stream()
    found = drive(top.top_n(3, by=["all", "key"], rank="place").to_data_stream(), rows[100:], rows[:100])
    frame = pd.DataFrame(rows)  # noqa: F841  DuckDB finds it by its name
    expected = duckdb.sql("""
        with tens as (select key, time_bucket(interval '10 seconds', ts) t, sum(ms) s from frame group by all),
        numbered as (select time_bucket(interval '30 seconds', t) w, s, key, row_number() over (
            partition by time_bucket(interval '30 seconds', t) order by s desc, key desc) place from tens)
        select place::int, s::int, key from numbered where place <= 3 order by w, place
    """).fetchall()
    found.sort(key=lambda row: (row["end_time"], row["place"]))
    assert [(row["place"], row["all"], row["key"]) for row in found] == expected


def test_should_emit_the_whole_ranking_of_a_window_that_changed(driver):
    source = StreamBuilder.data_stream("test", "live").from_file("in.jsonl", schema=SCHEMA)
    window = source.window(CalendarWindow.days("Europe/Berlin", "ts"), emit="on_window_update").group_by("key")
    stream = window.top_n(2, by="ms", fields=["page"]).count("n").to_data_stream()
    with pytest.raises(TopologyError, match="do not distinguish the windows") as refused:
        stream.to_delta("short", mode="upsert", keys=["key", "start_time"]).build()
    assert "'key', 'rank', 'start_time'" in refused.value.remedy
    source = StreamBuilder.data_stream("test", "live").from_file("in.jsonl", schema=SCHEMA)
    window = source.window(CalendarWindow.days("Europe/Berlin", "ts"), emit="on_window_update").group_by("key")
    stream = window.top_n(2, by="ms", fields=["page"]).count("n").to_data_stream()
    stream.to_delta("live", mode="upsert", keys=["key", "rank", "start_time"])
    rows = [{"key": "a", "ms": ms, "page": f"p{ms}", "ts": at(1)} for ms in (3, 5, 4)]
    with PipelineDriver(stream.build(), spark=driver) as running:
        for row in rows:
            running.push([row])
            running.step()
        taken = [(row["rank"], row["ms"], row["n"]) for row in running.take()]
    assert taken == [(1, 3, 1), (1, 5, 2), (2, 3, 2), (1, 5, 3), (2, 4, 3)]


def test_should_refuse_what_is_no_ranking(source, driver):
    window = source("key string, tags map<string,int>, ts timestamp").window(TumblingWindow.of(Time.seconds(10), "ts"))
    for n in (0, -1, True, 1.5, 100_001):
        with pytest.raises(TopologyError, match="takes a number of rows from 1 to 100,000"):
            window.top_n(n, by="key")
    with pytest.raises(TopologyError, match="a field to rank by"):
        window.top_n(1, by=[])
    pipeline = window.top_n(1, by="key", fields=["tags"]).to_data_stream().to_print().build()
    with pytest.raises(TopologyError, match="cannot rank rows with 'tags'"):
        PipelineDriver(pipeline, spark=driver).__enter__()
    with pytest.raises(TopologyError, match="two columns called rank"):
        window.group_by("key").top_n(1, by="rank").to_data_stream()

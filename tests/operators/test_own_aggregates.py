"""Any aggregate of Spark as a column of a window's row, against plain Python and DuckDB."""

import duckdb
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from rs_assets import CalendarWindow, HoppingWindow, SessionWindow, StreamBuilder, Time, TumblingWindow, column
from rs_assets.compile.provenance import fields_of, provenance
from rs_assets.errors import TopologyError, UnknownFieldError
from rs_assets.testing import PipelineDriver
from tests.operators.driving import cut, driven
from tests.operators.model import at, dated, sessions, sliced

SCHEMA = "key string, ms bigint, page string, ts timestamp"
WINDOWS = [
    (TumblingWindow.of(Time.seconds(10), "ts"), lambda rows: sliced(rows, size=10, slide=10)),
    (HoppingWindow.of(Time.seconds(10), Time.seconds(4), "ts"), lambda rows: sliced(rows, size=10, slide=4)),
    (SessionWindow.of(Time.seconds(3), "ts"), lambda rows: sessions(rows, gap=3)),
    (CalendarWindow.days("Europe/Berlin", "ts"), lambda rows: dated(rows, unit="day", zone="Europe/Berlin")),
]
OWN = {
    "median": column(lambda: F.percentile_approx("ms", 0.5)),
    "twice": "sum(ms * 2)",
    "ratio": "max(ms) - min(ms) + count(*)",
    "pages": "sort_array(collect_set(page))",
    "slowest": "max_by(page, struct(ms, page))",
    "long_ones": "count(*) filter (where ms > 50)",
    "often": "mode(page, true)",
    "earliest": "min_by(page, struct(ts, page))",
    "joined": "array_join(sort_array(collect_list(page)), ',')",
}


def values(rows):
    """What OWN gives of `rows`, and the number of rows between them."""
    ms = sorted(row["ms"] for row in rows if row["ms"] is not None)
    pages = sorted(row["page"] for row in rows)
    return (
        len(rows),
        ms[(len(ms) - 1) // 2] if ms else None,
        2 * sum(ms) if ms else None,
        ms[-1] - ms[0] + len(rows) if ms else None,
        sorted(set(pages)),
        # Null is the smallest.
        max((row["ms"] if row["ms"] is not None else -1, row["page"]) for row in rows)[1],
        sum(each > 50 for each in ms),
        min(pages, key=lambda page: (-pages.count(page), page)),
        min((row["ts"], row["page"]) for row in rows)[1],
        ",".join(pages),
    )


rows_of = st.lists(
    st.tuples(st.sampled_from("ab"), st.none() | st.integers(0, 100), st.sampled_from("xyz"), st.integers(0, 40)),
    min_size=5,
    max_size=40,
)


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(made=rows_of, data=st.data())
def test_should_equal_plain_python_under_any_cut_and_restarts(driver, made, data):
    window, model = data.draw(st.sampled_from(WINDOWS))
    rows = [{"key": key, "ms": ms, "page": page, "ts": at(second)} for key, ms, page, second in made]
    batches = cut(data, rows, least=1, most=1)
    source = StreamBuilder.data_stream("test", "own").from_file("in.jsonl", schema=SCHEMA)
    stream = source.window(window).group_by("key").aggregate(**OWN).count("n").water_mark(Time.seconds(50))
    with driven(stream.to_data_stream().to_print().build(), driver, batches, restart=lambda: True) as (running, _):
        taken = running.take()
    found = {
        (row["key"], row["start_time"], row["end_time"]): (row["n"], *(row[name] for name in OWN)) for row in taken
    }
    assert found == {group: values(of) for group, of in model(rows).items()}
    assert len(found) == len(taken)


def test_should_give_what_duckdb_gives(source, drive):
    rows = [{"key": "ab"[n % 2], "ms": n * 37 % 101, "page": "xyz"[n % 3], "ts": at(n // 4)} for n in range(200)]
    own = {"spread": "stddev_samp(ms)", "middle": "median(ms)", "related": "corr(ms, length(page) + ms % 7)"}
    stream = source(SCHEMA).window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("key").aggregate(**own)
    found = drive(stream.water_mark(Time.minutes(1)).to_data_stream(), rows[100:], rows[:100])
    frame = pd.DataFrame(rows)  # noqa: F841  DuckDB finds it by its name
    expected = duckdb.sql("""
        select key, time_bucket(interval '10 seconds', ts) w, stddev_samp(ms), median(ms),
            corr(ms, length(page) + ms % 7)
        from frame group by all order by w, key
    """).fetchall()
    found.sort(key=lambda row: (row["start_time"], row["key"]))
    assert [tuple(row[name] for name in own) for row in found] == [pytest.approx(row[2:]) for row in expected]


@pytest.mark.parametrize(
    ("made", "why", "remedy"),
    [
        ("1 + 1", "is not an aggregate", "use a function of all rows"),
        ("key", "is not an aggregate", "use a function of all rows"),
        ("ms + sum(ms)", "is not accepted by Spark: .*MISSING", "put each field that is not grouped by"),
        ("sum(ms) over (partition by key)", "is not accepted by Spark|is not an aggregate", ""),
        ("explode(collect_list(ms))", "is not an aggregate", "flat_map"),
        ("count(distinct page)", "is over distinct values", "count_distinct"),
        ("first(page)", "depends on the order", "write min_by"),
        ("collect_list(page)", "depends on the order", "sort_array"),
        ("listagg(page)", "depends on the order", "array_join"),
        ("any_value(page)", "depends on the order", "write"),
        ("max_by(page, ms)", "any of the rows that are equal", "struct"),
        ("mode(page)", "any of the values that are equally frequent", "mode"),
        ("sum(rand() * ms)", "is not accepted by Spark: .*NONDETERMINISTIC", ""),
        ("count(*) filter (where ts < now())", "reads the clock", "event times"),
        ("count(struct(*))", "uses '\\*'", "one by one"),
    ],
)
def test_should_refuse_what_is_no_sound_aggregate(source, driver, made, why, remedy):
    stream = source(SCHEMA).window(TumblingWindow.of(Time.seconds(10), "ts"), name="w").group_by("key")
    pipeline = stream.aggregate(x=made).to_data_stream().to_print().build()
    with pytest.raises(TopologyError, match=f"(?s)the aggregate 'x' of step 'w' .*({why})") as refused:
        PipelineDriver(pipeline, spark=driver).__enter__()
    assert remedy in (refused.value.remedy or "")


def test_should_name_what_is_unknown_or_no_expression(source, driver):
    stream = source(SCHEMA).window(TumblingWindow.of(Time.seconds(10), "ts"), name="w")
    with pytest.raises(UnknownFieldError, match="names the field 'msec'"):
        PipelineDriver(stream.aggregate(x="sum(msec)").to_data_stream().to_print().build(), spark=driver).__enter__()
    with pytest.raises(TopologyError, match="takes SQL text or a Spark Column"):
        stream.aggregate(x=lambda rows: 1)
    with pytest.raises(TopologyError, match="two columns called key"):
        stream.group_by("key").aggregate(key="sum(ms)").to_data_stream()


def test_should_find_the_row_on_which_it_fails(source, driver):
    stream = source("n string, ts timestamp", bad_records="quarantine")
    window = stream.window(TumblingWindow.of(Time.seconds(10), "ts"), name="w").aggregate(total="sum(cast(n as int))")
    with PipelineDriver(window.to_data_stream().to_print().build(), spark=driver) as running:
        running.push([{"n": n, "ts": at(1)} for n in ("1", "two", "3")])
        running.step()
        running.finish()
        assert [row["total"] for row in running.take()] == [4]
        assert running.report().rows_dead == 1


def test_should_follow_another_window(source, drive):
    tens = source(SCHEMA).window(TumblingWindow.of(Time.seconds(10), "ts"), name="tens").aggregate(top="max(ms)")
    days = tens.to_data_stream().window(CalendarWindow.days("Europe/Berlin", "start_time"), name="days")
    over = days.aggregate(middle="percentile_approx(top, 0.5)").to_data_stream()
    weeks = over.window(CalendarWindow.weeks("Europe/Berlin", "start_time"), name="weeks").aggregate(all="sum(middle)")
    rows = [{"key": "a", "ms": n, "page": "x", "ts": at(n * 7200)} for n in range(36)]
    taken = drive(weeks.to_data_stream(), rows[:10], rows[10:20], rows[20:])
    by_day = [[row["ms"] for row in of] for of in dated(rows, unit="day", zone="Europe/Berlin").values()]
    assert [row["all"] for row in taken] == [sum(sorted(each)[(len(each) - 1) // 2] for each in by_day)]


def test_should_say_what_its_columns_are_made_of(source):
    stream = source(SCHEMA).window(TumblingWindow.of(Time.seconds(10), "ts"), name="w").aggregate(x="sum(ms * 2)")
    ranked = stream.top_n(2, by="ms", fields=["page"]).to_data_stream().to_print().build()
    columns = provenance(ranked.topology, "w")
    assert {name: {field for _, field in fields_of(columns, name)} for name in ("x", "page", "rank")} == {
        "x": {"ms"},
        "page": {"page"},
        "rank": {"ms"},
    }

"""Windows without an end against plain Python: what was told and not taken back stands, and only changes are told."""

from collections import defaultdict
from datetime import timedelta

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets import GlobalWindow, MemoryChannel, StreamBuilder, Time, TumblingWindow
from rs_assets.errors import ConfigurationError, TopologyError
from rs_assets.operators.state.snapshot import state_at
from rs_assets.runtime.upkeep.state import preview, snapshot_state, state_path
from rs_assets.testing import PipelineDriver
from tests.operators.driving import cut
from tests.operators.model import at, closed

SCHEMA = "key string, ms double, page string, ts timestamp"
N, DELAY, LIVES = 3, 5, 20
EVER, DAY = GlobalWindow.of("ts"), GlobalWindow.of("ts", time_to_live=Time.seconds(LIVES))
VALUES = [None, -0.0, 0.0, 1.5, float("nan"), 7.0, float("-inf")]
rows_of = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(VALUES), st.sampled_from("xyz"), st.integers(0, 90)),
    min_size=6,
    max_size=40,
)


def order(row):
    """Null before all numbers, NaN behind them; those of one value by their page."""
    ms = row["ms"]
    number = -float("inf") if ms is None or ms != ms else ms
    return (ms is not None, ms is not None and ms != ms, number, row["page"])


def shown(row):
    """What a ranked row shows; as text, in which NaN equals itself and 0.0 is -0.0."""
    return f"{row['ms'] + 0.0 if row['ms'] is not None else None}", row["page"]


def lasting(batches, *, lives=None):
    """The rows of each group that stand behind each batch, and how many were late for a group's time to live."""
    groups, late = defaultdict(list), 0
    for rows, passed in closed([*batches, []], delay=DELAY):
        life = timedelta(seconds=lives or 10**6)
        for key in [key for key, of in groups.items() if max(row["ts"] for row in of) + life <= passed]:
            del groups[key]
        for row in rows:
            old = row["ts"] + life <= passed
            late += old
            if not old:
                groups[row["key"]].append(row)
        yield {key: list(of) for key, of in groups.items()}, late


def best(groups, *, descending=True):
    return {
        (key, rank): shown(row)
        for key, rows in groups.items()
        for rank, row in enumerate(sorted(rows, key=order, reverse=descending)[:N], start=1)
    }


def applied(table, rows, *, value):
    """What stands in `table` behind `rows`: each takes back what stands, or is told where nothing does."""
    gone = {}
    for row in rows:
        place = (row["key"], row.get("rank", 1))
        if row["retracted"]:
            assert table.pop(place) == value(row)
            gone[place] = value(row)
        else:
            assert place not in table
            assert gone.pop(place, None) != value(row), "told, and nothing changed"
            table[place] = value(row)


def ranked(window, *, descending=True):
    stream = StreamBuilder.data_stream("test", "best").from_file("in.jsonl", schema=SCHEMA)
    top = stream.window(window, name="best").group_by("key").top_n(N, by="ms", fields=["page"], descending=descending)
    return top.water_mark(Time.seconds(DELAY)).to_data_stream().to_print(name="out").build()


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(made=rows_of, data=st.data(), window=st.sampled_from([EVER, DAY]), descending=st.booleans())
def test_a_ranking_is_told_when_it_changes(driver, made, data, window, descending):
    # Time goes on from row to row, in disorder by up to 90 seconds.
    rows = [
        {"key": key, "ms": ms, "page": page, "ts": at(2 * number + second)}
        for number, (key, ms, page, second) in enumerate(made)
    ]
    batches = cut(data, rows, least=1, most=4)
    lives = None if window is EVER else LIVES
    model = list(lasting(batches, lives=lives))
    table, late = {}, 0
    with PipelineDriver(ranked(window, descending=descending), spark=driver) as running:
        for number, batch in enumerate(batches):
            running.push(batch)
            running.step()
            applied(table, running.take("out"), value=shown)
            # Behind the batch comes one without rows, which forgets what the watermark has passed.
            forgotten, _ = list(lasting(batches[: number + 1], lives=lives))[-1]
            assert table == best(forgotten, descending=descending)
            if data.draw(st.booleans()):
                late += running.report().rows_late
                running.restart()
        running.finish()
        assert running.take("out") == []
        late += running.report().rows_late
    assert late == model[-1][1]


def test_a_table_holds_the_ranking_as_it_stands(options):
    channel = MemoryChannel(schema=SCHEMA)
    stream = StreamBuilder.data_stream("test", "live").from_memory(channel)
    top = stream.window(DAY, name="best").group_by("key").top_n(N, by="ms", fields=["page"])
    top = top.water_mark(Time.seconds(DELAY)).to_data_stream()
    # A row that stands no more leaves, also where a filter let the row in its place not pass.
    job = top.filter("ms > 1").to_delta("live", mode="upsert", keys=["key", "rank"], deletes="retracted").build()
    batches = [
        [("a", 2, 0), ("b", 9, 0)], [("a", 5, 3), ("a", 1, 3), ("a", 4, 3)], [("a", 3, 4), ("a", 7, 4)], [("b", 1, 30)],
        [("b", 8, 31)],
    ]  # fmt: skip
    batches = [[{"key": k, "ms": float(v), "page": "x", "ts": at(s)} for k, v, s in batch] for batch in batches]
    for number, batch in enumerate(batches):
        channel.put(*batch)
        job.run(options)
        (*_, (groups, _)) = lasting(batches[: number + 1], lives=LIVES)
        found = DeltaTable(options.home.table("test", "live")).to_pyarrow_table().to_pylist()
        expected = {place: row for place, row in best(groups).items() if float(row[0]) > 1}
        assert {(row["key"], row["rank"]): shown(row) for row in found} == expected
    assert {key for key, _ in expected} == {"b"}


def test_aggregates_over_all_rows_are_told_when_they_change(drive, source):
    window = (
        source("key string, v bigint")
        .window(EVER.of())
        .group_by("key")
        .max("v")
        .aggregate(all="sort_array(collect_set(v))")
    )
    batches = [[("a", 1)], [("a", 3), ("b", 2)], [("a", 3)], [("a", 4)]]
    rows = drive(window.to_data_stream(), *([{"key": key, "v": v} for key, v in batch] for batch in batches))
    told = [(row["key"], row["v"], row["retracted"]) for row in rows]
    of_a = [("a", 1, False), ("a", 1, True), ("a", 3, False), ("a", 3, True), ("a", 4, False)]
    assert [row for row in told if row[0] == "a"] == of_a
    assert [row for row in told if row[0] == "b"] == [("b", 2, False)]
    assert all(row.keys() == {"key", "v", "all", "fire_time", "retracted"} for row in rows)


def test_all_ranks_change_with_an_aggregate_beside_them(drive, source):
    stream = source("v bigint, ts timestamp").window(EVER).top_n(2, by="v").count("n").to_data_stream()
    rows = drive(stream, [{"v": 3, "ts": at(1)}, {"v": 2, "ts": at(1)}], [{"v": 1, "ts": at(0)}])
    told = [(row["rank"], row["v"], row["n"], row["retracted"]) for row in rows]
    first = [(1, 3, 2), (2, 2, 2)]
    again = [(1, 3, 3, False), (2, 2, 3, False)]
    assert told == [(*row, False) for row in first] + [(*row, True) for row in first] + again


def test_the_state_is_no_more_than_the_ranking(options):
    channel = MemoryChannel(schema=SCHEMA)
    stream = StreamBuilder.data_stream("test", "kept").from_memory(channel)
    top = stream.window(EVER, name="best").group_by("key").top_n(2, by="ms", fields=["page"]).to_data_stream()
    job = top.to_delta("kept").build()
    channel.put(*({"key": "a", "ms": float(n), "page": "x", "ts": at(n)} for n in range(200)))
    job.run(options)
    [taken] = snapshot_state(job.topology, options)
    (kept,) = state_at(state_path(job.topology, "best", options.home)).to_pylist()
    assert taken.rows == 1
    assert len(kept["value"]) < 300
    with pytest.raises(ConfigurationError, match="no windows that close"):
        preview(job.topology, "best", options)
    # Of two thousand seconds ago, and not late.
    channel.put({"key": "a", "ms": 198.5, "page": "y", "ts": at(-2000)})
    report = job.run(options, finish=True)
    rows = DeltaTable(options.home.table("test", "kept")).to_pyarrow_table().to_pylist()
    assert (report.rows_late, report.rows_open, report.warnings) == (0, 1, ())
    told = sorted((row["rank"], row["ms"], row["retracted"]) for row in rows)
    assert told == [(1, 199.0, False), (2, 198.0, False), (2, 198.0, True), (2, 198.5, False)]


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda s: s.window(EVER, emit="on_window_update").count(), "fires when its row changes"),
        (lambda s: s.window(EVER).count().emit_before(Time.seconds(1)), "fires when its row changes"),
        (lambda s: s.window(GlobalWindow.of("ts", time_to_live=Time.seconds(0))).count(), "the time to live"),
        (lambda s: s.window(EVER).count().to_data_stream().window(
            TumblingWindow.of(Time.minutes(1), "fire_time"), name="w").count(), "would count each update|several rows"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(made, told):
    stream = StreamBuilder.data_stream("test", "refused").from_file("in.jsonl", schema=SCHEMA)
    with pytest.raises(TopologyError, match=told):
        made(stream).to_data_stream().to_print().build()


@pytest.mark.parametrize(
    ("how", "remedy"),
    [({"keys": ["key"], "deletes": "retracted"}, r"keys=\['key', 'rank'\]"), ({"keys": ["key", "rank"]}, "deletes=")],
)
def test_a_table_needs_the_keys_of_a_rank_and_lets_rows_go(how, remedy):
    stream = StreamBuilder.data_stream("test", "refused").from_file("in.jsonl", schema=SCHEMA)
    top = stream.window(EVER).group_by("key").top_n(N, by="ms").to_data_stream()
    with pytest.raises(TopologyError, match=remedy):
        top.to_delta("refused", mode="upsert", **how).build()


def test_times_are_read_where_the_thread_that_wires_has_no_session(driver, drive, source):
    """Spark's encoders ask the session of their thread what a time is, and its fallback says another thing."""
    stream = source("v bigint, ts timestamp").window(EVER).top_n(1, by="v").to_data_stream()
    driver.call(lambda spark: spark._jvm.SparkSession.clearActiveSession())
    try:
        rows = drive(stream, [{"v": 3, "ts": at(1)}, {"v": 2, "ts": at(1)}])
    finally:
        driver.call(lambda spark: spark._jvm.SparkSession.setActiveSession(spark._jsparkSession))
    assert [(row["rank"], row["v"]) for row in rows] == [(1, 3)]

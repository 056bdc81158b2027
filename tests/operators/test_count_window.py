"""Windows of so many rows against the plain model: the rows of a group in the order of event time, cut into pieces."""

from collections import defaultdict

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets import CountWindow, MemoryChannel, StreamBuilder, Time, TumblingWindow
from rs_assets.errors import TopologyError
from rs_assets.runtime.upkeep.state import preview
from tests.operators.driving import cut, driven
from tests.operators.model import at, closed

SCHEMA = "key string, v bigint, tag map<string, string>, ts timestamp"
THREE = CountWindow.of(3, "ts")
DELAY = 15


def counted(stream, *groups, delay=DELAY):
    window = stream.window(THREE, name="threes").group_by(*groups).count("n").collect("v", "all")
    window = window.aggregate(last="max_by(v, struct(ts, v))").late_to("late")
    return window.water_mark(Time.seconds(delay)).to_data_stream()


def expected(batches, *, key):
    """Each window's rows, in order, and how many rows were late."""
    groups, late = defaultdict(list), 0
    for rows, closed_to in closed(batches, delay=DELAY):
        for row in rows:
            late += row["ts"] <= closed_to
            if row["ts"] > closed_to:
                groups[row[key] if key else None].append((row["ts"], row["v"]))
    for group, rows in groups.items():
        ordered = sorted(rows)
        for first in range(0, len(ordered), 3):
            yield group, ordered[first : first + 3]
    yield None, late


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), key=st.sampled_from(["key", None]))
def test_should_count_in_the_order_of_time_however_rows_came(driver, data, key):
    events = data.draw(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), min_size=8, max_size=24))
    rows = [{"key": k, "v": n, "ts": at(s)} for n, (k, s) in enumerate(events)]
    batches = cut(data, rows, least=1, most=3)
    stream = StreamBuilder.data_stream("test", "count").from_file("in.jsonl", schema=SCHEMA)
    stream = counted(stream, *([key] if key else [])).to_print(name="out")
    *windows, (_, late) = expected(batches, key=key)
    with driven(stream.build(), driver, batches, restart=lambda: data.draw(st.booleans())) as (running, found):
        told = [
            (row.get("key"), row["start_time"], row["end_time"], row["n"], row["all"], row["last"])
            for row in running.take("out")
        ]
        assert all(row[5] == row[4][-1] for row in told)
    made = [(g, of[0][0], of[-1][0], len(of), [v for _, v in of], of[-1][1]) for g, of in windows]
    assert sorted(told, key=str) == sorted(made, key=str)
    assert found == late


def test_what_was_counted_is_seen_and_goes_on_behind_a_restart(options):
    channel = MemoryChannel(schema=SCHEMA)
    job = counted(StreamBuilder.data_stream("test", "seen").from_memory(channel), "key").to_delta("seen").build()
    channel.put(*({"key": "a", "v": n, "ts": at(20 * n)} for n in range(6)))
    job.run(options)
    # The watermark is at 85: five rows are counted, the last one waits.
    (open_now,) = preview(job.topology, "threes", options).to_pylist()
    assert (open_now["n"], open_now["start_time"], open_now["end_time"]) == (2, at(60), at(80))
    assert open_now["fire_time"] == at(80 + DELAY)
    (state,) = job.state("threes", options).to_pylist()
    assert state["n"] == 2
    channel.put({"key": "a", "v": 6, "ts": at(90)})
    job.run(options, finish=True)
    rows = DeltaTable(options.home.table("test", "seen")).to_pyarrow_table().to_pylist()
    told = sorted((row["start_time"], row["n"], row["fire_time"]) for row in rows)
    assert told == [(at(0), 3, at(40 + DELAY)), (at(60), 3, at(90 + DELAY)), (at(100), 1, at(100 + DELAY))]


def test_rows_count_by_their_arrival_without_a_time_field(drive, source):
    stream = source("v bigint").window(CountWindow.of(2)).count("n").collect("v", "all").to_data_stream()
    rows = drive(stream, [{"v": 1}], [{"v": 3}, {"v": 2}], [{"v": 0}, {"v": 5}])
    # Rows of one batch have one time, and are counted in the order of what the aggregates read.
    assert sorted(row["all"] for row in rows) == [[1, 2], [3, 0], [5]]


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda s: s.window(CountWindow.of(0, "ts")).count(), "counts 1 to"),
        (lambda s: s.window(CountWindow.of(True, "ts")).count(), "counts 1 to"),
        (lambda s: s.window(THREE, emit="on_record").count(), "not more than once"),
        (lambda s: s.window(THREE).count().emit_before(Time.seconds(1)), "not more than once"),
        (lambda s: s.window(THREE).count().to_data_stream().window(
            TumblingWindow.of(Time.minutes(1), "end_time"), name="w").count(), "would not know when its rows come"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(made, told):
    stream = StreamBuilder.data_stream("test", "refused").from_file("in.jsonl", schema=SCHEMA)
    with pytest.raises(TopologyError, match=told):
        made(stream).to_data_stream().to_print().build()

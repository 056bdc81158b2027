"""Sliding windows against the plain model, as Kafka Streams has them: one ends with each row, one is behind."""

import json
from collections import defaultdict
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets import MemoryChannel, SlidingWindow, StreamBuilder, Time
from rs_assets.errors import ConfigurationError, TopologyError
from rs_assets.operators.state.snapshot import state_at
from rs_assets.runtime.upkeep.state import preview, snapshot_state, state_path
from tests.operators.driving import cut, driven
from tests.operators.model import at, closed

SCHEMA = "key string, v bigint, ts timestamp"
TEN = SlidingWindow.of(Time.seconds(10), "ts")
TICK, SIZE, DELAY = timedelta(microseconds=1), timedelta(seconds=10), 15


def sliding(stream, *groups):
    window = stream.window(TEN, name="sliding").group_by(*groups).count("n").sum("v").collect("v", "all")
    return window.water_mark(Time.seconds(DELAY)).to_data_stream()


def expected(batches, *, key):
    """The values in each window, by group, start and end, and how many rows were late."""
    groups, late = defaultdict(list), 0
    for rows, closed_to in closed(batches, delay=DELAY):
        late += sum(row["ts"] <= closed_to for row in rows)
        for row in rows:
            if row["ts"] > closed_to:
                groups[row[key] if key else None].append((row["ts"], row["v"]))
    made = {}
    for group, rows in groups.items():
        for start in {start for ts, _ in rows for start in (ts - SIZE, ts + TICK)}:
            within = sorted(row for row in rows if start <= row[0] <= start + SIZE)
            if within:
                made[group, start, start + SIZE] = [v for _, v in within]
    return made, late


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), key=st.sampled_from(["key", None]))
def test_should_slide_over_the_rows_of_a_group(driver, data, key):
    events = data.draw(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), min_size=8, max_size=24))
    rows = [{"key": k, "v": n, "ts": at(s)} for n, (k, s) in enumerate(events)]
    batches = cut(data, rows, least=1, most=3)
    stream = StreamBuilder.data_stream("test", "sliding").from_file("in.jsonl", schema=SCHEMA)
    stream = sliding(stream, *([key] if key else [])).to_print(name="out")
    made, late = expected(batches, key=key)
    with driven(stream.build(), driver, batches, restart=lambda: data.draw(st.booleans())) as (running, found):
        rows = running.take("out")
    assert all((row["n"], row["v"]) == (len(row["all"]), sum(row["all"])) for row in rows)
    assert all(row["fire_time"] == row["end_time"] + timedelta(seconds=DELAY) for row in rows)
    told = {(row.get("key"), row["start_time"], row["end_time"]): row["all"] for row in rows}
    assert (told, len(rows)) == (made, len(made))
    assert found == late


def test_the_state_is_rows_and_the_windows_of_them_are_not_there_yet(options):
    channel = MemoryChannel(schema=SCHEMA)
    job = sliding(StreamBuilder.data_stream("test", "kept").from_memory(channel), "key").to_delta("kept").build()
    channel.put({"key": "a", "v": 1, "ts": at(0)}, {"key": "a", "v": 2, "ts": at(30)})
    job.run(options)
    # The watermark is at 15, so the first row is in no window any more.
    [taken] = snapshot_state(job.topology, options)
    (kept,) = state_at(state_path(job.topology, "sliding", options.home)).to_pylist()
    assert taken.rows == 1
    (row,) = json.loads(kept["value"])["waiting"]
    assert 2 in row.values()
    with pytest.raises(ConfigurationError, match="no windows that close"):
        preview(job.topology, "sliding", options)


def test_a_difference_that_is_none_is_refused():
    with pytest.raises(TopologyError, match="the difference of sliding windows"):
        SlidingWindow.of(Time.seconds(0), "ts")
    with pytest.raises(TopologyError, match="not more than once"):
        StreamBuilder.data_stream("test", "refused").from_file("in.jsonl", schema=SCHEMA).window(
            TEN, emit="on_record"
        ).count().to_data_stream()

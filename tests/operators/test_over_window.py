"""Windows of OVER against the plain model: each row once, with the rows of its group before it in event time."""

import json
from collections import defaultdict
from datetime import timedelta

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets import MemoryChannel, OverWindow, StreamBuilder, Time
from rs_assets.errors import ConfigurationError, TopologyError
from rs_assets.operators.state.snapshot import state_at
from rs_assets.runtime.upkeep.state import preview, snapshot_state, state_path
from tests.operators.driving import cut, driven
from tests.operators.model import START, at

SCHEMA = "key string, v bigint, tag string, ts timestamp"
KEEP = ["v", "tag"]
DELAY = 15
WINDOWS = {
    "two": OverWindow.rows(2, "ts", keep=KEEP),
    "alone": OverWindow.rows(0, "ts", keep=KEEP),
    "counted": OverWindow.rows(None, "ts", keep=KEEP),
    "ten": OverWindow.range(Time.seconds(10), "ts", keep=KEEP),
    "same": OverWindow.range(Time.seconds(0), "ts", keep=KEEP),
    "until": OverWindow.range(None, "ts", keep=KEEP),
}


def over(stream, name, *groups):
    window = stream.window(WINDOWS[name], name=name).group_by(*groups).count("n").sum("v", "total").collect("v", "all")
    window = window.aggregate(first="first(v)", last="last(v)", most="max(concat(tag, v))")
    return window.water_mark(Time.seconds(DELAY)).to_data_stream()


def accepted(batches):
    """The rows that are not late, and how many are: Spark's watermark is in whole milliseconds."""
    taken, late, closed = [], 0, START - timedelta(days=1)
    for rows in batches:
        taken += [row for row in rows if row["ts"] > closed]
        late += sum(row["ts"] <= closed for row in rows)
        for row in rows:
            whole = row["ts"] - timedelta(microseconds=row["ts"].microsecond % 1000)
            closed = max(closed, whole - timedelta(seconds=DELAY))
    return taken, late


def least(value):
    """Nulls come before all values."""
    return (value is not None, value if value is not None else 0)


def within(window, rows, place):
    """The rows of the window of one of `rows`, which stand in their order."""
    if not window.peers:
        return rows[0 if window.before is None else max(0, place - window.before) : place + 1]
    since = START - timedelta(days=1) if window.within is None else rows[place]["ts"] - window.within
    return [row for row in rows if since <= row["ts"] <= rows[place]["ts"]]


def expected(rows, window, key):
    groups = defaultdict(list)
    for row in rows:
        groups[row[key] if key else None].append(row)
    for group, found in groups.items():
        found.sort(key=lambda row: (row["ts"], least(row["v"]), least(row["tag"]) if row["tag"] else (False, "")))
        for place, row in enumerate(found):
            of = within(window, found, place)
            values = [each["v"] for each in of if each["v"] is not None]
            texts = [f"{each['tag']}{each['v']}" for each in of if None not in (each["tag"], each["v"])]
            yield (
                *(group, row["ts"], row["v"], row["tag"], of[0]["ts"], len(of), sum(values) if values else None),
                *(values, of[0]["v"], of[-1]["v"], max(texts, default=None)),
            )


def told(row, key):
    names = ("end_time", "v", "tag", "start_time", "n", "total", "all", "first", "last", "most")
    return (row[key] if key else None, *(row[name] for name in names))


EVENTS = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.sampled_from([*range(0, 60, 2), 7.0005, 7.000501, 8.0000005]),
    st.sampled_from([None, *range(4)]),
    st.sampled_from([None, "x", ""]),
)


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), key=st.sampled_from(["key", None]))
def test_should_tell_each_row_once_with_the_rows_before_it(driver, data, key):
    events = data.draw(st.lists(EVENTS, min_size=8, max_size=30))
    rows = [{"key": k, "v": v, "tag": tag, "ts": at(s)} for k, s, v, tag in events]
    batches = cut(data, rows, least=1, most=3)
    built = stream = StreamBuilder.data_stream("test", "over").from_file("in.jsonl", schema=SCHEMA)
    names = data.draw(st.permutations(sorted(WINDOWS)))[:3]
    for name in names:
        built = over(stream, name, *([key] if key else [])).to_print(name=f"{name}_out")
    taken, late = accepted(batches)
    with driven(built.build(), driver, batches, restart=lambda: data.draw(st.booleans())) as (running, found):
        for name in names:
            window, rows = WINDOWS[name], running.take(f"{name}_out")
            assert all(row["fire_time"] == row["end_time"] + timedelta(seconds=DELAY) for row in rows)
            made = sorted((told(row, key) for row in rows), key=str)
            assert made == sorted(expected(taken, window, key), key=str), name
    assert found == late * len(names)


def test_a_running_sum_goes_on_behind_a_restart_and_keeps_no_rows(options):
    channel = MemoryChannel(schema=SCHEMA)
    stream = over(StreamBuilder.data_stream("test", "sums").from_memory(channel), "counted", "key")
    job = stream.to_delta("sums").build()
    channel.put(*({"key": "a", "v": n, "tag": "x", "ts": at(10 * n)} for n in range(5)))
    job.run(options)
    # The watermark is at 25: three rows are told, two wait.
    snapshot_state(job.topology, options)
    (kept,) = state_at(state_path(job.topology, "counted", options.home)).to_pylist()
    state = json.loads(kept["value"])
    assert (state["total"], state["before"], len(state["waiting"])) == (3, [], 2)
    with pytest.raises(ConfigurationError, match="no windows that close") as refused:
        preview(job.topology, "counted", options)
    assert refused.value.remedy.startswith("read its output")
    channel.put({"key": "a", "v": 9, "tag": "x", "ts": at(90)})
    job.run(options, finish=True)
    rows = DeltaTable(options.home.table("test", "sums")).to_pyarrow_table().to_pylist()
    assert sorted((row["v"], row["n"], row["total"]) for row in rows) == [
        *((0, 1, 0), (1, 2, 1), (2, 3, 3), (3, 4, 6), (4, 5, 10), (9, 6, 19)),
    ]


def test_rows_that_no_window_needs_leave_the_state(options):
    channel = MemoryChannel(schema=SCHEMA)
    stream = over(StreamBuilder.data_stream("test", "gone").from_memory(channel), "ten", "key")
    job = stream.to_delta("gone").build()
    channel.put(*({"key": k, "v": 1, "tag": "x", "ts": at(s)} for k, s in (("a", 0), ("b", 30), ("b", 90))))
    job.run(options)
    snapshot_state(job.topology, options)
    kept = state_at(state_path(job.topology, "ten", options.home)).to_pylist()
    assert [json.loads(row["key"])["key"] for row in kept] == ["b"]


@pytest.mark.parametrize(
    ("made", "what"),
    [
        (lambda: OverWindow.rows(-1, "ts", keep=KEEP), "0 to 1,000,000 rows before"),
        (lambda: OverWindow.range(Time.seconds(-1), "ts", keep=KEEP), "the range of a window"),
        (lambda: OverWindow.rows(1, "ts", keep=[]), "keeps no field"),
    ],
)
def test_what_is_no_window_is_refused(made, what):
    with pytest.raises(TopologyError, match=what):
        made()


def test_a_map_orders_no_rows(options):
    rows = [{"v": 1, "tags": {"a": "b"}, "ts": at(0)}]
    stream = StreamBuilder.data_stream("test", "maps").from_array(
        rows, schema="v int, tags map<string, string>, ts timestamp"
    )
    window = stream.window(OverWindow.rows(1, "ts", keep=["tags"])).count("n").to_data_stream()
    with pytest.raises(TopologyError, match="has no order"):
        window.to_print().build().run(options)

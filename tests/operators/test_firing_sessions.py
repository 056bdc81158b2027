"""Sessions that fire more than once, against the plain model: each takes back what it told before it tells another."""

from collections import Counter
from datetime import timedelta
from itertools import pairwise

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets import MemoryChannel, SessionWindow, StreamBuilder, Time
from rs_assets.errors import TopologyError
from rs_assets.runtime.upkeep.state import preview
from rs_assets.testing import PipelineDriver
from tests.operators.driving import fired, of_each
from tests.operators.firing_model import GAP, Policy, Sessions
from tests.operators.model import at, second, sessions

SCHEMA = "key string, v bigint, ts timestamp"
GAPS = SessionWindow.of(Time.seconds(GAP), "ts")
POLICIES = {
    "updates": Policy(emit="on_window_update"),
    "both": Policy(emit="on_update_and_close"),
    "records": Policy(emit="on_record"),
    "around": Policy(before=3, after=10, hold=20, water_mark=3),
    "totals": Policy(late="totals", water_mark=12),
    "suppressed": Policy(limit=4),
}


def windows(stream, name, policy, window=GAPS):
    window = stream.window(window, name=name, emit=policy.emit).group_by("key").count("n").sum("v").collect("v", "all")
    # Of each kind of function that Spark merges in a way of its own.
    window = window.aggregate(p50="percentile_approx(v, 0.5)", spread="stddev(v)", last="max_by(v, v)")
    return fired(window, policy)


def pipeline(policies):
    return of_each(policies, windows, job="sessions", schema=SCHEMA)


def seen(rows, policy):
    """Rows of an operator in the form of the model; the time of an update is that of the driver's clock."""
    found = []
    for row in rows:
        values = sorted(row["all"])
        assert (row["n"], row["v"], row["last"]) == (len(values), sum(values), values[-1])
        assert row["p50"] == values[(len(values) - 1) // 2]
        timed = policy.emit == "on_window_close" or row["retracted"] or row.get("final")
        place = (row["key"], second(row["start_time"]), second(row["end_time"]))
        fire_time = second(row["fire_time"]) if timed else None
        found.append((*place, row["n"], fire_time, row.get("final", False), row["retracted"]))
    return found


def plain(told, policy):
    """Without the time of a row that takes another back where that is the clock's; of records what they add up to."""
    if policy.emit == "on_record":
        net = Counter()
        for *row, _, _, retracted in told:
            net[tuple(row)] += -1 if retracted else 1
        return {row: n for row, n in net.items() if n}
    timeless = policy.emit != "on_window_close"
    return Counter((*row[:4], None if timeless and not row[5] else row[4], *row[5:]) for row in told)


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    events=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 70)), min_size=8, max_size=24),
    cuts=st.sets(st.integers(1, 23), min_size=1, max_size=3),
    restarts=st.sets(st.integers(0, 3), max_size=1),
    names=st.permutations(sorted(POLICIES)).map(lambda names: names[:4]),
)
def test_should_tell_and_take_back_as_the_model_does(driver, events, cuts, restarts, names):
    # Time goes on from row to row, in disorder by up to 70 seconds.
    events = [(key, number * 2 + offset) for number, (key, offset) in enumerate(events)]
    edges = [0, *sorted(cut for cut in cuts if cut < len(events)), len(events)]
    policies = {name: POLICIES[name] for name in names}
    model = {name: Sessions(policy) for name, policy in policies.items()}
    late = dict.fromkeys(names, 0)
    with PipelineDriver(pipeline(policies), spark=driver) as running:

        def compare(told):
            for name, policy in policies.items():
                found = seen(running.take(f"{name}_out"), policy)
                assert plain(found, policy) == plain(told(model[name]), policy), name

        def count_late():
            for query in running.report().queries:
                late[query.query] += query.rows_late

        for number, (first, last) in enumerate(pairwise(edges)):
            batch = events[first:last]
            running.push([{"key": key, "v": s, "ts": at(s)} for key, s in batch])
            running.step()
            compare(lambda sessions, batch=batch: sessions.batch(batch))
            if number in restarts:
                count_late()
                running.restart()
        running.finish()
        compare(lambda sessions: sessions.finish())
        count_late()
    assert late == {name: sessions.late for name, sessions in model.items()}


@pytest.mark.long
@pytest.mark.parametrize(("connector", "keys"), [("native", "start_time"), ("jvm", "end_time")])
def test_a_table_holds_the_sessions_as_they_stand(options, connector, keys):
    channel = MemoryChannel(schema=SCHEMA)
    stream = StreamBuilder.data_stream("test", "live").from_memory(channel)
    stream = windows(stream, "live", Policy(emit="on_window_update", water_mark=60))
    job = stream.to_delta("live", mode="upsert", keys=["key", keys], deletes="retracted", connector=connector).build()
    rows = []
    for seconds in ([0, 8, 30], [16, 24], [4], [12, 20]):
        batch = [{"key": "a", "v": s, "ts": at(s)} for s in seconds]
        channel.put(*batch)
        job.run(options)
        rows += batch
        table = DeltaTable(options.home.table("test", "live")).to_pyarrow_table().to_pylist()
        expected = {(start, end, len(of)) for (_, start, end), of in sessions(rows, gap=GAP).items()}
        assert {(row["start_time"], row["end_time"], row["n"]) for row in table} == expected
        assert len(table) == len(expected)
        open_now = preview(job.topology, "live", options).to_pylist()
        assert {(row["start_time"], row["end_time"], row["n"]) for row in open_now} == expected
    assert len(expected) == 2


def test_sessions_of_the_whole_stream_by_microseconds(driver):
    stream = StreamBuilder.data_stream("test", "whole").from_file("in.jsonl", schema="v bigint, ts timestamp")
    window = stream.window(GAPS, name="w", emit="on_update_and_close").top_n(1, by="v").to_data_stream()
    tick = timedelta(microseconds=1)
    times = [at(0), at(GAP), at(2 * GAP) + tick, at(30)]
    with PipelineDriver(window.to_print(name="out").build(), spark=driver) as running:
        running.push([{"v": n, "ts": time} for n, time in enumerate(times)])
        running.step()
        running.finish()
        rows = [row for row in running.take("out") if row["final"]]
    ends = [(at(0), at(2 * GAP)), (at(2 * GAP) + tick, at(3 * GAP) + tick), (at(30), at(30 + GAP))]
    assert sorted((row["start_time"], row["end_time"], row["v"], row["rank"]) for row in rows) == [
        (*place, v, 1) for place, v in zip(ends, (1, 2, 3), strict=True)
    ]


@pytest.mark.parametrize("emit", ["on_record", "on_window_update", "on_update_and_close"])
def test_an_upsert_should_have_the_sessions_of_each_batch(driver, emit):
    """Sessions that begin earlier, or in another one, after a record of the same batch."""
    stream = StreamBuilder.data_stream("test", "upserted").from_file("in.jsonl", schema=SCHEMA)
    window = stream.window(GAPS, name="w", emit=emit).group_by("key").count("n").sum("v")
    window = window.water_mark(Time.seconds(500)).to_data_stream()
    batches, have, fed = [[20, 16, 40], [12, 8], [30, 60, 57, 25, 35], [4, 64, 0, 49, 45]], {}, []
    with PipelineDriver(window.to_print(name="out").build(), spark=driver) as running:
        for batch in batches:
            running.push([{"key": "a", "v": second, "ts": at(second)} for second in batch])
            running.step()
            # As sinks do: of a row and its retraction in one batch the row is the newer one.
            for row in sorted(running.take("out"), key=lambda row: not row["retracted"]):
                have.pop(row["start_time"], None)
                if not row["retracted"]:
                    have[row["start_time"]] = (row["end_time"], row["n"], row["v"])
            fed = sorted([*fed, *batch])
            parts = []
            for second in fed:
                if not parts or second - parts[-1][-1] > GAP:
                    parts.append([])
                parts[-1].append(second)
            assert have == {at(part[0]): (at(part[-1] + GAP), len(part), sum(part)) for part in parts}


def test_sessions_of_one_group_share_no_values(driver):
    stream = StreamBuilder.data_stream("test", "apart").from_file("in.jsonl", schema=SCHEMA)
    window = stream.window(GAPS, name="w", emit="on_update_and_close").group_by("key").distinct("v")
    window = window.aggregate(all="sort_array(collect_list(v))").water_mark(Time.seconds(60)).to_data_stream()
    # Lists of two numbers are as long as the bytes in which Spark writes a list at first.
    values = {start: [start, start + 1] for start in (0, 20, 40)}
    with PipelineDriver(window.to_print(name="out").build(), spark=driver) as running:
        running.push([{"key": "a", "v": v, "ts": at(start)} for start, each in values.items() for v in each])
        running.step()
        running.finish()
        rows = running.take("out")
    for told in (False, True):
        found = {second(row["start_time"]): row for row in rows if row["final"] == told and not row["retracted"]}
        assert {start: row["v"] for start, row in found.items()} == values
        assert {start: row["all"] for start, row in found.items()} == values


RECORDS = {"emit": "on_record", "name": "w"}


def upserted(stream):
    return stream.to_delta("t", mode="upsert", keys=["start_time"], deletes="retracted")


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda s: s.window(GAPS).count().late_firings("deltas").to_print(), "sessions merge"),
        (
            lambda s: s.window(GAPS, **RECORDS).count().to_delta("t", mode="upsert", keys=["start_time"]),
            "deletes='retracted'",
        ),
        (
            lambda s: (
                s.window(GAPS, **RECORDS)
                .count()
                .with_fields(twice="count * 2")
                .to_delta("t", mode="upsert", keys=["start_time"])
            ),
            "deletes='retracted'",
        ),
        (
            lambda s: (
                s.window(GAPS, **RECORDS).count().to_delta("t", mode="upsert", keys=["end_time"], deletes="retracted")
            ),
            r"keys=\['start_time'\]",
        ),
        (
            lambda s: s.to_delta("t", mode="upsert", keys=["key", "v"], deletes="v"),
            "is a key",
        ),
        (
            lambda s: s.to_delta("t", mode="upsert", keys=["key"], deletes="v"),
            "not a boolean",
        ),
        (
            lambda s: upserted(s.window(GAPS, **RECORDS).count().shuffle(2, strategy="memory")),
            "step 'shuffle_1' loses the order of the rows",
        ),
        (
            lambda s: upserted(
                s.window(GAPS, **RECORDS).count().shuffle(2, strategy="memory").map("start_time, count")
            ),
            "put the shuffle before that window",
        ),
        (lambda s: s.window(GAPS, **RECORDS).count("retracted").to_print(), "two columns"),
        (lambda s: s.to_delta("t", deletes="v"), "belongs to mode='upsert'"),
    ],
)
def test_what_cannot_be_is_refused(made, told):
    with pytest.raises(TopologyError, match=told):
        made(StreamBuilder.data_stream("test", "refused").from_file("in.jsonl", schema=SCHEMA)).build()

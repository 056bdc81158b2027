"""Windows that fire more than once, against the plain model."""

from datetime import date
from decimal import Decimal
from itertools import pairwise

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets import HoppingWindow, MemoryChannel, StreamBuilder, Time, TumblingWindow
from rs_assets.errors import TopologyError
from rs_assets.testing import PipelineDriver
from tests.operators.driving import fired, of_each
from tests.operators.firing_model import SIZE, SLIDE, Policy, Windows
from tests.operators.model import at, second

SCHEMA = "key string, v bigint, ts timestamp"
TEN = TumblingWindow.of(Time.seconds(10), "ts")
HOPS = HoppingWindow.of(Time.seconds(SIZE), Time.seconds(SLIDE), "ts")
POLICIES = {
    "before": Policy(before=3),
    "after": Policy(after=4, hold=15),
    "around": Policy(before=7, after=10, hold=20, water_mark=3),
    "deltas": Policy(late="deltas", water_mark=12),
    "totals": Policy(late="totals", water_mark=12),
    "suppressed": Policy(limit=4),
    "records": Policy(emit="on_record"),
    "both": Policy(emit="on_update_and_close"),
}


def windows(stream, name, policy):
    window = stream.window(HOPS, name=name, emit=policy.emit).group_by("key").count("n").sum("v").collect("v", "all")
    return fired(window, policy)


def pipeline(policies):
    return of_each(policies, windows, job="firing", schema=SCHEMA)


def seen(rows, policy):
    """Rows of an operator in the form of the model; the time of an update is that of the driver's clock."""
    timed = policy.emit == "on_window_close"
    found = []
    for row in rows:
        assert (row["n"], row["v"]) == (len(row["all"]), sum(row["all"]))
        told = timed or row.get("final")
        fire_time = second(row["fire_time"]) if told else None
        found.append((row["key"], second(row["start_time"]), row["n"], fire_time, row.get("final")))
    return sorted(found, key=str)


def expected(told, policy):
    deltas = policy.late == "deltas"
    return sorted([(*row[:4], None if deltas else row[4]) for row in told], key=str)


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    events=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 70)), min_size=6, max_size=24),
    cuts=st.sets(st.integers(1, 23), min_size=1, max_size=3),
    restarts=st.sets(st.integers(0, 3), max_size=1),
    names=st.permutations(sorted(POLICIES)).map(lambda names: names[:4]),
)
def test_should_fire_as_the_model_does(driver, events, cuts, restarts, names):
    # Time goes on from row to row, in disorder by up to 70 seconds.
    events = [(key, number * 2 + offset) for number, (key, offset) in enumerate(events)]
    edges = [0, *sorted(cut for cut in cuts if cut < len(events)), len(events)]
    batches = [events[first:last] for first, last in pairwise(edges)]
    policies = {name: POLICIES[name] for name in names}
    model = {name: Windows(policy) for name, policy in policies.items()}
    late = dict.fromkeys(names, 0)
    with PipelineDriver(pipeline(policies), spark=driver) as running:

        def count_late():
            for query in running.report().queries:
                late[query.query] += query.rows_late

        for number, batch in enumerate(batches):
            running.push([{"key": key, "v": s, "ts": at(s)} for key, s in batch])
            running.step()
            for name, policy in policies.items():
                assert seen(running.take(f"{name}_out"), policy) == expected(model[name].batch(batch), policy), name
            if number in restarts:
                count_late()
                running.restart()
        running.finish()
        for name, policy in policies.items():
            assert seen(running.take(f"{name}_out"), policy) == expected(model[name].finish(), policy), name
        count_late()
        assert {query.rows_open for query in running.report().queries} == {0}
    assert late == {name: windows.late for name, windows in model.items()}


def test_the_last_rows_are_what_windows_that_fire_once_give(driver):
    rows = [{"key": "ab"[n % 2], "v": n, "ts": at(n * 7 % 60)} for n in range(60)]
    policies = {"once": Policy(), **{name: POLICIES[name] for name in ("around", "deltas", "totals")}}
    # One water mark for all: rows would be late for some of them otherwise.
    patient = {name: Policy(**vars(policy) | {"water_mark": 60}) for name, policy in policies.items()}
    with PipelineDriver(pipeline(patient), spark=driver) as running:
        for first in range(0, 60, 20):
            running.push(rows[first : first + 20])
            running.step()
        running.finish()
        told = {name: running.take(f"{name}_out") for name in patient}

    def groups(found):
        return sorted((row["key"], row["start_time"], row["n"], row["v"], row["all"]) for row in found)

    once = groups(told["once"])
    assert groups(row for row in told["around"] if row["final"]) == once
    assert groups(row for row in told["totals"] if row["final"]) == once
    assert len(told["deltas"]) > len(once)
    for key, start, n, v, _ in once:
        parts = [row for row in told["deltas"] if (row["key"], row["start_time"]) == (key, start)]
        assert (sum(row["n"] for row in parts), sum(row["v"] for row in parts)) == (n, v)


def test_deltas_are_not_taken_for_one_another():
    stream = StreamBuilder.data_stream("test", "deltas").from_file("in.jsonl", schema=SCHEMA)
    deltas = stream.window(TEN).group_by("key").count("n").late_firings("deltas").to_data_stream()
    with pytest.raises(TopologyError, match=r"(?s)do not distinguish the windows.*'key', 'start_time', 'fire_time'"):
        deltas.to_delta("sums", mode="upsert", keys=["key", "start_time"]).build()


def test_an_interval_is_refused(driver):
    stream = StreamBuilder.data_stream("test", "intervals").from_file("in.jsonl", schema="a timestamp, ts timestamp")
    lengths = stream.with_fields(length="ts - a").window(TEN, emit="on_record").max("length").to_data_stream()
    with (
        pytest.raises(TopologyError, match="'length' is an interval"),
        PipelineDriver(lengths.to_print().build(), spark=driver),
    ):
        pass


def test_names_that_state_cannot_have_are_those_of_rows_all_the_same(options):
    """Spark writes the schema of state in a form that knows few letters, and no name twice."""
    channel = MemoryChannel(schema="`window` string, `sé x` string, value double, ts timestamp")
    stream = StreamBuilder.data_stream("test", "names").from_memory(channel)
    window = stream.window(TEN, emit="on_update_and_close").group_by("window", "sé x").sum("value", "a_sum")
    window = window.avg("value", "a").count("fire_at").count("größe")
    job = window.water_mark(Time.minutes(1)).to_data_stream().to_delta("names").build()
    channel.put({"window": "w", "sé x": "q", "value": 2.0, "ts": at(1)})
    job.run(options)
    (row,) = job.state("window", options).to_pylist()
    told = {"window": "w", "sé x": "q", "a_sum": 2.0, "a": 2.0, "fire_at": 1, "größe": 1}
    assert {name: row[name] for name in told} == told
    job.run(options, finish=True)
    final = [r for r in DeltaTable(options.home.table("test", "names")).to_pyarrow_table().to_pylist() if r["final"]]
    assert [{name: row[name] for name in told} for row in final] == [told]


def test_keys_and_values_of_many_types_are_those_of_windows_that_fire_once(driver):
    schema = "id int, key double, d decimal(12,3), t timestamp, day date, b binary, s string, a array<string>"
    fields = ["d", "t", "day", "b", "s", "a"]
    stream = StreamBuilder.data_stream("test", "types").from_file("in.jsonl", schema=f"{schema}, ts timestamp")

    def sums(name, emit):
        window = stream.window(HOPS, name=name, emit=emit).group_by("key").count("n").sum("d", "sum").avg("d", "mean")
        for field in fields:
            window = window.min(field, f"min_{field}").collect(field, f"all_{field}")
        window = window.aggregate(part="sum(d) filter (where id > 3)", last="max_by(s, struct(id, s))")
        window = window.aggregate(spread="stddev(id)", some="nullif(sum(id), 8)", slope="regr_slope(id, d)")
        window = window.aggregate(between="sum(case when id between 3 and 9 then 1 else 0 end)")
        window = window.aggregate(sketch="theta_sketch_estimate(theta_sketch_agg(id))")
        return window.water_mark(Time.seconds(60)).to_data_stream().to_print(name=f"{name}_out")

    sums("once", "on_window_close")
    job = sums("often", "on_update_and_close").build()
    keys = [0.0, -0.0, float("nan"), None, 1.5]
    rows = [
        {"id": n, "key": keys[n % 5], "d": Decimal(n) / 8 if n % 4 else None, "t": at(n / 3),
         "day": date(1582, 10, 10) if n == 7 else at(n * 9999).date(), "b": bytes([n, 255]), "s": f"ß{n}",
         "a": [f"{n}", None] if n % 3 else None, "ts": at(n)}
        for n in range(40)
    ]  # fmt: skip
    with PipelineDriver(job, spark=driver) as running:
        for first in (0, 20):
            running.push(rows[first : first + 20])
            running.step()
            running.restart()
        running.take("often_out")
        running.finish()
        once, often = running.take("once_out"), [row for row in running.take("often_out") if row.pop("final")]
    assert sorted(map(repr, often)) == sorted(map(repr, once))
    assert len({repr(row["key"]) for row in once}) == 4


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda s: s.window(TEN).count().late_firings("deltas").suppress(Time.seconds(1)), "in all of these ways"),
        (lambda s: s.window(TEN, emit="on_record").count().emit_before(Time.seconds(1)), "in all of these ways"),
        (lambda s: s.window(TEN).count().emit_before(Time.seconds(-1)), "must be at least"),
        (lambda s: s.window(TEN).count().late_firings("some"), "'deltas', 'totals'"),
        (lambda s: s.window(TEN).count("final").emit_before(Time.seconds(1)), "two columns called final"),
        (
            lambda s: s.window(TEN).count().late_firings("totals").to_data_stream().window(TEN, name="w").count(),
            "would count each update",
        ),
        (
            lambda s: (
                s.window(TEN)
                .count()
                .late_firings("deltas")
                .to_data_stream()
                .window(TumblingWindow.of(Time.minutes(1), "end_time"), name="w")
                .count()
            ),
            "several rows of a window",
        ),
    ],
)
def test_what_cannot_be_is_refused(made, told):
    with pytest.raises(TopologyError, match=told):
        made(
            StreamBuilder.data_stream("test", "refused").from_file("in.jsonl", schema=SCHEMA)
        ).to_data_stream().to_print().build()

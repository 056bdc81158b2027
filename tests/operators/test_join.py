"""Joins of two streams against the reference model and against DuckDB."""

from collections import Counter
from dataclasses import replace
from itertools import count, zip_longest
from threading import Event

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from rs_assets import HoppingWindow, Interval, StreamBuilder, Time, TumblingWindow, column
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.errors import TopologyError
from rs_assets.testing import PipelineDriver
from tests.operators.join_model import Joined
from tests.operators.model import at

LEFT, RIGHT = "k string, v bigint, ts timestamp", "k string, w bigint, ts timestamp"
KINDS = ["inner", "left", "right", "full", "semi", "anti"]
BOUNDS = {
    "around": Time.seconds(4),
    "after": Interval.of(before=Time.seconds(2), after=Time.seconds(7)),
    "later": Interval.of(before=Time.seconds(-2), after=Time.seconds(6)),
    "equal": Time.seconds(0),
    "tumbling": TumblingWindow.of(Time.seconds(10)),
    "hopping": HoppingWindow.of(Time.seconds(10), Time.seconds(5)),
}
CONDITION = "(left.v + right.w) % 3 <> 0"
KEYS = ["a", "b", "c", "", None]


def holds(left, right):
    return (left["v"] + right["w"]) % 3 != 0


def sides(job="join", policy="skip"):
    source = StreamBuilder.data_stream("test", job)
    return [
        source.from_file(f"{name}.jsonl", schema=schema, name=name, bad_records=policy)
        for name, schema in (("one", LEFT), ("two", RIGHT))
    ]


def joined(left, right, how, bound, *, condition=False, name="join", **settings):
    prefix = {} if how in {"semi", "anti"} else {"prefix": "r_"}
    settings = {"condition": CONDITION} | settings if condition else settings
    return left.join(right, on="k", within=bound, how=how, time_field="ts", name=name, **prefix, **settings)


def found(rows):
    """Rows of a join as (v, w, start of the window)."""
    return Counter((row["v"], row.get("r_w"), row.get("start_time")) for row in rows)


def told(made):
    """The same of the model's rows."""
    return Counter((left and left["v"], right and right["w"], place) for left, right, place in made)


@st.composite
def inputs(draw, value):
    """Rows of one side in an order of their own, cut into some batches; of 25 one lacks its time."""
    seconds = draw(st.lists(st.integers(0, 40), min_size=25, max_size=25))
    keys = draw(st.lists(st.sampled_from(KEYS), min_size=25, max_size=25))
    rows = [{"k": k, value: n, "ts": at(s)} for n, (k, s) in enumerate(zip(keys, seconds, strict=True))]
    if draw(st.booleans()):
        rows.sort(key=lambda row: row["ts"])
    rows[draw(st.integers(0, 24))]["ts"] = None
    cuts = sorted(draw(st.sets(st.integers(1, 24), min_size=1, max_size=2)))
    return [rows[a:b] for a, b in zip([0, *cuts], [*cuts, 25], strict=True)]


@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_should_equal_the_model_under_any_cut_with_late_rows_and_restarts(driver, data):
    how, bound = data.draw(st.sampled_from(KINDS)), data.draw(st.sampled_from(list(BOUNDS.values())))
    condition, delays = data.draw(st.booleans()), data.draw(st.sampled_from([(0, 0), (12, 3)]))
    batches = list(zip_longest(data.draw(inputs("v")), data.draw(inputs("w")), fillvalue=[]))
    restarts = data.draw(st.sets(st.sampled_from(range(len(batches)))))
    late = dead = 0
    marks = tuple(map(Time.seconds, delays))
    stream = joined(*sides(), how, bound, condition=condition, water_mark=marks)
    with PipelineDriver(stream.to_print().build(), spark=driver) as running:
        for number, (left, right) in enumerate(batches):
            running.push(left, "one")
            running.push(right, "two")
            running.step()
            if number in restarts:
                late, dead = late + running.report().rows_late, dead + running.report().rows_dead
                running.restart()
        running.finish()
        report, taken = running.report(), running.take()
    model = Joined(bound, how, condition=holds if condition else None)
    kept, were_late, were_dead = model.accepted(batches, delays, restarts)
    assert (late + report.rows_late, dead + report.rows_dead, report.rows_open) == (were_late, were_dead, 0)
    assert found(taken) == told(model.rows(kept))


# Each bound as SQL; the windows of a row are rows of their own there.
AS_SQL = {
    "around": "abs(epoch(r.ts) - epoch(l.ts)) <= 4",
    "after": "epoch(r.ts) - epoch(l.ts) between -2 and 7",
    "later": "epoch(r.ts) - epoch(l.ts) between 2 and 6",
    "equal": "r.ts = l.ts",
    "tumbling": "l.start = r.start",
    "hopping": "l.start = r.start",
}
SPARKS = {"semi": "semi", "anti": "anti", "inner": "inner", "left": "left", "right": "right", "full": "full outer"}
ALWAYS = ["after"]


# Six kinds of joins, each with runs of its own: on a busy machine the usual time is not enough.
@pytest.mark.timeout(900)
@pytest.mark.parametrize("processor", [False, True], ids=["spark", "processor"])
@pytest.mark.parametrize(
    "bound", [*ALWAYS, *(pytest.param(each, marks=pytest.mark.long) for each in BOUNDS if each not in ALWAYS)]
)
def test_each_kind_should_give_the_rows_of_duckdb(options, bound, processor):
    one = [{"k": KEYS[n * n % 5], "v": n, "ts": at(n * 17 % 60)} for n in range(60)]
    two = [{"k": KEYS[n * 3 % 5], "w": n, "ts": at(n * 23 % 60)} for n in range(60)]
    job = StreamBuilder.data_stream("test", "duck")
    left, right = job.from_array(one, name="one", schema=LEFT), job.from_array(two, name="two", schema=RIGHT)
    channels = {how: MemoryChannel() for how in KINDS}
    for how in KINDS:
        marks = {"water_mark": Time.minutes(1), "processor": processor}
        stream = joined(left, right, how, BOUNDS[bound], condition=True, name=how, **marks)
        stream.to_memory(channels[how], name=f"{how}_rows")
    report = stream.build().run(options)
    assert (report.rows_late, report.rows_open) == (0, 0)
    for how, channel in channels.items():
        assert found(channel.take()) == by_duckdb(one, two, how, bound), how


def by_duckdb(one, two, how, bound):
    database = duckdb.connect()
    database.execute("set timezone='UTC'")
    size, slide = {"tumbling": (10, 10), "hopping": (10, 5)}.get(bound, (1, 1))
    for name, rows in (("one", one), ("two", two)):
        database.register(f"{name}_rows", pa.Table.from_pylist(rows))
        start = f"cast(floor(epoch(ts) / {slide}) as bigint) * {slide} - n * {slide}"
        database.execute(
            f"create table {name} as select *, {start} as start from {name}_rows, range({size // slide}) as t(n)"
        )
    place = "coalesce(l.start, r.start)" if size > 1 else "null"
    fields = f"l.v, r.w, {place}" if how not in {"semi", "anti"} else f"l.v, null, {place.replace(', r.start', '')}"
    rows = database.execute(
        f"select {fields} from one l {SPARKS[how]} join two r on l.k = r.k and l.k <> '' and {AS_SQL[bound]}"
        " and (l.v + r.w) % 3 <> 0"
    ).fetchall()
    begin = int(at(0).timestamp())
    return Counter((v, w, None if start is None else at(start - begin)) for v, w, start in rows)


def test_a_silent_side_is_not_waited_for_longer_than_the_idle_timeout(options):
    """The left side moves on alone; what it has lost hope for comes out only once the right side is let go."""
    one, two, out = MemoryChannel(schema=LEFT), MemoryChannel(schema=RIGHT), MemoryChannel()
    job = StreamBuilder.data_stream("test", "silent")
    left, right = job.from_memory(one, name="one"), job.from_memory(two, name="two")
    pipeline = joined(left, right, "left", Time.seconds(5)).to_memory(out).build()
    two.put({"k": "a", "w": 0, "ts": at(0)})
    one.put({"k": "a", "v": 1, "ts": at(1)}, {"k": "b", "v": 2, "ts": at(2)})
    alone, numbers = Event(), count()

    def listen(batch):
        """Each batch brings about the next, of the left side only."""
        if any(row["v"] == 2 for row in out.rows()):
            alone.set()
        number = next(numbers)
        one.put({"k": "z", "v": 100 + number, "ts": at(60 + number)})

    quick = Time.milliseconds(300)
    with pipeline.start(replace(options, idle_timeout=quick, interval=Time.milliseconds(50), on_progress=listen)):
        assert alone.wait(100), "the silent side was waited for"
    assert {(1, 0), (2, None)} <= {(row["v"], row["r_w"]) for row in out.take()}


def test_quarantine_keeps_a_record_out_that_a_step_before_the_join_cannot_compute(driver):
    left, right = sides(policy="quarantine")
    stream = joined(
        left.with_fields(v="100 div v", name="shares"), right, "full", Time.seconds(5), water_mark=Time.minutes(1)
    )
    with PipelineDriver(stream.to_print().build(), spark=driver) as running:
        running.push([{"k": "a", "v": v, "ts": at(v)} for v in range(3)], "one")
        running.push([{"k": "a", "w": 7, "ts": at(3)}, {"k": "b", "w": 8, "ts": None}], "two")
        running.finish()
        assert sorted((row["v"], row["r_w"]) for row in running.take()) == [(50, 7), (100, 7)]
        report = running.report()
        assert (report.rows_in, report.rows_dead, report.rows_late) == (5, 2, 0)


WRONG = {
    "no": ("'a'", "cannot compare 'id', which is a int, with 'no', which is a string.*cast"),
    "x": ("'b'", "two fields called 'x', a double on the left and a string on the right.*prefix="),
    "ts": ("at", "two fields called 'ts', one of them the time of a side.*prefix="),
    "start_time": ("at", "two fields called 'start_time', one of them of the join's window.*within=Time.seconds"),
}


def two_kinds(out, change=None):
    job = StreamBuilder.data_stream("test", "kinds")
    one = job.from_array([{"id": 1, "x": 1.5, "ts": at(0)}], schema="id int, x double, ts timestamp", name="one")
    two = job.from_array([{"no": 1, "x": 2.5, "at": at(1)}], schema="no bigint, x double, at timestamp", name="two")
    # Of Columns nothing is known before Spark looks at them.
    two = two.with_fields(**{change: column(lambda: F.expr(WRONG[change][0]))}) if change else two
    bound = TumblingWindow.of(Time.seconds(10))
    return one.join(two, on={"id": "no"}, within=bound, time_field=("ts", "at"), how="left").to_memory(out).build()


def test_fields_of_the_right_side_take_the_place_of_those_of_the_left(options):
    out = MemoryChannel()
    two_kinds(out).run(options)
    place = {"start_time": at(0), "end_time": at(10)}
    assert out.take() == [{"id": 1, "x": 2.5, "ts": at(0), "no": 1, "at": at(1), **place}]


@pytest.mark.parametrize("change", WRONG)
def test_a_key_of_another_kind_and_a_field_of_two_meanings_are_refused(options, change):
    with pytest.raises(TopologyError, match=f"(?s){WRONG[change][1]}"):
        two_kinds(MemoryChannel(), change).run(options)


def test_without_a_bound_all_pairs_meet_and_what_stays_in_state_is_no_warning(options):
    job, out = StreamBuilder.data_stream("test", "unbounded"), MemoryChannel()
    one = job.from_array([{"k": KEYS[n % 5], "v": n} for n in range(10)], name="one")
    two = job.from_array([{"k": KEYS[n % 4], "w": n} for n in range(10)], name="two")
    stream = one.join(two, on="k", within=None, condition=CONDITION, prefix="r_").to_memory(out)
    report = stream.build().run(options)
    pairs = [(v, w) for v in range(10) for w in range(10) if KEYS[v % 5] == KEYS[w % 4] and KEYS[v % 5]]
    met = sorted((row["v"], row["r_w"]) for row in out.take())
    assert met == [pair for pair in pairs if sum(pair) % 3 != 0]
    assert (report.rows_late, report.warnings) == (0, ())
    assert report.rows_open == len([n for n in range(10) if KEYS[n % 5]] + [n for n in range(10) if KEYS[n % 4]])

"""Joins by a processor: as asked for, of a stream with itself, early, and as of a time, against models and DuckDB."""

from collections import Counter
from datetime import timedelta
from itertools import zip_longest
from math import inf, nan

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets import Interval, StreamBuilder, Time, TumblingWindow
from rs_assets.testing import PipelineDriver
from tests.operators.join_model import AsOf, Joined
from tests.operators.model import at
from tests.operators.test_join import BOUNDS, CONDITION, KINDS, found, holds, inputs, joined, sides, told

WITHIN = Interval.of(before=Time.seconds(2), after=Time.seconds(7))


def driven(driver, stream, batches, restarts=(), each=lambda rows: None):
    """The rows that came, and how many were late and dead. `each` gets the rows of each batch."""
    late = dead = 0
    with PipelineDriver(stream.to_print().build(), spark=driver) as running:
        taken = []

        def take():
            rows = running.take()
            taken.extend(rows)
            each(rows)

        for number, batch in enumerate(batches):
            for name, rows in batch.items():
                running.push(rows, name)
            running.step()
            take()
            if number in restarts:
                late, dead = late + running.report().rows_late, dead + running.report().rows_dead
                running.restart()
        running.finish()
        take()
        report = running.report()
    assert report.rows_open == 0
    return taken, late + report.rows_late, dead + report.rows_dead


def drawn(data):
    batches = list(zip_longest(data.draw(inputs("v")), data.draw(inputs("w")), fillvalue=[]))
    return batches, data.draw(st.sets(st.sampled_from(range(len(batches))), max_size=2))


MODEL = settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))


# Stretches of state of a second, and of a quarter of a minute.
ALL_BOUNDS = {**BOUNDS, "wide": Time.seconds(30)}


@MODEL
@given(st.data())
def test_a_join_that_spark_could_do_should_equal_the_model_by_a_processor_too(driver, data):
    how, bound = data.draw(st.sampled_from(KINDS)), data.draw(st.sampled_from([*ALL_BOUNDS]))
    condition, delays = data.draw(st.booleans()), data.draw(st.sampled_from([(0, 0), (12, 3)]))
    batches, restarts = drawn(data)
    marks = tuple(map(Time.seconds, delays))
    stream = joined(*sides("asked"), how, ALL_BOUNDS[bound], condition=condition, water_mark=marks, processor=True)
    taken, late, dead = driven(driver, stream, [{"one": a, "two": b} for a, b in batches], restarts)
    model = Joined(ALL_BOUNDS[bound], how, condition=holds if condition else None)
    kept, were_late, were_dead = model.accepted(batches, delays, restarts)
    assert (late, dead) == (were_late, were_dead)
    assert found(taken) == told(model.rows(kept))


@pytest.mark.parametrize("how", ["left", "full", "anti"])
def test_rows_without_partner_come_with_the_watermark_that_passes_their_last_partner(driver, how):
    """Not when the whole stretch of time that they lie in is over."""
    left, right = sides("exact")
    stream = joined(left, right, how, Time.seconds(40), processor=True)
    ones = [{"k": "a", "v": second, "ts": at(second)} for second in (0, 1, 2, 3)]
    with PipelineDriver(stream.to_print().build(), spark=driver) as running:
        running.push(ones, "one")
        running.push([{"k": "b", "w": 0, "ts": at(3)}], "two")
        running.step()
        for now in (40, 41, 42, 43):
            for name, value in (("one", "v"), ("two", "w")):
                running.push([{"k": "z", value: now, "ts": at(now)}], name)
            running.step()
            running.step()
            assert [row["v"] for row in running.take() if row["k"] == "a"] == [now - 40]


@MODEL
@given(st.data())
def test_early_rows_should_add_up_to_the_model_behind_each_batch(driver, data):
    how, bound = data.draw(st.sampled_from(["left", "right", "full", "anti"])), data.draw(st.sampled_from([*BOUNDS]))
    condition, delays = data.draw(st.booleans()), data.draw(st.sampled_from([(0, 0), (12, 3)]))
    batches, restarts = drawn(data)
    prefix = {} if how == "anti" else {"prefix": "r_"}
    left, right = sides("early")
    stream = left.join(right, on="k", within=BOUNDS[bound], how=how, time_field="ts", early=True,
                       water_mark=tuple(map(Time.seconds, delays)), condition=CONDITION if condition else None,
                       **prefix)  # fmt: skip
    model = Joined(BOUNDS[bound], how, condition=holds if condition else None)
    net, seen = Counter(), []

    def each(rows):
        net.update(found(row for row in rows if not row["retracted"]))
        net.subtract(found(row for row in rows if row["retracted"]))
        seen.append(+net)

    named = [{"one": one, "two": two} for one, two in batches]
    _, late, dead = driven(driver, stream, named, restarts, each)
    _, were_late, were_dead = model.accepted(batches, delays, restarts)
    assert (late, dead) == (were_late, were_dead)
    for number, now in enumerate(seen):
        so_far, _, _ = model.accepted(batches[: number + 1], delays, restarts)
        assert now == told(model.rows(so_far)), number


@pytest.mark.parametrize("deletes", [None, "w % 3 = 0"])
@MODEL
@given(data=st.data())
def test_a_join_as_of_a_time_should_equal_the_model(driver, deletes, data):
    how, tolerance = data.draw(st.sampled_from(["left", "inner"])), data.draw(st.sampled_from([None, 0, 6]))
    delays = data.draw(st.sampled_from([(0, 0), (12, 3)]))
    batches, restarts = drawn(data)
    left, right = sides("asof")
    stream = left.asof_join(right, on="k", how=how, time_field="ts", prefix="r_",
                            tolerance=None if tolerance is None else Time.seconds(tolerance),
                            water_mark=tuple(map(Time.seconds, delays)), deletes=deletes)  # fmt: skip
    taken, late, dead = driven(driver, stream, [{"one": a, "two": b} for a, b in batches], restarts)
    model = AsOf(how, tolerance, ends=lambda row: deletes is not None and row["w"] % 3 == 0)
    kept, were_late, were_dead = model.accepted(batches, delays, restarts)
    assert (late, dead) == (were_late, were_dead)
    assert found(taken) == told(model.rows(kept))


SELF = "k string, v bigint, ts timestamp"


def itself(stream, how, bound, **settings):
    """Each record with those that are half a dozen greater or more."""
    prefix = {} if how in {"semi", "anti"} else {"prefix": "r_"}
    right = stream.filter("v >= 4").with_fields(w="v + 1", name="greater").select_fields("k", "w", "ts")
    return stream.filter("v < 20").join(right, on="k", within=bound, how=how, time_field="ts", **prefix, **settings)


@MODEL
@given(st.data())
def test_a_stream_should_be_joined_with_itself_in_one_reading_as_the_model_does(driver, data):
    how = data.draw(st.sampled_from(["inner", "left", "right", "full", "semi", "anti"]))
    bound, delay = data.draw(st.sampled_from([*BOUNDS])), data.draw(st.sampled_from([0, 12]))
    batches = data.draw(inputs("v"))
    restarts = data.draw(st.sets(st.sampled_from(range(len(batches))), max_size=2))
    job = StreamBuilder.data_stream("test", "itself")
    stream = job.from_file("one.jsonl", schema=SELF, name="one", bad_records="skip")
    stream = itself(stream, how, BOUNDS[bound], condition=CONDITION, water_mark=Time.seconds(delay))
    taken, late, dead = driven(driver, stream, [{"one": rows} for rows in batches], restarts)
    model = Joined(BOUNDS[bound], how, condition=holds)
    # A record counts once, on whichever side it is, and moves the watermark also where a side drops it.
    kept, were_late, were_dead = model.accepted([(rows, rows) for rows in batches], (delay, delay), restarts)
    assert (2 * late, 2 * dead) == (were_late, were_dead)
    ones = [(row, place) for row, place in kept[0] if row["v"] < 20]
    twos = [({**row, "w": row["v"] + 1}, place) for row, place in kept[1] if row["v"] >= 4]
    assert found(taken) == told(model.rows((ones, twos)))


def test_a_record_that_both_branches_drop_does_not_move_the_watermark(driver):
    stream = StreamBuilder.data_stream("test", "dropped").from_file("one.jsonl", schema=SELF, name="one")
    low, high = stream.filter("v BETWEEN 1 AND 3"), stream.filter("v = 2").select_fields("k", "ts")
    stream = low.join(high, on="k", within=Time.seconds(5), how="anti", time_field="ts")
    # Neither side has the row of 100; the left side alone has that of 101.
    batches = [[(1, 0), (9, 100)], [(1, 1), (3, 101)], [(1, 2)]]
    taken, late, _ = driven(
        driver, stream, [{"one": [{"k": "a", "v": v, "ts": at(second)} for v, second in rows]} for rows in batches]
    )
    assert (sorted(row["ts"] for row in taken), late) == ([at(0), at(1), at(101)], 1)


def test_a_semi_join_by_hopping_windows_gives_a_row_for_each_window_in_which_it_has_a_partner(driver):
    stream = StreamBuilder.data_stream("test", "semi").from_file("one.jsonl", schema=SELF, name="one")
    stream = itself(stream, "semi", BOUNDS["hopping"], condition=CONDITION)
    # In the window from 5 to 15 the row 4 is alone with itself, for which the condition does not hold.
    rows = [{"k": "a", "v": 11, "ts": at(0)}, {"k": "a", "v": 4, "ts": at(5)}]
    taken, _, _ = driven(driver, stream, [{"one": rows}])
    assert found(taken) == Counter({(11, None, at(-5)): 1, (11, None, at(0)): 1, (4, None, at(0)): 1})


@pytest.mark.parametrize("bound", ["after", "tumbling"])
def test_a_stream_joined_with_itself_gives_the_rows_of_duckdb(driver, bound):
    rows = [{"k": ["a", "b", "c", "", None][n * n % 5], "v": n, "ts": at(n * 17 % 60)} for n in range(60)]
    near = {
        "after": "epoch(r.ts) - epoch(l.ts) between -2 and 7",
        "tumbling": "floor(epoch(l.ts) / 10) = floor(epoch(r.ts) / 10)",
    }
    bounds = {"after": WITHIN, "tumbling": TumblingWindow.of(Time.seconds(10), "ts")}
    job = StreamBuilder.data_stream("test", "duck")
    stream = job.from_file("one.jsonl", schema=SELF, name="one")
    both = stream.join(stream, on="k", within=bounds[bound], how="full", time_field="ts", prefix="r_",
                       condition="left.v < right.v", water_mark=Time.minutes(2))  # fmt: skip
    taken, _, _ = driven(driver, both, [{"one": rows[:20]}, {"one": rows[20:]}])
    with duckdb.connect() as database:
        database.execute("set timezone='UTC'")
        database.register("input", pa.Table.from_pylist(rows))
        wanted = database.execute(
            f"select l.v, r.v from input l full join input r on l.k = r.k and l.k <> '' and l.v < r.v and {near[bound]}"
        ).fetchall()
    assert Counter((row["v"], row["r_v"]) for row in taken) == Counter(wanted)


def test_rows_should_come_whose_time_lies_less_than_a_millisecond_before_the_watermark(driver):
    """A watermark is in whole milliseconds: that of the row itself is the one before its time."""
    left, right = sides("fraction")
    stream = left.asof_join(right, on="k", time_field="ts", prefix="r_")
    row = {"k": "a", "ts": at(15) + timedelta(microseconds=999_999)}
    taken, late, _ = driven(driver, stream, [{"one": [{**row, "v": 1}], "two": [{**row, "w": 2}]}])
    assert ([(row["v"], row["r_w"]) for row in taken], late) == ([(1, 2)], 0)


@pytest.mark.parametrize(
    ("kind", "keys"), [("array<int>", [[1], [2], [], None]), ("struct<a:array<int>>", [{"a": [1]}, None])]
)
def test_keys_may_be_arrays_and_have_some(driver, kind, keys):
    job = StreamBuilder.data_stream("test", "arrays")
    one, two = (job.from_file(f"{name}.jsonl", schema=f"k {kind}, v bigint, ts timestamp", name=name)
                for name in ("one", "two"))  # fmt: skip
    both = one.join(two, on="k", within=Time.seconds(5), how="full", time_field="ts", prefix="r_", processor=True)
    rows = [{"k": key, "v": n, "ts": at(n)} for n, key in enumerate(keys)]
    taken, _, _ = driven(driver, both, [{"one": rows, "two": rows}])
    alone = [(len(keys) - 1, None), (None, len(keys) - 1)]
    assert Counter((row["v"], row["r_v"]) for row in taken) == Counter([(n, n) for n in range(len(keys) - 1)] + alone)


ODD = "id bigint, d double, ts timestamp"
NESTED = "named_struct('a', if(id > 0, array({0}), null), 'd', {0}, 'f', cast({0} as float))"


@pytest.mark.parametrize("ways", [{"processor": True}, {"early": True}, None], ids=["asked", "early", "as of"])
def test_a_join_by_a_processor_takes_keys_for_equal_as_windows_do_wherever_a_batch_is_cut(driver, ways):
    """All NaN are one key, and so are 0.0 and -0.0, within structs and arrays too."""
    job = StreamBuilder.data_stream("test", "nan")
    left = job.from_file("one.jsonl", schema=ODD, name="one").with_fields(g="d - d")
    right = job.from_file("two.jsonl", schema=ODD, name="two").with_fields(g="-d")
    left, right = (side.with_fields(n=NESTED.format("g")) for side in (left, right))
    keys = {"on": ["g", "n"], "time_field": "ts", "prefix": "r_"}
    if ways is None:
        stream = left.asof_join(right, **keys)
    else:
        stream = left.join(right, within=Time.seconds(5), how="left", **keys, **ways)
    # inf - inf sets the sign bit of a NaN; 1.0 - 1.0 is 0.0.
    ones = [{"id": 1, "d": inf, "ts": at(0)}, {"id": 2, "d": 1.0, "ts": at(0)}]
    twos = [{"id": 11, "d": nan, "ts": at(0)}, {"id": 12, "d": 0.0, "ts": at(0)}]
    taken, late, dead = driven(driver, stream, [{"one": ones}, {"two": twos}])
    pairs = {(row["id"], row["r_id"]) for row in taken if row["r_id"] is not None}
    assert (pairs, late, dead) == ({(1, 11), (2, 12)}, 0, 0)

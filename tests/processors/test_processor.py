"""process: a class with stores, timers and outputs, over Spark."""

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from deltalake import DeltaTable

from rs_assets import ListStore, MapStore, Processor, StreamBuilder, Time, ValueStore, build_definitions
from rs_assets.compile.process.runner import ProcessorRunner, ProcessorSpec
from rs_assets.errors import SchemaError, StepError, TopologyError, UnknownFieldError
from rs_assets.testing import PipelineDriver, ProcessorTest
from tests.kafka.reader import until
from tests.processors.conftest import source

CLICKS = "user string, sku string, ts timestamp"
T0 = datetime(2026, 1, 5, 10, tzinfo=UTC)


def click(user, minutes, sku="pen"):
    return {"user": user, "sku": sku, "ts": T0 + timedelta(minutes=minutes)}


class Cart(Processor):
    """Tells the size of a cart, and that it was left."""

    items = MapStore("sku string", "n int")

    def process(self, key, row, context):
        context.items.put(row["sku"], {"n": (context.items.get(row["sku"]) or {"n": 0})["n"] + 1})
        context.forward({"user": key["user"], "size": len(context.items), "why": "click"})
        context.schedule_at(context.time + Time.minutes(10), self.left)

    def left(self, key, at, context):
        context.forward({"user": key["user"], "size": len(context.items), "why": f"left at {at:%H:%M}"})
        context.items.clear()


CARTS = {"keys": "user", "schema": "user string, size int, why string", "time_field": "ts"}


def flat(rows):
    return sorted(tuple(row.values()) for row in rows)


def test_a_processor_keeps_stores_and_its_timers_fire_once_the_watermark_has_reached_them(follow):
    told = follow(
        source(CLICKS).process(Cart, **CARTS, water_mark=Time.minutes(1)),
        [
            [click("ann", 0), click("bo", 1), click("ann", 1, "cup")],
            [click("ann", 8, "hat")],
            [click("cy", 12)],
            [click("cy", 20), click("bo", 19)],
            [click("cy", 21)],
        ],
        restarts=[2, 4],
    )
    assert list(map(flat, told)) == [
        [("ann", 1, "click"), ("ann", 2, "click"), ("bo", 1, "click")],
        [("ann", 3, "click")],
        # The watermark is 10:11, and bo was seen last at 10:01.
        [("bo", 1, "left at 10:11"), ("cy", 1, "click")],
        # 10:19: the timers of cy at 10:22 and of bo at 10:29 wait, that of ann at 10:18 is due.
        [("ann", 3, "left at 10:18"), ("bo", 1, "click"), ("cy", 1, "click")],
        [("cy", 1, "click")],
    ]


class Sessions(Processor):
    """The clicks of a user up to a gap of ten seconds, as one row."""

    seen = ValueStore("first timestamp, last timestamp, n int")
    pages = ListStore("sku string")

    def process(self, key, row, context):
        seen = context.seen.get()
        if seen is not None and context.time - seen["last"] > Time.seconds(10):
            self.over(key, context.time, context)
            seen = None
        seen = seen or {"first": context.time, "n": 0}
        context.seen.put({"first": seen["first"], "last": context.time, "n": seen["n"] + 1})
        context.pages.append({"sku": row["sku"]})
        context.schedule_at(context.time + Time.seconds(10.001), self.over)

    def over(self, key, at, context):
        seen, pages = context.seen.get(), [page["sku"] for page in context.pages.get()]
        context.forward({"user": key["user"], "first": seen["first"], "n": seen["n"], "pages": pages})
        context.seen.delete()
        context.pages.clear()
        context.cancel(self.over)


def sessions_of(clicks):
    """By a dictionary, over all clicks in order."""
    found, open_ = [], {}
    for each in sorted(clicks, key=lambda each: each["ts"]):
        now = open_.get(each["user"])
        if now is not None and each["ts"] - now["last"] > Time.seconds(10):
            found.append(now)
            now = None
        now = now or {"user": each["user"], "first": each["ts"], "n": 0, "pages": []}
        open_[each["user"]] = {**now, "last": each["ts"], "n": now["n"] + 1, "pages": [*now["pages"], each["sku"]]}
    return [{name: each[name] for name in ("user", "first", "n", "pages")} for each in (*found, *open_.values())]


def comparable(rows):
    return sorted((r["user"], r["first"].astimezone(UTC), r["n"], r["pages"]) for r in rows)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)])
def test_sessions_by_timers_equal_a_dictionary_over_cuts_and_restarts(follow, seed):
    rng = random.Random(seed)
    seconds = sorted(rng.uniform(0, 400) for _ in range(400))
    clicks = [click(f"user {rng.randrange(12)}", at / 60, f"page {n}") for n, at in enumerate(seconds)]
    cuts = sorted({0, len(clicks), *(rng.randrange(len(clicks)) for _ in range(8))})
    batches = [clicks[first:last] for first, last in pairwise(cuts)]
    for batch in batches:
        rng.shuffle(batch)
    schema = "user string, first timestamp, n int, pages array<string>"
    stream = source(CLICKS).process(Sessions, keys="user", schema=schema, time_field="ts", buckets=3)
    told = follow(stream, [*batches, [click("", 600)]], restarts=[2, 5])
    assert comparable(row for rows in told for row in rows) == comparable(sessions_of(clicks))


class Sums(Processor):
    """Sums of numbers, the negative ones and errors apart."""

    sums = ValueStore("total bigint")

    def process(self, key, row, context):
        if row["n"] is None:
            context.forward({"why": f"{key['k']}: no number"}, to="errors")
        elif row["n"] < 0:
            context.forward({"k": key["k"], "n": row["n"]}, to="negative")
        else:
            total = (context.sums.get() or {"total": 0})["total"] + row["n"]
            context.sums.put({"total": total})
            context.forward({"k": key["k"], "total": total})


def test_the_outputs_of_a_processor_are_streams_of_one_query(options, tmp_path):
    rows = [{"k": "a", "n": n} for n in (1, -5, 2, None)] + [{"k": None, "n": 7}]
    numbers = StreamBuilder.data_stream("test", "outputs").from_array(rows, schema="k string, n bigint")
    outputs = {"negative": "k string, n bigint", "errors": "why string"}
    sums = numbers.process(Sums, keys="k", schema="k string, total bigint", outputs=outputs, name="sums")
    sums.output("negative").to_delta("negative")
    sums.output("errors").to_delta("errors")
    pipeline = sums.filter("total > 0").to_delta("sums").build()
    report = pipeline.run(options)
    assert len(report.queries) == 1
    tables = {
        name: DeltaTable(options.home.table("test", name)).to_pyarrow_table().to_pylist()
        for name in ("sums", "negative", "errors")
    }
    assert sorted(row["total"] for row in tables["sums"]) == [1, 3, 7]
    assert tables["negative"] == [{"k": "a", "n": -5}]
    assert tables["errors"] == [{"why": "a: no number"}]


def test_each_timer_fires_once_more_at_the_end_of_the_input():
    rows = [click("ann", 0), click("ann", 1, "cup"), click("bo", 30)]
    clicks = StreamBuilder.data_stream("test", "ended").from_array(rows, schema=CLICKS)
    told = clicks.process(Cart, **CARTS).preview()
    assert flat(row for row in told if row["why"] != "click") == [
        ("ann", 2, "left at 10:11"),
        ("bo", 1, "left at 10:40"),
    ]


def test_a_time_that_has_passed_fires_when_the_watermark_moves_also_without_spark(follow):
    """A late row sets a timer to a time that has passed: without Spark any other late row let it fire."""
    rows = [click("ann", 60), click("bo", 5), click("cy", 6), click("ann", 61), click("ann", 62)]
    test, told = ProcessorTest(Cart, **CARTS), []
    for row in rows:
        test.pipe(row)
        told.append(flat(test.forwarded()))
    assert told[2] == [("cy", 1, "click")]
    assert told[3] == [("ann", 1, "click"), ("bo", 1, "left at 10:15"), ("cy", 1, "left at 10:16")]
    by_spark = follow(source(CLICKS).process(Cart, **CARTS), [[row] for row in rows])
    assert [flat(each) for each in by_spark] == told


class Alive(Processor):
    """Tells each time that a tick finds a key."""

    def process(self, key, row, context):
        context.schedule(Time.seconds(1), self.tick)

    def tick(self, key, at, context):
        context.forward({"user": key["user"], "whole": at.microsecond == 0})


def test_timers_by_the_clock_fire_without_rows(options, tmp_path):
    clicks = tmp_path / "clicks"
    clicks.mkdir()
    (clicks / "a.jsonl").write_text('{"user": "ann"}\n')
    stream = StreamBuilder.data_stream("test", "clock").from_file(clicks, schema="user string")
    pipeline = stream.process(Alive, keys="user", schema="user string, whole boolean", tick=Time.seconds(0.2)).to_delta(
        "t"
    )
    table = options.home.table("test", "t")

    def ticks():
        return DeltaTable(table).to_pyarrow_table().num_rows if DeltaTable.is_deltatable(table) else 0

    with pipeline.build().start(options) as running:
        until(lambda: ticks() >= 2, seconds=120, running=running)
    assert {row["whole"] for row in DeltaTable(table).to_pyarrow_table().to_pylist()} == {True}


class Many(Processor):
    """A timer for each key in one second, which is set again and again."""

    seen = ValueStore("n int")

    def process(self, key, row, context):
        context.seen.put({"n": (context.seen.get() or {"n": 0})["n"] + 1})
        context.schedule_at(T0 + timedelta(minutes=5, milliseconds=int(row["sku"])), self.due)

    def due(self, key, at, context):
        context.forward({"user": key["user"], "size": context.seen.get()["n"], "why": f"{at:%M:%S.%f}"})
        context.seen.delete()


def test_timers_of_many_keys_in_one_second_fire_at_their_millisecond(follow):
    first = [click(f"u{n}", 0, str(n)) for n in range(300)]
    moved = [click(f"u{n}", 1, str(n + 1000)) for n in range(0, 300, 2)]
    almost, rest = click("x", 5 + 0.100 / 60, "99999"), click("x", 5 + 1.9 / 60, "99999")
    told = follow(source(CLICKS).process(Many, **CARTS, buckets=4), [first, moved, [almost], [rest]], restarts=[3])
    assert [len(rows) for rows in told] == [0, 0, 50, 250]
    assert flat(told[2]) == sorted((f"u{n}", 1, f"05:00.{n:03}000") for n in range(1, 101, 2))
    late = [(f"u{n}", 1, f"05:00.{n:03}000") for n in range(101, 300, 2)]
    assert flat(told[3]) == sorted(late + [(f"u{n}", 2, f"05:01.{n:03}000") for n in range(0, 300, 2)])


class Wrong(Processor):
    """Does what it should not."""

    seen = ValueStore("n int")

    def __init__(self, how):
        self.how = how

    def process(self, key, row, context):
        self.how(self, context)


WRONG = [
    (
        lambda self, context: context.seen.put({"n": "x"}),
        "n='x' is not of type int",
    ),
    (lambda self, context: 1 / 0, "raised ZeroDivisionError"),
]


@pytest.mark.parametrize(("how", "why"), WRONG)
def test_a_processor_that_fails_ends_the_run_with_step_and_key(how, why):
    clicks = StreamBuilder.data_stream("test", "wrong").from_array([click("ann", 0)], schema=CLICKS)
    with pytest.raises(StepError, match=why) as caught:
        clicks.process(Wrong(how), **CARTS).preview()
    assert caught.value.facts["step"] == "processor"


def carts(**how):
    return source(CLICKS).process(**{"processor": Cart, **CARTS, **how})


class Nothing(Processor):
    """Keeps nothing."""

    def process(self, key, row, context): ...


class Clash(Nothing):
    """Has a store with the name of the context's key."""

    key = ValueStore("n int")


class Own(Nothing):
    """Has a store with the name of a key."""

    user = ValueStore("n int")


REFUSED = [
    (lambda: carts(processor=Processor), TopologyError, "needs a subclass"),
    (lambda: carts(processor=len), TopologyError, "needs a subclass"),
    (lambda: carts(processor=Clash), TopologyError, "is called 'key', which the context"),
    (lambda: carts(processor=Own), TopologyError, "the field 'user' of step 'processor' is a key"),
    (lambda: carts(processor=Nothing, time_field=None), TopologyError, "neither stores nor timers"),
    (lambda: carts(time_field="nope"), UnknownFieldError, "nope"),
    (lambda: carts(tick=Time.seconds(1)), TopologyError, "by event time and by the clock"),
    (lambda: carts(time_field=None, water_mark=Time.seconds(1)), TopologyError, "a watermark delay and no event time"),
    (lambda: carts(outputs={"main": "n int"}), TopologyError, "as are the records without an output"),
    (lambda: carts(outputs={"a": None}), SchemaError, "has no schema of output 'a'"),
    (lambda: carts().output("a"), TopologyError, "has no output 'a'"),
    (
        lambda: carts().process(Cart, **{**CARTS, "time_field": None, "tick": Time.seconds(1)}, name="b"),
        TopologyError,
        "timers",
    ),
]


@pytest.mark.parametrize(("make", "kind", "why"), REFUSED)
def test_process_refuses_what_cannot_work(make, kind, why):
    with pytest.raises(kind, match=why):
        make().to_print().build()


def test_a_processor_with_outputs_is_an_asset_in_dagster():
    stream = carts(outputs={"late": "n int"}, name="carts")
    stream.output("late").to_delta("late")
    (graph,) = build_definitions([stream.to_delta("carts_table").build()]).assets
    assert {("test", "process", "carts"), ("test", "process", "late")} <= {tuple(key.path) for key in graph.keys}


def test_a_processor_defined_in_a_function_keeps_its_closure():
    factor = 3

    class Times(Processor):
        seen = ValueStore("n int")

        def init(self, context):
            self.ready = factor

        def process(self, key, row, context):
            context.forward({"n": self.ready * row["n"]})

    numbers = StreamBuilder.data_stream("test", "closure").from_array([{"k": "a", "n": 2}], schema="k string, n int")
    assert numbers.process(Times, keys="k", schema="n int").preview() == [{"n": 6}]


def test_a_processor_without_time_may_follow_another(driver):
    with PipelineDriver(
        source("k string, n bigint")
        .process(
            Sums,
            keys="k",
            schema="k string, total bigint",
            name="a",
            outputs={"negative": "k string, n bigint", "errors": "why string"},
        )
        .process(Counted, keys="total", schema="total bigint, n int", name="b")
        .to_print()
        .build(),
        spark=driver,
    ) as pipeline:
        pipeline.push([{"k": "a", "n": 1}, {"k": "b", "n": 1}])
        pipeline.step()
        assert pipeline.take() == [{"total": 1, "n": 1}, {"total": 1, "n": 2}]


class Counted(Processor):
    """Counts."""

    n = ValueStore("n int")

    def process(self, key, row, context):
        context.n.put({"n": (context.n.get() or {"n": 0})["n"] + 1})
        context.forward({"total": key["total"], **context.n.get()})


def test_a_timer_whose_method_was_renamed_is_told_with_what_helps():
    class Renamed(Processor):
        seen = ValueStore("n bigint")

        def process(self, key, row, context):
            pass

        def gone(self, key, at, context):
            pass

    spec = ProcessorSpec.of(Renamed, step="carts", schema="k string", outputs=(), timed=True)
    due = datetime(2026, 1, 5, 10, tzinfo=UTC)
    state = {"seen": None, "timers": [{"call": "left", "at": due, "every": None}]}
    with pytest.raises(StepError, match="has a timer for 'left', which its processor does not have any more") as error:
        ProcessorRunner(spec).touch({"k": "a"}, state, [], due)
    assert "def left(self, key, at, context)" in error.value.remedy
    Renamed.left = Renamed.gone
    assert ProcessorRunner(spec).touch({"k": "a"}, state, [], due) == (None, [])

"""What joins may be, and between which steps with state they may stand. No Spark."""

from dataclasses import replace
from datetime import timedelta
from functools import reduce
from inspect import signature

import pytest

from rs_assets import HoppingWindow, Interval, StreamBuilder, Time, TumblingWindow
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.compile.provenance import fields_of, provenance
from rs_assets.errors import TopologyError
from rs_assets.topology.chain import Link
from rs_assets.topology.shape import changes, shape_of

SCHEMA = "id bigint, ms bigint, ts timestamp"
SECOND = timedelta(seconds=1)


def streams(*names, job="job"):
    source = StreamBuilder.data_stream("shop", job)
    return [source.from_file(f"{name}.jsonl", schema=SCHEMA, name=name) for name in names]


def joined(left, right, within=5 * SECOND, **settings):
    return left.join(right, **{"on": "id", "within": within, "time_field": "ts", **settings})


def built(stream):
    return stream.to_print().build().topology


def tens(stream, name):
    window = TumblingWindow.of(Time.seconds(10), "ts")
    return stream.window(window, name=name).group_by("id").sum("ms").to_data_stream()


def minutes(stream, field, name="minutes"):
    return stream.window(TumblingWindow.of(Time.minutes(1), field), name=name).sum("ms").to_data_stream()


REFUSED = {
    "outer without bound": ({"within": None, "time_field": None, "how": "left"}, "without a bound in time"),
    "times without bound": ({"within": None}, "does not use times"),
    "no time": ({"time_field": None}, "names no event time"),
    "no window of sessions": ({"within": 5}, "cannot join within 5"),
    "kind": ({"how": "cross"}, "use one of: inner, left"),
    "no keys": ({"on": []}, "at least one pair"),
    "prefix": ({"how": "semi", "prefix": "r_"}, "a prefix without effect"),
    "water mark": ({"water_mark": (SECOND, -SECOND)}, "watermark delay of the right side"),
    "condition": ({"condition": lambda row: row}, "takes SQL text or a Spark Column"),
    "early inner": ({"early": True}, "early=True without effect"),
    "processor": ({"processor": True, "within": None, "time_field": None}, "processor=True without effect"),
    "early without bound": (
        {"early": True, "within": None, "time_field": None, "how": "left"},
        "without a bound in time",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_meant_is_refused(kind):
    settings, why = REFUSED[kind]
    with pytest.raises(TopologyError, match=f"(?s){why}"):
        joined(*streams("a", "b"), **settings)


def test_what_a_processor_joins_is_refused_where_its_rows_cannot_go():
    [a] = streams("a")
    for settings in (
        {"within": None, "time_field": None},
        {"water_mark": (SECOND, 2 * SECOND)},
        {"time_field": ("ts", "other")},
    ):
        with pytest.raises(TopologyError, match="joins a stream with itself"):
            joined(a, a, **settings)
    with pytest.raises(TopologyError, match="would count rows that"):
        built(minutes(joined(*streams("a", "b"), how="left", early=True), "ts"))
    [a] = streams("a")
    one = tens(a, "one")
    with pytest.raises(TopologyError, match="joins a stream with itself, so its records"):
        built(joined(one, one.filter("ms > 1"), time_field="end_time"))
    early = joined(*streams("a", "b"), how="left", early=True, prefix="r_")
    with pytest.raises(TopologyError, match="(?s)would keep rows that the join 'join' retracts.*deletes='retracted'"):
        early.to_delta("t", mode="upsert", keys="id").build()
    with pytest.raises(TopologyError, match="would count rows that the join 'join' retracts"):
        built(joined(*streams("a", "b"), how="left", early=True).shuffle(1, strategy="delta"))
    a, b = streams("a", "b")
    with pytest.raises(TopologyError, match=r"at least 0:00:00"):
        a.asof_join(b, on="id", time_field="ts", tolerance=-SECOND)


def test_a_table_in_which_an_early_row_would_take_another_one_with_it_is_refused():
    def table(join, **settings):
        early = joined(*streams("a", "b"), early=True, **join)
        return early.to_delta("t", mode="upsert", deletes="retracted", **settings).build()

    hopping = {"within": HoppingWindow.of(4 * SECOND, 2 * SECOND, "ts"), "how": "anti"}
    with pytest.raises(TopologyError, match=r"(?s)do not distinguish the windows.*these keys: 'id', 'start_time'"):
        table(hopping, keys="id")
    table(hopping, keys=["id", "start_time"])
    with pytest.raises(TopologyError, match="(?s)a pair of the join 'join' may sort before.*a prefix"):
        table({"how": "left"}, keys="id", order_by="ts")
    table({"how": "left"}, keys="id")
    table({"how": "left", "prefix": "r_"}, keys="id", order_by="ts")
    table({"how": "anti"}, keys="id", order_by="ts")


def test_an_interval_without_time_is_refused():
    with pytest.raises(TopologyError, match="is empty"):
        Interval.of(before=-2 * SECOND, after=SECOND)
    with pytest.raises(TopologyError, match="whole milliseconds"):
        Interval.of(after=timedelta(microseconds=1))


def test_streams_of_two_pipelines_are_not_joined():
    with pytest.raises(TopologyError, match="joins streams of two pipelines"):
        joined(*streams("a"), *streams("b"))


def test_a_stream_is_joined_with_itself_in_one_reading_if_the_steps_between_are_in_sql():
    [a] = streams("a")
    topology = built(joined(a, a.filter("ms > 1")))
    (plan,) = plan_queries(topology)
    assert (plan.sources, plan.watermark_steps, plan.watermark_inputs) == (("a",), ("join",), ("join",))
    assert plan.feeding(topology) == {"join": {"a"}}
    [a] = streams("a")
    assert built(joined(a, a))["join"].inputs == ("a", "a")
    [a] = streams("a")
    joined(a, a.filter(lambda row: row["ms"] > 1, trace=False)).to_print()
    with pytest.raises(TopologyError, match=r"(?s)both sides of the join 'join' come from step 'a'.*in SQL.*twice"):
        a.build()
    # The ways out that are printed.
    [a] = streams("a")
    assert built(joined(a, a.filter("ms > 1").shuffle(1, strategy="delta")))
    one, again = streams("a", "again")
    assert built(joined(one, again.filter("ms > 1")))


def test_a_join_without_bound_says_that_its_state_grows():
    text = joined(*streams("a", "b"), within=None, time_field=None).to_print().build().describe()
    assert "inner on id without bound: its state grows for ever" in text


def test_a_join_says_that_a_processor_does_it_and_why():
    for make, told in (
        (lambda a, b: joined(a, b, processor=True), "inner on id within 0:00:05, by a processor"),
        (lambda a, b: joined(a, b, how="left", early=True), "left on id within 0:00:05, early, by a processor"),
        (lambda a: joined(a, a.filter("ms > 1")), "inner on id within 0:00:05, with itself, by a processor"),
        (lambda a, b: a.asof_join(b, on="id", time_field="ts"), "left on id as of its time, by a processor"),
        (lambda a, b: joined(a, b, how="full"), "[full on id within 0:00:05]"),
    ):
        assert told in make(*streams(*signature(make).parameters)).to_print().build().describe()


def test_each_side_has_a_watermark_and_control_rows_of_its_own():
    (plan,) = plan_queries(built(joined(*streams("a", "b"))))
    assert (plan.states, plan.watermark_steps, plan.watermark_inputs) == (
        ("join",),
        ("join",),
        ("join.left", "join.right"),
    )
    assert plan.controls == {"join.left": "rs_control_join__left", "join.right": "rs_control_join__right"}
    (plan,) = plan_queries(built(joined(*streams("a", "b"), within=None, time_field=None)))
    assert (plan.watermark_steps, plan.watermark_inputs) == (("join",), ())


@pytest.mark.parametrize(
    ("within", "field", "lag", "held"),
    [
        (Interval.of(before=2 * SECOND, after=9 * SECOND), "ts", 0, 9.001),
        (Interval.of(before=-2 * SECOND, after=9 * SECOND), "ts", 0, 9.001),
        (0 * SECOND, "ts", 0, 0),
        (TumblingWindow.of(10 * SECOND), "end_time", 0, 0),
        # A window of ten seconds lies in one minute whole, so that the minute waits for no more than its own end.
        (TumblingWindow.of(10 * SECOND), "start_time", 0, 0),
        (HoppingWindow.of(20 * SECOND, 5 * SECOND), "start_time", 15, 0),
        (TumblingWindow.of(10 * SECOND), "ts", 10, 0),
        # From 55 to 65 s: it begins in the first minute and ends 5 s behind it.
        (TumblingWindow.of(10 * SECOND, offset=5 * SECOND), "start_time", 5, 0),
    ],
    ids=str,
)
def test_a_window_behind_a_join_waits_for_its_last_row(within, field, lag, held):
    stream = joined(*streams("a", "b"), within=within, water_mark=(SECOND, 3 * SECOND))
    topology = built(minutes(stream, field))
    held = timedelta(seconds=held)
    assert topology.links["minutes"] == Link(lag * SECOND, 3 * SECOND + held, held)
    assert [plan.states for plan in plan_queries(topology)] == [("join", "minutes")]


@pytest.mark.parametrize(
    ("make", "lag"),
    [
        (lambda a, b: joined(a, b, Interval.of(before=2 * SECOND, after=9 * SECOND), processor=True), 9),
        (lambda a, b: joined(a, b, Interval.of(before=-2 * SECOND, after=9 * SECOND), processor=True), 9),
        (lambda a, b: joined(a, b, 0 * SECOND, processor=True), 0),
        (lambda a, b: joined(a, b, TumblingWindow.of(10 * SECOND), processor=True), 10),
        (lambda a: joined(a, a.filter("ms > 1"), prefix="r_"), 5),
        (lambda a, b: a.asof_join(b, on="id", time_field="ts", prefix="r_"), 0),
        # Without a prefix the right side's time stands in the place of the left one's.
        (lambda a, b: a.asof_join(b, on="id", time_field="ts", tolerance=4 * SECOND), 4),
    ],
)
def test_a_window_behind_a_join_by_a_processor_waits_for_its_last_row(make, lag):
    topology = built(minutes(make(*streams(*signature(make).parameters)), "ts"))
    assert topology.links["minutes"] == Link(lag * SECOND, 0 * SECOND)


def test_windows_of_two_sources_are_joined_by_their_times():
    a, b = streams("a", "b")
    stream = joined(tens(a, "one"), tens(b, "two"), within=0 * SECOND, time_field="start_time")
    topology = built(stream)
    assert topology.links["join"] == Link(10 * SECOND, timedelta(0))
    (plan,) = plan_queries(topology)
    assert (plan.states, plan.watermark_steps, plan.watermark_inputs) == (
        ("one", "two", "join"),
        ("one", "two"),
        ("one", "two"),
    )


def test_a_third_stream_comes_to_a_join_with_a_watermark_of_its_own():
    a, b, c = streams("a", "b", "c")
    topology = built(joined(joined(a, b), c, name="again", water_mark=7 * SECOND))
    held = timedelta(seconds=5.001)
    assert topology.links["again"] == Link(timedelta(0), 7 * SECOND, held)
    (plan,) = plan_queries(topology)
    assert plan.watermark_inputs == ("join.left", "join.right", "again.right")
    assert plan.watermark_steps == ("join", "again")
    assert plan.feeding(topology) == {"join.left": {"a"}, "join.right": {"b"}, "again.right": {"c"}}


UNCHAINED = {
    "water mark": (lambda a, b: joined(tens(a, "one"), tens(b, "two"), time_field="end_time", water_mark=SECOND)),
    "no bound": (lambda a, b: joined(tens(a, "one"), b, within=None, time_field=None)),
    "behind no bound": (lambda a, b: minutes(joined(a, b, within=None, time_field=None), "ts")),
    "lacking time": (lambda a, b: minutes(joined(a, b, how="left", prefix="r_"), "r_ts")),
    "lacking left time": (lambda a, b: minutes(joined(a, b, how="full", prefix="r_"), "ts")),
    "semi": (lambda a, b: joined(tens(a, "one"), tens(b, "two"), time_field="end_time", how="semi")),
    "behind semi": (lambda a, b: minutes(joined(a, b, how="semi"), "ts")),
    "any time": (lambda a, b: minutes(a.asof_join(b, on="id", time_field="ts", how="inner", prefix="r_"), "r_ts")),
}


@pytest.mark.parametrize("kind", UNCHAINED)
def test_what_spark_cannot_chain_is_refused_with_a_way_out(kind):
    with pytest.raises(TopologyError, match=r"(?s)in one query.*shuffle\(n, strategy='delta'\)"):
        built(UNCHAINED[kind](*streams("a", "b")))


def test_the_fields_of_a_join_come_from_the_sides_that_have_them():
    beside = built(joined(*streams("a", "b"), prefix="r_").with_fields(both="ms + r_ms"))
    known = provenance(beside, "print")
    assert fields_of(known, "ms") == {("a", "ms")}
    assert fields_of(known, "r_ms") == {("b", "ms")}
    assert fields_of(known, "both") == {("a", "ms"), ("b", "ms")}
    over = provenance(built(joined(*streams("a", "b"), within=TumblingWindow.of(SECOND))), "print")
    assert fields_of(over, "ms") == {("b", "ms")}
    assert fields_of(over, "id") == {("a", "id"), ("b", "id")}
    assert fields_of(over, "start_time") == {("a", "ts"), ("b", "ts")}
    left = provenance(built(joined(*streams("a", "b"), how="anti")), "print")
    assert fields_of(left, "ms") == {("a", "ms")}


WRONG = {
    "no such key": (lambda a, b: joined(a, b, on="nope"), "names the field 'nope'"),
    "no such time": (lambda a, b: joined(a, b, time_field=("ts", "nope")), "names the field 'nope'"),
    "time": (lambda a, b: joined(a, b.with_fields(at="ms > 1"), time_field=("ts", "at")), "event time 'at'.*is a"),
    "key": (lambda a, b: joined(a, b.with_fields(id="'x'")), "cannot compare 'id'.*bigint.*string"),
    "type": (lambda a, b: joined(a, b.with_fields(ms="'x'")), "two fields called 'ms', a bigint.*prefix='right_'"),
    "prefix": (lambda a, b: joined(a.with_fields(r_ms="1"), b, prefix="r_"), "two fields called 'r_ms'"),
    "behind": (lambda a, b: joined(a, b, how="semi").select_fields("id", "end_time"), "names the field 'end_time'"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_fields_that_are_surely_wrong_are_refused_when_a_join_is_built(kind):
    make, why = WRONG[kind]
    with pytest.raises(TopologyError, match=f"(?s){why}"):
        built(make(*streams("a", "b")))


def test_the_fields_of_a_join_are_known_when_it_is_built():
    a, b = streams("a", "b")
    wide = joined(a, b.with_fields(id="cast(id as int)"), prefix="r_", within=HoppingWindow.of(2 * SECOND, SECOND))
    assert built(wide.filter("r_id > 1 and ms > r_ms").select_fields("id", "r_ms", "r_ts", "start_time", "end_time"))


@pytest.mark.parametrize(
    ("sides", "kept"),
    [
        ("a, b with c", True),
        ("b, a with c", True),
        ("a, b with c, d", True),
        ("a with c", True),
        ("c with a, b", False),
        ("a with b, c", False),
        ("a, b, c with d", False),
    ],
)
def test_a_source_stays_at_its_side_of_a_join(sides, kept):
    before, now = (_shape_of_sides(each) for each in ("a, b with c", sides))
    assert bool(changes(before, now)) is not kept
    assert f"join <- {sides}: " in str(now[-1])
    # Manifests of earlier releases have no sides.
    assert not changes((*before[:-1], replace(before[-1], sides=())), now)


def _shape_of_sides(text):
    """The shape of a join of unions."""
    names = text.replace(" with ", ", ").split(", ")
    sources = dict(zip(names, streams(*names), strict=True))
    sides = [[sources[name] for name in side.split(", ")] for side in text.split(" with ")]
    left, right = (reduce(lambda one, other: one.union(other), side) for side in sides)
    return shape_of(built(joined(left, right, prefix="r_")), "join")

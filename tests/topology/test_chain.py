"""Which steps with state may follow one another in one query, and how long they wait. No Spark."""

from datetime import timedelta

import pytest

from rs_assets import Dimension, HoppingWindow, SessionWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.errors import TopologyError
from rs_assets.topology.chain import Link

SCHEMA = "page string, ts timestamp"
SECOND = timedelta(seconds=1)


def begin(**options):
    return StreamBuilder.data_stream("shop", "job").from_file("in.jsonl", schema=SCHEMA, **options)


def counts(stream, window=None, name="a", mark=0):
    window = window or TumblingWindow.of(Time.seconds(10), "ts")
    counted = stream.window(window, name=name).group_by("page").count("n")
    return counted.water_mark(Time.seconds(mark)).to_data_stream()


def again(stream, window, name="b"):
    return stream.window(window, name=name).sum("n").to_data_stream()


def built(stream):
    return stream.to_print().build().topology


TUMBLING, HOPPING, SESSION = (
    TumblingWindow.of(Time.seconds(10), "ts"),
    HoppingWindow.of(Time.seconds(20), Time.seconds(5), "ts"),
    SessionWindow.of(Time.seconds(7), "ts"),
)


@pytest.mark.parametrize(
    ("first", "second", "seconds"),
    [
        # A minute holds whole windows of ten seconds: it is complete when its end has passed.
        (TUMBLING, TumblingWindow.of(Time.seconds(60), "start_time"), 0),
        (TUMBLING, TumblingWindow.of(Time.seconds(60), "end_time"), 0),
        # The last window that begins in one of 25 s may end 5 s behind it.
        (TUMBLING, TumblingWindow.of(Time.seconds(25), "start_time"), 5),
        (HOPPING, TumblingWindow.of(Time.seconds(60), "start_time"), 15),
        (HOPPING, HoppingWindow.of(Time.seconds(30), Time.seconds(7), "start_time"), 19),
        (TUMBLING, SessionWindow.of(Time.seconds(3), "start_time"), 10),
        (SESSION, TumblingWindow.of(Time.seconds(60), "end_time"), 0),
    ],
)
def test_a_window_waits_just_as_long_as_rows_may_come(first, second, seconds):
    topology = built(again(counts(begin(), first, mark=3), second))
    assert topology.links["b"].lag == seconds * SECOND
    assert topology.links["b"].water_mark == 3 * SECOND
    assert [plan.states for plan in plan_queries(topology)] == [("a", "b")]


def test_a_delay_is_handed_on_through_a_chain_of_three():
    hourly = again(counts(begin(), HOPPING), TumblingWindow.of(Time.seconds(60), "start_time"))
    topology = built(hourly.window(TumblingWindow.of(Time.hours(1), "start_time"), name="c").sum("n").to_data_stream())
    assert [topology.links[name].lag for name in "bc"] == [15 * SECOND, 15 * SECOND]


def test_a_deduplication_hands_its_time_on():
    once = begin().distinct("page", within=Time.minutes(1), time_field="ts")
    topology = built(counts(once, TUMBLING))
    assert topology.links["a"] == Link(lag=timedelta(0), water_mark=timedelta(minutes=1))


def test_chain_when_a_dimension_is_joined_between_hands_the_time_on(tmp_path):
    dimension = Dimension.from_file(str(tmp_path / "d.csv"), format="csv", schema="page string, owner string")
    other = Dimension.from_file(str(tmp_path / "d.csv"), format="csv", schema="page string, ts timestamp")
    once = begin().distinct("page", within=Time.minutes(1), time_field="ts")
    for how in ("left", "inner"):
        for prefix in (None, "of_"):
            named = once.dim_join(dimension, on="page", how=how, prefix=prefix)
            assert built(counts(named, TUMBLING)).links["a"].water_mark == timedelta(minutes=1)
    assert built(counts(once.dim_join(other, on="page", prefix="of_"), TUMBLING))
    with pytest.raises(TopologyError, match="is computed by step 'of_table'"):
        built(counts(once.dim_join(other, on="page", name="of_table"), TUMBLING))


def test_windows_over_several_sources_may_feed_one():
    job = StreamBuilder.data_stream("shop", "job")
    one, two = (job.from_file(f"{name}.jsonl", schema=SCHEMA, name=f"{name}_source") for name in "ab")
    tens = counts(one, name="a", mark=2).union(counts(two, name="b", mark=9))
    (plan,) = plan_queries(built(again(tens, TumblingWindow.of(Time.minutes(1), "start_time"), name="c")))
    assert (plan.states, plan.watermark_steps) == (("a", "b", "c"), ("a", "b"))
    assert plan.controls == {"a": "rs_control_a", "b": "rs_control_b"}


MEANT = TumblingWindow.of(Time.minutes(1), "end_time")
REFUSED = {
    "arrival": (lambda s: again(s, TumblingWindow.of(Time.minutes(1))), "goes by the time of arrival"),
    "mark": (
        lambda s: s.window(MEANT, name="b").sum("n").water_mark(Time.seconds(5)).to_data_stream(),
        "never late",
    ),
    "bounds": (
        lambda s: s.window(MEANT, name="b").sum("n").event_time(max_ahead=Time.days(2)).to_data_stream(),
        "never late",
    ),
    "updates": (
        lambda s: s.window(MEANT, name="b", emit="on_window_update").sum("n").to_data_stream(),
        "fires more than once",
    ),
    "computed": (
        lambda s: again(s.with_fields(end_time="end_time + interval 1 hour", name="later"), MEANT),
        "is computed by step 'later'",
    ),
    "python": (lambda s: again(s.map(dict, schema="n bigint, end_time timestamp", name="py"), MEANT), "by step 'py'"),
    "no time": (lambda s: again(s, TumblingWindow.of(Time.minutes(1), "page")), "not an event time of the rows of 'a'"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_spark_cannot_chain_is_refused_with_a_way_out(kind):
    make, why = REFUSED[kind]
    with pytest.raises(TopologyError, match=rf"(?s){why}.*shuffle\(n, strategy='delta'\)"):
        built(make(counts(begin())))
    # The way out that is printed.
    assert built(make(counts(begin()).shuffle(1, strategy="delta")))


def test_the_start_of_a_session_is_no_time_to_go_on_with():
    with pytest.raises(TopologyError, match="of a session 'end_time'"):
        built(again(counts(begin(), SESSION), TumblingWindow.of(Time.minutes(1), "start_time")))


def test_a_python_step_between_is_refused_in_quarantine_only():
    def stream(policy):
        return again(counts(begin(bad_records=policy)).filter(lambda row: row["n"] > 1, name="py"), MEANT)

    assert built(stream("dead_letter"))
    with pytest.raises(TopologyError, match="could not be quarantined"):
        built(stream("quarantine"))


def test_rows_with_and_without_state_above_are_refused():
    job = StreamBuilder.data_stream("shop", "job")
    one, two = (job.from_file(f"{name}.jsonl", schema=SCHEMA, name=f"{name}_source") for name in "ab")
    rows = counts(one).select_fields("page", "end_time")
    other = two.map("page", "ts AS end_time", name="bare")
    with pytest.raises(TopologyError, match="no stateful step"):
        built(rows.union(other).window(MEANT, name="b").count("n").to_data_stream())


def test_a_complete_sink_needs_a_single_step_with_state():
    stream = again(counts(begin()), MEANT).to_delta("t", mode="complete")
    with pytest.raises(TopologyError, match=r"(?s)single stateful step.*before 'b'"):
        stream.build()


def test_sinks_behind_each_step_have_queries_of_their_own():
    first = counts(begin()).to_delta("tens")
    topology = built(again(first, MEANT))
    assert [(plan.name, plan.states) for plan in plan_queries(topology)] == [("a", ("a",)), ("b", ("a", "b"))]

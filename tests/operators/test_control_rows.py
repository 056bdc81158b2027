"""Control rows reach the watermark, whatever stands behind a window."""

import pytest

from rs_assets import MemoryChannel, SessionWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.runtime.job.opening import opened
from rs_assets.runtime.run.run import wire_all
from tests.operators.model import at

ROWS = [{"k": "ab"[n % 2], "ts": at(n)} for n in range(60)]
WINDOWS = {"tumbling": TumblingWindow.of(Time.seconds(10), "ts"), "session": SessionWindow.of(Time.seconds(5), "ts")}
# Conditions on the group, which Spark would apply to the rows of the sources, and to control rows as well.
BEHIND = {
    "filter": lambda stream: stream.filter("k = 'a'"),
    "branch": lambda stream: stream.split("k").select("a"),
    "not null": lambda stream: stream.filter("k is not null").filter("k < 'b'"),
}


def counted(kind, name="window"):
    stream = StreamBuilder.data_stream("test", "control").from_array(ROWS)
    return stream.window(WINDOWS[kind], name=name).group_by("k").count("n").to_data_stream()


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("behind", BEHIND)
def test_every_window_fires_though_a_filter_follows(options, kind, behind):
    channel = MemoryChannel()
    report = BEHIND[behind](counted(kind)).to_memory(channel).build().run(options)
    assert sum(row["n"] for row in channel.take()) == 30
    assert (report.rows_open, report.warnings) == (0, ())


def test_every_window_of_a_chain_fires_though_a_filter_follows(options):
    channel = MemoryChannel()
    stream = counted("tumbling", "first").filter("k = 'a'")
    again = stream.window(TumblingWindow.of(Time.minutes(1), "start_time"), name="second").group_by("k").sum("n")
    report = again.to_data_stream().filter("k <> 'b'").to_memory(channel).build().run(options)
    assert [row["n"] for row in channel.take()] == [30]
    assert report.rows_open == 0


def test_a_filter_behind_a_window_does_not_hold_the_watermark_back(driver, options):
    source = MemoryChannel(schema="k string, ts timestamp")
    out = MemoryChannel()
    stream = StreamBuilder.data_stream("test", "ahead").from_memory(source)
    windows = stream.window(WINDOWS["tumbling"]).group_by("k").count("n").to_data_stream()
    pipeline = windows.filter("k = 'a'").to_memory(out).build()
    source.put({"k": "a", "ts": at(1)}, {"k": "b", "ts": at(1000)})
    pipeline.run(options)
    pipeline.run(options)
    assert [row["n"] for row in out.take()] == [1]


JOINS = {
    "interval": {"within": Time.seconds(5), "how": "inner"},
    "interval with a condition": {"within": Time.seconds(5), "how": "left", "condition": "left.k <> 'c'"},
    "window": {"within": TumblingWindow.of(Time.seconds(10)), "how": "full"},
    "equal": {"within": Time.seconds(0), "how": "semi"},
}


@pytest.mark.parametrize("kind", JOINS)
def test_nothing_that_a_control_row_could_fail_stands_below_the_watermarks_of_a_join(driver, options, kind):
    job = StreamBuilder.data_stream("test", "control")
    one, two = (job.from_array(ROWS, name=name) for name in ("one", "two"))
    joined = one.filter("k <> 'z'").join(two, on="k", time_field="ts", **JOINS[kind])
    pipeline = joined.filter("k = 'a'").to_memory(MemoryChannel()).build()
    with opened(pipeline.topology, options) as session:
        conditions = driver.call(lambda spark: below_watermarks(session, spark))
    assert conditions == [[], []]


def below_watermarks(session, spark):
    """For each watermark of the optimized plan the conditions of filters between it and control rows."""
    wire_all(session, spark)
    (query,) = session.queries.values()
    written = query.flows[query.plan.streaming_output].df._jdf.queryExecution().analyzed()
    plan = spark._jsparkSession.sessionState().optimizer().execute(written)
    marks = [node for node in walk(plan) if node.nodeName() == "EventTimeWatermark"]
    return [list(on_the_way(mark.child())) for mark in marks]


def walk(plan):
    yield plan
    for number in range(plan.children().size()):
        yield from walk(plan.children().apply(number))


def on_the_way(plan):
    """The conditions above the union with control rows, and in its second branch."""
    if plan.nodeName() == "Union":
        plan = plan.children().apply(1)
    if plan.nodeName() == "Filter":
        yield plan.condition().sql()
    for number in range(plan.children().size()):
        yield from on_the_way(plan.children().apply(number))

"""Remedies of stateful steps that follow one another, and of their late rows."""

from __future__ import annotations

from rs_assets import Time
from rs_assets.compile.planner.plan import plan_queries
from tests.topology.followed_programs import MINUTE, TEN, Case, built, counted, two

CHAIN = "topology/chain.py"
LATE = "compile/late_sinks.py::_place"


def planned(stream):
    return plan_queries(stream.build().topology)


def minutes(stream, window=MINUTE, **how):
    """Windows behind others."""
    return stream.window(window, name="minutes").sum("n")


def read_too(*, durable=False):
    """Windows with late rows, and two streams of windows behind them."""
    windows = counted().late_to("late").to_data_stream()
    passed = windows.shuffle(2, strategy="delta") if durable else windows
    minutes(passed).to_data_stream().to_print()
    return planned(passed.to_print(name="too"))


def semi(**how):
    orders, clicks = two("page string, ts timestamp")
    joined = orders.join(clicks, on="page", within=Time.minutes(1), time_field="ts", how="semi", **how)
    return built(joined.window(TEN, name="window").group_by("page").count("n"))


def by_split(per=None, *, durable=False):
    one, other = two("page string, ts timestamp", tail=True)
    windows = counted(one, name="first")
    windows = windows.water_mark(Time.seconds(5), per=per) if per else windows.water_mark(Time.seconds(5))
    first = windows.to_data_stream()
    first = first.shuffle(2, strategy="delta") if durable else first
    second = counted(other, name="second").to_data_stream()
    return planned(first.join(second, on="page", within=Time.minutes(1), time_field="end_time").to_print())


CASES = [
    Case(
        f"{CHAIN}::_arrival",
        lambda: built(minutes(counted().with_fields(at="end_time"), TEN)),
        "name one of its times (of a window 'start_time' or 'end_time'",
        lambda: (built(minutes(counted())), built(minutes(counted(), MINUTE))),
    ),
    Case(
        f"{CHAIN}::_chainable",
        lambda: built(minutes(counted()).water_mark(Time.seconds(5))),
        "leave water_mark() and event_time() out",
        lambda: built(minutes(counted())),
    ),
    Case(
        f"{CHAIN}::_chainable",
        semi,
        "processor=True",
        lambda: semi(processor=True),
    ),
    Case(
        LATE,
        read_too,
        "put .shuffle(n, strategy='delta') after 'window', so that one query computes it for all",
        lambda: read_too(durable=True),
    ),
    Case(
        LATE,
        lambda: planned(minutes(counted()).late_to("late").to_data_stream().to_print()),
        "use late_to on the first of them",
        lambda: planned(minutes(counted().late_to("late")).to_data_stream().to_print()),
    ),
    Case(
        LATE,
        lambda: planned(counted().late_to("late").to_data_stream()),
        "end it with a sink such as .to_delta('table')",
        lambda: planned(counted().late_to("late").to_data_stream().to_delta("table")),
    ),
    Case(
        "compile/planner/plan.py::_check_splits",
        lambda: by_split("split"),
        "leave per='split' out, or put .shuffle(n, strategy='delta') after 'first'",
        lambda: (by_split(), by_split("split", durable=True)),
    ),
]

"""Remedies of joins, of deduplication and of dimensions."""

from __future__ import annotations

from rs_assets import Dimension, HoppingWindow, Interval, Time
from tests.topology.followed_programs import TEN, Case, begin, built, counted, hits, two

SPEC = "operators/join/spec.py"
STREAM = "stream/join_stream.py::JoinSteps._beside"
NODE = "topology/nodes/join.py::StreamJoin._refused"
CHECK = "topology/check/rules.py"
UPDATES = "topology/updates.py"
DIMENSION = "operators/dimension/spec.py::Dimension"
DIM_JOIN = "topology/nodes/dim_join.py::DimJoin._refused"
USERS = Dimension.from_file("/data/users.jsonl", schema="page string, tier string")
TEN_MINUTES = Time.minutes(10)
HOPPING = HoppingWindow.of(Time.seconds(10), Time.seconds(5), "ts")


def joined(schema="page string, ms bigint, ts timestamp", **how):
    one, other = two(schema)
    return one.join(other, **{"on": "page", "within": TEN_MINUTES, "time_field": "ts", **how})


def unbound(**how):
    return built(joined(**{"within": None, "time_field": None, **how}))


def itself(**how):
    rows = hits(schema="page string, ms bigint, ts timestamp, seen timestamp")
    mine, other = rows.filter("ms > 1"), rows.filter("ms < 1")
    return built(mine.join(other, **{"on": "page", "within": TEN_MINUTES, "time_field": "ts", "prefix": "r_", **how}))


def twice(**how):
    """One file that is read twice, under two names."""
    one, other = two("page string, ms bigint, ts timestamp, seen timestamp")
    return built(one.join(other, **{"on": "page", "within": TEN_MINUTES, "prefix": "r_", **how}))


def unlike(**cast):
    """A join by a text and a number."""
    builder = begin("unlike")
    one = builder.from_file("a.jsonl", schema="page string, ts timestamp", name="a")
    other = builder.from_file("b.jsonl", schema="page bigint, ts timestamp", name="b")
    other = other.with_fields(**cast) if cast else other
    return built(one.join(other, on="page", within=TEN_MINUTES, time_field="ts"))


def early(**how):
    return joined(how="left", early=True, **how)


def upserted(stream, **how):
    return stream.to_delta("t", mode="upsert", **{"keys": ["page"], **how}).build()


def looked_up(dimension=USERS, **how):
    return built(hits().dim_join(dimension, **{"on": "page", **how}))


CASES = [
    Case(f"{SPEC}::pairs_of", lambda: joined(on=None), "on='user', on=['a', 'b']", lambda: built(joined(on="page"))),
    Case(
        f"{SPEC}::pairs_of",
        lambda: joined(on=5),
        "on=['a', 'b'] or on={'left_field': 'right_field'}",
        lambda: (built(joined(on=["page", "ms"])), built(joined(on={"page": "page"}))),
    ),
    Case(
        f"{SPEC}::Interval.__post_init__",
        lambda: Interval.of(before=10),
        "before=Time.seconds(10)",
        lambda: Interval.of(before=Time.seconds(10)),
    ),
    Case(
        f"{SPEC}::Interval.__post_init__",
        lambda: Interval.of(before=Time.seconds(-5), after=Time.seconds(2)),
        "before + after must be zero or more",
        lambda: built(joined(within=Interval.of(before=Time.seconds(-2), after=Time.seconds(2)))),
    ),
    Case(
        f"{SPEC}::bound_of",
        lambda: joined(within="10 minutes"),
        "use a timedelta, Interval.of(before=, after=), a tumbling or a hopping window, or None",
        lambda: (
            built(joined(within=TEN_MINUTES)),
            built(joined(within=Interval.of(before=TEN_MINUTES, after=TEN_MINUTES))),
            built(joined(within=TEN)),
            built(joined(within=HoppingWindow.of(Time.seconds(10), Time.seconds(5), "ts"))),
            unbound(),
        ),
    ),
    Case(
        STREAM,
        lambda: hits().join(hits(job="others"), on="page", within=TEN_MINUTES, time_field="ts"),
        "begin both from one StreamBuilder.data_stream(...)",
        lambda: built(joined()),
    ),
    Case(
        STREAM,
        lambda: hits().join(USERS, on="page", within=TEN_MINUTES, time_field="ts"),
        ".dim_join(dimension, on='user')",
        looked_up,
    ),
    Case(
        NODE,
        lambda: joined(how="cross"),
        "use one of: inner, left",
        lambda: built(joined(how="left")),
    ),
    Case(
        NODE,
        lambda: unbound(how="left"),
        "give it one, such as within=Time.minutes(10); without a bound only inner joins",
        lambda: (built(joined(how="left", within=Time.minutes(10))), unbound()),
    ),
    Case(
        NODE,
        lambda: built(joined(time_field=None)),
        "time_field='ts' or time_field=('left', 'right')",
        lambda: (built(joined(time_field="ts")), built(joined(time_field=("ts", "ts")))),
    ),
    Case(NODE, lambda: unbound(time_field="ts"), "leave time_field= and water_mark= out", unbound),
    Case(
        NODE,
        lambda: built(joined(how="semi", prefix="r_")),
        "leave prefix= out",
        lambda: built(joined(how="semi")),
    ),
    Case(
        NODE,
        lambda: built(joined(early=True)),
        "leave early= out, or set how= to one of: anti, full, left, right",
        lambda: (built(joined()), built(early())),
    ),
    Case(NODE, lambda: unbound(processor=True), "leave processor= out", unbound),
    Case(
        "common/node.py::check_switches",
        lambda: built(joined(how="left", early=1)),
        "early=True or early=False",
        lambda: (built(early()), built(joined(how="left", early=False))),
    ),
    Case(
        "operators/window/durations.py::checked_duration",
        lambda: built(early(within=Time.days(200_000_000))),
        "Time.days(365000) or less",
        lambda: built(early(within=Time.days(365_000))),
    ),
    Case(
        NODE,
        lambda: itself(within=None, time_field=None),
        "such as within=Time.minutes(10), or read the source twice, under two names",
        lambda: (itself(), twice(within=None)),
    ),
    Case(
        NODE,
        lambda: itself(time_field=("ts", "seen")),
        "name one field for both sides, or read the source twice, under two names",
        lambda: (itself(time_field="ts"), twice(time_field=("ts", "seen"))),
    ),
    Case(
        NODE,
        lambda: itself(water_mark=(Time.seconds(1), Time.seconds(2))),
        "give one for both sides",
        lambda: itself(water_mark=Time.seconds(2)),
    ),
    Case(
        f"{SPEC}::unlike_keys",
        unlike,
        ".with_fields(page='cast(page as string)')",
        lambda: unlike(page="cast(page as string)"),
    ),
    Case(
        f"{SPEC}::two_fields",
        lambda: built(joined(prefix="r_", schema="page string, r_page string, ts timestamp")),
        "prefix='right_'",
        lambda: built(joined(prefix="right_", schema="page string, r_page string, ts timestamp")),
    ),
    Case(
        f"{UPDATES}::_check_early",
        lambda: built(counted(early())),
        "leave early= out, or make a table of that join: .to_table('id', deletes='retracted')",
        lambda: (
            built(counted(joined(how="left"))),
            early().to_table("page", deletes="retracted").to_delta("t").build(),
        ),
    ),
    Case(
        f"{UPDATES}::_check_early",
        lambda: upserted(early()),
        "deletes='retracted'",
        lambda: upserted(early(), deletes="retracted"),
    ),
    Case(
        f"{UPDATES}::_check_early_upsert",
        lambda: upserted(early(within=HOPPING), deletes="retracted"),
        "name these keys: 'page', 'start_time'",
        lambda: upserted(early(within=HOPPING), deletes="retracted", keys=["page", "start_time"]),
    ),
    Case(
        f"{UPDATES}::_check_early_upsert",
        lambda: upserted(early(), deletes="retracted", order_by="ts"),
        "leave order_by= out, or give that join a prefix",
        lambda: (
            upserted(early(), deletes="retracted"),
            upserted(early(prefix="r_"), deletes="retracted", order_by="ts"),
        ),
    ),
    Case(
        "topology/nodes/distinct.py::Distinct.__post_init__",
        lambda: built(hits().distinct(within=Time.minutes(1))),
        ".distinct('id', within=Time.minutes(10))",
        lambda: built(hits(schema="id string").distinct("id", within=Time.minutes(10))),
    ),
    Case(
        f"{DIMENSION}.__post_init__",
        lambda: Dimension.from_file("/d.jsonl", schema="page string", every=5),
        "every=Time.minutes(5)",
        lambda: looked_up(Dimension.from_file("/d.jsonl", schema="page string", every=Time.minutes(5))),
    ),
    Case(
        f"{DIMENSION}.from_file",
        lambda: Dimension.from_file("/d.jsonl", format="xml", schema="page string"),
        "json",
        lambda: looked_up(Dimension.from_file("/d.jsonl", format="json", schema="page string")),
    ),
    Case(
        f"{DIMENSION}.from_file",
        lambda: Dimension.from_file("/d.jsonl"),
        "schema='user string, tier string'",
        lambda: looked_up(Dimension.from_file("/d.jsonl", schema="user string, tier string"), on={"page": "user"}),
    ),
    Case(
        f"{DIMENSION}.from_database",
        lambda: Dimension.from_database("sqlite:///users.db"),
        "either table='users' or sql='SELECT ...'",
        lambda: (
            Dimension.from_database("sqlite:///users.db", table="users"),
            Dimension.from_database("sqlite:///users.db", sql="SELECT page FROM users"),
        ),
    ),
    Case(DIM_JOIN, lambda: looked_up(hits("users")), "Dimension.from_file(...)", looked_up),
    Case(DIM_JOIN, lambda: looked_up(how="full"), "use one of: inner, left", lambda: looked_up(how="left")),
    Case(
        DIM_JOIN,
        lambda: looked_up(prefix=""),
        "leave prefix= out, or write prefix='dim_'",
        lambda: (looked_up(), looked_up(prefix="dim_")),
    ),
]

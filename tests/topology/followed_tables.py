"""Remedies of tables, of their groups and joins."""

from __future__ import annotations

from rs_assets import Dimension, Time
from tests.topology.followed_programs import TEN, Case, begin, hits

NODES = "topology/nodes/table.py"
TABLE = "stream/table.py"
TIERS = Dimension.from_file("tiers.csv", schema="name bigint, tier string")
UPDATES = "topology/updates.py::_check_changes"


def stream(schema="id bigint, user bigint, ms bigint, key binary", **how):
    return hits(schema=schema, **{"tail": True, **how})


def orders(*keys, **how):
    return stream().to_table(*(keys or ("id",)), **how)


def flagged():
    return stream("id bigint, retracted string").to_table("id")


def built(table):
    return table.to_stream().to_print().build()


def kept(changes):
    """The rows of changes in a table, which a row that goes leaves."""
    return changes.to_delta("t", mode="upsert", keys=["id"], deletes="retracted").build()


def source(builder, name):
    return builder.from_file(f"{name}.jsonl", schema=f"{name} bigint, v_{name} bigint", tail=True, name=name)


def both():
    """Two streams of one pipeline."""
    builder = begin("two")
    return source(builder, "a"), source(builder, "b")


def joined(**how):
    left, right = both()
    return built(left.to_table("a", name="left").join(right.to_table("b", name="right"), **how))


def joined_by_two(**how):
    left, right = both()
    return built(left.to_table("a", "v_a", name="left").join(right.to_table("b", name="right"), **how))


def looked_up(**how):
    clicks, right = both()
    return clicks.join_table(right.to_table("b"), on={"a": "b"}, **how).to_print().build()


def by_time(**how):
    clicks, right = both()
    table = right.to_table("b", time_field="v_b", history=Time.hours(1))
    return (table.filter("b > 0") if how.get("filtered") else table), clicks


def of_its_time(table, clicks):
    return clicks.join_table(table, on={"a": "b"}, time_field="v_a").to_print().build()


def beside_stream():
    left, clicks = both()
    return left.to_table("a").join(clicks)


def of_two_pipelines():
    left, _ = both()
    return left.to_table("a").join(orders())


CASES = [
    Case(
        "topology/check/rules.py::_check_deletes",
        lambda: built(orders(deletes="CAST(ms AS INT)")),
        "deletes='(CAST(ms AS INT)) IS NOT NULL'",
        lambda: built(orders(deletes="(CAST(ms AS INT)) IS NOT NULL")),
    ),
    Case(
        f"{NODES}::ToTable.__post_init__",
        lambda: orders(time_to_live=Time.hours(1)),
        "name the field of its event time: time_field='ts'",
        lambda: built(orders(time_to_live=Time.hours(1), time_field="ms")),
    ),
    Case(
        "stream/table_steps.py::TableSteps.to_table",
        lambda: orders(history=Time.hours(1)),
        "name the field from which a row is valid: time_field='ts'",
        lambda: built(orders(history=Time.hours(1), time_field="ms")),
    ),
    Case(
        "stream/table_steps.py::_versions",
        lambda: of_its_time(*by_time(filtered=True)),
        "with a history: .to_table('id', time_field='ts', history=Time.hours(1))",
        lambda: of_its_time(*by_time()),
    ),
    Case(
        f"{NODES}::TableState.__post_init__",
        lambda: stream().to_table(),
        ".to_table('id')",
        lambda: built(stream().to_table("id")),
    ),
    Case(
        f"{NODES}::TableGroup.__post_init__",
        lambda: orders().group_by("user").to_table(),
        "add .count('rows') or another aggregate",
        lambda: built(orders().group_by("user").count("rows").to_table()),
    ),
    Case(
        f"{NODES}::TableGroup.__post_init__",
        lambda: orders().group_by("user").max("ms", "user").to_table(),
        "give the aggregate another name",
        lambda: built(orders().group_by("user").max("ms", "longest").to_table()),
    ),
    Case(
        f"{NODES}::TableJoin.__post_init__",
        lambda: joined(on={"v_a": "b"}, how="full"),
        "use one of: inner, left, outer",
        lambda: joined(on={"v_a": "b"}, how="outer"),
    ),
    Case(
        f"{NODES}::StreamTableJoin.__post_init__",
        lambda: looked_up(how="outer"),
        "use one of: inner, left",
        lambda: looked_up(how="left"),
    ),
    Case(
        f"{TABLE}::Table.with_fields",
        lambda: orders().with_fields(id="id + 1"),
        "give the field another name",
        lambda: built(orders().with_fields(next="id + 1")),
    ),
    Case(f"{TABLE}::table_of", beside_stream, "make one of a stream: .to_table('id')", lambda: joined(on={"a": "b"})),
    Case(
        f"{TABLE}::table_of",
        of_two_pipelines,
        "begin both from one StreamBuilder.data_stream(...)",
        lambda: joined(on={"a": "b"}),
    ),
    Case(f"{TABLE}::_check_pairs", joined_by_two, "on={'...': 'b'}", lambda: joined_by_two(on={"a": "b"})),
    Case(
        "topology/user_code/expression.py::_refuse_unsteady",
        lambda: orders().filter("rand() > 0.5"),
        "compute it before .to_table(...)",
        lambda: built(stream().with_fields(chance="rand()").to_table("id").filter("chance > 0.5")),
    ),
    Case(
        f"{NODES}::TableTop.__post_init__",
        lambda: orders().group_by().top_n(3, by="ms"),
        "for all rows one that all have: .with_fields(all_rows='1')",
        lambda: built(orders().with_fields(all_rows="1").group_by("all_rows").top_n(3, by="ms")),
    ),
    Case(
        f"{TABLE}::GroupedTable.top_n",
        lambda: stream().group_by("user").top_n(3, by="ms"),
        ".to_table('id').group_by('user').top_n(3, by='ms')",
        lambda: built(stream().to_table("id").group_by("user").top_n(3, by="ms")),
    ),
    Case(
        "topology/check/rules.py::_first",
        lambda: built(orders().group_by("user").top_n(3, by="ms", rank="ms")),
        "name the number of a row: rank='ms_2'",
        lambda: built(orders().group_by("user").top_n(3, by="ms", rank="ms_2")),
    ),
    Case(
        f"{TABLE}::_check_distinct",
        lambda: orders().group_by("user").aggregate(sizes="size(collect_list(DISTINCT ms))"),
        "such as size(collect_set(ms)), or .count_distinct('ms')",
        lambda: built(orders().group_by("user").aggregate(sizes="size(collect_set(ms))")),
    ),
    Case(
        UPDATES,
        lambda: orders().to_stream().window(TEN).count("n").to_print().build(),
        "use the methods of the table",
        lambda: built(orders().group_by("user").count("n")),
    ),
    Case(
        UPDATES,
        lambda: orders().map_values("ms").to_stream().to_delta("t", mode="upsert", keys=["id"]).build(),
        "write the table itself, .to_delta(...) without .to_stream()",
        lambda: orders().map_values("ms").to_delta("t").build(),
    ),
    Case(
        "topology/updates.py::_check_deciding",
        lambda: kept(orders().to_stream().dim_join(TIERS, on={"user": "name"}, name="dim_join")),
        "put 'dim_join' before 'table', or take dim_left_join without a filter after it",
        lambda: (
            stream().dim_join(TIERS, on={"user": "name"}, name="dim_join").to_table("id").to_delta("t").build(),
            kept(orders().to_stream().dim_left_join(TIERS, on={"user": "name"}, name="dim_join")),
        ),
    ),
    Case(
        "topology/updates.py::_check_deciding",
        lambda: kept(orders().to_stream().with_fields(old="unix_timestamp() > ms", name="aged").filter("old")),
        "put 'aged' before 'table'",
        lambda: (
            stream()
            .with_fields(old="unix_timestamp() > ms", name="aged")
            .filter("old")
            .to_table("id")
            .to_delta("t")
            .build()
        ),
    ),
    Case(
        "compile/planner/plan.py::_check_order",
        lambda: stream(tail=False).to_table("id").to_delta("t").build(),
        "name fields that grow: order_by='ts', or follow files (tail=True)",
        lambda: stream(tail=False).to_table("id", order_by="ms").to_delta("t").build(),
    ),
    Case(
        "connectors/messages.py::not_plain",
        lambda: stream().to_table("key").to_delta("t").build(),
        "of bytes take hex(key)",
        lambda: stream().with_fields(text="hex(key)").to_table("text").to_delta("t").build(),
    ),
    Case(
        "connectors/messages.py::flag_taken",
        lambda: built(flagged()),
        ".map_values('retracted AS old', ...)",
        lambda: built(flagged().map_values("retracted AS old")),
    ),
]

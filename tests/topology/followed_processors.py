"""Remedies of Python functions with state."""

from __future__ import annotations

from rs_assets import Processor, Time, ValueStore
from tests.topology.followed_programs import Case, begin, hits

NODE = "topology/nodes/process.py::Process.__post_init__"
HOW = {"keys": "user", "state": "n bigint", "schema": "user string, n bigint"}


def count(key, state, rows):
    return {"n": len(rows)}, []


def counted(**how):
    stream = hits(schema="user string, ms bigint", tail=True)
    return stream.process_values(count, **{**HOW, **how}).to_print().build()


class Seen(Processor):
    """Counts the rows of a user."""

    seen = ValueStore("n bigint")

    def process(self, key, row, context):
        context.forward({"n": 1})


class Clash(Seen):
    """Has a store that is called like the context's key."""

    key = ValueStore("n bigint")


class Own(Seen):
    """Has a store that is called like a key."""

    user = ValueStore("n bigint")


class Nothing(Processor):
    """Keeps nothing."""

    def process(self, key, row, context):
        context.forward({"n": 1})


STREAM = "stream/processed_stream.py"
GROUPS = "stream/reduced_table.py"


def first(value, row):
    return {"n": 1}


def third(key, row, value):
    return {"n": 1}


def orders(name, begun=None, fields="user string, ms bigint"):
    begun = begun or begin(name)
    return begun.from_file(f"{name}.jsonl", schema=fields, tail=True, name=name).to_table("user", name=f"{name}_table")


def reduced(before=lambda groups: groups, **how):
    groups = before(orders("orders").group_by("ms"))
    return groups.reduce(first, **{"subtract": first, "schema": "n int", **how}).to_stream().to_print().build()


def cogrouped(*, by="ms"):
    shop = begin("cogroup")
    one, other = (orders(name, shop, f"user string, {field} bigint") for name, field in (("a", "ms"), ("b", by)))
    groups = one.group_by("ms").cogroup(third, subtract=third).cogroup(other.group_by(by), third, subtract=third)
    return groups.aggregate(schema="n int").to_stream().to_print().build()


def seen(output=None, processor=Seen, **how):
    stream = hits(schema="user string, ms bigint", tail=True).process(
        processor, **{"keys": "user", "schema": "n bigint", **how}
    )
    if output is not None:
        stream.output(output).to_print(name="other")
    return stream.to_print().build()


CASES = [
    Case(
        f"{GROUPS}::CogroupedTable.aggregate",
        lambda: cogrouped(by="other"),
        "give the fields equal names before: .map('buyer AS user', ...)",
        cogrouped,
    ),
    Case(
        f"{GROUPS}::adder",
        lambda: reduced(lambda groups: groups.count("rows")),
        "compute them in the function too",
        reduced,
    ),
    Case(
        f"{GROUPS}::adder",
        lambda: reduced(subtract=None),
        "subtract=, a function of the same form that takes the effect of a row away",
        reduced,
    ),
    Case(
        "topology/nodes/table_reduce.py::TableReduce.__post_init__",
        lambda: reduced(schema="ms int"),
        "leave it out of schema=: a value is kept with its key",
        reduced,
    ),
    Case(
        "topology/check/rules.py::_processed",
        lambda: seen(processor=Own),
        "give the store another name",
        lambda: seen(processor=Seen),
    ),
    Case(
        f"{STREAM}::state_of",
        lambda: seen(processor=len),
        "class Mine(Processor): ..., then .process(Mine, ...); or .process_values(function, ...)",
        lambda: seen(processor=Seen) and counted(),
    ),
    Case(
        NODE.replace("__post_init__", "_check_time"),
        lambda: seen(time_field="ms", tick=Time.seconds(1)),
        "leave tick= or time_field= out",
        lambda: seen(time_field="ms"),
    ),
    Case(
        NODE.replace("__post_init__", "_check_time"),
        lambda: seen(water_mark=Time.seconds(1)),
        "name the field of its event time: time_field='ts'",
        lambda: seen(water_mark=Time.seconds(1), time_field="ms"),
    ),
    Case(
        f"{STREAM}::ProcessedStream.of",
        lambda: seen(outputs={"main": "n bigint"}),
        "give it another name",
        lambda: seen(outputs={"rest": "n bigint"}, output="rest"),
    ),
    Case(
        f"{STREAM}::ProcessedStream.output",
        lambda: seen(output="late"),
        "declare it: outputs={'late': 'n bigint'}",
        lambda: seen(output="late", outputs={"late": "n bigint"}),
    ),
    Case(
        f"{STREAM}::state_of",
        lambda: seen(processor=Clash),
        "give the store another name",
        lambda: seen(processor=Seen),
    ),
    Case(
        f"{STREAM}::state_of",
        lambda: seen(processor=Nothing),
        "declare a store, such as last = ValueStore('n bigint'), or use .flat_map(function, schema=...)",
        lambda: seen(processor=Seen),
    ),
    Case(
        NODE,
        lambda: counted(keys=[]),
        "name the fields that have a state of their own: keys='user'",
        lambda: counted(keys="user"),
    ),
    Case(NODE, lambda: counted(buckets=0), "leave buckets= out", counted),
    Case(
        "stream/process_steps.py::needed_schema",
        lambda: counted(state=None),
        "name its fields: state='n bigint'",
        lambda: counted(state="n bigint"),
    ),
    Case(
        "stream/process_steps.py::needed_schema",
        lambda: seen(outputs={"late": None}, output="late"),
        "name its fields: outputs={'late': 'n bigint'}",
        lambda: seen(outputs={"late": "n bigint"}, output="late"),
    ),
    Case(
        "topology/check/rules.py::_processed",
        lambda: counted(state="user string, n bigint"),
        "leave it out of state=: a state is kept with its key",
        lambda: counted(state="n bigint"),
    ),
]

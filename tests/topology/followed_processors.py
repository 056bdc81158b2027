"""Remedies of Python functions with state."""

from __future__ import annotations

from rs_assets import Processor, Time, ValueStore
from tests.topology.followed_programs import Case, hits

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


def seen(output=None, processor=Seen, **how):
    stream = hits(schema="user string, ms bigint", tail=True).process(
        processor, **{"keys": "user", "schema": "n bigint", **how}
    )
    if output is not None:
        stream.output(output).to_print(name="other")
    return stream.to_print().build()


CASES = [
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
        "stream/process_steps.py::_text",
        lambda: counted(state=None),
        "state='n bigint'",
        lambda: counted(state="n bigint"),
    ),
    Case(
        "topology/check/rules.py::_processed",
        lambda: counted(state="user string, n bigint"),
        "leave it out of state=: a state is kept with its key",
        lambda: counted(state="n bigint"),
    ),
]

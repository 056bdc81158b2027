"""What of two versions of a pipeline makes state another one, and what is only written in another way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from rs_assets import Dimension, GlobalWindow, Rules, StreamBuilder, Time, TumblingWindow
from rs_assets.checkpoint.manifest import QueryFacts
from rs_assets.runtime.identity import stored_shape
from rs_assets.stream.data_stream import DataStream
from rs_assets.topology.shape import Shape, changes, shape_of

SCHEMA = "page string, n bigint, m bigint, ts timestamp"
COUNT: dict[str, Any] = {"keys": "page", "state": "c bigint", "name": "counts"}


class Sum:
    def __init__(self, field: str) -> None:
        self.field = field

    def create(self) -> int:
        return 0

    def accumulate(self, accumulator: int, row: dict[str, Any]) -> int:
        return accumulator + int(row[self.field])

    def merge(self, one: int, other: int) -> int:
        return one + other

    def value(self, accumulator: int) -> dict[str, Any]:
        return {self.field: accumulator}


def once(key: Any, state: Any, rows: Any) -> Any:
    return {"c": 1}, [{**key, "n": 1, "ts": rows[0]["ts"]}]


def twice(key: Any, state: Any, rows: Any) -> Any:
    return {"c": 1}, [{**key, "n": 2, "ts": rows[0]["ts"]}]


def begin(schema: str = SCHEMA) -> DataStream:
    return StreamBuilder.data_stream("shop", "job").from_file("in.jsonl", schema=schema)


def of(stream: Any, step: str) -> Shape:
    return shape_of(stream.to_print().build().topology, step)


def window(stream: DataStream) -> Any:
    return stream.window(TumblingWindow.of(Time.minutes(1), "ts"), name="w").group_by("page")


def sums(stream: DataStream) -> Shape:
    return of(window(stream).sum("n", "total").to_data_stream(), "w")


def reduced(*names: str) -> Shape:
    made = window(begin())
    for name in names:
        made = made.reduce(Sum(name), schema=f"{name} bigint", name=f"of_{name}")
    return of(made.to_data_stream(), "w")


def ever(first: str, second: str) -> Shape:
    made = begin().window(GlobalWindow.of(), name="w").group_by("page").sum("n", first).sum("m", second)
    return of(made.to_data_stream(), "w")


def twice_windowed(first: str, second: str, step: str = "longer") -> Shape:
    made = window(begin()).sum("n", first).sum("m", second).to_data_stream()
    longer = made.window(TumblingWindow.of(Time.minutes(5), "end_time"), name="longer").group_by("page")
    return of(longer.sum("a", "total").to_data_stream(), step)


def rows_of(first: tuple[str, ...], second: tuple[str, ...], step: str = "longer") -> Shape:
    made = window(begin()).reduce(longest, schema="a bigint", fields=first, name="one")
    made = made.reduce(longest, schema="b bigint", fields=second, name="two").to_data_stream()
    longer = made.window(TumblingWindow.of(Time.minutes(5), "end_time"), name="longer").group_by("page")
    return of(longer.sum("a", "total").to_data_stream(), step)


def longest(value: Any, row: dict[str, Any]) -> dict[str, Any]:
    return {"a": 1}


def looked_up(fields: str) -> Shape:
    return sums(begin().dim_join(Dimension.from_file("d.jsonl", schema=fields), on="page"))


def judged(rules: Rules, carry: str = "having") -> Shape:
    made = begin().match(rules, form="per_match", carry=["having", carry] if carry != "having" else ["having"])
    return of(made.alerts("ts"), "alerts")


def avro(schema_id: int) -> Shape:
    source = StreamBuilder.data_stream("shop", "job").from_kafka(
        "k:9092", "hits", format="confluent_avro", schema=SCHEMA, schema_id=schema_id, name="hits"
    )
    return sums(source)


def rules(**conditions: str) -> Rules:
    having = {"having": "count >= 3 within 5 minutes", "severity": "high"}
    return Rules.of([{"rule": name, "condition": text, **having} for name, text in conditions.items()])


def counted(function: Any, schema: str = "page string, n bigint, ts timestamp", step: str = "w", **more: Any) -> Shape:
    made = begin().process_values(function, schema=schema, **{**COUNT, **more}).shuffle(2, strategy="delta")
    return of(window(made).sum("n", "total").to_data_stream(), step)


Pair = Callable[[], tuple[Shape, Shape]]
REFUSED: dict[str, Pair] = {
    "accumulators of one type in another order": lambda: (reduced("n", "m"), reduced("m", "n")),
    "values of rows that are retracted, under other names": lambda: (ever("a", "b"), ever("b", "a")),
    "values that a later step reads, under other names": lambda: (twice_windowed("a", "b"), twice_windowed("b", "a")),
    "rows of functions before a later step": lambda: (rows_of(("n",), ("n", "m")), rows_of(("n", "m"), ("n",))),
    "a field of a dimension in place of one of the stream": lambda: (
        looked_up("page string, tier string"), looked_up("page string, tier string, n bigint"),
    ),
    "what a match carries": lambda: (judged(rules(a="(n,>,1)")), judged(rules(a="(n,>,1)"), carry="severity")),
    "a processor's function before other state": lambda: (counted(once), counted(twice)),
    "a processor's fields before other state": lambda: (
        counted(once), counted(once, "page string, n int, ts timestamp"),
    ),
    "the order of a processor's rows before other state": lambda: (counted(once), counted(once, order_by="n")),
    "the schema that Avro records were written with": lambda: (avro(7), avro(8)),
    "a schema with another type": lambda: (sums(begin()), sums(begin(SCHEMA.replace("m bigint", "m int")))),
    "a schema in another order": lambda: (sums(begin()), sums(begin("n bigint, page string, m bigint, ts timestamp"))),
    "a field that may not be null": lambda: (
        sums(begin()), sums(begin(SCHEMA.replace("m bigint", "m bigint NOT NULL"))),
    ),
}  # fmt: skip
KEPT: dict[str, Pair] = {
    "a schema in other lines": lambda: (sums(begin()), sums(begin("page STRING,n LONG,\n m  bigint, ts timestamp"))),
    "the state of a processor in other letters": lambda: (
        counted(once, step="counts"), counted(once, step="counts", state="c  LONG"),
    ),
    "a processor's own function": lambda: (counted(once, step="counts"), counted(twice, step="counts")),
    "a processor's fields in other lines": lambda: (
        counted(once), counted(once, "page  string, n LONG,\nts timestamp"),
    ),
    "values of the last step under other names": lambda: (
        twice_windowed("a", "b", "w"), twice_windowed("b", "a", "w"),
    ),
    "rows of functions of the last step": lambda: (
        rows_of(("n",), ("n", "m"), "w"), rows_of(("n", "m"), ("n",), "w"),
    ),
    "another function of one accumulator": lambda: (reduced("n"), reduced("m")),
    "a rule more": lambda: (judged(rules(a="(n,>,1)")), judged(rules(a="(n,>,1)", b="(n,>,2)"))),
    "rules in another place": lambda: (
        judged(Rules.from_file("/a/r.jsonl", columns="having string")),
        judged(Rules.from_file("/b/r.jsonl", columns="having string")),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_state_with_another_meaning_is_refused(case: str) -> None:
    one, other = REFUSED[case]()
    assert changes(one, one) == ()
    for was, now in ((one, other), (other, one)):
        assert len(changes(was, now)) == 2


@pytest.mark.parametrize("case", KEPT)
def test_state_with_the_same_meaning_is_kept(case: str) -> None:
    for was, now in (pair := KEPT[case](), pair[::-1]):
        assert changes(was, now) == ()


def test_state_of_releases_that_told_less_is_kept() -> None:
    for case in ("accumulators of one type in another order", "a processor's function before other state"):
        was, now = REFUSED[case]()
        stored = tuple({name: value for name, value in asdict(node).items() if name != "further"} for node in was)
        assert changes(stored_shape(QueryFacts(generation=1, shape=stored)), now) == ()

"""Remedies of user-defined functions and their types, and of functions that are called outside of a text."""

from __future__ import annotations

from collections.abc import Iterator

from rs_assets import F, aggregate_function, function, functions, table_function
from rs_assets.expressions.functions.registry import function_named
from rs_assets.records.schema import ddl_type
from tests.topology.followed_programs import TEN, Case, built, hits

SIGNATURE = "udf/signature.py"
DECLARE = "udf/declare.py"


class Sum:
    def create(self) -> int:
        return 0

    def accumulate(self, accumulator: int, value: int) -> int:
        return accumulator + value

    def value(self, accumulator: int) -> int:
        return accumulator


class Untyped(Sum):
    def create(self):  # type: ignore[no-untyped-def]
        return 0

    def merge(self, one: int, other: int) -> int:
        return one + other


class Typed(Untyped):
    def create(self) -> int:
        return 0


class NoValue:
    def create(self) -> int:
        return 0

    def accumulate(self, accumulator: int, value: int) -> int:
        return accumulator + value


class AnyNumber(Sum):
    def accumulate(self, accumulator: int, *values: int) -> int:  # type: ignore[override]
        return accumulator + sum(values)


def bare(s) -> str:  # type: ignore[no-untyped-def]
    return s


def typed(s: str) -> str:
    return s


def no_result(s: str):  # type: ignore[no-untyped-def]
    return s


def optional(s: str) -> str | None:
    return s


def no_rows(s: str):  # type: ignore[no-untyped-def]
    yield s


def rows(s: str) -> Iterator[str]:
    yield s


def of_object(s: object) -> str:
    return str(s)


def keyword_only(*, s: str) -> str:
    return s


def positional(s: str, n: int = 1) -> str:
    return s * n


@function(name="followed_typed")
def followed_typed(s: str) -> str:
    return s


def scripted(text):
    return built(hits().script(text))


CASES = [
    Case(
        f"{SIGNATURE}::_of_hints",
        lambda: function(bare),
        "annotate it (s: str)",
        lambda: function(typed),
    ),
    Case(
        f"{SIGNATURE}::_of_hints",
        lambda: function(bare),
        "arguments='s string'",
        lambda: function(arguments="s string")(bare),
    ),
    Case(
        f"{SIGNATURE}::returned_by",
        lambda: function(no_result),
        "annotate it (-> str | None)",
        lambda: function(optional),
    ),
    Case(
        f"{SIGNATURE}::returned_by",
        lambda: function(no_result),
        "returns='string'",
        lambda: function(returns="string")(no_result),
    ),
    Case(
        f"{SIGNATURE}::accumulator_of",
        lambda: aggregate_function(name="followed_merged")(Untyped),
        "annotate what create() returns (-> list[int])",
        lambda: aggregate_function(name="followed_annotated")(Typed),
    ),
    Case(
        f"{SIGNATURE}::accumulator_of",
        lambda: aggregate_function(name="followed_merged")(Untyped),
        "accumulator='array<bigint>'",
        lambda: aggregate_function(name="followed_declared", accumulator="array<bigint>")(Untyped),
    ),
    Case(
        f"{SIGNATURE}::rows_returned_by",
        lambda: table_function()(no_rows),
        "returns='word string, n bigint'",
        lambda: table_function(returns="word string, n bigint")(no_rows),
    ),
    Case(
        f"{SIGNATURE}::spark_type",
        lambda: function(of_object),
        "arguments='s string, n bigint', returns='string'",
        lambda: function(arguments="s string", returns="string")(of_object),
    ),
    Case(
        f"{SIGNATURE}::_checked",
        lambda: function(returns="money")(typed),
        "write it as 'bigint'",
        lambda: function(returns="bigint")(typed),
    ),
    Case(
        f"{SIGNATURE}::_no_function",
        lambda: function(keyword_only),
        "def f(s: str, n: int = 1) -> str",
        lambda: function(positional),
    ),
    Case(
        f"{DECLARE}::aggregate",
        lambda: aggregate_function(name="followed_none")(NoValue),
        "give it create, accumulate and value",
        lambda: aggregate_function(name="followed_total")(Sum),
    ),
    Case(
        f"{DECLARE}::aggregate",
        lambda: aggregate_function(name="followed_any")(AnyNumber),
        "name each of them",
        lambda: aggregate_function(name="followed_total")(Sum),
    ),
    Case(
        "expressions/functions/udf.py::declare",
        lambda: [function(name="followed_twice")(each) for each in (typed, optional)],
        "take another name",
        lambda: [function(name=f"followed_{each.__name__}_too")(each) for each in (typed, optional)],
    ),
    Case(
        "expressions/functions/function.py::Function.sql",
        lambda: function_named("upper", 1).sql("a", "b"),
        "write upper(",
        lambda: function_named("upper", 1).sql("a"),
    ),
    Case(
        "expressions/functions/formats.py::checked_zone",
        lambda: hits().script("x=now()", zone="Mars/Olympus"),
        "write it as Europe/Berlin, UTC or +08:00",
        lambda: [built(hits().script("x=now()", zone=each)) for each in ("Europe/Berlin", "UTC", "+08:00")],
    ),
    Case(
        "records/schema.py::ddl_type",
        lambda: ddl_type(object, step="read", field="a"),
        "declare it with schema='...'",
        lambda: built(hits().map(lambda row: row, schema="a string")),
    ),
    Case(
        "topology/user_code/called.py::_sql",
        lambda: functions.followed_typed([1]),
        '"ms / 1000" or "\'a text\'"',
        lambda: [functions.followed_typed("ms / 1000"), functions.followed_typed("'a text'")],
    ),
    Case(
        "topology/nodes/window.py::WindowAggregate.__post_init__",
        lambda: built(hits().window(TEN).group_by("page").aggregate(n=F.max(functions.followed_typed("page")))),
        "compute its value before, by .with_fields(value=functions.f('x'))",
        lambda: built(
            hits()
            .with_fields(value=functions.followed_typed("page"))
            .window(TEN)
            .group_by("page")
            .aggregate(n=F.max("value"))
        ),
    ),
    Case(
        f"{SIGNATURE}::_fields",
        lambda: table_function(returns="word interval")(no_rows),
        "write it as 's string, n bigint'",
        lambda: table_function(returns="s string, n bigint")(no_rows),
    ),
    Case(
        "expressions/functions/builtin/json.py::_of_key",
        lambda: scripted("x = json_field(page, 'a]')"),
        "rename it at the source",
        lambda: scripted("x = json_field(page, 'a')"),
    ),
]

"""What asks for the clock or for chance is refused where a row that goes must equal the one that came."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rs_assets import F, StreamBuilder, column
from rs_assets.errors import TopologyError
from rs_assets.stream.table import Table
from rs_assets.topology.nodes.step import Filter
from rs_assets.topology.user_code.expression import ColumnBuilder, clock_in, native
from rs_assets.topology.user_code.steady import clock_of, unsteady

CLOCKS = (
    "ts > now()",
    "ts > NOW ( )",
    "curdate() > day",
    "current_timestamp > ts",
    "current_date() > day",
    "localtimestamp > ts",
    "unix_timestamp() > s",
    "TIMESTAMP 'now' > ts",
    "timestamp_ntz'now' > ts",
    'DATE "today" > day',
    "DATE 'yesterday UTC' > day",
    "date('tomorrow') > day",
    "cast('now' AS timestamp) > ts",
    "try_cast(' NOW ' as timestamp_ltz) > ts",
    "'today'::date > day",
    "to_timestamp('now') > ts",
)
CHANCES = ("rand() > 0.5", "uuid() > page", "monotonically_increasing_id() > 5", "shuffle(items)[0] > 1")
STEADY = (
    "page = 'now()'",
    "page = 'now'",
    "`current_date` > day",
    "page IN ('today', 'tomorrow')",
    "unix_timestamp(ts) > s",
    "ts > TIMESTAMP 'epoch'",
    "ts > cast('2026-01-05' AS timestamp)",
    "randomly(page)",
    "x.uuid > 1",
)


def orders() -> Table:
    begin = StreamBuilder.data_stream("shop", "steady")
    return begin.from_file("in.jsonl", schema="id bigint, page string, ts timestamp").to_table("id", order_by="ts")


@pytest.mark.parametrize("text", CLOCKS)
def test_clock_in_sql_text_is_found(text: str) -> None:
    assert unsteady(text) is not None
    assert clock_of(text) == unsteady(text)
    assert clock_in(Filter(name="f", inputs=("a",), condition=native(text, step="f"))) is not None
    with pytest.raises(TopologyError, match="would differ when a row goes"):
        orders().filter(text)


@pytest.mark.parametrize("text", CHANCES)
def test_chance_in_sql_text_is_found_and_no_clock(text: str) -> None:
    assert unsteady(text) is not None
    assert clock_of(text) is None


@pytest.mark.parametrize("text", STEADY)
def test_steady_sql_text_is_taken(text: str) -> None:
    assert unsteady(text) is None


@pytest.mark.parametrize(
    "written",
    [F.current_timestamp() > F.col("ts"), F.rand() > 0.5, F.expr("ts > now()"), F.expr("ts > TIMESTAMP 'now'")],
)
def test_unsteady_column_before_spark_runs_is_refused(written: object) -> None:
    with pytest.raises(TopologyError, match="would differ when a row goes"):
        orders().filter(written)


MADE: dict[str, Callable[[Any], Any]] = {
    "clock": lambda f: f.current_timestamp() > f.col("ts"),
    "chance": lambda f: f.rand() > 0.5,
    "sql": lambda f: f.expr("ts > now()"),
    "literal": lambda f: f.expr("ts > TIMESTAMP 'now'"),
    "cast": lambda f: f.lit("now").cast("timestamp") > f.col("ts"),
    "read": lambda f: f.to_timestamp(f.lit("now")) > f.col("ts"),
    "inner": lambda f: f.exists("items", lambda item: item > f.randn()),
    "seconds": lambda f: f.unix_timestamp() > 5,
    "branch": lambda f: f.when(f.col("id") > 1, f.uuid()).isNotNull(),
}


@pytest.mark.usefixtures("spark")
def test_unsteady_column_of_a_running_spark_is_refused() -> None:
    from pyspark.sql import functions

    for case, made in MADE.items():
        with pytest.raises(TopologyError, match="would differ when a row goes"):
            orders().filter(made(functions), name=case)
        with pytest.raises(TopologyError, match="would differ when a row goes"):
            orders().with_fields(more=made(functions))
        late = orders().filter(column(lambda made=made: made(functions)), name=case)  # type: ignore[misc]
        (node,) = (each for each in late.to_stream().to_print().build().topology if isinstance(each, Filter))
        assert isinstance(node.condition, ColumnBuilder)
        with pytest.raises(TopologyError, match="would differ when a row goes"):
            node.condition.column()
    fields = functions.col("current_date"), functions.col("rand"), functions.lit("now()"), functions.lit("now")
    for steady in fields:
        orders().filter(steady.isNotNull())
        orders().with_fields(more=steady)


@pytest.mark.usefixtures("spark")
def test_columns_of_a_running_spark_have_their_expression_as_identity() -> None:
    from pyspark.sql import functions

    def codes(made: Callable[[Any], Any]) -> set[str]:
        return {native(made(functions), step="f").identity() for _ in range(2)}

    columns: list[Callable[[Any], Any]] = [
        lambda f: f.col("ms") > 1,
        lambda f: f.col("ms") > 2,
        lambda f: f.expr("page = 'a  b'"),
        lambda f: f.expr("page = 'a b'"),
        lambda f: f.transform("items", lambda item: item + f.rand()),
        lambda f: f.transform("items", lambda item: item + f.col("x_1")),
        lambda f: f.rand(5),
        lambda f: f.udf(lambda ms: f"{ms}")("ms"),
    ]
    found = [codes(made) for made in columns]
    assert [len(each) for each in found] == [1] * len(columns)
    assert len(set.union(*found)) == len(columns)
    asked = Filter(name="f", inputs=("a",), condition=native(functions.col("ts") > functions.now(), step="f"))
    assert clock_in(asked) == "now"
    assert asked.detail() == ">(ts, now())"

"""The newest row of each key, which a Delta table keeps without state, against plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets import MemoryChannel, Pipeline, RunOptions, pipeline_from_sql
from rs_assets.common.home import Home
from rs_assets.errors import SqlError
from rs_assets.spark.driver import SparkDriver

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
SCHEMA = "id bigint, page string, ms bigint, ts timestamp"
TABLES = """
    CREATE TABLE clicks (id BIGINT, page STRING, ms BIGINT, ts TIMESTAMP(3), p AS PROCTIME(),
        WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'memory');
    CREATE TABLE last (id BIGINT, page STRING, ms BIGINT, ts TIMESTAMP(3))
        WITH ('connector' = 'delta', 'table' = 'last');
"""
RANKED = """(SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY {order}) AS rn FROM clicks) AS t"""
NEWEST = f"INSERT INTO last SELECT id, page, ms, ts FROM {RANKED} WHERE rn = 1"
drawn = st.lists(
    st.tuples(st.sampled_from([1, 2, None]), st.sampled_from("ab"), st.sampled_from([None, 1, 2]), st.integers(0, 5)),
    min_size=1,
    max_size=25,
)


def made(statement: str, channel: MemoryChannel | None = None) -> Pipeline:
    return pipeline_from_sql(TABLES + statement, tables={"clicks": channel or MemoryChannel(schema=SCHEMA)})


def stateful(statement: str) -> bool:
    return "window_aggregate" in made(statement).describe()


def table_of(options: RunOptions) -> list[tuple[Any, ...]]:
    table = DeltaTable(options.home.table("sql", "last")).to_pyarrow_table().to_pylist()
    return sorted((tuple(row[name] for name in ("id", "page", "ms", "ts")) for row in table), key=repr)


def cut(data: st.DataObject, rows: Sequence[Any]) -> list[Sequence[Any]]:
    at = sorted(data.draw(st.sets(st.integers(1, len(rows)), max_size=2)))
    return [rows[a:b] for a, b in zip([0, *at], [*at, len(rows)], strict=True)]


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=drawn, data=st.data(), by_arrival=st.booleans())
def test_should_keep_the_newest_row_of_each_key(
    tmp_path_factory: pytest.TempPathFactory,
    driver: SparkDriver,
    rows: list[tuple[Any, ...]],
    data: st.DataObject,
    by_arrival: bool,
) -> None:
    options = RunOptions(home=Home(tmp_path_factory.mktemp("home")), driver=driver)
    channel = MemoryChannel(schema=SCHEMA)
    pipeline = made(NEWEST.format(order="p DESC" if by_arrival else "ts DESC, ms DESC"), channel)
    newest: dict[Any, tuple[Any, ...]] = {}
    for batch in cut(data, [(id_, page, ms, BEGIN + timedelta(seconds=s)) for id_, page, ms, s in rows]):
        channel.put(*(dict(zip(("id", "page", "ms", "ts"), row, strict=True)) for row in batch))
        pipeline.run(options)
        for row in batch:
            kept = newest.get(row[0])
            if kept is None or by_arrival or order(row) >= order(kept):
                newest[row[0]] = row
        assert table_of(options) == sorted(newest.values(), key=repr)


def order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Null is less than all; of equal times and numbers the other columns decide."""
    _, page, ms, ts = row
    return (ts, ms is not None, ms, page)


@pytest.mark.parametrize(
    ("columns", "order", "condition"),
    [
        ("id, page, ms, ts", "ts DESC", "rn = 1"),
        ("id, page, ms, ts", "ts DESC, ms DESC", "rn <= 1 AND id > 3"),
        ("id, UPPER(page) AS page, rn AS ms, ts", "ts DESC", "1 = rn"),
        ("id, page, ms, ts", "p DESC", "rn < 2"),
    ],
)
def test_should_leave_the_newest_row_to_the_table(columns: str, order: str, condition: str) -> None:
    assert not stateful(f"INSERT INTO last SELECT {columns} FROM {RANKED.format(order=order)} WHERE {condition}")


@pytest.mark.parametrize(
    ("columns", "order", "condition"),
    [
        ("id, page, ms, ts", "ts", "rn = 1"),
        ("id, page, ms, ts", "ts DESC, ms", "rn = 1"),
        ("id, page, ms, ts", "ms + 1 DESC", "rn = 1"),
        ("id, page, ms, ts", "ts DESC", "rn = 1 AND ms > 2"),
        ("id, page, rn AS ms, ts", "ms DESC", "rn = 1"),
        ("id, page, ms, ts + INTERVAL '1' SECOND AS ts", "ts DESC", "rn = 1"),
    ],
)
def test_should_keep_state_where_the_table_cannot_tell(columns: str, order: str, condition: str) -> None:
    assert stateful(f"INSERT INTO last SELECT {columns} FROM {RANKED.format(order=order)} WHERE {condition}")


def test_should_keep_state_for_other_sinks_and_orders_of_their_own() -> None:
    printed = "CREATE TABLE shown (id BIGINT, page STRING, ms BIGINT, ts TIMESTAMP(3)) WITH ('connector' = 'print');"
    assert stateful(printed + NEWEST.format(order="ts DESC").replace("INTO last", "INTO shown"))
    own = printed.replace("shown", "own").replace("'print'", "'delta', 'table' = 'own', 'order-by' = 'ms'")
    assert stateful(own + NEWEST.format(order="ts DESC").replace("INTO last", "INTO own"))


def test_should_take_blanks_between_the_columns_of_an_order() -> None:
    last = """CREATE TABLE own (id BIGINT, page STRING, ms BIGINT, ts TIMESTAMP(3), PRIMARY KEY (id) NOT ENFORCED)
        WITH ('connector' = 'delta', 'table' = 'own', 'order-by' = ' ms , ts ');"""
    (sink,) = made(last + "INSERT INTO own SELECT id, page, ms, ts FROM clicks").topology.sinks
    assert sink.order_by == ("ms", "ts")


@pytest.mark.parametrize("order", ["p", "p DESC, ts DESC"])
def test_should_refuse_other_orders_by_arrival(order: str) -> None:
    with pytest.raises(SqlError, match="processing time does not order rows"):
        made(NEWEST.format(order=order))

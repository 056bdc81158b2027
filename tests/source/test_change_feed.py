"""A table that one pipeline changes, with a change feed of its own, is followed by another pipeline."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from deltalake import DeltaTable

from rs_assets import MemoryChannel, Pipeline, RunOptions, StreamBuilder, pipeline_from_sql
from rs_assets.connectors.delta.nodes import FEED
from rs_assets.errors import SinkError, TopologyError
from rs_assets.stream.data_stream import DataStream

SCHEMA = "id bigint, n bigint, gone boolean"
BATCHES, ROWS, KEYS = 4, 6, 5


def upserted(orders: DataStream) -> Pipeline:
    return orders.to_delta("kept", mode="upsert", keys=["id"], deletes="gone", change_feed=True).build()


def by_spark(orders: DataStream) -> Pipeline:
    made = orders.to_delta("kept", mode="upsert", keys=["id"], deletes="gone", connector="jvm", change_feed=True)
    return made.build()


def current(orders: DataStream) -> Pipeline:
    return orders.to_table("id", deletes="gone").to_delta("kept", change_feed=True).build()


def added(orders: DataStream) -> Pipeline:
    return orders.to_delta("kept", change_feed=True).build()


def written(options: RunOptions) -> list[tuple[int, int]]:
    rows = DeltaTable(options.home.table("shop", "kept")).to_pyarrow_table().to_pylist()
    return sorted((row["id"], row["n"]) for row in rows)


def followed(rows: Iterator[dict[str, object]]) -> list[tuple[object, object]]:
    """The rows that the changes lead to."""
    left = list[tuple[object, object]]()
    for row in sorted(
        rows, key=lambda row: (row["_commit_version"], row["_change_type"] in ("insert", "update_postimage"))
    ):
        pair = (row["id"], row["n"])
        if row["_change_type"] in ("insert", "update_postimage"):
            left.append(pair)
        else:
            left.remove(pair)
    return sorted(left)


@pytest.mark.parametrize(
    "made",
    [pytest.param(upserted, marks=pytest.mark.canary), current, added, pytest.param(by_spark, marks=pytest.mark.long)],
)
def test_changes_of_a_table_lead_to_its_rows(made, options):
    chance, source = random.Random(7), MemoryChannel(schema=SCHEMA)
    writing = made(StreamBuilder.data_stream("shop", "orders").from_memory(source))
    changes = MemoryChannel()
    reading = StreamBuilder.data_stream("shop", "copy").from_delta("kept", changes=True).to_memory(changes).build()
    seen = list[dict[str, object]]()
    for batch in range(BATCHES):
        rows = [(chance.randrange(KEYS), batch * ROWS + n, chance.random() < 0.3) for n in range(ROWS)]
        source.put(*({"id": id_, "n": n, "gone": gone} for id_, n, gone in rows))
        writing.run(options)
        reading.run(options)
        seen += changes.take()
        assert followed(iter(seen)) == written(options)
    writing.run(RunOptions(home=options.home, driver=options.driver, new_generation=True))
    source.put({"id": 99, "n": 99, "gone": False})
    writing.run(options)
    reading.run(options)
    assert followed(iter([*seen, *changes.take()])) == written(options)
    assert DeltaTable(options.home.table("shop", "kept")).metadata().configuration[FEED] == "true"


def test_changes_that_spark_writes_have_no_field_of_ours(options):
    """A new table, and one that a generation replaces, had the flag of rows that go."""
    source = MemoryChannel(schema=SCHEMA)
    writing = current(StreamBuilder.data_stream("shop", "orders").from_memory(source))
    for generation in range(2):
        source.put({"id": 1, "n": generation, "gone": False})
        writing.run(replace(options, connector="jvm", new_generation=generation > 0))
        table = DeltaTable(options.home.table("shop", "kept"))
        assert [field.name for field in table.schema().fields] == ["id", "n", "gone"]
        assert written(options) == [(1, generation)]


@pytest.mark.parametrize("read", [{"changes": True}, {"starting_version": 0}], ids="".join)
def test_a_start_follows_a_batch_without_rows(read, options):
    """Such a batch begins with the next version, which does not exist yet: a start had it for lost."""
    source = MemoryChannel(schema=SCHEMA)
    writing = StreamBuilder.data_stream("shop", "orders").from_memory(source).to_delta("kept", change_feed=True).build()
    reading = StreamBuilder.data_stream("shop", "copy").from_delta("kept", **read).group_by("id").count("n")
    reading = reading.to_table(name="sizes").to_delta("sizes").build()
    for n in range(2):
        source.put({"id": n, "n": n, "gone": False})
        writing.run(options)
        reading.run(options)
        # It notes the other number of partitions by a batch of its own.
        reading.rescale(n + 1, options)
        reading.run(options)
    rows = DeltaTable(options.home.table("shop", "sizes")).to_pyarrow_table().to_pylist()
    assert sorted((row["id"], row["n"]) for row in rows) == [(0, 1), (1, 1)]


def test_a_table_without_a_change_feed_gets_none_unasked(options):
    source = MemoryChannel(schema=SCHEMA)
    orders = StreamBuilder.data_stream("shop", "orders").from_memory(source)
    source.put({"id": 1, "n": 1, "gone": False})
    orders.to_delta("kept", mode="upsert", keys=["id"], deletes="gone").build().run(options)
    source.put({"id": 1, "n": 2, "gone": False})
    with pytest.raises(SinkError, match="no change feed") as refused:
        upserted(orders).run(options)
    assert "leave change_feed= out" in refused.value.remedy
    DeltaTable(options.home.table("shop", "kept")).alter.set_table_properties({FEED: "true"})
    upserted(orders).run(options)
    assert written(options) == [(1, 2)]


def test_sql_names_the_same_sink():
    tables = """CREATE TABLE t (id BIGINT, n BIGINT) WITH ('connector' = 'memory');
        CREATE TABLE kept (id BIGINT, n BIGINT, PRIMARY KEY (id) NOT ENFORCED)
        WITH ('connector' = 'delta', 'table' = 'kept', 'change-feed' = 'true');
        INSERT INTO kept SELECT id, n FROM t"""
    assert pipeline_from_sql(tables, tables={"t": []}).topology["kept"].change_feed


@pytest.mark.parametrize("schema", ["id bigint, n bigint", None])
def test_a_copy_of_changes_with_their_columns_has_no_change_feed_of_its_own(schema, options):
    """Such a table could be written once, and neither merged nor read."""
    source = MemoryChannel(schema="id bigint, n bigint")
    writing = StreamBuilder.data_stream("shop", "orders").from_memory(source)
    writing = writing.to_delta("kept", mode="upsert", keys=["id"], change_feed=True).build()

    def copied(named: bool) -> Pipeline:
        rows = StreamBuilder.data_stream("shop", f"copy_{int(named)}").from_delta("kept", changes=True, schema=schema)
        rows = rows.filter("_change_type <> 'update_preimage'")
        rows = rows.map("id", "n", "_commit_version AS row_commit_version") if named else rows
        latest = "row_commit_version" if named else "_commit_version"
        return rows.to_table("id", order_by=latest).to_delta("copy", change_feed=True).build()

    for n in (1, 2):
        source.put({"id": 1, "n": n})
        writing.run(options)
        with pytest.raises(TopologyError, match="(?s)column of the table's change feed.*AS row_") as refused:
            copied(named=False).run(options)
        assert "leave change_feed= out" in refused.value.remedy
        copied(named=True).run(options)
        [row] = DeltaTable(options.home.table("shop", "copy")).to_pyarrow_table().to_pylist()
        assert row["n"] == n

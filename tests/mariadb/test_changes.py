"""Changes of a MariaDB table as a source of pipelines: rows in, rows out, and mirrors that equal the table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from deltalake import DeltaTable

from rs_assets import MemoryChannel, StreamBuilder, pipeline_from_sql
from rs_assets.errors import DataLossError, SchemaError, SealedError, TopologyError
from rs_assets.testing import SourceCase
from rs_assets.testing.conformance import SourceCheck, check_source_crashes
from tests.mariadb.plain import purge


class Orders:
    """A table, and a pipeline that copies its changes; each run has a sink of its own, so that a repeated row shows."""

    def __init__(self, server, url, options):
        self.server, self.url, self.options = server, url, options

    def sql(self, *statements):
        return self.server.execute(self.url, *statements)

    def stream(self, job="orders", **source):
        return StreamBuilder.data_stream("shop", job).from_mariadb(self.url, "orders", **source)

    def rows(self, options=None, **source):
        out = MemoryChannel()
        self.stream(**source).to_memory(out).build().run(options or self.options)
        return sorted(out.rows(), key=lambda row: (row["lsn"], row["seq"]))

    def table(self, name):
        return DeltaTable(self.options.home.table("shop", name)).to_pyarrow_table().to_pylist()


@pytest.fixture
def orders(mariadb, shop, options):
    made = Orders(mariadb, shop, options)
    made.sql(
        "CREATE TABLE orders (id bigint PRIMARY KEY, state varchar(20), cents decimal(9,2), at timestamp(6) NULL,"
        " ok boolean)"
    )
    return made


@pytest.mark.long
def test_a_mirror_and_a_history_should_equal_the_table(orders):
    def mirrored():
        rows = orders.stream().to_table("id", deletes="op = 'delete'").map_values("state", "cents")
        rows.to_delta("mirror").build().run(orders.options)
        changes = orders.stream("versions").with_fields(gone="op = 'delete'")
        changes.to_delta(
            "history", mode="history", keys=["id"], time_field="commit_time", order_by=["lsn", "seq"], deletes="gone"
        ).build().run(orders.options)
        current = sorted((row["id"], row["state"]) for row in orders.table("history") if row["current"])
        assert sorted((row["id"], row["state"], row["cents"]) for row in orders.table("mirror")) == found()
        assert current == [row[:2] for row in found()]

    def found():
        return orders.sql("SELECT id, state, cents FROM orders ORDER BY id")

    orders.sql("INSERT INTO orders SELECT seq, 'new', 1.50, now(6), true FROM seq_1_to_5")
    mirrored()
    orders.sql(
        "UPDATE orders SET id = id + 100, state = 'moved' WHERE id < 3", "BEGIN", "DELETE FROM orders WHERE id = 3",
        "INSERT INTO orders (id, state) VALUES (3, 'again')", "COMMIT", "DELETE FROM orders WHERE id = 4",
    )  # fmt: skip
    mirrored()


@pytest.mark.long
def test_a_batch_that_was_cut_off_should_come_again_with_the_same_rows(orders):
    def add(rows):
        orders.sql(*(f"INSERT INTO orders (id, state) VALUES ({row['id']}, 'ü')" for row in rows))

    case = SourceCase(
        stream=lambda begin, _: begin.from_mariadb(orders.url, "orders").select_fields("id"),
        row=lambda n: {"id": n},
        add=add,
    )
    check_source_crashes(SourceCheck(case, orders.options))


@pytest.mark.long
def test_a_purged_log_is_refused_before_the_start_and_an_ended_generation_takes_no_more(orders):
    orders.sql("INSERT INTO orders (id, state) VALUES (1, 'new')")
    assert [row["op"] for row in orders.rows()] == ["snapshot"]
    orders.sql("INSERT INTO orders (id, state) VALUES (2, 'new')")
    purge(orders.server, orders.url)
    with pytest.raises(DataLossError, match="has removed that file") as lost:
        orders.rows()
    assert "--new-generation" in lost.value.remedy
    assert [row["id"] for row in orders.rows(replace(orders.options, new_generation=True))] == [1, 2]
    pipeline = orders.stream().to_memory(MemoryChannel()).build()
    pipeline.run(orders.options, finish=True)
    pipeline.run(orders.options, finish=True)
    orders.sql("INSERT INTO orders (id) VALUES (3)")
    with pytest.raises(SealedError):
        pipeline.run(orders.options)


@pytest.mark.long
def test_what_cannot_be_read_is_refused_before_the_start(orders):
    orders.sql("CREATE TABLE taken (op int PRIMARY KEY, n int)")
    taken = StreamBuilder.data_stream("shop", "taken").from_mariadb(orders.url, "taken")
    with pytest.raises(SchemaError, match="the name of a field of a change") as refused:
        taken.to_print().build().run(orders.options)
    assert refused.value.remedy == "leave it out: schema='`n` int'"
    for wrong in ({"server_id": 0}, {"server_id": "1"}, {"keep": 7}, {"truncate": "x"}, {"added_columns": "x"}):
        with pytest.raises(TopologyError):
            orders.stream(**wrong)
    with pytest.raises(TopologyError, match="would read its own rows"):
        orders.stream().to_database(orders.url, "orders").build()


@pytest.mark.parametrize("connector", ["mariadb-cdc", pytest.param("mysql-cdc", marks=pytest.mark.long)])
def test_sql_names_the_same_source(orders, monkeypatch, connector):
    monkeypatch.setenv("SHOP_DATABASE", orders.url)
    orders.sql("INSERT INTO orders VALUES (1, 'new', 1.50, '2024-03-01 12:00:00', true)")
    out = MemoryChannel()
    text = f"""
        CREATE TABLE orders (id BIGINT, state STRING, ok BOOLEAN, op STRING METADATA)
        WITH ('connector' = '{connector}', 'url' = '$SHOP_DATABASE', 'table-name' = 'orders', 'server-id' = '5402');
        CREATE TABLE seen (id BIGINT, ok BOOLEAN, op STRING) WITH ('connector' = 'memory');
        INSERT INTO seen SELECT id, ok, op FROM orders WHERE state = 'new';
    """
    pipeline = pipeline_from_sql(text, namespace="shop", job="by_sql", tables={"seen": out})
    assert "$SHOP_DATABASE orders" in pipeline.describe()
    pipeline.run(orders.options)
    assert out.rows() == [{"id": 1, "ok": True, "op": "snapshot"}]

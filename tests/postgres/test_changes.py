"""Changes of a Postgres table as a source: rows in, rows out; mirrors that equal the table; what is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from dagster import EnvVar
from deltalake import DeltaTable

from rs_assets import MemoryChannel, StreamBuilder, pipeline_from_sql
from rs_assets.compile.readers import reader_of
from rs_assets.errors import (
    ConfigurationError,
    DataLossError,
    SchemaError,
    SealedError,
    SourceReadError,
    TopologyError,
)
from rs_assets.testing import PostgresServer, SourceCase
from rs_assets.testing.conformance import SourceCheck, check_source_crashes

SLOT = "rs_shop_orders_postgres"


class Orders:
    """A table, and a pipeline that copies its changes; each run has a sink of its own, so that a repeated row shows."""

    def __init__(self, server, url, options):
        self.server, self.url, self.options = server, url, options

    def sql(self, *statements):
        with self.server.connected(self.url) as connection:
            for statement in statements:
                connection.execute(statement)

    def asked(self, statement):
        return self.server.execute(self.url, statement)

    def stream(self, **source):
        return StreamBuilder.data_stream("shop", "orders").from_postgres(self.url, "orders", **source)

    def rows(self, options=None, **source):
        out = MemoryChannel()
        self.stream(**source).to_memory(out).build().run(options or self.options)
        return sorted(out.rows(), key=lambda row: (row["lsn"], row["seq"]))

    def short(self, **source):
        return [(row["op"], row["id"], row["state"]) for row in self.rows(**source)]


@pytest.fixture
def orders(postgres, database, options):
    made = Orders(postgres, database, options)
    made.sql("CREATE TABLE orders (id bigint PRIMARY KEY, state varchar(20))")
    yield made
    # The name of a slot is one for the whole server.
    made.sql(f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '{SLOT}'")


@pytest.mark.long
def test_a_table_and_its_changes_become_rows(orders):
    orders.sql("INSERT INTO orders VALUES (1, 'new'), (2, 'new')")
    assert orders.short() == [("snapshot", 1, "new"), ("snapshot", 2, "new")]
    orders.sql(
        "INSERT INTO orders VALUES (3, 'new')",
        "UPDATE orders SET state = 'paid' WHERE id = 1",
        "UPDATE orders SET id = 20 WHERE id = 2",
        "BEGIN; INSERT INTO orders VALUES (9, 'no'); ROLLBACK",
        "DELETE FROM orders WHERE id = 3",
    )
    assert orders.short() == [
        ("insert", 3, "new"),
        ("update", 1, "paid"),
        ("delete", 2, None),
        ("insert", 20, "new"),
        ("delete", 3, None),
    ]


@pytest.mark.long
def test_values_have_the_types_of_their_columns(orders):
    orders.sql(
        "DROP TABLE orders",
        "CREATE TABLE orders (id int PRIMARY KEY, ok boolean, small smallint, real float8, cents numeric(9,2), any_n"
        " numeric, day date, at timestamptz, local timestamp, raw bytea, more jsonb, tags text[], ü text, u uuid)",
        "ALTER TABLE orders REPLICA IDENTITY FULL",
        "SET TimeZone = 'Asia/Tokyo'",
    )
    values = (
        "true, -7, 'NaN', 1.50, 123456789012345678901234567890.5, '2024-02-29', '2024-03-01 12:00:00.123456+00',"
        " '1969-12-31 23:59:59', '\\xff00', '{\"a\": 1}', '{a,NULL}', E'q\"\\n\\\\',"
        " '00000000-0000-0000-0000-00000000000a'"
    )
    orders.sql(f"INSERT INTO orders VALUES (1, {values})")
    (first,) = orders.rows()
    orders.sql(f"INSERT INTO orders VALUES (2, {values})", "INSERT INTO orders VALUES (3)")
    second, nulls = orders.rows()
    real = [row.pop("real") for row in (first, second)]
    assert all(value != value for value in real)
    places = {name: first.pop(name) for name in ("op", "id", "lsn", "seq", "commit_time")}
    assert places["op"] == "snapshot"
    assert abs(places["commit_time"] - datetime.now(UTC)) < timedelta(minutes=1)
    assert first == {
        "ok": True, "small": -7, "cents": Decimal("1.50"), "any_n": "123456789012345678901234567890.5",
        "day": date(2024, 2, 29), "at": datetime(2024, 3, 1, 12, 0, 0, 123456, tzinfo=UTC),
        "local": datetime(1969, 12, 31, 23, 59, 59),  # noqa: DTZ001  without a zone
        "raw": b"\xff\0", "more": '{"a": 1}', "tags": "{a,NULL}",
        "ü": 'q"\n\\', "u": "00000000-0000-0000-0000-00000000000a",
    }  # fmt: skip
    assert {name: second[name] for name in first} == first
    assert nulls["id"] == 3
    assert [nulls[name] for name in first] == [None] * len(first)


@pytest.mark.long
def test_a_batch_that_was_cut_off_should_come_again_with_the_same_rows(orders):
    def add(rows):
        orders.sql(*(f"INSERT INTO orders VALUES ({row['id']}, 'ü')" for row in rows))

    case = SourceCase(
        stream=lambda begin, _: begin.from_postgres(orders.url, "orders", slot=SLOT).select_fields("id"),
        row=lambda n: {"id": n},
        add=add,
    )
    check_source_crashes(SourceCheck(case, orders.options))


@pytest.mark.long
def test_a_mirror_should_equal_the_table(orders):
    def mirrored():
        table = orders.stream().to_table("id", deletes="op = 'delete'").map_values("state")
        table.to_delta("mirror").build().run(orders.options)
        found = orders.options.home.table("shop", "mirror")
        rows = DeltaTable(found).to_pyarrow_table().to_pylist()
        return sorted((row["id"], row["state"]) for row in rows)

    orders.sql("INSERT INTO orders SELECT n, 'new' FROM generate_series(1, 5) n")
    assert mirrored() == orders.asked("SELECT id, state FROM orders ORDER BY id")
    orders.sql(
        "UPDATE orders SET id = id + 100, state = 'moved' WHERE id < 3",
        "BEGIN; DELETE FROM orders WHERE id = 3; INSERT INTO orders VALUES (3, 'again'); COMMIT",
        "DELETE FROM orders WHERE id = 4",
    )
    assert mirrored() == orders.asked("SELECT id, state FROM orders ORDER BY id")


@pytest.mark.long
def test_a_lost_slot_is_refused_before_the_start_and_a_new_generation_begins_again(orders):
    orders.sql("INSERT INTO orders VALUES (1, 'new')")
    assert orders.short() == [("snapshot", 1, "new")]
    orders.sql("INSERT INTO orders VALUES (2, 'new')", f"SELECT pg_drop_replication_slot('{SLOT}')")
    with pytest.raises(DataLossError, match="does not exist any more") as lost:
        orders.rows()
    assert "--new-generation" in lost.value.remedy
    assert [row["id"] for row in orders.rows(replace(orders.options, new_generation=True))] == [1, 2]


@pytest.mark.long
def test_what_cannot_be_read_is_refused_before_the_start(orders):
    orders.sql("CREATE TABLE taken (op int PRIMARY KEY, n int)")
    taken = StreamBuilder.data_stream("shop", "taken")
    with pytest.raises(SchemaError, match="the name of a field of a change") as refused:
        taken.from_postgres(orders.url, "taken").to_print().build().run(orders.options)
    assert refused.value.remedy == "leave it out: schema='`n` int'"
    with pytest.raises(SourceReadError, match="no table"):
        taken.from_postgres(orders.url, "none").to_print().build().run(orders.options)
    for wrong in ({"slot": "A"}, {"keep": 7}, {"truncate": "x"}, {"added_columns": "x"}, {"publication": ""}):
        with pytest.raises(TopologyError):
            orders.stream(**wrong)
    with PostgresServer(settings={"wal_level": "replica"}) as server:
        server.execute(server.url(), "CREATE TABLE orders (id int PRIMARY KEY)")
        with pytest.raises(ConfigurationError, match="wal_level is replica"):
            Orders(server, server.url(), orders.options).rows()


@pytest.mark.long
def test_an_ended_generation_takes_no_more(orders):
    orders.sql("INSERT INTO orders VALUES (1, 'new')")
    pipeline = orders.stream().to_memory(MemoryChannel()).build()
    pipeline.run(orders.options, finish=True)
    pipeline.run(orders.options, finish=True)
    orders.sql("INSERT INTO orders VALUES (2, 'new')")
    with pytest.raises(SealedError):
        pipeline.run(orders.options)
    pipeline.run(replace(orders.options, new_generation=True))


def test_sql_names_the_same_source(orders, monkeypatch):
    monkeypatch.setenv("SHOP_DATABASE", orders.url)
    orders.sql("INSERT INTO orders VALUES (1, 'new')")
    out = MemoryChannel()
    text = """
        CREATE TABLE orders (id BIGINT, state STRING, op STRING METADATA)
        WITH ('connector' = 'postgres-cdc', 'url' = '$SHOP_DATABASE', 'table-name' = 'orders', 'slot.name' = 'by_sql');
        CREATE TABLE seen (id BIGINT, op STRING) WITH ('connector' = 'memory');
        INSERT INTO seen SELECT id, op FROM orders WHERE state = 'new';
    """
    pipeline = pipeline_from_sql(text, namespace="shop", job="by_sql", tables={"seen": out})
    assert "$SHOP_DATABASE orders" in pipeline.describe()
    pipeline.run(orders.options)
    assert out.rows() == [{"id": 1, "op": "snapshot"}]
    orders.sql("SELECT pg_drop_replication_slot('by_sql')")


@pytest.mark.long
def test_sql_with_a_key_is_the_table(orders):
    orders.sql("INSERT INTO orders VALUES (1, 'new'), (2, 'paid'), (3, 'paid')")
    text = f"""
        CREATE TABLE orders (id BIGINT, state STRING, PRIMARY KEY (id) NOT ENFORCED)
        WITH ('connector' = 'postgres-cdc', 'url' = '{orders.url}', 'table-name' = 'orders', 'slot.name' = '{SLOT}');
        CREATE TABLE copy (id BIGINT, state STRING, PRIMARY KEY (id) NOT ENFORCED)
        WITH ('connector' = 'delta', 'table' = 'copy');
        INSERT INTO copy SELECT id, state FROM orders WHERE state = 'paid';
    """
    pipeline = pipeline_from_sql(text, namespace="shop", job="keyed")
    pipeline.run(orders.options)
    orders.sql("UPDATE orders SET state = 'paid' WHERE id = 1", "UPDATE orders SET id = 5 WHERE id = 2")
    orders.sql("DELETE FROM orders WHERE id = 3")
    pipeline.run(orders.options)
    rows = DeltaTable(orders.options.home.table("shop", "copy")).to_pyarrow_table().to_pylist()
    assert sorted((row["id"], row["state"]) for row in rows) == [(1, "paid"), (5, "paid")]


@pytest.mark.long
def test_the_lag_is_what_the_slot_still_has(orders, monkeypatch):
    monkeypatch.setenv("SHOP_DATABASE", orders.url)
    stream = StreamBuilder.data_stream("shop", "orders").from_postgres(EnvVar("SHOP_DATABASE"), "orders")
    pipeline = stream.to_memory(MemoryChannel()).build()
    pipeline.run(orders.options)
    (source,) = pipeline.topology.sources
    reader = reader_of(source, orders.options.home)
    before = reader.lag(None, timedelta(seconds=5)).bytes
    orders.sql("INSERT INTO orders SELECT n, 'new' FROM generate_series(1, 1000) n")
    assert reader.lag(None, timedelta(seconds=5)).bytes > before + 50_000

"""Changes of a Postgres table as a source: rows in, rows out; mirrors that equal the table over kills; what is refused."""

from __future__ import annotations

import pytest

from rs_assets import MemoryChannel, StreamBuilder


class Orders:
    """A table, and a pipeline that copies its changes; each run has a sink of its own, so that a repeated row shows."""

    def __init__(self, server, url, options):
        self.server, self.url, self.options = server, url, options

    def sql(self, *statements):
        with self.server.connected(self.url) as connection:
            for statement in statements:
                connection.execute(statement)

    def stream(self, **source):
        return StreamBuilder.data_stream("shop", "orders").from_postgres(self.url, "orders", **source)

    def rows(self, **source):
        out = MemoryChannel()
        self.stream(**source).to_memory(out).build().run(self.options)
        return sorted(out.rows(), key=lambda row: (row["lsn"], row["seq"]))

    def short(self, **source):
        return [(row["op"], row["id"], row["state"]) for row in self.rows(**source)]


@pytest.fixture
def orders(postgres, database, options):
    made = Orders(postgres, database, options)
    made.sql("CREATE TABLE orders (id bigint PRIMARY KEY, state varchar(20))")
    return made


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
    assert orders.short() == []

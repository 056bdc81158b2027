"""Envelopes of Debezium in a topic, as docs/cdc.md reads them: the rows of the table, and its history."""

from __future__ import annotations

import random
from decimal import Decimal

import orjson
import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder
from rs_assets.testing import KafkaRecord

ROW = "struct<id: bigint, state: string, amount: decimal(10,2)>"
ENVELOPE = f"before {ROW}, after {ROW}, op string, source struct<lsn: bigint, ts_ms: bigint>"
KEYS, STEPS, CHANGES, BATCH = 12, 3, 120, 50


def changes_in(broker, topic, job):
    records = StreamBuilder.data_stream("debezium", job).from_kafka(
        broker.bootstrap_servers, topic, schema=ENVELOPE, max_rows_per_batch=BATCH
    )
    return records.map(
        "coalesce(after.id, before.id) AS id",
        "after.state AS state",
        "after.amount AS amount",
        "op = 'd' AS gone",
        "timestamp_millis(source.ts_ms) AS at",
        "source.lsn AS lsn",
    )


class Written:
    """A table that changes at random, and the records that Debezium writes of it."""

    def __init__(self, seed):
        self.chance, self.rows, self.versions, self.lsn = random.Random(seed), {}, {}, 0

    def change(self):
        """The records of one change: an insert, an update, or a delete with its tombstone."""
        self.lsn += 1
        key = self.chance.randrange(KEYS)
        before = self.rows.pop(key, None)
        gone = before is not None and self.chance.random() < 0.3
        after = None if gone else {"id": key, "state": self.chance.choice(["new", None]), "amount": f"{self.lsn}.50"}
        if after is not None:
            self.rows[key] = after
        self.versions.setdefault(key, []).append((self.lsn, after))
        source = {"lsn": self.lsn, "ts_ms": 1_700_000_000_000 + self.lsn, "table": "orders"}
        op = "d" if gone else "c" if before is None else "u"
        value = {"before": before, "after": after, "op": op, "source": source, "ts_ms": 1}
        name = orjson.dumps({"id": key})
        written = KafkaRecord(key=name, value=orjson.dumps(value))
        return [written, KafkaRecord(key=name, value=None)] if gone else [written]


def rows_of(options, name):
    return DeltaTable(options.home.table("debezium", name)).to_pyarrow_table().to_pylist()


def fields(row):
    return None if row is None else (row["state"], Decimal(row["amount"]))


def test_rows_follow_the_changes(broker, topic, options):
    broker.create_topic(topic, 3)
    database = Written(7)
    for _ in range(STEPS):
        records = [record for _ in range(CHANGES) for record in database.change()]
        # A connector that was restarted writes its last records again.
        broker.produce(topic, [*records, *records[-20:]])
        orders = changes_in(broker, topic, "mirror").to_table("id", deletes="gone").map_values("state", "amount")
        orders.to_delta("orders").build().run(options)
        found = {row["id"]: (row["state"], row["amount"]) for row in rows_of(options, "orders")}
        assert found == {key: fields(row) for key, row in database.rows.items()}


@pytest.mark.long
def test_a_history_has_each_version_once(broker, topic, options):
    broker.create_topic(topic, 3)
    database = Written(8)
    for _ in range(STEPS):
        records = [record for _ in range(CHANGES) for record in database.change()]
        broker.produce(topic, [*records, *records[-20:]])
        changes_in(broker, topic, "history").to_delta(
            "history", mode="history", keys=["id"], time_field="at", order_by=["lsn"], deletes="gone"
        ).build().run(options)
    found = {}
    for row in sorted(rows_of(options, "history"), key=lambda row: row["valid_from"]):
        found.setdefault(row["id"], []).append((row["lsn"], fields(row), row["current"]))
    expected = {
        key: [(lsn, fields(row), number == len(versions)) for number, (lsn, row) in enumerate(versions, 1) if row]
        for key, versions in database.versions.items()
    }
    assert found == {key: versions for key, versions in expected.items() if versions}

"""Kafka's tables of SQL: Avro by a schema registry, metadata that is written, and settings by Flink's names."""

from __future__ import annotations

import json
import struct
from datetime import UTC, datetime

import orjson
import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder, pipeline_from_sql
from rs_assets.connectors.kafka.connector import CONNECTOR
from rs_assets.connectors.kafka.nodes import KafkaSink, KafkaSource
from rs_assets.errors import ConfigurationError
from rs_assets.testing import SchemaRegistryServer

JAAS = (
    "'properties.security.protocol' = 'SASL_PLAINTEXT', 'properties.sasl.mechanism' = 'SCRAM-SHA-256',"
    " 'properties.sasl.jaas.config' = 'org.apache.kafka.common.security.scram.ScramLoginModule required"
    """ username="shop" password="$SHOP_PASSWORD";'"""
)


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setenv("REGISTRY_PASSWORD", "s3cret")
    with SchemaRegistryServer(login=("me", "s3cret")) as server:
        yield server


def table(broker, topic, registry, columns, more="", connector="kafka"):
    return f"""({columns}) WITH ('connector' = '{connector}', 'topic' = '{topic}', 'format' = 'avro-confluent',
        'properties.bootstrap.servers' = '{broker.bootstrap_servers}', 'avro-confluent.url' = '{registry.url}',
        'avro-confluent.basic-auth.user-info' = 'me:$REGISTRY_PASSWORD'{more});"""


def test_avro_is_read_and_written(broker, topic, options, registry):
    for name in (topic, f"{topic}-out"):
        broker.create_topic(name, 1)
    fields = [{"name": n, "type": kind} for n, kind in (("more", "int"), ("id", "int"), ("who", "string"))]
    writer = registry.register("in", json.dumps({"type": "record", "name": "o", "fields": fields}))
    broker.produce(topic, [struct.pack(">bI", 0, writer) + b"\x02\x0e\x04me"])
    statements = f"""
        CREATE TABLE orders {table(broker, topic, registry, "id BIGINT, who STRING", ", 'properties.client.id' = 'x'")}
        CREATE TABLE sent {table(broker, f"{topic}-out", registry, "who STRING, n BIGINT",
            ", 'avro-confluent.subject' = 'sent', 'sink.delivery-guarantee' = 'exactly-once', 'key.fields' = 'who'")}
        INSERT INTO sent SELECT who, id + 1 FROM orders;"""  # fmt: skip
    pipeline_from_sql(statements, job="avro").run(options)
    (record,) = broker.read(f"{topic}-out")
    assert record.value == struct.pack(">bI", 0, registry.latest("sent")) + b"\x02\x04me\x02\x10"
    assert record.key == b"me"


def test_a_changelog_of_avro_is_written_and_read_back(broker, topic, options, registry):
    broker.create_topic(topic, 1)
    columns = "who STRING, n BIGINT, PRIMARY KEY (who) NOT ENFORCED"
    totals = f"CREATE TABLE totals {table(broker, topic, registry, columns, connector='upsert-kafka')}"
    rows = [{"who": "a", "n": 1}, {"who": "b", "n": 5}, {"who": "a", "n": 2}]
    there = f"""CREATE TABLE rows_in (who STRING, n BIGINT) WITH ('connector' = 'memory'); {totals}
        INSERT INTO totals SELECT who, SUM(n) FROM rows_in GROUP BY who;"""
    pipeline_from_sql(there, job="there", tables={"rows_in": rows}).run(options)
    back = f"""{totals} CREATE TABLE kept (who STRING, n BIGINT, PRIMARY KEY (who) NOT ENFORCED)
        WITH ('connector' = 'delta', 'table' = 'kept'); INSERT INTO kept SELECT who, n FROM totals;"""
    pipeline_from_sql(back, job="back").run(options)
    found = DeltaTable(options.home.table("sql", "kept")).to_pyarrow_table().select(["who", "n"]).to_pylist()
    assert sorted(found, key=str) == [{"who": "a", "n": 3}, {"who": "b", "n": 5}]


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_metadata_columns_are_parts_of_the_record(broker, topic, options, guarantee):
    broker.create_topic(topic, 3)
    statements = f"""
        CREATE TABLE rows_in (id BIGINT, ts TIMESTAMP_LTZ(3), p INT, h MAP<STRING, BYTES>)
            WITH ('connector' = 'memory');
        CREATE TABLE sent (id BIGINT, at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
            o BIGINT METADATA FROM 'offset' VIRTUAL, headers MAP<STRING, BYTES> METADATA, `partition` INT METADATA
        ) WITH ('connector' = 'kafka',
            'topic' = '{topic}', 'properties.bootstrap.servers' = '{broker.bootstrap_servers}',
            'sink.delivery-guarantee' = '{guarantee}');
        INSERT INTO sent SELECT id, ts, h, p FROM rows_in;"""
    march = [datetime(2024, 3, day, tzinfo=UTC) for day in (1, 2)]
    rows = [{"id": 1, "ts": march[0], "p": 2, "h": {"id": b"1"}}, {"id": 2, "ts": march[1], "p": 0, "h": None}]
    pipeline_from_sql(statements, job="sent", tables={"rows_in": rows}).run(options)
    second, first = broker.read(topic)
    assert (orjson.loads(first.value), first.partition, first.headers) == ({"id": 1}, 2, (("id", b"1"),))
    assert (first.timestamp_ms, second.timestamp_ms) == (1_709_251_200_000, 1_709_337_600_000)
    # Columns that are left out are those of the client.
    some = statements.replace("INTO sent SELECT", "INTO sent (id) SELECT").split("SELECT id, ts")[0]
    pipeline_from_sql(f"{some} SELECT id + 10 FROM rows_in;", job="some", tables={"rows_in": rows}).run(options)
    late = [record for record in broker.read(topic) if orjson.loads(record.value)["id"] > 10]
    assert [sorted(orjson.loads(record.value)) for record in late] == [["id"], ["id"]]
    assert all(record.timestamp_ms > first.timestamp_ms and not record.headers for record in late)


def nodes_of(statements):
    return {type(node): node for node in pipeline_from_sql(statements).topology}


def test_settings_reach_the_cluster_and_the_clients(monkeypatch):
    monkeypatch.setenv("SHOP_PASSWORD", "hunter2")
    where = f"'connector' = 'kafka', 'properties.bootstrap.servers' = 'h:1', {JAAS}"
    nodes = nodes_of(f"""
        CREATE TABLE a (id BIGINT) WITH ({where}, 'topic' = 'a', 'properties.fetch.max.bytes' = '1000',
            'properties.isolation.level' = 'read_uncommitted');
        CREATE TABLE b (id BIGINT) WITH ({where}, 'topic' = 'b', 'properties.linger.ms' = '5');
        INSERT INTO b SELECT id FROM a;""")
    source, sink = nodes[KafkaSource], nodes[KafkaSink]
    assert (source.options, source.read_committed, sink.options) == (
        {"fetch.max.bytes": "1000"},
        False,
        {"linger.ms": "5"},
    )
    assert source.cluster == sink.cluster
    assert (source.cluster.username, source.cluster.mechanism) == ("shop", "SCRAM-SHA-256")
    assert 'password="hunter2"' in source.cluster.for_spark()["kafka.sasl.jaas.config"]
    assert "hunter2" not in repr(nodes)
    reader = CONNECTOR.sources[0].reader(source, None)
    assert reader.read._common()["kafka.fetch.max.bytes"] == "1000"


def test_records_are_read_with_settings_of_the_consumer(broker, topic, options):
    broker.create_topic(topic, 1)
    broker.produce(topic, [b"%d" % number for number in range(50)])
    how = {"max.poll.records": "3", "fetch.max.bytes": "10", "client.id": "shop", "check.crcs": "true"}
    stream = StreamBuilder.data_stream("test", "slow").from_kafka(
        broker.bootstrap_servers, topic, format="text", options=how
    )
    assert stream.to_delta("slow").build().run(options).rows_out == 50


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"fetch.max.byte": "1"}, "'fetch.max.byte' of Kafka's consumer cannot be set here"),
        ({"kafka.fetch.max.bytes": "1"}, "'kafka.fetch.max.bytes' of Kafka's consumer cannot be set here"),
        ({"auto.offset.reset": "latest"}, "cannot be set here"),
        ({"isolation.level": "read_committed"}, "cannot be set here"),
        ({"fetch.max.bytes": "many"}, "fetch.max.bytes cannot be 'many'"),
        ({"fetch.max.bytes": 10}, "fetch.max.bytes cannot be 10"),
        ({"check.crcs": "yes"}, "check.crcs cannot be 'yes'"),
    ],
)
def test_settings_that_a_source_does_not_have_are_refused(settings, match):
    def stream(options):
        return StreamBuilder.data_stream("t", "t").from_kafka("localhost:9092", "in", format="text", options=options)

    with pytest.raises(ConfigurationError, match=match):
        stream(settings)
    assert stream({"fetch.max.bytes": "1000", "check.crcs": "true", "client.id": "shop"})

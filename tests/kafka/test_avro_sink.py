"""Rows as Avro records: registered once before the start, and sent in the wire format of schema registries."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from deltalake import DeltaTable

from rs_assets import SchemaRegistry, StreamBuilder
from rs_assets.errors import SinkError, TopologyError
from rs_assets.testing import SchemaRegistryServer

ROWS = [{"id": 1, "who": "me"}, {"id": 2, "who": None}]
# Each field is a union: its branch, then a zigzag long, or length and bytes.
ENCODED = [b"\x02\x02\x02\x04me", b"\x02\x04\x00"]
STRICT = json.dumps(
    {"type": "record", "name": "order", "fields": [{"name": "who", "type": "string"}, {"name": "id", "type": "long"}]}
)


@pytest.fixture
def registry():
    with SchemaRegistryServer() as server:
        yield server


def headed(number, value):
    return struct.pack(">bI", 0, number) + value


def send(broker, topic, options, registry, rows=ROWS, *, job="avro_out", **how):
    stream = StreamBuilder.data_stream("test", job).from_array(rows)
    address = registry.registry if isinstance(registry, SchemaRegistryServer) else registry
    how = {"format": "avro", "registry": address, **how}
    return stream.to_kafka(broker.bootstrap_servers, topic, **how).build().run(options)


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_rows_are_sent_in_the_wire_format(broker, topic, options, registry, delivery):
    broker.create_topic(topic, 1)
    registry.register("another", '"string"')
    send(broker, topic, options, registry, key="id", delivery=delivery)
    number = registry.latest(f"{topic}-value")
    assert [record.value for record in broker.read(topic)] == [headed(number, value) for value in ENCODED]
    assert registry.requests == [f"POST /subjects/{topic}-value/versions"]
    fields = json.loads(registry.schema(number))["fields"]
    assert [(each["name"], each["type"], each["default"]) for each in fields] == [
        ("id", ["null", "long"], None),
        ("who", ["null", "string"], None),
    ]


def test_what_is_sent_is_read_as_it_was(broker, topic, options, registry):
    broker.create_topic(topic, 1)
    at = datetime(2024, 3, 1, 12, 30, 0, 123456, tzinfo=UTC)
    row = {
        "id": 2**53 + 1, "on": True, "x": -0.5, "raw": b"\x00\xff", "at": at, "day": at.date(), "none": None,
        "price": Decimal("1.230000000000000000"), "all": [1, None], "where": {"city": "Zürich", "nr": 7},
        "more": {"a": "b"},
    }  # fmt: skip
    ddl = (
        "id bigint, on boolean, x double, raw binary, at timestamp, day date, none string, price decimal(38,18),"
        " all array<bigint>, where struct<city: string, nr: bigint>, more map<string, string>"
    )
    source = StreamBuilder.data_stream("test", "avro_out").from_array([row], schema=ddl)
    source.to_kafka(broker.bootstrap_servers, topic, format="avro", registry=registry.url).build().run(options)
    back = StreamBuilder.data_stream("test", "avro_in").from_kafka(
        broker.bootstrap_servers, topic, schema=ddl, format="avro", registry=registry.url
    )
    back.to_delta("back").build().run(options)
    (found,) = DeltaTable(options.home.table("test", "back")).to_pyarrow_table().to_pylist()
    assert found == {**row, "more": [("a", "b")]}


def test_a_declared_schema_names_the_fields_and_forbids_null(broker, topic, options, registry):
    broker.create_topic(topic, 1)
    send(broker, topic, options, registry, ROWS[:1], schema=STRICT, subject="orders")
    number = registry.latest("orders")
    assert [record.value for record in broker.read(topic)] == [headed(number, b"\x04me\x02")]
    with pytest.raises(SinkError, match="it is null, which the schema of orders forbids") as refusal:
        send(broker, topic, options, registry, schema=STRICT, subject="orders", job="again")
    assert refusal.value.facts["field"] == "who"


def test_a_registry_that_refuses_ends_the_start_before_a_batch(broker, topic, options, registry):
    broker.create_topic(topic, 1)
    registry.refused = "reader requires id"
    with pytest.raises(SinkError, match=f"refuses the schema for '{topic}-value': reader requires id"):
        send(broker, topic, options, registry)
    registry.refused, registry.down = None, True
    with pytest.raises(SinkError, match="does not answer: HTTP 503"):
        send(broker, topic, options, replace(registry.registry, patience=timedelta(0)))
    registry.down = False
    with pytest.raises(SinkError, match=r"answers /subjects/\S+ with HTTP 404"):
        send(broker, topic, options, SchemaRegistry(url=f"{registry.url}/elsewhere"))
    assert broker.read(topic) == []
    send(broker, topic, options, registry)
    assert len(broker.read(topic)) == 2


def test_the_changes_of_a_table_are_avro_and_tombstones(broker, topic, options, registry):
    broker.create_topic(topic, 1)
    rows = [{"id": 1, "who": "me", "gone": False}]
    users = StreamBuilder.data_stream("test", "users").from_array(rows).to_table("id", deletes="gone")
    users.to_kafka(broker.bootstrap_servers, topic, format="avro", registry=registry.url).build().run(options)
    (record,) = broker.read(topic)
    assert record.key == b"1"
    assert record.value.startswith(headed(registry.latest(f"{topic}-value"), b"\x02\x02\x02\x04me"))


@pytest.mark.parametrize(
    ("how", "match"),
    [
        ({"format": "xml"}, "is not a format"),
        ({"registry": "http://localhost:8081"}, "describe Avro records"),
        ({"format": "avro"}, "is in a registry"),
        ({"format": "avro", "registry": "http://localhost:8081", "schema": "id bigint"}, "not a record in Avro's JSON"),
        ({"format": "avro", "registry": "http://localhost:8081", "value": "v"}, "is the value of a record"),
        ({"format": "avro", "registry": "http://localhost:8081", "topic": None, "topic_field": "t"}, "is a field"),
    ],
)
def test_options_of_a_sink_that_do_not_fit_are_refused(how, match):
    stream = StreamBuilder.data_stream("test", "avro_out").from_array([{"id": 1, "v": "x", "t": "out"}])
    with pytest.raises(TopologyError, match=match):
        stream.to_kafka("localhost:9092", **{"topic": "out", **how})


def test_what_a_refused_sink_advises_is_taken():
    stream = StreamBuilder.data_stream("test", "avro_out").from_array([{"id": 1, "t": "out"}])
    how = {"format": "avro", "registry": "http://localhost:8081"}
    stream.to_kafka("localhost:9092", "out", format="json").to_kafka("localhost:9092", "all", **how)
    stream.to_kafka("localhost:9092", topic_field="t", subject="orders-value", schema=STRICT, **how)

"""Rows as Protobuf messages: registered once before the start, and sent in the wire format of schema registries."""

from __future__ import annotations

import struct
from base64 import b64decode
from datetime import UTC, datetime

import pytest
from deltalake import DeltaTable
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from rs_assets import StreamBuilder, pipeline_from_sql
from rs_assets.connectors.kafka.registry.described import described, text_of
from rs_assets.errors import SinkError, TopologyError
from rs_assets.records.types import fields_in
from rs_assets.testing import SchemaRegistryServer
from tests.kafka.protos import descriptor, proto, read_back, text, value

ROWS = [{"id": 1, "who": "me"}, {"id": 2, "who": None}]
ORDER = proto("shop.proto", "shop", {"Line": {}, "Order": {"id": (5, "int64"), "who": (2, "optional string")}})


@pytest.fixture
def registry():
    with SchemaRegistryServer() as server:
        yield server


def send(broker, topic, options, registry, rows=ROWS, *, job="proto_out", schema=None, **how):
    stream = StreamBuilder.data_stream("test", job).from_array(rows, schema=schema)
    how = {"format": "protobuf", "registry": registry.url, **how}
    return stream.to_kafka(broker.bootstrap_servers, topic, **how).build().run(options)


def registered(registry, subject):
    number = registry.latest(subject)
    return number, FileDescriptorProto.FromString(b64decode(registry.schema(number)))


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_rows_are_sent_in_the_wire_format(broker, topic, options, registry, delivery):
    broker.create_topic(topic, 1)
    send(broker, topic, options, registry, key="id", delivery=delivery)
    number, file = registered(registry, f"{topic}-value")
    sent = [record.value for record in broker.read(topic)]
    assert all(content.startswith(struct.pack(">bI", 0, number) + b"\x00") for content in sent)
    assert [read_back("Row", content[6:], file) for content in sent] == [{"id": "1", "who": "me"}, {"id": "2"}]
    assert registry.requests == [
        f"GET /subjects/{topic}-value/versions/latest?format=serialized", f"POST /subjects/{topic}-value/versions",
    ]  # fmt: skip


def test_what_is_sent_is_read_as_it_was(broker, topic, options, registry):
    broker.create_topic(topic, 1)
    at = datetime(1969, 3, 1, 12, 30, 0, 123456, tzinfo=UTC)
    row = {
        "id": 2**53 + 1, "n": -1, "on": True, "x": -0.5, "raw": b"\x00\xff", "at": at, "none": None, "all": [1, 2],
        "where": {"city": "Zürich", "nr": 0}, "more": {"a": "b"}, "lines": [{"sku": "x"}],
    }  # fmt: skip
    ddl = (
        "id bigint, n int, on boolean, x double, raw binary, at timestamp, none string, all array<bigint>,"
        " where struct<city: string, nr: bigint>, more map<string, string>, lines array<struct<sku: string>>"
    )
    send(broker, topic, options, registry, [row], schema=ddl, message="shop.Event")
    back = StreamBuilder.data_stream("test", "proto_in").from_kafka(
        broker.bootstrap_servers, topic, schema=ddl, format="protobuf", registry=registry.url, message="shop.Event"
    )
    back.to_delta("back").build().run(options)
    (found,) = DeltaTable(options.home.table("test", "back")).to_pyarrow_table().to_pylist()
    assert found == {**row, "more": [("a", "b")]}


def test_fields_keep_their_numbers_when_others_come_and_go(broker, topic, options, registry):
    broker.create_topic(topic, 1)
    send(broker, topic, options, registry, [{"a": 1, "b": "x", "c": 2}])
    send(broker, topic, options, registry, [{"new": 5, "c": 2, "a": 1}], job="newer")
    send(broker, topic, options, registry, [{"b": 7, "c": 2}], job="newest")
    _, file = registered(registry, f"{topic}-value")
    assert {field.name: field.number for field in file.message_type[0].field} == {"c": 3, "b": 5}
    assert [each.start for each in file.message_type[0].reserved_range] == [1, 2, 4]
    # A start that changes nothing registers nothing.
    before = registry.latest(f"{topic}-value")
    send(broker, topic, options, registry, [{"b": 7, "c": 2}], job="same")
    assert registry.latest(f"{topic}-value") == before


def test_a_declared_message_names_the_fields_and_refuses_a_null_that_would_be_a_default(
    broker, topic, options, registry
):
    broker.create_topic(topic, 1)
    how = {"descriptor": descriptor(ORDER), "message": "shop.Order", "subject": "orders"}
    send(
        broker,
        topic,
        options,
        registry,
        [{"id": 1, "who": None, "more": 5}],
        schema="id int, who string, more int",
        **how,
    )
    number, file = registered(registry, "orders")
    assert file == ORDER
    (record,) = broker.read(topic)
    assert record.value == struct.pack(">bI", 0, number) + b"\x02\x02" + value("shop.Order", ORDER, id="1")
    with pytest.raises(SinkError, match="it is null, which the field shop.Order.id cannot be") as refusal:
        send(
            broker, topic, options, registry, [{"id": None, "who": "x"}], schema="id int, who string", job="null", **how
        )
    assert refusal.value.facts["field"] == "id"
    with pytest.raises(TopologyError, match="the field who is double, and string in the message"):
        send(broker, topic, options, registry, [{"id": 1, "who": 0.5}], job="kind", **how)
    with pytest.raises(TopologyError, match="id"):
        send(broker, topic, options, registry, [{"who": "x"}], job="lacks", **how)


def test_two_values_of_a_oneof_end_the_run_with_their_fields(broker, topic, options, registry):
    broker.create_topic(topic, 1)
    paid = proto("paid.proto", "shop", {"Paid": {"id": (1, "int64"), "card": (2, "string"), "iban": (3, "string")}})
    (message,) = paid.message_type
    message.oneof_decl.add(name="by")
    for field in message.field[1:]:
        field.oneof_index = 0
    how = {"descriptor": descriptor(paid), "message": "shop.Paid", "schema": "id bigint, card string, iban string"}
    rows = [{"id": 1, "card": "c", "iban": None}, {"id": 2, "card": None, "iban": "i"}, {"id": 3}]
    send(broker, topic, options, registry, rows, **how)
    sent = [read_back("shop.Paid", record.value[6:], paid) for record in broker.read(topic)]
    assert sorted(sent, key=str) == [{"id": "1", "card": "c"}, {"id": "2", "iban": "i"}, {"id": "3"}]
    with pytest.raises(SinkError, match="card has a value too, and only one of the fields of shop.Paid.by") as refusal:
        send(broker, topic, options, registry, [{"id": 4, "card": "c", "iban": "i"}], job="both", **how)
    assert refusal.value.facts["field"] == "iban"


def test_a_null_in_a_list_ends_the_run_with_its_field(broker, topic, options, registry):
    broker.create_topic(topic, 1)
    with pytest.raises(SinkError, match="a value in it is null, which Protobuf does not have") as refusal:
        send(broker, topic, options, registry, [{"all": [1, None]}], schema="all array<int>")
    assert refusal.value.facts["field"] == "all"


def test_a_registry_that_refuses_ends_the_start_before_a_batch(broker, topic, options, registry):
    broker.create_topic(topic, 1)
    registry.refused = "a number was used again"
    with pytest.raises(SinkError, match=f"refuses the schema for '{topic}-value': a number was used again"):
        send(broker, topic, options, registry)
    assert broker.read(topic) == []


def table(broker, topic, columns, more):
    return f"""({columns}) WITH ('connector' = 'kafka', 'topic' = '{topic}', 'value.format' = 'protobuf',
        'properties.bootstrap.servers' = '{broker.bootstrap_servers}', {more});"""


def test_sql_reads_and_writes_it(broker, topic, options, registry, tmp_path):
    for name in (topic, f"{topic}-out"):
        broker.create_topic(name, 1)
    (tmp_path / "orders.desc").write_bytes(descriptor(ORDER))
    number = registry.register("in", text(ORDER), kind="PROTOBUF")
    broker.produce(topic, [struct.pack(">bI", 0, number) + b"\x02\x02" + value("shop.Order", ORDER, id="7", who="me")])
    url = f"'protobuf.url' = '{registry.url}', 'protobuf.message-name' = 'shop.Order'"
    statements = f"""
        CREATE TABLE orders {table(broker, topic, "id BIGINT, who STRING", url)}
        CREATE TABLE sent {table(broker, f"{topic}-out", "who STRING, id BIGINT",
            f"{url}, 'protobuf.descriptor' = '{tmp_path}/orders.desc', 'protobuf.subject' = 'sent'")}
        INSERT INTO sent SELECT who, id + 1 FROM orders;"""  # fmt: skip
    pipeline_from_sql(statements, job="proto").run(options)
    (record,) = broker.read(f"{topic}-out")
    assert record.value[5:] == b"\x02\x02" + value("shop.Order", ORDER, id="8", who="me")


def test_numbers_are_kept_within_structs():
    older = described("Row", fields_in("a struct<x: int, y: int>, m map<string, struct<z: int>>"), None, step="s")
    newer = described("Row", fields_in("a struct<y: int, w: int>"), text_of(older.file), step="s")
    (nested,) = newer.file.message_type[0].nested_type
    assert {field.name: field.number for field in nested.field} == {"y": 2, "w": 3}


@pytest.mark.parametrize(
    ("how", "match"),
    [
        ({"registry": None}, "the message of Protobuf records is in a registry"),
        ({"schema": "id bigint"}, "the schema of Protobuf records is a descriptor"),
        ({"value": "v"}, "is the value of a record"),
        ({"topic": None, "topic_field": "t"}, "is a field"),
        ({"descriptor": descriptor(ORDER)}, "names no message"),
        ({"format": "avro", "message": "shop.Order"}, "describe Protobuf records"),
        ({"descriptor": descriptor(proto("p.proto", "p", {"P": {"a": (1, "int32")}}), proto(
            "o.proto", "o", {"O": {"p": (1, ".p.P")}}, imports=("p.proto",))), "message": "o.O"}, "imports p.proto"),
    ],
)  # fmt: skip
def test_options_of_a_sink_that_do_not_fit_are_refused(how, match):
    stream = StreamBuilder.data_stream("test", "proto_out").from_array([{"id": 1, "v": "x", "t": "out"}])
    with pytest.raises(TopologyError, match=match):
        stream.to_kafka(
            "localhost:9092", **{"topic": "out", "format": "protobuf", "registry": "http://localhost:8081", **how}
        )


def test_fields_without_a_type_or_a_name_in_protobuf_are_refused():
    with pytest.raises(TopologyError, match="cannot have the name 'a b'"):
        described("Row", {"a b": None}, None, step="s")
    with pytest.raises(TopologyError, match="the type of the field 'a' is not known"):
        described("Row", {"a": None}, None, step="s")
    # The remedies.
    described("Row", fields_in("name_2 bigint"), None, step="s")


def test_what_a_refused_sink_advises_is_taken():
    stream = StreamBuilder.data_stream("test", "proto_out").from_array([{"id": 1, "t": "out"}])
    how = {"format": "protobuf", "registry": "http://localhost:8081"}
    stream.to_kafka("localhost:9092", "all", **how)
    stream.to_kafka("localhost:9092", topic_field="t", subject="orders-value", **how)
    stream.to_kafka("localhost:9092", "two", descriptor=descriptor(ORDER), message="shop.Order", **how)

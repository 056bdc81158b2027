"""Avro records: decoded by the schema that is given, refused with their address if they are none."""

from __future__ import annotations

import json

import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder
from rs_assets.errors import TopologyError

RECORD = {
    "type": "record",
    "name": "order",
    "fields": [{"name": "id", "type": "long"}, {"name": "who", "type": "string"}],
}
LOOSE = {"type": "record", "name": "loose", "fields": [{"name": "n", "type": ["null", "int"]}]}
# Two orders: zigzag long, then the length and the bytes of the text.
ONE, TWO = b"\x02\x04me", b"\x04\x06you"


def read(broker, topic, options, schema, **how):
    stream = StreamBuilder.data_stream("test", "avro").from_kafka(
        broker.bootstrap_servers, topic, schema=json.dumps(schema), bad_records="dead_letter", **how
    )
    report = stream.to_delta("rows").build().run(options)
    rows = DeltaTable(str(options.home.root / "tables" / "test" / "rows")).to_pyarrow_table().to_pylist()
    letters = DeltaTable(str(options.home.dead_letters)).to_pyarrow_table().to_pylist() if report.rows_dead else []
    return report, rows, [(letter["offset"], letter["reason"]) for letter in letters]


def test_should_decode_records_and_refuse_what_is_none(broker, topic, options):
    broker.create_topic(topic, 1)
    broker.produce(topic, [ONE, b"\xff\xff", TWO, b""])
    report, rows, letters = read(broker, topic, options, RECORD, format="avro")
    assert rows == [{"id": 1, "who": "me"}, {"id": 2, "who": "you"}]
    assert letters == [(1, "malformed Avro"), (3, "malformed Avro")]
    assert report.rows_in == 4


def test_should_tell_a_record_of_nulls_from_one_that_is_broken(broker, topic, options):
    broker.create_topic(topic, 1)
    broker.produce(topic, [b"\x00", b"\x02\x08", b"\x0a"])
    _, rows, letters = read(broker, topic, options, LOOSE, format="avro")
    assert rows == [{"n": None}, {"n": 4}]
    assert letters == [(2, "malformed Avro")]


def test_should_pass_over_the_header_of_a_schema_registry(broker, topic, options):
    broker.create_topic(topic, 1)
    broker.produce(topic, [b"\x00\x00\x00\x00\x07" + ONE, ONE])
    _, rows, letters = read(broker, topic, options, RECORD, format="confluent_avro")
    assert rows == [{"id": 1, "who": "me"}]
    assert letters == [(1, "no header of a schema registry")]


@pytest.mark.parametrize("schema", [None, "id bigint", "{", "[]", '{"type": "record", "name": "r", "fields": []}'])
def test_should_refuse_a_schema_that_is_no_record(schema):
    with pytest.raises(TopologyError, match="needs an Avro record"):
        StreamBuilder.data_stream("test", "avro").from_kafka("localhost:9092", "in", format="avro", schema=schema)

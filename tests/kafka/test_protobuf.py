"""Protobuf records: each is read by the message that it was written with, or is refused with its address."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from rs_assets import StreamBuilder
from rs_assets.connectors.kafka.registry.protobuf import ProtobufMessage
from rs_assets.errors import SourceReadError, TopologyError
from rs_assets.testing import SchemaRegistryServer
from tests.kafka.protos import descriptor, proto, text, value
from tests.kafka.test_avro import Read

ORDER = proto("shop.proto", "shop", {"Order": {"id": (1, "int64"), "who": (2, "string")}})
NAME = "shop.Order"


def headed(number, content, path=b"\x00"):
    return struct.pack(">bI", 0, number) + path + content


@pytest.fixture
def registry():
    with SchemaRegistryServer() as server:
        yield server


def register(server, file, subject="o", **how):
    return server.register(subject, text(file), kind="PROTOBUF", **how)


class Values(Read):
    """A pipeline over one topic of Protobuf records."""

    def __init__(self, broker, topic, options, schema, **how):
        super().__init__(broker, topic, options, schema or "", **how)
        self.schema = schema


def read(broker, topic, options, schema, values, **how):
    broker.create_topic(topic, 1)
    broker.produce(topic, values)
    made = Values(broker, topic, options, schema, format="protobuf", **how)
    report = made.run()
    return made.rows, made.letters if report.rows_dead else []


@pytest.mark.canary
def test_each_record_is_read_by_the_message_of_its_writer(broker, topic, options, registry):
    same = register(registry, ORDER)
    # Fields go by their names: another number, another place, a narrower type.
    other = proto(
        "b.proto", "shop", {"Refund": {"n": (1, "int32")}, "Order": {"who": (7, "string"), "id": (2, "int32")}}
    )
    older = register(registry, other)
    never = proto("c.proto", "shop", {"Order": {"id": (1, "string")}})
    wrong = register(registry, never)
    avro = registry.register("a", '"string"')
    good = value(NAME, ORDER, id="2", who="you")
    values = [
        headed(same, good),
        # The second message of its file; the header may say so in two ways for the first one.
        headed(older, value(NAME, other, id=7, who="me"), b"\x02\x02"),
        headed(same, value(NAME, ORDER), b"\x02\x00"),
        headed(wrong, value(NAME, never, id="x")),
        headed(avro, good),
        headed(99, good),
        b"\x01",
        headed(same, good[:-1]),
        headed(older, b"\x08\x07"),
        headed(same, good, b"\x02\x06"),
    ]
    rows, letters = read(
        broker, topic, options, "id bigint, who string, more int", values, registry=registry.registry, message=NAME
    )
    assert rows == [
        {"id": 0, "who": "", "more": None}, {"id": 2, "who": "you", "more": None}, {"id": 7, "who": "me", "more": None},
    ]  # fmt: skip
    assert dict(letters) == {
        3: f"schema {wrong} cannot be read as the declared one: the field id is string, not bigint",
        4: f"schema {avro} of the registry is AVRO, not Protobuf",
        5: "the schema registry has no schema 99",
        6: "no header of a schema registry",
        7: "malformed Protobuf",
        8: "it is a shop.Refund, not a shop.Order",
        9: f"schema {same} of the registry has no message 3",
    }
    # Asked once each; an unknown one again after a moment, for a follower may lag.
    asked = sorted(path.rsplit("/", 1)[1] for path in registry.requests)
    assert asked == sorted(f"{number}?format=serialized" for number in (same, older, wrong, avro, 99, 99))


def test_a_declared_message_reads_fields_by_their_numbers(broker, topic, options, registry):
    renamed = proto("n.proto", "shop", {"Order": {"order_id": (1, "int32"), "note": (9, "string")}})
    moved = proto("m.proto", "shop", {"Order": {"who": (1, "string"), "id": (2, "int64")}})
    first, second = register(registry, renamed), register(registry, moved)
    values = [headed(first, value(NAME, renamed, order_id=5, note="x")), headed(second, value(NAME, moved, who="a"))]
    how = {"registry": registry.url, "descriptor": descriptor(ORDER), "message": NAME}
    rows, letters = read(broker, topic, options, None, values, **how)
    assert rows == [{"id": 5, "who": ""}]
    reason = f"schema {second} cannot be read as the declared one: the field id was written as string, not as int64"
    assert letters == [(1, reason)]


def test_without_a_registry_values_are_of_the_declared_message(broker, topic, options, tmp_path):
    (tmp_path / "shop.desc").write_bytes(descriptor(ORDER))
    how = {"descriptor": tmp_path / "shop.desc", "message": NAME}
    good = value(NAME, ORDER, id="3")
    rows, letters = read(broker, topic, options, None, [good, b"\xff", b""], **how)
    assert rows == [{"id": 0, "who": ""}, {"id": 3, "who": ""}]
    assert letters == [(1, "malformed Protobuf")]


def test_without_a_registry_only_the_declared_id_is_read(broker, topic, options):
    good = value(NAME, ORDER, id="3")
    how = {"descriptor": descriptor(ORDER), "message": NAME, "schema_id": 7}
    rows, letters = read(broker, topic, options, "id bigint", [headed(7, good), headed(8, good), good[:2]], **how)
    assert rows == [{"id": 3}]
    assert letters == [(1, "its schema id is 8, and the declared one is 7"), (2, "no header of a schema registry")]


KINDS = proto(
    "kinds.proto", "k",
    {
        "Inner": {"city": (1, "string")},
        "All": {
            "on": (1, "bool"), "small": (2, "sint32"), "plain": (3, "uint32"), "large": (4, "fixed64"),
            "half": (5, "float"), "whole": (6, "double"), "raw": (7, "bytes"), "state": (8, ".k.State"),
            "maybe": (9, "optional int32"), "inner": (10, ".k.Inner"), "many": (11, "repeated .k.Inner"),
            "named": (12, "map<string,int64>"), "at": (13, ".google.protobuf.Timestamp"),
            "wrapped": (14, ".google.protobuf.Int64Value"), "numbers": (15, "repeated int32"),
        },
    },
    imports=("google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"),
    enums={"State": {"OPEN": 0, "DONE": 3}},
)  # fmt: skip


def test_all_types_are_read_and_absent_fields_are_null_or_their_default(broker, topic, options):
    fields = {
        "on": True, "small": -5, "plain": 2**32 - 1, "large": str(2**64 - 1), "half": 0.5, "whole": 1e300,
        "raw": "AP8=", "state": "DONE", "maybe": 0, "inner": {"city": "Zürich"}, "many": [{"city": "a"}, {}],
        "named": {"x": "4"}, "at": "2024-03-01T12:30:00.123456789Z", "wrapped": "0", "numbers": [3, -1],
    }  # fmt: skip
    values = [value("k.All", KINDS, **fields), b"", value("k.All", KINDS, state=8)]
    rows, _ = read(broker, topic, options, None, values, descriptor=descriptor(KINDS), message="k.All")
    full = next(row for row in rows if row["on"])
    empty, odd = (row for row in sorted(rows, key=lambda row: row["state"], reverse=True) if not row["on"])
    assert full == {
        "on": True, "small": -5, "plain": 2**32 - 1, "large": Decimal(2**64 - 1), "half": 0.5, "whole": 1e300,
        "raw": b"\x00\xff", "state": "DONE", "maybe": 0, "inner": {"city": "Zürich"},
        "many": [{"city": "a"}, {"city": ""}], "named": [("x", 4)],
        "at": datetime(2024, 3, 1, 12, 30, 0, 123456, tzinfo=UTC), "wrapped": 0, "numbers": [3, -1],
    }  # fmt: skip
    assert empty == {
        "on": False, "small": 0, "plain": 0, "large": Decimal(0), "half": 0.0, "whole": 0.0, "raw": b"",
        "state": "OPEN", "maybe": None, "inner": None, "many": [], "named": [], "at": None, "wrapped": None,
        "numbers": [],
    }  # fmt: skip
    # A value that the schema has no name for is its number, as in Protobuf's own JSON.
    assert odd == {**empty, "state": "8"}


def test_a_number_that_does_not_fit_and_a_time_beyond_the_calendar_make_bad_records(broker, topic, options):
    values = [value("k.All", KINDS, large=str(2**63)), value("k.All", KINDS, large="5")]
    # Seconds of a timestamp, as Google's own library would not write them.
    values.append(b"\x6a\x0a\x08" + b"\xff" * 8 + b"\x7f")
    how = {"descriptor": descriptor(KINDS), "message": "k.All"}
    rows, letters = read(broker, topic, options, "large bigint, at timestamp", values, **how)
    assert rows == [{"large": 5, "at": None}]
    assert letters == [
        (0, "large: 9223372036854775808 is too large for bigint"), (2, "at: not in the years 1 to 9999 of UTC"),
    ]  # fmt: skip


def test_bytes_of_another_kind_of_type_make_bad_records(broker, topic, options):
    other = proto(
        "o.proto", "k",
        {
            "Inner": {"city": (1, "int64")},
            "All": {
                "on": (1, "string"), "small": (2, "string"), "inner": (10, ".k.Inner"), "numbers": (15, "string"),
                "named": (12, "int64"), "state": (8, "string"),
            },
        },
    )  # fmt: skip
    faults = {
        "on": {"on": "x"}, "small": {"small": "7"}, "inner.city": {"inner": {"city": "5"}}, "named": {"named": "1"},
    }  # fmt: skip
    values = [value("k.All", other, **fields) for fields in faults.values()]
    values += [value("k.All", KINDS, numbers=[1, 2]), value("k.All", other, numbers="\x01\x02")]
    how = {"descriptor": descriptor(KINDS), "message": "k.All"}
    ddl = "on boolean, small int, inner struct<city: string>, numbers array<int>, named map<string, bigint>"
    rows, letters = read(broker, topic, options, ddl, values, **how)
    kinds = {"on": "bool", "small": "sint32", "inner.city": "string", "named": "map"}
    assert letters == [(n, f"the field {path} was not written as {kinds[path]}") for n, path in enumerate(faults)]
    # A packed list has the bytes of a text: nothing can know.
    assert [row["numbers"] for row in rows] == [[1, 2]] * 2


def test_files_that_import_others_are_read_with_them(broker, topic, options, registry):
    place = proto("place.proto", "geo", {"Place": {"city": (1, "string")}})
    main = proto("o.proto", "shop", {"Order": {"where": (1, ".geo.Place")}}, imports=("geo/place.proto",))
    register(registry, place, "geo/place.proto")
    number = register(
        registry, main, references=[{"name": "geo/place.proto", "subject": "geo/place.proto", "version": 1}]
    )
    place.name = "geo/place.proto"
    values = [headed(number, value(NAME, place, main, where={"city": "NY"}))]
    rows, _ = read(broker, topic, options, "where struct<city: string>", values, registry=registry.url)
    assert rows == [{"where": {"city": "NY"}}]


def test_a_registry_that_has_only_the_text_of_a_file_ends_the_batch(broker, topic, options, registry):
    number = registry.register("o", 'syntax = "proto3"; message Order { int64 id = 1; }', kind="PROTOBUF")
    with pytest.raises(SourceReadError, match="with the text of a file, not with its descriptor"):
        read(broker, topic, options, "id bigint", [headed(number, b"")], registry=registry.registry)


def test_a_message_is_found_in_its_set_with_what_it_imports():
    place = proto("place.proto", "geo", {"Place": {"city": (1, "string")}})
    unused = proto("other.proto", "x", {"Other": {"a": (1, "int32")}})
    main = proto("o.proto", "shop", {"Line": {}, "Order": {"where": (1, ".geo.Place")}}, imports=("place.proto",))
    found = ProtobufMessage.of(descriptor(unused, main, place), NAME, step="s")
    assert found == ProtobufMessage.of(descriptor(place, main), NAME, step="s")
    assert (found.path, found.schema(step="s")) == ((1,), "`where` struct<city:string>")
    with pytest.raises(TopologyError, match="lacks 'place.proto', which 'o.proto' imports"):
        ProtobufMessage.of(descriptor(main), NAME, step="s")


@pytest.mark.parametrize(
    ("how", "match"),
    [
        ({}, "need a registry, or the declared message"),
        ({"registry": "http://h:1"}, "needs the fields of its Protobuf records"),
        ({"registry": "http://h:1", "schema": "a date"}, "the field 'a' has the type date, which Protobuf does not"),
        ({"registry": "http://h:1", "schema": "a array<map<string,int>>"}, "which Protobuf does not have"),
        ({"registry": "http://h:1", "schema": "a int", "schema_id": 7}, "it has a registry"),
        ({"descriptor": descriptor(ORDER)}, "names no message"),
        ({"descriptor": descriptor(ORDER), "message": "shop.Orders"}, "the descriptor has no message 'shop.Orders'"),
        ({"descriptor": b"\xff", "message": NAME}, "the descriptor cannot be read"),
        ({"descriptor": b"", "message": NAME}, "the descriptor has no messages"),
        ({"descriptor": "/does/not/exist", "message": NAME}, "the descriptor cannot be read"),
        ({"format": "json", "schema": "a int", "message": NAME}, "describe Protobuf records"),
    ],
)
def test_options_that_do_not_fit_are_refused(how, match):
    with pytest.raises(TopologyError, match=match):
        StreamBuilder.data_stream("test", "p").from_kafka("localhost:9092", "in", **{"format": "protobuf", **how})


def test_a_message_within_itself_is_refused_until_its_fields_are_named():
    tree = proto("t.proto", "t", {"Tree": {"id": (1, "int32"), "left": (2, ".t.Tree")}})
    how = {"format": "protobuf", "descriptor": descriptor(tree), "message": "t.Tree"}
    begin = StreamBuilder.data_stream("test", "p")
    with pytest.raises(TopologyError, match="the message t.Tree has itself as a part"):
        begin.from_kafka("localhost:9092", "in", **how)
    begin.from_kafka("localhost:9092", "in", schema="id int, left struct<id: int>", **how)


def test_what_a_refused_source_advises_is_taken(tmp_path):
    """The remedies of the tests above, followed."""
    (tmp_path / "orders.desc").write_bytes(descriptor(ORDER))
    declared = {"descriptor": tmp_path / "orders.desc", "message": NAME}
    for how in (
        {"registry": "http://host:8081", "schema": "id bigint, name string"},
        {"registry": "http://host:8081", "schema": "a int, b string, c timestamp"},
        {"registry": "http://host:8081", "schema": "a int"},
        declared,
        {**declared, "schema_id": 7},
    ):
        StreamBuilder.data_stream("test", "p").from_kafka("localhost:9092", "in", format="protobuf", **how)


def test_a_field_of_another_type_than_the_declared_message_has_is_refused_before_a_batch(broker, topic, options):
    how = {"descriptor": descriptor(ORDER), "message": NAME}
    with pytest.raises(TopologyError, match="the field who is string, not int"):
        read(broker, topic, options, "who int", [b""], **how)
    # The remedy: all fields of the message.
    Values(broker, topic, options, None, format="protobuf", **how).run()

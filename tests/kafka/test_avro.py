"""Avro records: each is read by the schema that it was written with, or is refused with its address."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest
from dagster import EnvVar
from deltalake import DeltaTable

from rs_assets import SchemaRegistry, StreamBuilder
from rs_assets.connectors.sink import Staged
from rs_assets.errors import BadRecordError, ConfigurationError, SinkError, SourceReadError, TopologyError
from rs_assets.testing import SchemaRegistryServer


def record(*fields, name="order"):
    return {"type": "record", "name": name, "fields": [{"name": n, "type": kind} for n, kind in fields]}


RECORD = record(("id", "long"), ("who", "string"))
LOOSE = record(("n", ["null", "int"]), name="loose")
MILLIS, MICROS = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros"))
# Two orders: zigzag long, then the length and the bytes of the text.
ONE, TWO = b"\x02\x04me", b"\x04\x06you"


def headed(number, value):
    return struct.pack(">bI", 0, number) + value


@pytest.fixture
def registry():
    with SchemaRegistryServer() as server:
        yield server


class Read:
    """A pipeline over one topic, and what its runs left."""

    def __init__(self, broker, topic, options, schema, **how):
        self.options, self.how = options, {"bad_records": "dead_letter", **how}
        self.of = (broker.bootstrap_servers, topic)
        self.to = lambda stream: stream
        self.schema = schema if isinstance(schema, str) else json.dumps(schema)

    def run(self):
        stream = StreamBuilder.data_stream("test", "avro").from_kafka(*self.of, schema=self.schema, **self.how)
        return self.to(stream.to_delta("rows")).build().run(self.options)

    @property
    def rows(self):
        rows = DeltaTable(str(self.options.home.root / "tables" / "test" / "rows")).to_pyarrow_table().to_pylist()
        return sorted(rows, key=str)

    @property
    def letters(self):
        letters = DeltaTable(str(self.options.home.dead_letters)).to_pyarrow_table().to_pylist()
        return sorted((letter["offset"], letter["reason"]) for letter in letters)


def read(broker, topic, options, schema, values, **how):
    broker.create_topic(topic, 1)
    broker.produce(topic, values)
    made = Read(broker, topic, options, schema, **how)
    report = made.run()
    return made.rows, made.letters if report.rows_dead else []


@pytest.mark.canary
def test_each_record_is_read_by_the_schema_of_its_writer(broker, topic, options, registry):
    older = registry.register("o", json.dumps(record(("id", "int"))))
    other = registry.register("o", json.dumps(record(("who", "string"), ("more", "double"), ("id", "long"))))
    same = registry.register("o", json.dumps(RECORD))
    enum = {"type": "enum", "name": "kind", "symbols": ["A"]}
    never = registry.register("o", json.dumps(record(("id", "long"), ("who", enum))))
    proto = registry.register("p", 'syntax = "proto3";', kind="PROTOBUF")
    reader = record(("id", "long"))
    reader["fields"].append({"name": "who", "type": "string", "default": "?"})
    values = [
        headed(same, TWO),
        headed(older, b"\x0e"),
        headed(other, b"\x04me" + struct.pack("<d", 1.5) + b"\x06"),
        headed(never, b"\x02\x00"),
        headed(proto, b"\x02\x00"),
        headed(99, ONE),
        ONE,
        headed(same, TWO[:-1]),
    ]
    rows, letters = read(broker, topic, options, reader, values, format="avro", registry=registry.registry)
    assert rows == [{"id": 2, "who": "you"}, {"id": 3, "who": "me"}, {"id": 7, "who": "?"}]
    reasons = dict(letters)
    assert reasons.pop(3).startswith(f"schema {never} cannot be read as the declared one: ")
    assert reasons == {
        4: f"schema {proto} of the registry is PROTOBUF, not Avro",
        5: "the schema registry has no schema 99",
        6: "no header of a schema registry",
        7: "malformed Avro",
    }
    # Asked once each; an unknown one again after a moment, for a follower may lag.
    asked = sorted(path.rsplit("/", 1)[1] for path in registry.requests)
    assert asked == sorted(map(str, [same, older, other, never, proto, 99, 99]))


def test_should_decode_records_and_refuse_what_is_none(broker, topic, options):
    rows, letters = read(broker, topic, options, RECORD, [ONE, b"\xff\xff", TWO, b""], format="avro")
    assert rows == [{"id": 1, "who": "me"}, {"id": 2, "who": "you"}]
    assert letters == [(1, "malformed Avro"), (3, "malformed Avro")]


def test_a_key_that_is_twice_in_a_map_makes_a_bad_record(broker, topic, options):
    schema = record(("m", {"type": "array", "items": {"type": "map", "values": "int"}}))
    # Lists of one map: its entries in one block or in two, with and without a key that comes again.
    maps = [
        b"\x04\x02a\x02\x02b\x04\x00",
        b"\x04\x02a\x02\x02a\x04\x00",
        b"\x02\x02a\x02\x02\x02a\x02\x00",
        b"\x02\x02a\x02\x02\x02b\x04\x00",
        b"\x02\x02a\x12\x00",
    ]
    rows, letters = read(broker, topic, options, schema, [b"\x02" + each + b"\x00" for each in maps], format="avro")
    assert [dict(each) for row in rows for each in row["m"]] == [{"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 9}]
    assert letters == [(1, "a key is twice in a map"), (2, "a key is twice in a map")]


def test_should_tell_a_record_of_nulls_from_one_that_is_broken(broker, topic, options):
    rows, letters = read(broker, topic, options, LOOSE, [b"\x00", b"\x02\x08", b"\x0a"], format="avro")
    assert rows == [{"n": 4}, {"n": None}]
    assert letters == [(2, "malformed Avro")]


def test_a_header_that_was_not_expected_is_never_read_as_values(broker, topic, options):
    # Its zeros were the number 0 and an empty text before.
    rows, letters = read(broker, topic, options, RECORD, [headed(7, ONE), ONE], format="avro")
    assert rows == [{"id": 1, "who": "me"}]
    assert letters == [(0, "malformed Avro: bytes after the record")]


def test_without_a_registry_only_the_declared_id_is_read(broker, topic, options):
    values = [headed(7, ONE), headed(8, ONE), ONE, b"\x00\x00"]
    rows, letters = read(broker, topic, options, RECORD, values, format="confluent_avro", schema_id=7)
    assert rows == [{"id": 1, "who": "me"}]
    assert letters == [
        (1, "its schema id is 8, and the declared one is 7"),
        (2, "no header of a schema registry"),
        (3, "no header of a schema registry"),
    ]


def test_declared_fields_are_a_schema_whose_times_have_the_unit_of_the_writer(broker, topic, options, registry):
    place = record(("city", "string"), name="place")
    writer = registry.register("t", json.dumps(record(
        ("at", MILLIS), ("seen", ["null", MILLIS]), ("all", {"type": "array", "items": MILLIS}), ("where", place),
        ("price", {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}),
    )))  # fmt: skip
    plain = registry.register("t", json.dumps(record(("at", "long"))))
    four = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 4}
    scaled = registry.register("t", json.dumps(record(("price", four))))
    ddl = "at timestamp, seen timestamp, all array<timestamp>, where struct<city: string>, price decimal(8,2), x int"
    second = b"\xd0\x0f"
    values = [
        headed(writer, second + b"\x02" + second + b"\x02" + second + b"\x00" + b"\x04NY" + b"\x02\x7b"),
        headed(plain, second),
        headed(scaled, b"\x02\x7b"),
    ]
    rows, letters = read(broker, topic, options, ddl, values, format="avro", registry=registry.url)
    at = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert [str(row.pop("price")) for row in rows] == ["1.23"]
    assert rows == [{"at": at, "seen": at, "all": [at], "where": {"city": "NY"}, "x": None}]
    assert [reason.split(": ", 1)[1] for _, reason in letters] == [
        "the field at was written as long, not as timestamp-micros",
        "the field price was written as decimal(6,4), not as decimal(8,2)",
    ]


def test_schemas_that_refer_to_others_are_read_with_them(broker, topic, options, registry):
    registry.register("place", json.dumps(record(("city", "string"), name="place")))
    main = registry.register(
        "o",
        json.dumps(record(("id", "long"), ("where", "place"))),
        references=[{"name": "place", "subject": "place", "version": 1}],
    )
    values = [headed(main, b"\x02\x04NY")]
    rows, _ = read(broker, topic, options, "where struct<city: string>", values, format="avro", registry=registry.url)
    assert rows == [{"where": {"city": "NY"}}]


def test_a_registry_that_is_down_ends_the_batch_and_the_next_run_reads_it(broker, topic, options, registry):
    number = registry.register("o", json.dumps(RECORD))
    broker.create_topic(topic, 1)
    broker.produce(topic, [headed(number, ONE), headed(99, ONE)])
    briefly = replace(registry.registry, patience=timedelta(seconds=0.5))
    made = Read(broker, topic, options, RECORD, format="avro", registry=briefly)
    registry.down = True
    with pytest.raises(SourceReadError, match=r"schema registry http\S+ does not answer: HTTP 503"):
        made.run()
    registry.down = False
    made.run()
    assert (made.rows, made.letters) == ([{"id": 1, "who": "me"}], [(1, "the schema registry has no schema 99")])
    # What it knows needs no registry, also after it has gone for good.
    registry.stop()
    broker.produce(topic, [headed(number, TWO)])
    made.run()
    assert made.rows[-1] == {"id": 2, "who": "you"}
    broker.produce(topic, [headed(number + 1, TWO)])
    with pytest.raises(SourceReadError, match="does not answer: ConnectException"):
        made.run()


def test_an_id_that_became_known_is_read_by_the_next_batch(broker, topic, options, registry):
    broker.create_topic(topic, 1)
    broker.produce(topic, [headed(1, ONE)])
    made = Read(broker, topic, options, RECORD, format="avro", registry=registry.registry, bad_records="fail")
    with pytest.raises(BadRecordError, match="no schema 1"):
        made.run()
    registry.register("o", json.dumps(RECORD))
    made.run()
    assert made.rows == [{"id": 1, "who": "me"}]


class Failing(NamedTuple):
    """A sink that cannot commit while it is `broken`."""

    rows: list
    broken: list
    name: str = "failing"

    def committed(self, mark):
        return False

    def last_committed(self, mark):
        return None

    def location(self):
        return "here"

    def stage(self, batch, mark):
        found = [row.asDict() for row in batch.collect()]

        def commit():
            if self.broken:
                raise SinkError("it broke", remedy="mend it")
            self.rows.extend(found)
            return len(found)

        return Staged(commit)


def test_a_batch_that_was_begun_keeps_its_unknown_ids(broker, topic, options, registry):
    """One sink has the batch, the other one gets it after a restart: both have the same rows."""
    known = registry.register("o", json.dumps(RECORD))
    broker.create_topic(topic, 1)
    broker.produce(topic, [headed(known, ONE), headed(known + 1, b"\x04")])
    made = Read(broker, topic, options, RECORD, format="avro", registry=registry.registry)
    sink = Failing([], [True])
    made.to = lambda stream: stream.to(sink)
    with pytest.raises(SinkError, match="it broke"):
        made.run()
    registry.register("o", json.dumps(record(("id", "long"))))
    sink.broken.clear()
    made.run()
    assert made.rows == sink.rows == [{"id": 1, "who": "me"}]
    assert made.letters == [(1, f"the schema registry has no schema {known + 1}")]
    # The next batch asks again.
    broker.produce(topic, [headed(known + 1, b"\x04")])
    made.run()
    assert made.letters[1][1].startswith(f"schema {known + 1} cannot be read as the declared one")


def test_credentials_are_sent_and_wrong_ones_end_the_batch(broker, topic, options, monkeypatch):
    monkeypatch.setenv("REGISTRY_PASSWORD", "s3cret")
    with SchemaRegistryServer(login=("me", "s3cret")) as server:
        number = server.register("o", json.dumps(RECORD))
        login = SchemaRegistry(url=server.url, username="me", password=EnvVar("REGISTRY_PASSWORD"))
        rows, _ = read(broker, topic, options, RECORD, [headed(number, ONE)], format="avro", registry=login)
        assert rows == [{"id": 1, "who": "me"}]
        broker.produce(topic, [headed(number + 1, ONE)])
        wrong = SchemaRegistry(url=server.url, username="me", password="other")
        with pytest.raises(SourceReadError, match=r"refuses the login \(HTTP 401\)") as refusal:
            Read(broker, topic, options, RECORD, format="avro", registry=wrong).run()
        assert "other" not in str(refusal.value)


def test_an_address_that_is_not_of_a_registry_is_not_an_unknown_id(broker, topic, options, registry):
    wrong = SchemaRegistry(url=f"{registry.url}/elsewhere")
    with pytest.raises(SourceReadError, match="answers /schemas/ids/1 with HTTP 404"):
        read(broker, topic, options, RECORD, [headed(1, ONE)], format="avro", registry=wrong)


@pytest.mark.parametrize(
    ("how", "match"),
    [
        ({"format": "avro"}, "needs the fields of its Avro records"),
        ({"format": "avro", "schema": '{"type": "record", "name": "r", "fields": []}'}, "needs the fields|type"),
        ({"format": "avro", "schema": "a smallint"}, "the field 'a' has the type smallint, which Avro does not have"),
        ({"format": "avro", "schema": "`a b` int"}, "cannot have the name 'a b'"),
        ({"format": "confluent_avro", "schema": "id bigint"}, "either a registry or a schema_id"),
        ({"format": "avro", "schema": "id bigint", "schema_id": 7}, "the id in the header"),
        ({"format": "confluent_avro", "schema": "id bigint", "schema_id": -7}, "not the number of a schema"),
        ({"schema": "id bigint", "registry": "http://localhost:8081"}, "has schemas of Avro and Protobuf records"),
    ],
)
def test_options_that_do_not_fit_are_refused(how, match):
    with pytest.raises(TopologyError, match=match):
        StreamBuilder.data_stream("test", "avro").from_kafka("localhost:9092", "in", **how)


@pytest.mark.parametrize(
    ("how", "match"),
    [
        ({"url": "localhost:8081"}, "not the address of a schema registry"),
        ({"url": "http://me:s3cret@localhost:8081"}, "not the address of a schema registry"),
        ({"url": "http://localhost:8081", "username": "me"}, "either username and password, or a token"),
        ({"url": "http://localhost:8081", "username": "me", "password": "p", "token": "t"}, "or a token"),
    ],
)
def test_addresses_that_do_not_fit_are_refused(how, match):
    with pytest.raises(ConfigurationError, match=match) as refusal:
        SchemaRegistry(**how)
    assert "s3cret" not in str(refusal.value)


def test_what_a_refused_registry_or_schema_advises_is_taken(tmp_path):
    """The remedies of the two tests above, followed."""
    assert SchemaRegistry(url="http://host:8081", username="me", password="p").authorization().startswith("Basic ")
    assert SchemaRegistry.of("http://host:8081") == SchemaRegistry(url="http://host:8081/")
    assert SchemaRegistry(url="https://host", token="t").authorization() == "Bearer t"
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----")
    assert SchemaRegistry(url="https://host", ca_file=str(tmp_path / "ca.pem")).authorities().startswith("-----")
    for schema in ("id bigint, name string", "a int", "a_b int", "m map<string, int>", json.dumps(RECORD)):
        StreamBuilder.data_stream("test", "avro").from_kafka("localhost:9092", "in", format="avro", schema=schema)

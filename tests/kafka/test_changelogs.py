"""Compacted topics: read as tables, tombstones as deletions, and written as tables, so that they are read back."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime
from decimal import Decimal

import orjson
import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder, pipeline_from_sql
from rs_assets.connectors.kafka.sink.at_least_once import KafkaWriter
from rs_assets.connectors.kafka.sink.exactly_once import TransactionalWriter
from rs_assets.errors import BadRecordError, RsError, SqlError, TopologyError
from rs_assets.testing import KafkaRecord
from tests.crash import Crash

WRITERS = {"at-least-once": KafkaWriter, "exactly-once": TransactionalWriter}
SHOPS = "id BIGINT, shop STRING, n BIGINT"


def changelog(broker, topic, columns, *, keys="id", name="users", **options):
    """CREATE TABLE of a changelog topic."""
    given = {"connector": "upsert-kafka", "topic": topic, "properties.bootstrap.servers": broker.bootstrap_servers}
    said = ", ".join(f"'{key}' = '{value}'" for key, value in {**given, "format": "json", **options}.items())
    return f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({keys}) NOT ENFORCED) WITH ({said});\n"


def mirror(name, columns):
    return f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'delta', 'table' = '{name}');\n"


def rows_of(options, name):
    table = DeltaTable(options.home.table("sql", name)).to_pyarrow_table().to_pylist()
    return sorted(table, key=lambda row: [str(value) for value in row.values()])


def record(key, value):
    text = orjson.dumps(key) if isinstance(key, dict) else str(key).encode()
    return KafkaRecord(value=None if value is None else orjson.dumps(value), key=text)


def compacted(broker, topic):
    """The values by their keys, as compaction leaves them."""
    last = {each.key: each.value for each in broker.read(topic)}
    return {key: orjson.loads(value) for key, value in last.items() if value is not None}


def test_a_changelog_is_read_as_its_newest_rows(broker, topic, options):
    broker.create_topic(topic, 3)
    columns = "id BIGINT, tier STRING"
    statements = changelog(broker, topic, columns) + mirror("now", columns) + "INSERT INTO now SELECT * FROM users"
    # A value without the column of the key has it from the record's key.
    broker.produce(topic, [record(1, {"id": 1, "tier": "free"}), record(2, {"tier": "free"}), record(3, {"id": 3})])
    pipeline_from_sql(statements, job="now").run(options)
    assert rows_of(options, "now") == [{"id": 1, "tier": "free"}, {"id": 2, "tier": "free"}, {"id": 3, "tier": None}]
    broker.produce(topic, [record(1, {"id": 1, "tier": "paid"}), record(2, None), record(9, None)])
    pipeline_from_sql(statements, job="now").run(options)
    assert rows_of(options, "now") == [{"id": 1, "tier": "paid"}, {"id": 3, "tier": None}]


# The type of a key; keys that it takes, with the value; keys that are no such value.
TYPED_KEYS = [
    ("BIGINT", {b"1": 1, b" 2 ": 2, b"-3": -3}, [b"abc", b"1.9", b"99999999999999999999", b"", b"1e2"]),
    ("INT", {b"1": 1}, [b"3000000000"]),
    ("DOUBLE", {b"0.1": 0.1, b"1.0E16": 1e16, b"-Infinity": -math.inf}, [b"1e400", b"x"]),
    ("DECIMAL(10,2)", {b"1.00": Decimal("1.00"), b"2": Decimal("2.00")}, [b"123456789012.00", b"1,5"]),
    ("BOOLEAN", {b"true": True, b"False": False}, [b"maybe", b"2"]),
    ("DATE", {b"2024-01-02": date(2024, 1, 2)}, [b"x", b"20000-01-01"]),
    (
        "TIMESTAMP_LTZ(6)",
        {b"2024-01-01 00:00:00.123456": datetime(2024, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)},
        [b"noon", b"20000-01-01 00:00:00"],
    ),
    ("STRING", {b"": "", b"a": "a", "é".encode(): "é"}, [b"\xff"]),
]


@pytest.mark.parametrize(
    ("kind", "good", "bad"), [*TYPED_KEYS[:1], *(pytest.param(*k, marks=pytest.mark.long) for k in TYPED_KEYS[1:])]
)
def test_a_key_that_is_no_value_of_its_column_is_a_bad_record(broker, topic, options, kind, good, bad):
    broker.create_topic(topic, 1)
    columns = f"id {kind}, v BIGINT"
    statements = changelog(broker, topic, columns, **{"bad-records": "dead_letter"}) + mirror("now", columns)
    statements += "INSERT INTO now SELECT * FROM users"
    keys = [*good, *bad]
    broker.produce(topic, [KafkaRecord(key=key, value=b'{"v": %d}' % at) for at, key in enumerate(keys)])
    report = pipeline_from_sql(statements, job="now").run(options)
    assert {row["v"]: row["id"] for row in rows_of(options, "now")} == dict(enumerate(good.values()))
    assert report.rows_dead == len(bad)
    letters = DeltaTable(str(options.home.dead_letters)).to_pyarrow_table().to_pylist()
    assert sorted(int(letter["offset"]) for letter in letters) == list(range(len(good), len(keys)))
    # Tombstones: a key that can be read removes its row, others are bad records.
    broker.produce(topic, [KafkaRecord(key=key, value=None) for key in keys])
    report = pipeline_from_sql(statements, job="now").run(options)
    assert (rows_of(options, "now"), report.rows_dead) == ([], len(bad))


JSON_KEYS = {
    b'{"id": 1, "b": 1.50}': (1, "1.50"),
    b'{"b": "x", "id": 2}': (2, "x"),
    b'{"id": 3, "b": ""}': (3, ""),
}
BAD_JSON_KEYS = [b"junk", b'{"id": 1.5, "b": "x"}', b'{"id": 4}', b"{}", b'{"id": 5, "b": "\\ud83d"}', b"[]", b"\xff"]


def test_a_key_of_json_is_read_as_values_of_json_are(broker, topic, options):
    broker.create_topic(topic, 1)
    columns = "id BIGINT, b STRING, v BIGINT"
    statements = changelog(broker, topic, columns, keys="id, b", **{"bad-records": "dead_letter"})
    statements += mirror("now", columns) + "INSERT INTO now SELECT * FROM users"
    keys = [*JSON_KEYS, *BAD_JSON_KEYS]
    broker.produce(topic, [KafkaRecord(key=key, value=b'{"v": %d}' % at) for at, key in enumerate(keys)])
    report = pipeline_from_sql(statements, job="now").run(options)
    assert [(row["id"], row["b"]) for row in rows_of(options, "now")] == sorted(JSON_KEYS.values())
    assert report.rows_dead == len(BAD_JSON_KEYS)


@pytest.mark.long
@pytest.mark.parametrize(("kind", "key"), [("TINYINT", b"200"), ("DECIMAL(10,2)", b'"1,5"'), ("DOUBLE", b"1e400")])
def test_a_number_in_a_key_of_json_that_spark_would_change_is_a_bad_record(broker, topic, options, kind, key):
    broker.create_topic(topic, 1)
    columns = f"id {kind}, v BIGINT"
    statements = changelog(broker, topic, columns, **{"key.format": "json"}) + mirror("now", columns)
    statements += "INSERT INTO now SELECT * FROM users"
    broker.produce(topic, [KafkaRecord(key=b'{"id": %s}' % key, value=b'{"v": 1}')])
    with pytest.raises(BadRecordError, match="in the key: id"):
        pipeline_from_sql(statements, job="now").run(options)


@pytest.mark.parametrize("form", ["json", pytest.param("text", marks=pytest.mark.long)])
def test_fields_of_the_key_follow_those_of_the_value(broker, topic, options, form):
    broker.create_topic(topic, 1)
    key = b'{"id": 7, "more": [1, 2]}' if form == "json" else b"7"
    broker.produce(topic, [KafkaRecord(key=key, value=b"hello"), KafkaRecord(key=None, value=b"there")])
    schema = "id bigint, more array<int>" if form == "json" else "id bigint"
    stream = StreamBuilder.data_stream("test", "keys").from_kafka(
        broker.bootstrap_servers, topic, format="text", metadata=["offset"], key_schema=schema, key_format=form
    )
    pipeline = stream.to_delta("rows").build()
    pipeline.run(options)
    rows = DeltaTable(options.home.table("test", "rows")).to_pyarrow_table().to_pylist()
    more = [{"kafka_key_more": [1, 2]}, {"kafka_key_more": None}] if form == "json" else [{}, {}]
    assert sorted(rows, key=lambda row: row["kafka_offset"]) == [
        {"value": "hello", "kafka_offset": 0, "kafka_key_id": 7, **more[0]},
        {"value": "there", "kafka_offset": 1, "kafka_key_id": None, **more[1]},
    ]


def keyed(columns, *, servers="localhost:9092", topic="orders", **options):
    """A program that copies a table of a topic whose records have keys."""
    given = {"connector": "kafka", "topic": topic, "properties.bootstrap.servers": servers, "format": "json"}
    said = ", ".join(f"'{key}' = '{value}'" for key, value in {**given, **options}.items())
    return f"CREATE TABLE orders ({columns}) WITH ({said});\n" + mirror("copy", columns) + COPY


COPY = "INSERT INTO copy SELECT * FROM orders"
PREFIXED = {"key.fields": "k_id", "key.fields-prefix": "k_", "value.fields-include": "EXCEPT_KEY"}
OF_KEYS = [
    # The value has a field of that name, which is another one.
    (
        PREFIXED,
        "k_id BIGINT, id STRING, v BIGINT",
        [{"k_id": 7, "id": "x", "v": 1}, {"k_id": None, "id": None, "v": 2}],
    ),
    (
        {"key.fields": "id;shop", "key.format": "json"},
        "v BIGINT, id STRING, shop STRING",
        [{"v": 1, "id": "x", "shop": "a"}, {"v": 2, "id": "7", "shop": "b"}],
    ),
    ({"key.fields": "id", "value.fields-include": "EXCEPT_KEY"}, "id BIGINT, v BIGINT", [{"id": 7, "v": 1}]),
]


@pytest.mark.long
@pytest.mark.parametrize(("options_of_key", "columns", "rows"), OF_KEYS)
def test_columns_of_a_table_may_be_in_the_keys_of_records(broker, topic, options, options_of_key, columns, rows):
    broker.create_topic(topic, 1)
    as_json = options_of_key.get("key.format") == "json"
    keys = [b'{"id": 7, "shop": "a"}', b'{"id": 7, "shop": "b"}'] if as_json else [b"7", None]
    values = [b'{"id": "x", "v": 1}', b'{"v": 2}']
    broker.produce(topic, [KafkaRecord(key=k, value=v) for k, v in zip(keys, values, strict=True)][: len(rows)])
    program = keyed(columns, servers=broker.bootstrap_servers, topic=topic, **options_of_key)
    pipeline_from_sql(program, job="copy").run(options)
    assert sorted(rows_of(options, "copy"), key=lambda row: row["v"]) == rows


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"key.fields": "nope"}, "'key.fields' names 'nope', which is not a column"),
        ({"key.fields": "id", "key.fields-prefix": "k_"}, "the column 'id' must begin with 'k_'"),
        ({"key.fields": "k_id", "key.fields-prefix": "k_"}, "the columns of values have no prefix"),
        ({"key.fields": "id;k_id", "key.format": "raw"}, "'raw' is the text of one column"),
        ({"key.format": "json"}, "key.format"),
    ],
)
def test_columns_that_cannot_be_in_keys_are_refused(given, what):
    with pytest.raises(SqlError, match=what):
        pipeline_from_sql(keyed("id BIGINT, k_id BIGINT", **given), job="copy")


REFUSED_KEYS = [
    ({"key_schema": "a int, b int"}, "the text of a key is one field"),
    ({"key_schema": "a array<int>"}, "the text of a key is one field"),
    ({"key_schema": "a int", "format": "raw"}, "format 'raw' has the key as it is"),
    ({"key_format": "json"}, "key_format is the format of fields of the key"),
    ({"key_schema": "a int", "key_format": "avro"}, "'avro' is not a format of keys"),
    ({"key_schema": "a time", "key_format": "json"}, "not a list of fields with types"),
]


@pytest.mark.parametrize(("given", "what"), REFUSED_KEYS)
def test_fields_of_a_key_that_cannot_be_are_refused(given, what):
    with pytest.raises(TopologyError, match=what):
        StreamBuilder.data_stream("test", "keys").from_kafka("localhost:9092", "orders", **given)


def test_totals_over_a_changelog_follow_its_corrections(broker, topic, options):
    broker.create_topic(topic, 2)
    statements = (
        changelog(broker, topic, "id BIGINT, x DOUBLE, y STRING")
        + mirror("totals", "total DOUBLE, known BIGINT, one INT")
        + "INSERT INTO totals SELECT SUM(x), COUNT(y), one FROM (SELECT *, 1 AS one FROM users) AS u GROUP BY one"
    )
    broker.produce(topic, [record(1, {"id": 1, "x": 1.0, "y": None})])
    pipeline_from_sql(statements).run(options)
    broker.produce(topic, [record(1, {"id": 1, "x": 2.0, "y": "here"})])
    pipeline_from_sql(statements).run(options)
    assert rows_of(options, "totals") == [{"total": 2.0, "known": 1, "one": 1}]


@pytest.mark.parametrize("delivery", ["at-least-once", pytest.param("exactly-once", marks=pytest.mark.long)])
def test_a_written_changelog_is_read_back_as_the_same_table(broker, topic, options, monkeypatch, delivery):
    source = f"{topic}-in"
    broker.create_topic(source, 2)
    broker.create_topic(topic, 2, {"cleanup.policy": "compact"})
    statements = (
        changelog(broker, source, SHOPS, keys="id, shop")
        + changelog(broker, topic, SHOPS, keys="id, shop", name="copy", **{"sink.delivery-guarantee": delivery})
        + "INSERT INTO copy SELECT id, shop, n + 1 FROM users WHERE n > 2"
    )
    rng, table = random.Random(5), {}
    for step in range(3):
        changes = []
        for _ in range(200):
            key = (rng.randrange(20), rng.choice("ab"))
            table[key] = None if rng.random() < 0.2 else rng.randrange(9)
            fields = {"id": key[0], "shop": key[1]}
            changes.append(record(fields, None if table[key] is None else {**fields, "n": table[key]}))
        broker.produce(source, changes)
        pipeline = pipeline_from_sql(statements, job="copy")
        if step == 1:
            with monkeypatch.context() as patched:
                Crash(patched, WRITERS[delivery], behind=True)
                with pytest.raises(RsError, match="crash"):
                    pipeline.run(options)
        pipeline.run(options)
    expected = {key: n + 1 for key, n in table.items() if n is not None and n > 2}
    written = compacted(broker, topic)
    assert {(row["id"], row["shop"]): row["n"] for row in written.values()} == expected
    assert {tuple(orjson.loads(key).values()) for key in written} == set(expected)
    back = (
        changelog(broker, topic, SHOPS, keys="id, shop")
        + mirror("back", SHOPS)
        + "INSERT INTO back SELECT * FROM users"
    )
    pipeline_from_sql(back, job="back").run(options)
    assert {(row["id"], row["shop"]): row["n"] for row in rows_of(options, "back")} == expected


def test_a_table_of_one_key_is_written_with_its_text(broker, topic, options):
    broker.create_topic(topic, 1)
    rows = [{"id": 1, "tier": "free"}, {"id": 2, "tier": "gone"}, {"id": 1, "tier": "paid"}]
    users = StreamBuilder.data_stream("test", "users").from_array(rows).to_table("id", deletes="tier = 'gone'")
    users.to_kafka(broker.bootstrap_servers, topic).build().run(options)
    assert [(each.key, orjson.loads(each.value)) for each in broker.read(topic)] == [(b"1", rows[2])]


def test_a_table_of_two_keys_needs_a_key_in_json():
    table = StreamBuilder.data_stream("test", "users").from_array([{"a": 1, "b": 2}]).to_table("a", "b")
    with pytest.raises(TopologyError, match="the text of a record's key is one"):
        table.to_kafka("localhost:9092", "copy")
    assert table.to_kafka("localhost:9092", "copy", key_format="json").build()


def test_a_record_has_a_key_or_a_key_of_fields():
    stream = StreamBuilder.data_stream("test", "users").from_array([{"a": 1, "b": 2}])
    with pytest.raises(TopologyError, match="a record has one key") as error:
        stream.to_kafka("localhost:9092", "copy", key="a", keys=["a", "b"])
    assert "name the field of the key" in error.value.remedy
    assert stream.to_kafka("localhost:9092", "copy", keys=["a", "b"]).build()

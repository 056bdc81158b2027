"""Records of a real broker as rows: formats, metadata, where reading begins, and records that cannot be used."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from deltalake import DeltaTable
from kafka import KafkaProducer

from rs_assets import MemoryChannel, StreamBuilder, Time, TumblingWindow
from rs_assets.connectors.kafka.client.admin import connected
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.errors import BadRecordError, ConfigurationError, DataLossError
from rs_assets.testing import KafkaRecord, PipelineDriver
from tests.kafka.reader import Reader, as_numbers, numbered, until
from tests.unchanged import NoSpark, reason

# At the beginning of a window of ten seconds, and so young that the broker keeps it.
T0 = int(time.time()) // 10 * 10_000 - 3_600_000
LETTER = ("step", "split", "line", "offset", "reason", "record")


def ids(first, last):
    return [b'{"id":%d}' % number for number in range(first, last)]


def letters(options):
    if not DeltaTable.is_deltatable(str(options.home.dead_letters)):
        return []
    rows = DeltaTable(str(options.home.dead_letters)).to_pyarrow_table().select(LETTER).to_pylist()
    return sorted((row["split"], row["offset"], row["line"], row["reason"], row["record"]) for row in rows)


def when(milliseconds):
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


# Formats and metadata.


def test_json_has_the_fields_of_its_schema_and_the_metadata_that_were_asked_for(broker, topic, options):
    broker.create_topic(topic, partitions=2)
    headers = (("trace", b"1"), ("trace", b"\xff"), ("none", b""))
    first = KafkaRecord(value=b'{"id": 1, "more": true}', key=b"k", headers=headers, partition=1, timestamp_ms=T0)
    broker.produce(topic, [first, KafkaRecord(value=b'{"id": "no number"}', partition=0, timestamp_ms=T0 + 1)])
    everything = ["key", "topic", "partition", "offset", "timestamp", "headers"]
    read = Reader(broker, options, topic, schema="id bigint", metadata=everything, bad_records="skip")
    assert read.rows() == [
        {
            "id": 1,
            "kafka_key": "k",
            "kafka_topic": topic,
            "kafka_partition": 1,
            "kafka_offset": 0,
            "kafka_timestamp": when(T0),
            "kafka_headers": [
                {"key": "trace", "value": b"1"},
                {"key": "trace", "value": b"\xff"},
                {"key": "none", "value": b""},
            ],
        }
    ]
    assert (read.report.rows_in, read.report.rows_dead, read.report.rows_out) == (2, 1, 1)


def test_raw_is_everything_as_it_was(broker, topic, options):
    broker.create_topic(topic)
    records = [
        KafkaRecord(value=b"\xff\x00", key=b"\xfe", headers=(("h", b""), ("h", b"2")), timestamp_ms=T0),
        KafkaRecord(value=b"", key=None, timestamp_ms=T0),
        KafkaRecord(value=None, key=b"", timestamp_ms=T0),
    ]
    broker.produce(topic, records)
    read = Reader(broker, options, topic, format="raw", tombstones="keep")
    rows = read.rows()
    assert list(rows[0]) == ["key", "value", "headers", "topic", "partition", "offset", "timestamp"]
    assert [(r["key"], r["value"], r["headers"], r["offset"], r["timestamp"]) for r in rows] == [
        (b"\xfe", b"\xff\x00", [{"key": "h", "value": b""}, {"key": "h", "value": b"2"}], 0, when(T0)),
        (None, b"", None, 1, when(T0)),
        (b"", None, None, 2, when(T0)),
    ]


def test_text_keeps_what_stands_there(broker, topic, options):
    broker.create_topic(topic)
    texts = ["", " a\nb ", "käse \U0001f9c0", '{"id":1}', "x" * 1_000_000, "\0"]
    broker.produce(topic, [text.encode() for text in texts])
    assert Reader(broker, options, topic, format="text").values() == texts


def test_the_schema_is_inferred_once_and_pinned(broker, topic, options):
    broker.create_topic(topic, partitions=2)
    broker.produce(topic, [b'{"id": 1, "at": {"x": 1.5}}', KafkaRecord(value=None, key=b"k"), b"[junk"])
    read = Reader(broker, options, topic, bad_records="skip", metadata=["offset"])
    rows = read.rows()
    assert [(row["id"], row["at"]) for row in rows] == [(1, {"x": 1.5})]
    assert set(rows[0]) == {"id", "at", "kafka_offset"}
    broker.produce(topic, [b'{"id": 2, "more": 1}', b'{"id": "text"}'])
    assert [(row["id"], row["at"], len(row)) for row in read.rows()] == [(2, None, 3)]
    assert read.report.rows_dead == 1


def test_nothing_to_infer_a_schema_from_is_said(broker, topic, options):
    broker.create_topic(topic)
    with pytest.raises(ConfigurationError, match="no schema"):
        Reader(broker, options, topic).rows()
    broker.produce(topic, [KafkaRecord(value=None, key=b"k"), b"", b"junk"])
    with pytest.raises(ConfigurationError, match="no schema"):
        Reader(broker, options, topic).rows()


# What JSON may hold.


def test_what_json_makes_of_odd_records(broker, topic, options):
    broker.create_topic(topic)
    good = [b'{"id": 1, "id2": 2.5, "list": [1, 2]}', b'  {"id": 2}\n', b'{"id": null}', b"{}"]
    good += [b'{"id": 4, "name": "' + b"x" * 1_000_000 + b'"}']
    bad = [b"", b" ", b"17", b'"text"', b'[{"id": 5}]', b"[]", b"null", b'{"id": 5', b'{"id": 1.5}', b'{"id": "6"}']
    bad += [b'{"name": "\xff"}', b'{"id": 99999999999999999999}']
    broker.produce(topic, [*good, *bad])
    schema = "id bigint, id2 double, list array<int>, name string"
    read = Reader(broker, options, topic, schema=schema, metadata=["offset"], bad_records="dead_letter")
    rows = read.rows()
    assert [(row["kafka_offset"], row["id"]) for row in rows] == [(0, 1), (1, 2), (2, None), (3, None), (4, 4)]
    assert (rows[0]["id2"], rows[0]["list"], len(rows[4]["name"])) == (2.5, [1, 2], 1_000_000)
    assert (read.report.rows_in, read.report.rows_dead) == (len(good) + len(bad), len(bad))
    found = letters(options)
    assert [letter[:3] for letter in found] == [(f"{topic}-0", n, n) for n in range(5, 5 + len(bad))]
    reasons = {letter[1] - 5: letter[3] for letter in found}
    assert reasons.pop(10) == "invalid UTF-8"
    assert set(reasons.values()) == {"malformed JSON"}
    assert found[10][4] == '{"name": "\ufffd"}'


def test_values_of_json_are_what_is_written(broker, topic, options):
    broker.create_topic(topic)
    texts = ["1.50", "12345678901234567.890", "1e400", '{"a" : 1.0}', "[1.10]", "true", '"x"', "null"]
    sent = [f'{{"é": 0, "v": {text}, "n": 127}}'.encode() for text in texts]
    broker.produce(topic, [*sent, b'{"n": 128}', b'{"n": 255}', b'{"list": [1, 200]}', b'{"n": -128}'])
    schema = "v string, n tinyint, list array<tinyint>"
    read = Reader(broker, options, topic, schema=schema, metadata=["offset"], bad_records="skip")
    rows = {row["kafka_offset"]: (row["v"], row["n"]) for row in read.rows()}
    assert rows == {**dict(enumerate((text, 127) for text in texts)), 6: ("x", 127), 7: (None, 127), 11: (None, -128)}
    assert read.report.rows_dead == 3


@pytest.mark.parametrize(
    ("tombstones", "form", "came", "counted"),
    [
        ("skip", "json", [1], (1, 0)),
        ("keep", "json", [None, 1], (2, 0)),
        ("bad", "json", [1], (2, 1)),
        ("skip", "text", ['{"id":1}'], (1, 0)),
        ("keep", "text", [None, '{"id":1}'], (2, 0)),
        ("bad", "text", ['{"id":1}'], (2, 1)),
    ],
)
def test_records_without_a_value_are_skipped_kept_or_bad(broker, topic, options, tombstones, form, came, counted):
    broker.create_topic(topic)
    broker.produce(topic, [KafkaRecord(value=None, key=b"k"), b'{"id":1}'])
    fields = {"schema": "id bigint"} if form == "json" else {}
    read = Reader(
        broker,
        options,
        topic,
        format=form,
        tombstones=tombstones,
        bad_records="dead_letter",
        metadata=["key"],
        **fields,
    )
    rows = read.rows()
    assert [next(iter(row.values())) for row in rows] == came
    assert (read.report.rows_in, read.report.rows_dead) == counted
    if tombstones == "keep":
        assert rows[0]["kafka_key"] == "k"
    reason = "the record has no value"
    assert letters(options) == ([(f"{topic}-0", 0, 0, reason, None)] if tombstones == "bad" else [])


# Where reading begins.


def test_earliest_reads_all_and_a_second_run_nothing_twice(broker, topic, options):
    broker.create_topic(topic, partitions=2)
    broker.produce(topic, ids(0, 10))
    read = Reader(broker, options, topic, schema="id bigint", group=f"{topic}-group")
    assert as_numbers(read.values("id")) == list(range(10))
    with connected(KafkaCluster.of(broker.bootstrap_servers)) as admin:
        ends = admin.latest([(topic, 0), (topic, 1)])
        assert admin.group_offsets(f"{topic}-group") == ends
        assert read.rows() == []
        assert read.report.batches == 0
        broker.produce(topic, ids(10, 12))
        assert as_numbers(read.values("id")) == [10, 11]
        assert admin.group_offsets(f"{topic}-group") == admin.latest([(topic, 0), (topic, 1)])


def test_ends_of_partitions_decide_whether_spark_starts(broker, topic, options):
    broker.create_topic(topic, partitions=2)
    broker.produce(topic, numbered(0, 5))
    out = MemoryChannel()
    stream = StreamBuilder.data_stream("tests", "ends").from_kafka(
        broker.bootstrap_servers, topic, format="text", group=f"{topic}-group", name="records"
    )
    job = stream.to_memory(out).build()
    assert job.run(options).rows_in == 5
    report = job.run(replace(options, driver=NoSpark()))
    assert (report.batches, dict(report.unchanged_since)) == (0, {"records": 0})
    _abort(broker, topic)
    assert reason(job, options) == "there is more of records"
    assert job.run(options).rows_in == 0
    assert reason(job, options) == ""
    broker.produce(topic, numbered(5, 6))
    assert reason(job, options) == "there is more of records"
    assert job.run(options).rows_in == 1
    broker.add_partitions(topic, 3)
    assert reason(job, options) == "there is more of records"
    assert len(out.take()) == 6


def _abort(broker, topic):
    """Records of a transaction that was aborted take offsets."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id=f"{topic}-aborted")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"never", partition=0).get(timeout=120)
    producer.abort_transaction()
    producer.close()


def test_latest_reads_only_what_comes_after_the_first_start(broker, topic, options):
    broker.create_topic(topic)
    broker.produce(topic, [b"old"])
    read = Reader(broker, options, topic, format="text", starting_offsets="latest")
    assert read.values() == []
    broker.produce(topic, [b"new"])
    assert read.values() == ["new"]


def test_a_moment_begins_with_its_record(broker, topic, options):
    broker.create_topic(topic, partitions=3)
    at = [KafkaRecord(value=b"%d" % n, partition=n % 2, timestamp_ms=T0 + 1000 * n) for n in range(6)]
    broker.produce(topic, [*at, KafkaRecord(value=b"old", partition=2, timestamp_ms=T0)])
    moment = when(T0 + 2000)
    read = Reader(broker, options, topic, format="text", starting_offsets=moment)
    assert as_numbers(read.values()) == [2, 3, 4, 5]
    broker.produce(topic, [KafkaRecord(value=b"7", partition=2)])
    assert read.values() == ["7"]


def test_offsets_that_are_named_begin_there_and_the_other_partitions_at_their_earliest(broker, topic, options):
    broker.create_topic(topic, partitions=2)
    broker.produce(topic, [KafkaRecord(value=b"%d" % n, partition=n % 2) for n in range(6)])
    read = Reader(broker, options, topic, format="text", starting_offsets={topic: {1: 2}})
    assert as_numbers(read.values()) == [0, 2, 4, 5]
    with pytest.raises(ConfigurationError, match="there is no partition 7"):
        Reader(broker, options, topic, format="text", starting_offsets={topic: {7: 0}}).rows(new_generation=True)


def test_committed_goes_on_where_the_group_stood_and_reads_the_rest_from_the_start(broker, topic, options):
    broker.create_topic(topic, partitions=2)
    broker.produce(topic, [KafkaRecord(value=b"%d" % n, partition=n % 2) for n in range(6)])
    with connected(KafkaCluster.of(broker.bootstrap_servers)) as admin:
        admin.commit(f"{topic}-group", {(topic, 0): 2})
    read = Reader(broker, options, topic, format="text", starting_offsets="committed", group=f"{topic}-group")
    assert as_numbers(read.values()) == [1, 3, 4, 5]


@pytest.mark.parametrize(("committed", "lost"), [(2, "offsets 2 to 3"), (9, "offsets 6 to 8")])
def test_offsets_that_a_group_has_committed_and_the_topic_has_not_are_a_loss(broker, topic, options, committed, lost):
    broker.create_topic(topic)
    broker.produce(topic, numbered(0, 6))
    with connected(KafkaCluster.of(broker.bootstrap_servers)) as admin:
        admin.commit(f"{topic}-group", {(topic, 0): committed})
        admin.delete_records({(topic, 0): 4})
        until(lambda: admin.earliest([(topic, 0)]) == {(topic, 0): 4})
    read = Reader(broker, options, topic, format="text", starting_offsets="committed", group=f"{topic}-group")
    with pytest.raises(DataLossError, match=f"{topic}-0: {lost}"):
        read.rows()
    read.source["on_data_loss"] = "continue"
    assert as_numbers(read.values()) == [4, 5]
    assert any(lost in warning for warning in read.report.warnings)


def test_several_topics_are_read_as_one(broker, topic, options):
    for name in (f"{topic}-a", f"{topic}-b"):
        broker.create_topic(name)
        broker.produce(name, [name.encode()])
    read = Reader(broker, options, topics=[f"{topic}-a", f"{topic}-b"], format="text", metadata=["topic"])
    assert sorted((row["value"], row["kafka_topic"]) for row in read.rows()) == [
        (f"{topic}-{x}", f"{topic}-{x}") for x in "ab"
    ]


def test_a_pattern_catches_topics_that_are_made_later_and_no_other(broker, topic, options):
    broker.create_topic(f"{topic}-a1")
    broker.create_topic(f"x{topic}-a1")
    broker.produce(f"{topic}-a1", [b"a1"])
    broker.produce(f"x{topic}-a1", [b"another"])
    read = Reader(broker, options, pattern=f"{topic}-a[0-9]", format="text")
    assert read.values() == ["a1"]
    broker.create_topic(f"{topic}-a2", partitions=2)
    broker.create_topic(f"{topic}-a22")
    broker.produce(f"{topic}-a2", [KafkaRecord(value=b"a2", partition=1)])
    broker.produce(f"{topic}-a22", [b"another"])
    broker.produce(f"{topic}-a1", [b"more"])
    assert sorted(read.values()) == ["a2", "more"]


def test_a_pattern_matches_whole_names_and_no_internal_topic(broker, topic, options):
    for name in (f"{topic}-a", f"__{topic}-b", f"{topic}-c", f"{topic}-ab"):
        broker.create_topic(name)
        broker.produce(name, [name.encode()])
    read = Reader(broker, options, pattern=f"{topic}-a|__{topic}-b|{topic}-c", format="text")
    assert sorted(read.values()) == [f"{topic}-a", f"{topic}-c"]
    assert read.values() == []


def test_max_rows_per_batch_makes_batches_of_that_size(broker, topic, options):
    broker.create_topic(topic, partitions=2)
    broker.produce(topic, [KafkaRecord(value=b"%d" % n, partition=n % 2) for n in range(20)])
    seen = []
    read = Reader(broker, options, topic, format="text", max_rows_per_batch=8, min_partitions=4)
    assert as_numbers(read.values(on_progress=seen.append)) == list(range(20))
    assert [progress.rows_in for progress in seen] == [8, 8, 4]


# Event time.


@pytest.mark.parametrize("field", ["kafka_timestamp", "at"])
def test_windows_over_the_time_of_the_record_or_of_a_field(broker, topic, options, field):
    broker.create_topic(topic)
    records = [
        KafkaRecord(value=json.dumps({"at": when(T0 + ms).isoformat()}).encode(), timestamp_ms=T0 + ms)
        for ms in (0, 4_000, 12_000)
    ]
    broker.produce(topic, records)
    read = Reader(broker, options, topic, schema="at timestamp", metadata=["timestamp"])
    window = TumblingWindow.of(Time.seconds(10), field)
    rows = read.rows(steps=lambda s: s.window(window).count().to_data_stream(), finish=True)
    assert sorted(row["count"] for row in rows) == [1, 2]
    assert read.report.sealed


def test_a_partition_that_lags_is_not_late(broker, topic, options):
    broker.create_topic(topic, partitions=3)
    read = Reader(broker, options, topic, schema="at timestamp")
    seconds = Time.seconds(10)

    def run(*records, finish=False):
        times = [(partition, when(T0 + second * 1000).isoformat()) for partition, second in records]
        broker.produce(topic, [KafkaRecord(value=json.dumps({"at": at}).encode(), partition=p) for p, at in times])
        read.rows(
            steps=lambda s: (
                s.window(TumblingWindow.of(seconds, "at"), name="tens").count().water_mark(seconds, per="split")
            ).to_data_stream(),
            finish=finish,
        )
        return read.report.rows_late

    # Nothing moves before each partition has a record.
    assert run((0, 500), (1, 45)) == run((1, 3), (2, 900)) == 0
    # The one that is behind has come to 45, so the watermark stands at 35.
    assert run((1, 38), (1, 29), (1, 61)) == 1
    assert run(finish=True) == 0


# Records that cannot be used.


def test_a_bad_record_fails_with_its_address_and_commits_nothing(broker, topic, options):
    broker.create_topic(topic, partitions=2)
    broker.produce(topic, [KafkaRecord(value=v, partition=1) for v in (*ids(0, 3), b"junk")])
    read = Reader(broker, options, topic, schema="id bigint", group=f"{topic}-group")
    with pytest.raises(BadRecordError) as caught:
        read.rows()
    assert caught.value.facts["split"] == f"{topic}-1"
    assert caught.value.facts["offset"] == 3
    assert "malformed JSON" in str(caught.value)
    with connected(KafkaCluster.of(broker.bootstrap_servers)) as admin:
        assert admin.group_offsets(f"{topic}-group") == {}
    read.source["bad_records"] = "skip"
    assert as_numbers(read.values("id")) == [0, 1, 2]
    assert letters(options) == []


def test_a_poison_record_goes_to_quarantine_with_its_address(broker, topic, options):
    broker.create_topic(topic)
    broker.produce(topic, ids(0, 4))

    def picky(row):
        if row["id"] == 2:
            raise ValueError("two is too much")
        return row

    read = Reader(broker, options, topic, schema="id bigint", bad_records="quarantine")
    rows = read.rows(steps=lambda s: s.map(picky, schema="id bigint"))
    assert [row["id"] for row in rows] == [0, 1, 3]
    [(split, offset, _, reason, record)] = letters(options)
    assert (split, offset, record) == (f"{topic}-0", 2, '{"id":2}')
    assert "two is too much" in reason


def test_a_step_that_raises_names_the_record(broker, topic, options):
    broker.create_topic(topic)
    broker.produce(topic, ids(0, 4))
    read = Reader(broker, options, topic, schema="id bigint")
    with pytest.raises(Exception, match="ZeroDivisionError") as caught:
        read.rows(steps=lambda s: s.map(lambda row: {"id": 1 // (row["id"] - 2)}, schema="id bigint"))
    assert (caught.value.facts["split"], caught.value.facts["offset"]) == (f"{topic}-0", 2)


def test_bad_records_go_to_a_topic_as_they_were_with_headers_that_say_why(broker, topic, options):
    dead = f"{topic}-dead"
    broker.create_topic(topic, partitions=2)
    broker.create_topic(dead)
    own = (("mine", b"\xff"), ("mine", b""))
    bad = KafkaRecord(value=b"\xffjunk", key=b"\xfek", headers=own, partition=1, timestamp_ms=T0)
    broker.produce(topic, [KafkaRecord(value=b'{"id":1}', partition=1), bad, KafkaRecord(value=b"{", partition=0)])
    read = Reader(broker, options, topic, schema="id bigint", bad_records="dead_letter", dead_letter_topic=dead)
    assert read.values("id") == [1]
    sent = {record.value: record for record in broker.read(dead)}
    assert set(sent) == {b"\xffjunk", b"{"}
    whole = sent[b"\xffjunk"]
    assert (whole.key, whole.timestamp_ms, whole.headers[:2]) == (b"\xfek", T0, own)
    assert dict(whole.headers[2:]) == {
        "__streams.errors.exception": b"BadRecordError",
        "__streams.errors.message": b"invalid UTF-8",
        "__streams.errors.stacktrace": b"",
        "__streams.errors.topic": topic.encode(),
        "__streams.errors.partition": b"1",
        "__streams.errors.offset": b"1",
    }
    assert sent[b"{"].key is None
    assert dict(sent[b"{"].headers)["__streams.errors.offset"] == b"0"
    assert len(letters(options)) == 2
    assert read.rows() == []
    assert len(broker.read(dead)) == 2


def test_what_a_client_cannot_send_as_it_was_goes_to_the_topic_too(broker, topic, options, spark):
    dead = f"{topic}-dead"
    broker.create_topic(topic)
    broker.create_topic(dead, settings={"max.message.bytes": "3000000"})
    # Neither key nor value, and a header without one: Java's producers send such.
    frame = spark.sql("SELECT binary(NULL) AS value, array(struct('none' AS key, binary(NULL) AS value)) AS headers")
    writer = frame.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    writer.option("includeHeaders", "true").option("topic", topic).mode("append").save()
    broker.produce(topic, [b"x" * 1_048_000])
    refusing = {"tombstones": "bad", "bad_records": "dead_letter", "dead_letter_topic": dead}
    read = Reader(broker, options, topic, schema="id bigint", **refusing)
    assert read.rows() == []
    empty, long = broker.read(dead)
    assert (empty.key, empty.value, empty.headers[0]) == (None, b"", ("none", b""))
    assert dict(empty.headers)["__streams.errors.message"] == b"the record has no value"
    assert len(long.value) == 1_048_000


# Transactions.


def test_aborted_transactions_are_never_seen_and_open_ones_hold_back(broker, topic, options):
    broker.create_topic(topic)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id=topic)
    producer.init_transactions()
    for value, end in ((b"0", producer.commit_transaction), (b"aborted", producer.abort_transaction)):
        producer.begin_transaction()
        producer.send(topic, value)
        producer.flush()
        end()
    producer.begin_transaction()
    producer.send(topic, b"1")
    producer.flush()
    broker.produce(topic, [b"2"])
    read = Reader(broker, options, topic, format="text", group=f"{topic}-group")
    assert read.values() == ["0"]
    assert read.report.rows_in == 1
    producer.commit_transaction()
    assert read.values() == ["1", "2"]
    assert read.values() == []
    with connected(KafkaCluster.of(broker.bootstrap_servers)) as admin:
        assert admin.group_offsets(f"{topic}-group") == admin.latest([(topic, 0)])
    everything = Reader(broker, options, topic, format="text", isolation="read_uncommitted")
    assert everything.values(new_generation=True) == ["0", "aborted", "1", "2"]
    producer.close()


# Without a broker.


def test_a_pipeline_over_topics_is_tested_without_a_broker(driver):
    stream = StreamBuilder.data_stream("tests", "driven").from_kafka(
        "127.0.0.1:1", "orders", schema="id bigint", metadata=["key", "timestamp"]
    )
    pipeline = stream.filter("id > 1").to_memory(MemoryChannel()).build()
    with PipelineDriver(pipeline, spark=driver) as tested:
        at = datetime.now(UTC) - timedelta(seconds=1)
        tested.push([{"id": n, "kafka_key": "k", "kafka_timestamp": at} for n in (1, 2)])
        tested.step()
        assert [(row["id"], row["kafka_key"]) for row in tested.take()] == [(2, "k")]

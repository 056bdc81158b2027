"""The Kafka sink: rows as records, at least once and exactly once, and what becomes of drivers that were overtaken."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from decimal import Decimal

import orjson
import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.sink import commits
from rs_assets.connectors.kafka.sink.exactly_once import TransactionalWriter
from rs_assets.connectors.kafka.sink.shape import RecordShape
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import LeaseLostError, RsError, SinkError, TopologyError, UnknownFieldError
from rs_assets.runtime.options import RunOptions
from tests.crash import Crash

DELIVERIES = ["at_least_once", "exactly_once"]
EVERY_TYPE = (
    "id bigint, text string, at timestamp, amount decimal(12, 2), day date, raw binary, tags array<string>, "
    "nothing int, nested struct<a: int, b: double>"
)
ROW = {
    "id": 1,
    "text": 'a "b" \u2028',
    "at": datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    "amount": Decimal("12.30"),
    "day": date(2026, 1, 2),
    "raw": b"\x00\xff",
    "tags": ["x", None],
    "nothing": None,
    "nested": {"a": None, "b": 0.5},
}


@pytest.fixture
def out(broker, topic):
    """A topic of three partitions."""
    broker.create_topic(topic, 3)
    return topic


def stream(rows, schema, job="sink"):
    return StreamBuilder.data_stream("test", job).from_array(rows, schema=schema)


def send(broker, out, options, rows, schema, **how):
    report = stream(rows, schema).to_kafka(broker.bootstrap_servers, out, **how).build().run(options)
    assert report.rows_out == len(rows)
    return broker.read(out)


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_should_write_whole_rows_as_json(broker, out, options, delivery):
    (record,) = send(broker, out, options, [ROW], EVERY_TYPE, delivery=delivery)
    assert record.key is None
    assert orjson.loads(record.value) == {
        "id": 1,
        "text": 'a "b" \u2028',
        "at": "2026-01-02T03:04:05.678901Z",
        "amount": 12.3,
        "day": "2026-01-02",
        "raw": "AP8=",
        "tags": ["x", None],
        "nothing": None,
        "nested": {"a": None, "b": 0.5},
    }


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_should_take_key_value_partition_and_headers_from_fields(broker, out, options, delivery):
    schema = "k int, v binary, p int, h map<string, string>"
    rows = [
        {"k": 7, "v": b"\x00one", "p": 2, "h": {"a": "1", "b": ""}},
        {"k": 8, "v": None, "p": 0, "h": None},
    ]
    how = {"key": "k", "value": "v", "partition": "p", "headers": "h", "delivery": delivery}
    first, second = send(broker, out, options, rows, schema, **how)
    assert (first.partition, first.key, first.value, first.headers) == (0, b"8", None, ())
    assert (second.partition, second.key, second.value) == (2, b"7", b"\x00one")
    assert sorted(second.headers) == [("a", b"1"), ("b", b"")]


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_headers_are_named_with_their_fields(broker, out, options, delivery):
    schema = "id int, trace string, raw binary, p int"
    rows = [
        {"id": 1, "trace": "t1", "raw": b"\x00", "p": 2},
        {"id": 2, "trace": None, "raw": None, "p": 1},
        {"id": 3, "trace": "", "raw": b"", "p": None},
    ]
    how = {"headers": {"trace-id": "trace", "raw": "raw", "nr": "id"}, "partition": "p", "delivery": delivery}
    sent = {orjson.loads(record.value)["id"]: record for record in send(broker, out, options, rows, schema, **how)}
    assert {number: record.headers for number, record in sent.items()} == {
        1: (("trace-id", b"t1"), ("raw", b"\x00"), ("nr", b"1")),
        2: (("nr", b"2"),),
        3: (("trace-id", b""), ("raw", b""), ("nr", b"3")),
    }
    assert (sent[1].partition, sent[2].partition) == (2, 1)
    # The fields of headers are part of the value too.
    assert orjson.loads(sent[1].value) == {"id": 1, "trace": "t1", "raw": "AA=="}


def test_should_send_a_key_to_the_same_partition_however_it_is_delivered(broker, options):
    rows = [{"k": f"key-{n}"} for n in range(100)]
    places = {}
    for delivery in DELIVERIES:
        name = f"same-{delivery}"
        broker.create_topic(name, 5)
        job = stream(rows, "k string", job=delivery).to_kafka(
            broker.bootstrap_servers, name, key="k", delivery=delivery
        )
        job.build().run(options)
        places[delivery] = {record.key: record.partition for record in broker.read(name)}
    assert places["at_least_once"] == places["exactly_once"]
    assert len(set(places["exactly_once"].values())) == 5


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_should_route_rows_to_the_topic_that_they_name(broker, out, options, delivery):
    other = f"{out}-other"
    broker.create_topic(other, 1)
    rows = [{"where": out, "n": 1}, {"where": other, "n": 2}]
    job = stream(rows, "where string, n int").to_kafka(broker.bootstrap_servers, topic_field="where", delivery=delivery)
    assert job.build().run(options).rows_out == 2
    assert [[orjson.loads(r.value) for r in broker.read(name)] for name in (out, other)] == [[{"n": 1}], [{"n": 2}]]


@pytest.mark.parametrize(
    ("how", "error", "what"),
    [
        ({"key": "nope"}, UnknownFieldError, "nope"),
        ({"key": "tags"}, TopologyError, "cannot be the key"),
        ({"value": "nested"}, TopologyError, "cannot be the value"),
        ({"partition": "text"}, TopologyError, "not the number of a partition"),
        ({"headers": "text"}, TopologyError, "cannot be headers"),
    ],
)
def test_should_refuse_fields_that_kafka_has_no_place_for(broker, out, options, how, error, what):
    sink = stream([ROW], EVERY_TYPE).to_kafka(broker.bootstrap_servers, out, **how)
    with pytest.raises(error, match=what):
        sink.build().run(options)
    assert broker.read(out) == []


def test_should_name_a_topic_that_is_not_there(broker, options):
    job = stream([{"n": 1}], "n int").to_kafka(
        broker.bootstrap_servers, "not-there", delivery="exactly_once", options={"delivery.timeout.ms": "5000"}
    )
    with pytest.raises(SinkError, match="topic=not-there"):
        job.build().run(options)


def test_should_name_the_limit_that_a_record_is_too_large_for(broker, out, options):
    job = stream([{"text": "x" * 2_000_000}], "text string")
    job = job.to_kafka(broker.bootstrap_servers, out, delivery="exactly_once").build()
    with pytest.raises(SinkError, match=r"max.request.size"):
        job.run(options)
    assert broker.read(out) == []


@pytest.mark.parametrize("behind", [False, True], ids=["before the commit", "behind the commit"])
def test_should_have_each_window_once_after_a_crash(broker, out, options, monkeypatch, behind):
    rows = [{"page": f"/{n % 3}", "ts": f"2026-01-01 00:{n:02d}:00"} for n in range(30)]
    windows = stream(rows, "page string, ts timestamp").window(TumblingWindow.of(Time.minutes(5), "ts"))
    counted = windows.group_by("page").count("n").to_data_stream()
    job = counted.to_kafka(broker.bootstrap_servers, out, delivery="exactly_once").to_delta("windows").build()
    Crash(monkeypatch, TransactionalWriter, behind=behind)
    with pytest.raises(RsError, match="crash"):
        job.run(options)
    job.run(options)
    sent = [orjson.loads(record.value) for record in broker.read(out)]
    assert len(sent) == len({(row["page"], row["start_time"]) for row in sent}) == 18
    assert sum(row["n"] for row in sent) == len(rows)
    assert DeltaTable(options.home.table("test", "windows")).count() == 18


@pytest.mark.parametrize("behind", [False, True], ids=["before the commit", "behind the commit"])
def test_should_have_each_update_of_a_window_once_after_a_crash(broker, out, options, monkeypatch, tmp_path, behind):
    for batch in range(3):
        rows = [{"page": f"/{n % 2}", "ts": f"2026-01-01T00:00:{n:02d}Z"} for n in range(batch, 10)]
        file = tmp_path / f"{batch}.jsonl"
        file.write_bytes(b"\n".join(map(orjson.dumps, rows)) + b"\n")
        # They are read in the order of their times.
        os.utime(file, (batch, batch))
    read = StreamBuilder.data_stream("test", "sink").from_file(
        tmp_path / "*.jsonl", schema="page string, ts timestamp", max_files_per_batch=1
    )
    windows = read.window(TumblingWindow.of(Time.minutes(5), "ts"), emit="on_window_update").group_by("page").count("n")
    job = windows.to_data_stream().to_kafka(broker.bootstrap_servers, out, key="page", delivery="exactly_once").build()
    Crash(monkeypatch, TransactionalWriter, behind=behind)
    with pytest.raises(RsError, match="crash"):
        job.run(options)
    job.run(options)
    sent = [orjson.loads(record.value) for record in broker.read(out)]
    assert sorted((row["page"], row["n"]) for row in sent) == [(f"/{p}", n) for p in (0, 1) for n in COUNTS[p]]


# How many rows of each page there are behind each of the three files.
COUNTS = ((5, 9, 13), (5, 10, 14))


def test_should_send_again_in_a_new_generation_and_refuse_to_take_rows_back(broker, out, options):
    job = stream([{"n": 1}], "n int").to_kafka(broker.bootstrap_servers, out, delivery="exactly_once").build()
    job.run(options)
    assert job.run(options).rows_out == 0
    job.run(RunOptions(home=options.home, driver=options.driver, new_generation=True))
    assert len(broker.read(out)) == 2


def writer(broker, out):
    cluster = KafkaCluster.of(broker.bootstrap_servers)
    return TransactionalWriter(name="sink", cluster=cluster, shape=RecordShape(topic=out))


def mark(batch_id, *, token, pipeline, generation=1):
    return BatchMark(pipeline, generation, "sink", batch_id, token)


@pytest.fixture
def rows(spark, driver):
    return driver.call(lambda session: session.createDataFrame([(1,), (2,)], "n int"))


def test_should_refuse_the_commit_of_a_driver_that_was_overtaken(broker, out, driver, rows):
    old, new = writer(broker, out), writer(broker, out)
    first = mark(0, token=1, pipeline=out)
    assert not old.committed(first)
    staged = driver.call(lambda _: old.stage(rows, first))
    # Only looking fences nobody.
    assert new.last_committed(mark(0, token=2, pipeline=out)) == -1
    assert not new.committed(mark(0, token=2, pipeline=out))
    taken = driver.call(lambda _: new.stage(rows, mark(0, token=2, pipeline=out)))
    assert taken.commit() == 2
    with pytest.raises(LeaseLostError):
        staged.commit()
    old.close()
    assert len(broker.read(out)) == 2
    assert new.committed(mark(0, token=2, pipeline=out))
    assert new.last_committed(mark(0, token=2, pipeline=out)) == 0
    # The old one comes back with a producer of its own: the token tells.
    again = writer(broker, out)
    with pytest.raises(LeaseLostError, match="written since"):
        again.committed(first)
    again.close()
    new.close()


def test_should_leave_nothing_of_a_batch_that_was_given_up(broker, out, driver, rows):
    given_up = writer(broker, out)
    driver.call(lambda _: given_up.stage(rows, mark(0, token=1, pipeline=out)))
    given_up.close()
    assert broker.read(out) == []
    assert len(broker.read(out, isolation="read_uncommitted")) == 2
    after = writer(broker, out)
    assert not after.committed(mark(0, token=2, pipeline=out))
    after.close()


def test_should_only_note_a_later_generation_when_nothing_lies_behind(broker, out, driver, rows):
    sink = writer(broker, out)
    driver.call(lambda _: sink.stage(rows, mark(0, token=1, pipeline=out))).commit()
    kept, begun = mark(0, token=1, pipeline=out), mark(0, token=2, pipeline=out, generation=2)
    assert sink.rewind(kept, begun) == "had nothing to undo"
    assert sink.last_committed(begun) == 0
    with pytest.raises(LeaseLostError):
        sink.committed(mark(1, token=2, pipeline=out))
    driver.call(lambda _: sink.stage(rows, mark(1, token=2, pipeline=out, generation=2))).commit()
    with pytest.raises(SinkError, match="cannot be removed"):
        sink.rewind(mark(0, token=2, pipeline=out, generation=2), mark(0, token=3, pipeline=out, generation=3))
    sink.close()


def test_should_say_who_else_writes_to_the_topic_of_commits(broker, out):
    sink, first = writer(broker, out), mark(0, token=1, pipeline=out)
    assert not sink.committed(first)
    sink.close()
    from rs_assets.testing import KafkaRecord

    broker.produce(commits.TOPIC, [KafkaRecord(key=commits.key_of(first), value=b"not ours", partition=0)])
    with pytest.raises(SinkError, match="is damaged"):
        sink.last_committed(first)

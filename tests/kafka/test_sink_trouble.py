"""The exactly-once sink when things go wrong: nothing is lost silently, sent twice, or left open behind a failure."""

from __future__ import annotations

import gc
import time
from dataclasses import replace
from datetime import timedelta

import pytest
from kafka import KafkaProducer, errors

from rs_assets import StreamBuilder
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.sink import commits, exactly_once
from rs_assets.connectors.kafka.sink.exactly_once import TransactionalWriter
from rs_assets.connectors.kafka.sink.jvm_producer import HANDING_OVER, fault_of
from rs_assets.connectors.kafka.sink.shape import RecordShape
from rs_assets.errors import ConfigurationError, LeaseLostError, SinkError
from tests.kafka.test_sink import mark, writer


@pytest.fixture(autouse=True, params=[True, False], ids=["by tasks", "by the driver"])
def by_tasks(request, monkeypatch):
    """Whether Spark's tasks send, as on one machine, or the driver does, as on a cluster."""
    monkeypatch.setattr(exactly_once, "tasks_share_producers", lambda _: request.param)
    return request.param


# What only one of the two producers can be brought to.
only_by_driver = pytest.mark.parametrize("by_tasks", [False], indirect=True, ids=["by the driver"])


@pytest.fixture
def out(broker, topic):
    """A topic of three partitions."""
    broker.create_topic(topic, 3)
    return topic


@pytest.fixture
def rows(spark, driver):
    return driver.call(lambda session: session.createDataFrame([(1,), (2,)], "n int"))


def stage(driver, sink, frame, batch):
    return driver.call(lambda _: sink.stage(frame, batch))


def keyed(driver, sizes):
    """Rows with a key and a value of so many bytes."""
    made = [(f"k{number}", "x" * size) for number, size in enumerate(sizes)]
    return driver.call(lambda session: session.createDataFrame(made, "k string, v string").coalesce(1))


def keyed_writer(broker, topic, **options):
    shape, cluster = RecordShape(topic=topic, key="k", value="v"), KafkaCluster.of(broker.bootstrap_servers)
    return TransactionalWriter(name="sink", cluster=cluster, shape=shape, options=options)


# Kafka's own client parts a batch that is too large only down to this.
SMALL_REQUESTS = {"batch.size": "8192"}


def orphan(broker):
    """A transaction of another pipeline that stays open behind its note: what a kill in that moment leaves."""
    other = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id=f"other-{time.time_ns()}")
    other.init_transactions()
    other.begin_transaction()
    other.send(commits.TOPIC, key=b"another pipeline", value=b"{}", partition=0)
    other.flush()
    return other


def test_should_close_quietly_when_a_newer_driver_has_fenced_off_what_is_open(broker, out, driver, rows):
    old, new = writer(broker, out), writer(broker, out)
    stage(driver, old, rows, mark(0, token=1, pipeline=out))
    stage(driver, new, rows, mark(0, token=2, pipeline=out)).commit()
    old.close()
    old.close()
    new.close()
    assert len(broker.read(out)) == 2


# kafka-python leaves the socket of each connection that fails to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("trouble", ["pause", "kill"])
def test_should_close_in_seconds_when_the_broker_is_away(broker, out, driver, rows, trouble, monkeypatch):
    monkeypatch.setattr(exactly_once, "END_S", 2)
    sink = writer(broker, out)
    stage(driver, sink, rows, mark(0, token=1, pipeline=out))
    getattr(broker, trouble)()
    try:
        sink.close()
    finally:
        broker.resume()
        if trouble == "kill":
            broker.restart()
        gc.collect()


def test_should_send_nothing_before_the_last_note_was_read(broker, out, driver, rows, monkeypatch):
    first = writer(broker, out)
    stage(driver, first, rows, mark(0, token=1, pipeline=out)).commit()
    first.close()
    read, calls = exactly_once.settled_commit, []

    def failing_once(*args):
        calls.append(args)
        if len(calls) == 1:
            raise SinkError("the notes cannot be read now")
        return read(*args)

    monkeypatch.setattr(exactly_once, "settled_commit", failing_once)
    second = writer(broker, out)
    with pytest.raises(SinkError, match="cannot be read now"):
        second.committed(mark(0, token=2, pipeline=out))
    assert second.committed(mark(0, token=2, pipeline=out))
    second.close()


def test_should_not_send_again_what_an_open_transaction_of_another_pipeline_hides(
    broker, out, driver, rows, monkeypatch
):
    first = writer(broker, out)
    stage(driver, first, rows, mark(0, token=1, pipeline=out)).commit()
    other = orphan(broker)
    stage(driver, first, rows, mark(1, token=1, pipeline=out)).commit()
    first.close()
    second = writer(broker, out)
    monkeypatch.setattr(commits, "PATIENCE", timedelta(seconds=2))
    with pytest.raises(SinkError, match="another pipeline hides"):
        second.committed(mark(1, token=2, pipeline=out))
    # A look without a lease waits for nobody, and takes for there what may be.
    assert second.last_committed(mark(0, token=0, pipeline=out)) == 1
    # A pipeline that has no note behind the open one is not held up.
    unhindered = writer(broker, out)
    assert not unhindered.committed(mark(0, token=1, pipeline=f"{out}-b"))
    unhindered.close()
    other.abort_transaction()
    other.close()
    assert second.committed(mark(1, token=2, pipeline=out))
    second.close()
    assert len(broker.read(out)) == 4


def test_should_not_fence_off_a_newer_driver_by_looking_late(broker, out, driver, rows):
    new, old = writer(broker, out), writer(broker, out)
    stage(driver, new, rows, mark(0, token=2, pipeline=out)).commit()
    staged = stage(driver, new, rows, mark(1, token=2, pipeline=out))
    with pytest.raises(LeaseLostError):
        old.committed(mark(1, token=1, pipeline=out))
    old.close()
    assert staged.commit() == 2
    new.close()


@only_by_driver
def test_should_not_lose_rows_of_a_topic_that_may_not_be_written(broker, out, driver, rows, monkeypatch):
    sink = writer(broker, out)
    assert not sink.committed(mark(0, token=1, pipeline=out))
    wait = KafkaProducer._wait_on_metadata

    def denied(producer, topic, max_wait_ms):
        if topic == out:
            raise errors.TopicAuthorizationFailedError({topic})
        return wait(producer, topic, max_wait_ms)

    monkeypatch.setattr(KafkaProducer, "_wait_on_metadata", denied)
    with pytest.raises(SinkError, match="allow this user"):
        stage(driver, sink, rows, mark(0, token=1, pipeline=out))
    # The same, where only the sending meets it.
    monkeypatch.setattr(KafkaProducer, "partitions_for", lambda *_: {0})
    with pytest.raises(SinkError, match="allow this user"):
        stage(driver, sink, rows, mark(0, token=1, pipeline=out))
    sink.close()


def test_should_hold_up_no_reader_behind_a_batch_that_failed(broker, out, driver):
    sink = keyed_writer(broker, out)
    with pytest.raises(SinkError, match=r"max.request.size") as refused:
        stage(driver, sink, keyed(driver, [100_000] * 30 + [2_000_000]), mark(0, token=1, pipeline=out))
    assert (refused.value.facts["key"], refused.value.facts["size"]) == ("k30", 2_000_000)
    broker.produce(out, [b"after"] * 3)
    assert [record.value for record in broker.read(out)] == [b"after"] * 3
    sink.close()


def test_should_not_blame_a_record_for_what_the_transaction_died_of():
    trace = "org.apache.kafka.common.KafkaException: {}\n\tat Sender.x(S.java:1)\n\tat " + HANDING_OVER + "(K.java:2)\n"
    assert fault_of(trace.format("Cannot execute transactional method because we are in an error state")) is None
    assert fault_of(trace.format("Topic cannot be null.")) == "Topic cannot be null."


def test_should_name_the_record_that_the_topic_has_no_room_for(broker, topic, driver):
    broker.create_topic(topic, 1, settings={"max.message.bytes": "10000"})
    sink = keyed_writer(broker, topic, **SMALL_REQUESTS)
    with pytest.raises(SinkError, match=r"max.message.bytes") as refused:
        stage(
            driver, sink, keyed(driver, [200] * 50 + [20_000] + [200] * 50), mark(0, token=1, pipeline=topic)
        ).commit()
    assert (refused.value.facts["key"], refused.value.facts["size"]) == ("k50", 20_000)
    assert broker.read(topic) == []
    sink.close()


def test_should_send_small_records_to_a_topic_that_takes_only_small_requests(broker, topic, driver):
    broker.create_topic(topic, 1, settings={"max.message.bytes": "10000"})
    sink = keyed_writer(broker, topic, **SMALL_REQUESTS)
    assert stage(driver, sink, keyed(driver, [200] * 1000), mark(0, token=1, pipeline=topic)).commit() == 1000
    sink.close()
    assert [record.key for record in broker.read(topic)] == [b"k%d" % number for number in range(1000)]


def refused_row(broker, out, options, schema, row, how):
    stream = StreamBuilder.data_stream("test", "sink").from_array([row], schema=schema)
    topic = None if "topic_field" in how else out
    # How long Kafka's own client waits for a topic or a partition that may come yet.
    job = stream.to_kafka(
        broker.bootstrap_servers, topic, value="v", delivery="exactly_once", options={"max.block.ms": "2000"}, **how
    )
    with pytest.raises(SinkError) as refused:
        job.build().run(options)
    assert broker.read(out) == []
    return str(refused.value)


@pytest.mark.parametrize(
    ("schema", "row", "how", "what"),
    [
        ("p int, v string", {"p": 99, "v": "v"}, {"partition": "p"}, "partition 99"),
        ("p int, v string", {"p": -1, "v": "v"}, {"partition": "p"}, "record cannot be sent"),
        ("t string, v string", {"t": None, "v": "v"}, {"topic_field": "t"}, "record cannot be sent"),
        ("t string, v string", {"t": "no name", "v": "v"}, {"topic_field": "t"}, "no name"),
        ("t string, v string", {"t": "not-there", "v": "v"}, {"topic_field": "t"}, "not-there"),
    ],
)
def test_should_say_what_is_wrong_with_a_row(broker, out, options, schema, row, how, what):
    assert what in refused_row(broker, out, options, schema, row, how).lower()


@only_by_driver
def test_should_refuse_null_headers_where_the_client_does(broker, out, options):
    row = {"h": {"a": None}, "v": "v"}
    assert "headers" in refused_row(broker, out, options, "h map<string,string>, v string", row, {"headers": "h"})


@only_by_driver
def test_should_refuse_neither_key_nor_value_where_the_client_does(broker, out, options):
    assert "key or value" in refused_row(broker, out, options, "n int, v string", {"n": 1, "v": None}, {})


@only_by_driver
def test_rows_that_the_client_does_not_send_are_filtered_out(broker, out, options):
    rows = StreamBuilder.data_stream("test", "sink").from_array([{"v": None}, {"v": "v"}], schema="v string")
    sending = {"value": "v", "delivery": "exactly_once", "name": "out"}
    with pytest.raises(SinkError) as refused:
        rows.to_kafka(broker.bootstrap_servers, out, **sending).build().run(options)
    assert refused.value.remedy.startswith("filter out rows without a topic, with neither key nor value")
    full = rows.filter("v IS NOT NULL").to_kafka(broker.bootstrap_servers, out, **sending).build()
    assert full.run(replace(options, new_generation=True)).rows_out == 1
    assert [record.value for record in broker.read(out)] == [b"v"]


def test_should_take_a_megabyte(broker, topic, driver):
    broker.create_topic(topic, 1, settings={"max.message.bytes": "2000000"})
    sink = keyed_writer(broker, topic, **{"max.request.size": "2000000"})
    assert stage(driver, sink, keyed(driver, [1 << 20] * 3), mark(0, token=1, pipeline=topic)).commit() == 3
    sink.close()
    assert [len(record.value) for record in broker.read(topic)] == [1 << 20] * 3


def test_should_spend_no_transaction_on_an_empty_batch(broker, out, driver, rows):
    sink = writer(broker, out)
    first = mark(0, token=1, pipeline=out)
    assert not sink.committed(first)
    assert stage(driver, sink, rows.limit(0), first).commit() == 0
    assert sink.last_committed(first) == -1
    assert not sink.committed(first)
    sink.close()


@pytest.mark.parametrize(("name", "value"), [("retries", "3"), ("linger.ms", "soon"), ("compression.type", "nonsense")])
def test_should_refuse_settings_when_the_pipeline_is_written(name, value):
    stream = StreamBuilder.data_stream("test", "sink").from_array([{"n": 1}])
    with pytest.raises(ConfigurationError, match="step 'a_topic'"):
        stream.to_kafka("localhost:9092", "a", delivery="exactly_once", options={name: value})

"""start(latency="real-time"): records in milliseconds, and everything that cannot be had so is refused."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.compile.planner.realtime import check_slots
from rs_assets.errors import ConfigurationError, TopologyError
from rs_assets.testing import KafkaRecord

SERVERS = "localhost:9092"
SCHEMA = "id bigint, ts timestamp"


def source(servers=SERVERS, topic="in", **options):
    return StreamBuilder.data_stream("test", "real_time").from_kafka(servers, topic, schema=SCHEMA, **options)


def identity(row):
    return row


def windowed(stream):
    return stream.window(TumblingWindow.of(Time.seconds(1), "ts")).count("rows").to_data_stream()


@pytest.mark.parametrize(
    ("stream", "step", "why"),
    [
        (source().map(identity, schema=SCHEMA).to_kafka(SERVERS, "out"), "map_1", "Python function"),
        (source().filter(lambda row: row["id"] > 1).to_kafka(SERVERS, "out"), "filter_1", "Python function"),
        (windowed(source()).to_kafka(SERVERS, "out"), "window", "keeps state"),
        (source().shuffle(2).to_kafka(SERVERS, "out"), "shuffle_1", "waits for the end"),
        (source().to_delta("out"), "out_table", "only Kafka sinks"),
        (source().to_kafka(SERVERS, "out", delivery="exactly_once"), "out_topic", "at-least-once delivery only"),
        (source(bad_records="dead_letter").to_kafka(SERVERS, "out"), "kafka", "reads batches again"),
        (
            StreamBuilder.data_stream("test", "files").from_file("in.jsonl", schema=SCHEMA).to_kafka(SERVERS, "out"),
            "file",
            "only Kafka sources",
        ),
    ],
)
def test_should_name_the_step_that_forbids_it(stream, step, why):
    with pytest.raises(TopologyError, match=why) as refused:
        stream.build().start(latency="real-time")
    assert refused.value.facts["step"] == step


def test_should_refuse_two_sinks_and_words_that_are_none():
    pipeline = source().to_kafka(SERVERS, "a").to_kafka(SERVERS, "b").build()
    with pytest.raises(TopologyError, match="several sinks"):
        pipeline.start(latency="real-time")
    with pytest.raises(TopologyError, match="must be 'micro-batch' or 'real-time'"):
        pipeline.start(latency="fast")


def test_should_refuse_more_partitions_than_slots(broker, topic, options):
    with pytest.raises(ConfigurationError, match="a slot for each of the 5 partitions, Spark has 4"):
        check_slots(5, 4)
    broker.create_topic(topic, 3)
    broker.create_topic(f"{topic}-out")
    pipeline = source(broker.bootstrap_servers, topic).to_kafka(broker.bootstrap_servers, f"{topic}-out").build()
    with pytest.raises(ConfigurationError, match="Spark has 2"):
        pipeline.start(options, latency="real-time")
    # The refused start has given the lease back.
    assert pipeline.run(options).rows_in == 0


def test_should_send_records_at_once_and_leave_a_checkpoint_that_batches_go_on_from(broker, topic, options):
    broker.create_topic(topic, 2)
    broker.create_topic(f"{topic}-out", 1)
    stream = source(broker.bootstrap_servers, topic, bad_records="skip", metadata=["timestamp"]).filter("id >= 0")
    pipeline = stream.to_kafka(broker.bootstrap_servers, f"{topic}-out", key="id").build()
    with pipeline.start(options, latency="real-time") as running:
        broker.produce(topic, [b'{"id": 1}', b"{bad", b'{"id": -1}', b'{"id": 2}'])
        _until(lambda: len(broker.read(f"{topic}-out")) == 2)
        broker.produce(topic, [KafkaRecord(value=b'{"id": 3}', timestamp_ms=1_700_000_000_000)])
        _until(lambda: len(broker.read(f"{topic}-out")) == 3)
        _until(lambda: running.status()["rows_in"] == 5)
        assert running.active
        assert not running.await_termination(timeout_s=0.5)
    report = running.stop()
    assert (report.rows_in, report.rows_dead) == (5, 1)
    times = {record.key: record.timestamp_ms for record in broker.read(f"{topic}-out")}
    assert times.keys() == {b"1", b"2", b"3"}
    assert times[b"3"] == 1_700_000_000_000
    checkpoints = DeltaTable(str(options.home.catalog / "checkpoints")).to_pyarrow_table()
    assert checkpoints.num_rows > 0
    broker.produce(topic, [b'{"id": 4}'])
    assert pipeline.run(options).rows_in == 1


def _until(holds):
    looking = Retrying(retry=retry_if_result(lambda found: not found), stop=stop_after_delay(120), wait=wait_fixed(0.1))
    looking(holds)

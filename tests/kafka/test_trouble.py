"""A broker that dies, hangs and comes back, and topics with holes: every row once, and the right counts."""

from __future__ import annotations

import gc
import time

import pytest
from kafka import KafkaProducer

from rs_assets.testing import KafkaRecord
from tests.kafka.reader import Reader, as_numbers, numbered, until

# The rows of each part of a test: before the trouble, during it and behind it.
PART = 500


@pytest.fixture(autouse=True)
def _collected():
    yield
    gc.collect()


def through(broker, topic, options, trouble):
    """Rows before `trouble`, and rows behind it, all in one run that goes on; each must come once."""
    broker.create_topic(topic, partitions=2)
    broker.produce(topic, numbered(0, PART))
    read = Reader(broker, options, topic, format="text", max_rows_per_batch=100)
    with read.start() as running:
        until(lambda: len(read.kept()) >= PART // 2, running=running)
        trouble(running)
        broker.produce(topic, numbered(PART, 2 * PART))
        until(lambda: len(read.kept()) >= 2 * PART, 120, running=running)
        assert running.active
        assert running.stop().warnings == ()
    assert as_numbers(read.kept()) == list(range(2 * PART))


def away(broker, seconds):
    """A broker that hangs for so long, while somebody waits for it."""

    def pause(running):
        broker.pause()
        began = time.monotonic()
        try:
            while time.monotonic() < began + seconds:
                assert running.active, running.await_termination(0)
                time.sleep(0.5)
        finally:
            broker.resume()

    return pause


@pytest.mark.faults
def test_a_broker_that_is_killed_and_restarted_costs_only_time(broker, topic, options):
    def crash(running):
        broker.kill()
        broker.restart()

    through(broker, topic, options, crash)


@pytest.mark.faults
def test_a_broker_that_hangs_costs_only_time(broker, topic, options):
    through(broker, topic, options, away(broker, 20))


@pytest.mark.long
@pytest.mark.faults
@pytest.mark.parametrize("seconds", [60, 100])
def test_a_broker_that_hangs_for_long_costs_only_time(broker, topic, options, seconds):
    through(broker, topic, options, away(broker, seconds))


def _slowly(row):
    time.sleep(0.02)
    return {"value": row["value"][:6]}


@pytest.mark.long
@pytest.mark.faults
def test_a_broker_that_hangs_for_long_in_the_middle_of_a_batch_costs_only_time(broker, topic, options):
    # More than a task asks for ahead, and slow enough that it is still reading when the broker goes.
    broker.create_topic(topic)
    broker.produce(topic, [b"%06d" % number + b"x" * 20_000 for number in range(600)])
    read = Reader(broker, options, topic, format="text")
    pipeline = read.stream().map(_slowly, schema="value string").to_delta("kept").build()
    with pipeline.start(options) as running:
        time.sleep(6)
        assert read.kept() == []
        away(broker, 75)(running)
        until(lambda: len(read.kept()) >= 600, running=running)
    assert as_numbers(read.kept()) == list(range(600))


@pytest.mark.long
@pytest.mark.faults
def test_a_broker_that_is_down_for_long_costs_only_time(broker, topic, options):
    def down(running):
        broker.kill()
        began = time.monotonic()
        while time.monotonic() < began + 60:
            assert running.active, running.await_termination(0)
            time.sleep(0.5)
        broker.restart()

    through(broker, topic, options, down)


@pytest.mark.long
@pytest.mark.faults
def test_five_bounces_hard_and_clean_cost_only_time(broker, topic, options):
    def bounce(running):
        for end in (broker.kill, broker.stop, broker.kill, broker.stop, broker.kill):
            end()
            broker.restart()

    through(broker, topic, options, bounce)


def test_gaps_in_a_compacted_topic_are_no_loss(broker, topic, options):
    quick = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "100",
        "delete.retention.ms": "100",
        "segment.ms": "100",
    }
    broker.create_topic(topic, settings=quick)
    read = Reader(broker, options, topic, format="text", metadata=["key", "offset"], tombstones="keep")
    for turn in range(3):
        broker.produce(topic, [KafkaRecord(key=b"%d" % n, value=b"%d" % turn) for n in range(5)])
        time.sleep(0.15)
    broker.produce(topic, [KafkaRecord(key=b"0", value=None), KafkaRecord(key=b"last", value=b"end")])
    time.sleep(0.15)
    broker.produce(topic, [KafkaRecord(key=b"last", value=b"end")])
    until(lambda: len(broker.read(topic)) < 12)
    there = broker.read(topic)
    rows = read.rows()
    # Compaction goes on meanwhile: never a row that was not there, and nothing lost but what was replaced.
    offsets = [row["kafka_offset"] for row in rows]
    assert offsets == sorted(set(offsets))
    assert set(offsets) <= {record.offset for record in there}
    newest = {row["kafka_key"]: row["value"] for row in rows}
    newest.setdefault("0", None)
    assert newest == {"0": None, **{str(n): "2" for n in range(1, 5)}, "last": "end"}
    assert read.report.rows_in == len(rows)
    assert read.report.warnings == ()
    assert read.rows() == []


def test_markers_at_the_end_of_partitions_end_a_run_and_count_for_nothing(broker, topic, options):
    broker.create_topic(topic, partitions=2)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id=topic)
    producer.init_transactions()
    for turn in range(4):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.send(topic, b"%d" % (2 * turn + partition), partition=partition)
        producer.flush()
        (producer.commit_transaction if turn % 2 == 0 else producer.abort_transaction)()
    read = Reader(broker, options, topic, format="text", max_rows_per_batch=3)
    assert as_numbers(read.values()) == [0, 1, 4, 5]
    assert (read.report.rows_in, read.report.rows_out, read.report.rows_dead) == (4, 4, 0)
    assert read.rows() == []
    assert (read.report.rows_in, read.report.batches) == (0, 0)
    # Only markers and what was aborted: there is nothing to read, and nothing is lost.
    producer.begin_transaction()
    producer.send(topic, b"aborted", partition=0)
    producer.flush()
    producer.abort_transaction()
    producer.close()
    assert read.rows() == []
    assert read.report.rows_in == 0

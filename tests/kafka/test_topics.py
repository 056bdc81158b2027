"""Topics that grow, shrink, vanish and come again: nothing is left out without a word."""

from __future__ import annotations

import gc
import json
import socket
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from rs_assets.catalog.catalog import Catalog
from rs_assets.compile.readers import reader_of
from rs_assets.connectors.kafka.client.admin import PATIENCE, connected
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.source import topics
from rs_assets.connectors.kafka.source.offsets import dump_offsets, parse_offsets
from rs_assets.errors import ConfigurationError, DataLossError, SealedError, SourceReadError
from rs_assets.testing import KafkaRecord
from tests.kafka.reader import Reader, as_numbers, numbered, until

# kafka-python leaves the socket of each connection that fails to the garbage collector.


@pytest.fixture(autouse=True)
def _collected():
    yield
    gc.collect()


def noted_losses(options):
    rows = Catalog(options.home.catalog).rows("operations", kind="data_loss")
    return [entry for row in rows for entry in json.loads(row["details"])["ranges"]]


def delete_before(broker, topic, offset):
    """What retention does, at once."""
    with connected(KafkaCluster.of(broker.bootstrap_servers)) as admin:
        admin.delete_records({(topic, 0): offset})
        until(lambda: admin.earliest([(topic, 0)]) == {(topic, 0): offset})


def made_again(broker, topic, records):
    broker.delete_topic(topic)
    broker.create_topic(topic)
    broker.produce(topic, records)


# Unread records.


def test_unread_records_are_those_from_where_it_would_begin_that_are_there(broker, topic, options):
    broker.create_topic(topic)
    broker.produce(topic, numbered(0, 5))
    delete_before(broker, topic, 2)

    def reader(**source):
        stream = Reader(broker, options, topic, format="text", **source).stream()
        return reader_of(stream.to_print().build().topology.origins[0])

    def unread(offset=None, **source):
        return reader(**source).lag(offset, PATIENCE).records

    past, future = (datetime.now(UTC) + timedelta(hours=hours) for hours in (-1, 1))
    assert (unread(), unread(starting_offsets="latest")) == (3, 0)
    assert (unread(starting_offsets={topic: {0: 4}}), unread(starting_offsets=past)) == (1, 3)
    assert unread(starting_offsets=future) == 0
    assert [unread(dump_offsets({(topic, 0): at})) for at in (1, 4, 5)] == [3, 1, 0]
    assert reader().between(dump_offsets({(topic, 0): 1}), dump_offsets({(topic, 0): 5, (topic, 1): 2})).records == 6
    assert reader().between(None, dump_offsets({(topic, 0): 5})).records == 0


# Partitions.


def test_partitions_that_are_added_while_it_runs_are_read_from_their_start_and_told_of(broker, topic, options):
    broker.create_topic(topic)
    broker.produce(topic, numbered(0, 5))
    read = Reader(broker, options, topic, format="text")
    seen = []
    with read.start(on_progress=seen.append) as running:
        until(lambda: len(read.kept()) == 5, running=running)
        broker.add_partitions(topic, 3)
        new = [KafkaRecord(value=b"%d" % n, partition=2) for n in range(5, 9)]
        broker.produce(topic, new)
        until(lambda: len(read.kept()) >= 9, running=running)
        # An id of the topic that stayed the same is no loss.
        broker.produce(topic, [KafkaRecord(value=b"9", partition=0)])
        until(lambda: len(read.kept()) >= 10, running=running)
    assert as_numbers(read.kept()) == list(range(10))
    messages = Catalog(options.home.catalog).rows("system_messages", kind="NewSplit")
    batches = {row["split"]: row["batch_id"] for row in messages}
    assert set(batches) == {f"{topic}-{n}" for n in range(3)}
    assert batches[f"{topic}-0"] == 0 < batches[f"{topic}-2"]
    first = next(p.batch_id for p in seen if parse_offsets(p.offsets["kafka"]).get((topic, 2)))
    assert batches[f"{topic}-2"] <= first


def test_partitions_that_were_added_between_runs_are_read_from_their_start(broker, topic, options):
    broker.create_topic(topic)
    read = Reader(broker, options, topic, format="text", starting_offsets="latest")
    assert read.rows() == []
    broker.add_partitions(topic, 2)
    broker.produce(topic, [KafkaRecord(value=b"new", partition=1)])
    assert read.values() == ["new"]


# Topics that were made again.


@pytest.mark.parametrize("again", [2, 20], ids=["shorter", "longer"])
def test_a_topic_that_was_made_again_before_a_start_is_a_loss(broker, topic, options, again):
    broker.create_topic(topic)
    broker.produce(topic, numbered(0, 10))
    read = Reader(broker, options, topic, format="text")
    assert len(read.values()) == 10
    made_again(broker, topic, numbered(100, 100 + again))
    with pytest.raises(DataLossError, match="created again") as caught:
        read.rows()
    assert f"{topic}-0: offsets 10 to an unknown end" in str(caught.value)
    assert noted_losses(options) == []
    read.source["on_data_loss"] = "continue"
    assert as_numbers(read.values()) == list(range(100, 100 + again))
    [loss] = noted_losses(options)
    assert "created again" in loss
    assert any(loss in warning for warning in read.report.warnings)
    # Once, and from then on it is known.
    assert read.rows() == []
    assert len(noted_losses(options)) == 1
    read.source["on_data_loss"] = "fail"
    broker.produce(topic, [b"7"])
    assert read.values() == ["7"]


@pytest.mark.parametrize("again", [2, 20], ids=["shorter", "longer"])
def test_a_topic_that_is_made_again_while_it_runs_is_a_loss(broker, topic, options, again):
    broker.create_topic(topic)
    broker.produce(topic, numbered(0, 10))
    read = Reader(broker, options, topic, format="text")
    running = read.start()
    until(lambda: len(read.kept()) == 10, running=running)
    made_again(broker, topic, numbered(100, 100 + again))
    with pytest.raises(DataLossError) as caught:
        running.await_termination(120)
    running.stop()
    assert f"{topic}-0" in str(caught.value)
    assert as_numbers(read.kept()) == list(range(10))


@pytest.mark.parametrize("again", [2, 20], ids=["shorter", "longer"])
def test_a_topic_that_is_made_again_while_it_runs_is_read_by_the_next_run_if_wished(broker, topic, options, again):
    broker.create_topic(topic)
    broker.produce(topic, numbered(0, 10))
    read = Reader(broker, options, topic, format="text", on_data_loss="continue")
    running = read.start()
    until(lambda: len(read.kept()) == 10, running=running)
    made_again(broker, topic, numbered(100, 100 + again))
    wanted = [*range(10), *range(100, 100 + again)]
    try:
        until(lambda: as_numbers(read.kept()) == wanted, 20, running=running)
        running.stop()
    except DataLossError:
        running.stop()
        with read.start() as running:
            until(lambda: as_numbers(read.kept()) == wanted, 20, running=running)
    assert noted_losses(options)


def test_a_topic_that_is_gone_is_a_loss_or_left_out(broker, topic, options):
    for name in (f"{topic}-a", f"{topic}-b"):
        broker.create_topic(name)
        broker.produce(name, numbered(0, 2))
    read = Reader(broker, options, topics=[f"{topic}-a", f"{topic}-b"], format="text")
    assert len(read.rows()) == 4
    broker.delete_topic(f"{topic}-b")
    broker.produce(f"{topic}-a", [b"2"])
    with pytest.raises(DataLossError, match=f"{topic}-b-0"):
        read.rows()
    read.source["on_data_loss"] = "continue"
    assert read.values() == ["2"]
    assert [f"{topic}-b-0" in loss for loss in noted_losses(options)] == [True]
    assert any(f"{topic}-b-0" in warning for warning in read.report.warnings)
    broker.create_topic(f"{topic}-b")
    broker.produce(f"{topic}-b", [b"3"])
    assert read.values() == ["3"]


def test_a_topic_that_was_made_again_before_its_first_batch_is_a_loss(broker, topic, options):
    broker.create_topic(topic)
    broker.produce(topic, numbered(0, 10))
    read = Reader(broker, options, topic, format="text", starting_offsets="latest")
    assert read.rows() == []
    made_again(broker, topic, numbered(100, 120))
    with pytest.raises(DataLossError, match="created again"):
        read.rows()


def test_the_only_topic_may_go_and_come_again_if_that_is_wished(broker, topic, options):
    broker.create_topic(topic)
    broker.produce(topic, numbered(0, 2))
    read = Reader(broker, options, topic, format="text", on_data_loss="continue")
    assert len(read.rows()) == 2
    broker.delete_topic(topic)
    assert read.rows() == []
    assert len(noted_losses(options)) == 1
    broker.create_topic(topic)
    broker.produce(topic, numbered(2, 4))
    assert as_numbers(read.values()) == [2, 3]


# Retention.


def test_records_that_were_deleted_before_they_were_read_are_a_loss_with_its_range(broker, topic, options):
    broker.create_topic(topic)
    broker.produce(topic, numbered(0, 10))
    read = Reader(broker, options, topic, format="text")
    assert len(read.rows()) == 10
    broker.produce(topic, numbered(10, 30))
    delete_before(broker, topic, 25)
    with pytest.raises(DataLossError, match=f"{topic}-0: offsets 10 to 24"):
        read.rows()
    read.source["on_data_loss"] = "continue"
    assert as_numbers(read.values()) == list(range(25, 30))
    [loss] = noted_losses(options)
    assert loss.startswith(f"{topic}-0: offsets 10 to 24 ")
    assert [f"{topic}-0: offsets 10 to 24" in w for w in read.report.warnings] == [True]
    assert read.rows() == []
    assert len(noted_losses(options)) == 1


def test_records_that_were_read_may_be_deleted(broker, topic, options):
    broker.create_topic(topic)
    broker.produce(topic, numbered(0, 10))
    read = Reader(broker, options, topic, format="text")
    read.rows()
    delete_before(broker, topic, 10)
    assert read.rows() == []
    broker.produce(topic, [b"10"])
    assert read.values() == ["10"]


def test_a_first_start_begins_behind_what_was_deleted(broker, topic, options):
    broker.create_topic(topic)
    broker.produce(topic, numbered(0, 10))
    delete_before(broker, topic, 4)
    read = Reader(broker, options, topic, format="text")
    assert as_numbers(read.values()) == list(range(4, 10))
    named = Reader(broker, options, topic, format="text", starting_offsets={topic: {0: 2}})
    with pytest.raises((ConfigurationError, DataLossError), match="offset"):
        named.rows(new_generation=True)


@pytest.mark.parametrize("policy", ["fail", "continue"])
def test_records_that_are_deleted_while_it_runs_are_a_loss(broker, topic, options, policy):
    broker.create_topic(topic)
    broker.produce(topic, numbered(0, 10))
    read = Reader(broker, options, topic, format="text", on_data_loss=policy, max_rows_per_batch=2)
    seen = []

    def slow(progress):
        seen.append(progress)
        if len(seen) == 1:
            delete_before(broker, topic, 6)

    if policy == "fail":
        with pytest.raises(DataLossError, match=f"{topic}-0"):
            read.rows(on_progress=slow)
        assert noted_losses(options) == []
        return
    assert as_numbers(read.values(on_progress=slow))[-4:] == [6, 7, 8, 9]
    ranges = noted_losses(options)
    assert ranges
    assert read.report.warnings


# What is not there.


def test_a_missing_topic_is_refused_and_nothing_is_made(broker, topic, options):
    read = Reader(broker, options, topic, format="text")
    with pytest.raises(SourceReadError, match=f"no topic '{topic}'"):
        read.rows()
    assert not list(options.home.job("tests", "kafka").glob("g*"))
    broker.create_topic(topic)
    assert read.rows() == []


def test_a_pattern_without_topics_waits_for_them(broker, topic, options):
    read = Reader(broker, options, pattern=f"{topic}-[ab]", format="text")
    assert read.rows() == []
    broker.create_topic(f"{topic}-a")
    broker.produce(f"{topic}-a", [b"1"])
    assert read.values() == ["1"]


def test_a_missing_broker_is_told_of_in_bounded_time_with_its_address(options, monkeypatch):
    assert timedelta(seconds=10) < PATIENCE < timedelta(minutes=1)
    monkeypatch.setattr(topics, "connected", partial(connected, patience=timedelta(seconds=2)))
    read = Reader("127.0.0.1:1,127.0.0.1:2", options, "orders", format="text")
    with pytest.raises(SourceReadError, match="127.0.0.1:1,127.0.0.1:2"):
        read.rows()
    assert not list(options.home.job("tests", "kafka").glob("g*"))


def test_something_else_at_the_address_of_a_broker_is_told_of_in_bounded_time(options, monkeypatch):
    monkeypatch.setattr(topics, "connected", partial(connected, patience=timedelta(seconds=2)))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(SourceReadError, match=address):
            Reader(address, options, "orders", format="text").rows()


# The end.


def test_a_sealed_generation_takes_no_more_records(broker, topic, options):
    broker.create_topic(topic)
    broker.produce(topic, numbered(0, 3))
    read = Reader(broker, options, topic, format="text")
    assert len(read.values(finish=True)) == 3
    assert read.report.sealed
    assert read.rows() == []
    broker.produce(topic, [b"3"])
    with pytest.raises(SealedError):
        read.rows()
    assert len(read.values(new_generation=True)) == 4


def test_a_sealed_generation_takes_no_new_partition(broker, topic, options):
    broker.create_topic(topic)
    broker.produce(topic, numbered(0, 3))
    read = Reader(broker, options, topic, format="text")
    read.rows(finish=True)
    broker.add_partitions(topic, 2)
    assert read.rows() == []
    broker.produce(topic, [KafkaRecord(value=b"3", partition=1)])
    with pytest.raises(SealedError):
        read.rows()

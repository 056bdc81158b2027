"""A topic of RocketMQ as a sink: at least once, and exactly once by reading back what was sent before a crash."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from rs_assets import MemoryChannel, StreamBuilder, pipeline_from_sql
from rs_assets.connectors.rocketmq.client.client import Client
from rs_assets.connectors.rocketmq.client.messages import queue_of, sent
from rs_assets.connectors.rocketmq.nodes import RocketmqSink
from rs_assets.connectors.rocketmq.sink import sending
from rs_assets.connectors.rocketmq.sink.read_back import ReadBackWriter
from rs_assets.connectors.rocketmq.sink.rows import Outgoing, row_ids
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import LeaseLostError, SinkError, TopologyError
from rs_assets.testing import SinkCase, check_sink


def bodies(server, topic):
    return [json.loads(message.body) for message in server.read(topic)]


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_all_promises_of_a_sink_hold(rocketmq, topic, driver, delivery):
    check_sink(
        SinkCase(
            write=lambda stream: stream.to_rocketmq(rocketmq.cluster, topic, key="n", tags="text", delivery=delivery),
            rows=lambda: bodies(rocketmq, topic),
            exactly_once=delivery == "exactly_once",
        ),
        spark=driver,
    )


@pytest.mark.canary
def test_a_batch_that_was_sent_in_part_is_completed(rocketmq, topic, options, monkeypatch):
    channel = MemoryChannel(schema="n bigint")
    begin = StreamBuilder.data_stream("shop", "half").from_memory(channel)
    pipeline = begin.to_rocketmq(rocketmq.cluster, topic, key="n", delivery="exactly_once").build()
    channel.put(*({"n": n} for n in range(100)))
    pipeline.run(options)
    monkeypatch.setattr(sending, "MOST_MESSAGES", 10)
    send, left = Client.send, [7]

    def cut_off(client, name, queue, batch):
        if name == topic:
            left[0] -= 1
            if left[0] < 0:
                raise SinkError("cut off")
        return send(client, name, queue, batch)

    # Two rows alike are two messages.
    channel.put(*({"n": n} for n in [*range(100, 200), 150]))
    monkeypatch.setattr(Client, "send", cut_off)
    with pytest.raises(SinkError, match="cut off"):
        pipeline.run(options)
    assert 100 < len(bodies(rocketmq, topic)) < 201
    monkeypatch.setattr(Client, "send", send)
    # Others write to the topic, too.
    rocketmq.send(topic, [b'{"n": -1}'])
    rocketmq.restart()
    pipeline.run(options)
    assert Counter(row["n"] for row in bodies(rocketmq, topic)) == Counter([-1, *range(200), 150])


def test_keys_choose_queues_and_tags_are_sent(rocketmq, topic, options):
    rows = [{"user": f"u{n % 5}", "kind": "ab"[n % 2], "n": n} for n in range(40)]
    begin = StreamBuilder.data_stream("shop", "keyed").from_array(rows)
    begin.to_rocketmq(rocketmq.cluster, topic, key="user", tags="kind").build().run(options)
    found = rocketmq.read(topic)
    assert sorted(json.loads(m.body)["n"] for m in found) == [*range(40)]
    for message in found:
        row = json.loads(message.body)
        assert (message.key, message.tags, message.queue) == (row["user"], row["kind"], queue_of(row["user"], 4))


def test_what_cannot_be_sent_is_refused(rocketmq, topic, options):
    def stream(job):
        rows = [{"text": "", "many": [1]}, {"text": "x", "many": []}]
        return StreamBuilder.data_stream("shop", job).from_array(rows, schema="text string, many array<int>")

    def run(stream, name=topic, **sink):
        stream.to_rocketmq(rocketmq.cluster, name, **sink).build().run(options)

    with pytest.raises(SinkError, match="its body is empty"):
        run(stream("empty"), value="text")
    run(stream("filled").filter("text <> ''"), value="text")
    missing = f"{topic}-more"
    with pytest.raises(SinkError, match="does not exist"):
        run(stream("missing"), missing)
    rocketmq.create_topic(missing)
    run(stream("missing"), missing)
    with pytest.raises(TopologyError, match="cannot be the key"):
        run(stream("nested"), missing, key="many")
    run(stream("plain").with_fields(many="to_json(many)"), missing, key="many")
    with pytest.raises(TopologyError, match="must be one of"):
        stream("once").to_rocketmq(rocketmq.cluster, topic, delivery="once")
    own = StreamBuilder.data_stream("shop", "own").from_rocketmq(rocketmq.cluster, topic, format="text")
    with pytest.raises(TopologyError, match="its own rows"):
        own.to_rocketmq(rocketmq.cluster, topic).build()
    assert [message.body for message in rocketmq.read(topic)] == [b"x"]
    assert [message.key for message in rocketmq.read(missing)] == [None, None, "[1]", "[]"]


def test_a_sink_goes_back_only_to_where_nothing_was_sent_since(rocketmq, topic):
    node = RocketmqSink(name="out", cluster=rocketmq.cluster, topic=topic, delivery="exactly_once")
    writer, marks = ReadBackWriter(node), [BatchMark("id", 1, "out", batch, token=5) for batch in range(3)]
    assert writer.last_committed(marks[0]) == -1
    for mark in marks[:2]:
        assert not writer.committed(mark)
        assert writer._commit([Outgoing(None, f"{row_ids(mark)}x", sent(b"x", b""))], mark) == 1
    writer = ReadBackWriter(node)
    assert (writer.committed(marks[1]), writer.committed(marks[2]), writer.last_committed(marks[2])) == (True, False, 1)
    assert writer.last_writer(marks[0]).token == 5
    begun = BatchMark("id", 2, "out", 0, token=6)
    with pytest.raises(SinkError, match="cannot be removed"):
        writer.check_rewind(marks[0], begun)
    with pytest.raises(SinkError, match="had sent batch 2"):
        writer.check_rewind(marks[2], begun, had=2)
    assert "sends all rows of 'out' again" in writer.check_begin(begun)
    later = BatchMark("id", 2, "out", 1, token=6)
    writer.check_rewind(marks[1], later, had=1)
    assert writer.rewind(marks[1], later, had=1) == "had nothing to undo"
    assert writer.committed(later)
    # The driver that was overtaken.
    with pytest.raises(LeaseLostError):
        writer.committed(marks[2])
    with pytest.raises(LeaseLostError):
        ReadBackWriter(node)._commit([], marks[2])
    assert len(rocketmq.read(topic)) == 2


def test_sql_writes_a_topic(rocketmq, topic, options):
    text = f"""
        CREATE TABLE rows_in (page STRING, ms BIGINT) WITH ('connector' = 'memory');
        CREATE TABLE out1 (page STRING, ms BIGINT) WITH (
            'connector' = 'rocketmq', 'topic' = '{topic}', 'nameServerAddress' = '{rocketmq.name_server}',
            'key.fields' = 'page', 'sink.delivery-guarantee' = 'exactly-once');
        INSERT INTO out1 SELECT page, ms FROM rows_in WHERE ms > 1;
    """
    rows = [{"page": "/a", "ms": n} for n in range(4)]
    pipeline_from_sql(text, namespace="shop", job="sql", tables={"rows_in": rows}).run(options)
    assert [(m.key, json.loads(m.body)["ms"]) for m in rocketmq.read(topic)] == [("/a", 2), ("/a", 3)]

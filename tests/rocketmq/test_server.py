"""A real RocketMQ server, and the client that speaks to it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rs_assets.connectors.rocketmq.client.client import Client, connected
from rs_assets.connectors.rocketmq.client.cluster import RocketMQCluster
from rs_assets.connectors.rocketmq.client.connection import Unreachable
from rs_assets.connectors.rocketmq.client.messages import sent
from rs_assets.connectors.rocketmq.client.names import Queue
from rs_assets.connectors.rocketmq.client.pulling import ALL, Filter, Reach, messages
from rs_assets.errors import ConfigurationError, DataLossError, SourceReadError
from rs_assets.testing import RocketMQMessage, RocketMQServer

FIRST = Queue("broker-a", 0)


@pytest.fixture
def client(rocketmq):
    with connected(rocketmq.cluster, SourceReadError) as made:
        yield made


def test_messages_survive_with_their_parts_and_a_crash_of_the_broker(rocketmq, topic):
    sent_ones = [
        RocketMQMessage(body=b"one", key="k", tags="a", properties={"n": "1"}, queue=1),
        RocketMQMessage(body=b"\0\xff" * 1000, queue=1),
    ]
    assert rocketmq.send(topic, sent_ones) == 2
    rocketmq.restart()
    found = rocketmq.read(topic)
    assert [(m.body, m.key, m.tags, dict(m.properties)) for m in found] == [
        (b"one", "k", "a", {"n": "1"}),
        (b"\0\xff" * 1000, None, None, {}),
    ]
    assert [(m.queue, m.offset) for m in found] == [(1, 0), (1, 1)]


def test_a_queue_is_read_by_offsets_and_filters(rocketmq, topic, client):
    rocketmq.send(topic, [RocketMQMessage(body=b"%d" % n, tags="ab"[n % 2], queue=0) for n in range(5000)])
    assert (client.begin(topic, FIRST), client.end(topic, FIRST)) == (0, 5000)

    def bodies(start, end, selected=ALL):
        return [int(m.body) for part in messages(client, Reach(topic, FIRST, start, end), selected) for m in part]

    assert bodies(1234, 4321) == [*range(1234, 4321)]
    assert bodies(100, 110, Filter("TAG", "b")) == [101, 103, 105, 107, 109]
    assert bodies(100, 104, Filter("SQL92", "TAGS = 'a'")) == [100, 102]
    assert bodies(7, 7) == []
    with pytest.raises(DataLossError, match="the queue ends at 5000"):
        bodies(4990, 5001)
    with pytest.raises(DataLossError, match="has no offset 6000"):
        bodies(6000, 6001)


def test_offsets_of_groups_and_times(rocketmq, topic, client):
    before = datetime.now(UTC) - timedelta(minutes=1)
    rocketmq.send(topic, [RocketMQMessage(body=b"x", queue=0)] * 3)
    assert client.offset_at(topic, FIRST, int(before.timestamp() * 1000)) == 0
    assert client.group_offset(f"g-{topic}", topic, FIRST) is None
    client.commit(f"g-{topic}", topic, FIRST, 2)
    assert client.group_offset(f"g-{topic}", topic, FIRST) == 2


def test_a_broker_that_hangs_or_is_gone_is_not_waited_for_longer_than_allowed(rocketmq, topic):
    rocketmq.kill()
    with (
        pytest.raises(SourceReadError, match="RocketMQ cannot be reached"),
        connected(rocketmq.cluster, SourceReadError, patience=timedelta(milliseconds=300)) as client,
    ):
        client.end(topic, FIRST)
    rocketmq.start()
    client = Client(rocketmq.cluster.access())
    assert client.end(topic, FIRST) == 0
    client.close()
    with pytest.raises(Unreachable):
        Client(RocketMQCluster(name_server="127.0.0.1:9").access(), patience=timedelta(0)).route(topic)


def test_an_unknown_topic_has_no_route_and_sending_creates_none(client, topic):
    assert client.route("no-such-topic") is None
    with pytest.raises(Unreachable):
        client.send("no-such-topic", Queue("broker-b", 0), sent(b"x", b""))
    assert client.route("no-such-topic") is None


def test_a_server_is_used_between_its_start_and_its_end():
    server = RocketMQServer()
    with pytest.raises(ConfigurationError, match="was not started"):
        _ = server.name_server
    server.close()


@pytest.mark.long
def test_users_log_in():
    with RocketMQServer(access_key="root", secret_key="secret-1") as server:
        server.create_topic("orders")
        server.send("orders", [b"x"])
        assert [message.body for message in server.read("orders")] == [b"x"]
        for wrong in (
            RocketMQCluster(name_server=server.name_server),
            RocketMQCluster(name_server=server.name_server, access_key="root", secret_key="secret-2"),
            RocketMQCluster(name_server=server.name_server, access_key="me", secret_key="secret-1"),
        ):
            with (
                pytest.raises(SourceReadError, match=r"refuses a request.*code 16") as refused,
                connected(wrong, SourceReadError) as client,
            ):
                client.end("orders", FIRST)
            assert "access_key" in refused.value.remedy
            assert "secret-" not in str(refused.value)

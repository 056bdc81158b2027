"""A topic of RocketMQ: read into a table, and copied exactly once, beside our client without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import count

from benchmarks.bench import Bench
from benchmarks.measure import Figure
from benchmarks.systems import TIMES, Against, rows_read, small_rows
from rs_assets import StreamBuilder
from rs_assets.connectors.rocketmq.client.client import Client
from rs_assets.connectors.rocketmq.client.pulling import Reach, messages
from rs_assets.stream.data_stream import DataStream
from rs_assets.testing import RocketMQMessage, RocketMQServer

SCHEMA = "n bigint, page string, user string, ms bigint"
QUEUES = 4
# The rows a second that are asked.
LEAST = 50_000
NUMBERS = count()


def rocketmq_figures(bench: Bench) -> Iterator[Figure]:
    """A server of its own; topics of two sizes, of messages of about 110 bytes in four queues."""
    with RocketMQServer() as server:
        for rows in (small_rows(bench), TIMES * small_rows(bench)):
            bench.say(f"rocketmq: {rows:,} messages")
            server.create_topic(_topic(rows), queues=QUEUES)
            server.send(_topic(rows), [RocketMQMessage(body=_body(n)) for n in range(rows)])
        read = Against(
            benchmark="rocketmq",
            what="read a topic into a Delta table",
            ours=lambda rows: rows_read(bench, _begin(server, rows).to_delta("out")),
            client="our client alone",
            alone=lambda rows: _pulled(server, _topic(rows)),
            least_per_s=LEAST,
        )
        yield read.figure(bench)
        copied = Against(
            benchmark="rocketmq",
            what="copy a topic into another one, exactly once",
            ours=lambda rows: rows_read(bench, _copied(server, rows)),
            client="our client alone, which only sends",
            alone=lambda rows: _sent(server, rows),
            least_per_s=LEAST,
        )
        yield copied.figure(bench)


def _topic(rows: int) -> str:
    return f"in-{rows}"


def _body(n: int) -> bytes:
    return b'{"n":%d,"page":"/page/of/the/shop/%d","user":"user-%08d","ms":%d,"filler":"%s"}' % (
        n, n % 1000, n % 50_000, n % 977, b"x" * 20,
    )  # fmt: skip


def _begin(server: RocketMQServer, rows: int, job: str = "read") -> DataStream:
    stream = StreamBuilder.data_stream("bench", job)
    return stream.from_rocketmq(server.cluster, _topic(rows), schema=SCHEMA, max_rows_per_batch=None)


def _copied(server: RocketMQServer, rows: int) -> DataStream:
    topic = _fresh(server)
    return _begin(server, rows, topic).to_rocketmq(server.cluster, topic, key="n", delivery="exactly_once")


def _pulled(server: RocketMQServer, topic: str) -> int:
    with closing(Client(server.cluster.access())) as client:
        route = client.route(topic)
        queues = route.read if route is not None else ()
        reaches = [Reach(topic, queue, client.begin(topic, queue), client.end(topic, queue)) for queue in queues]
        return sum(len(part) for reach in reaches for part in messages(client, reach))


def _sent(server: RocketMQServer, rows: int) -> int:
    return server.send(_fresh(server), (RocketMQMessage(body=_body(n)) for n in range(rows)))


def _fresh(server: RocketMQServer) -> str:
    """An empty topic; the marks of a pipeline are for its own, so each has a name of its own."""
    topic = f"copy_{next(NUMBERS)}"
    server.create_topic(topic, queues=QUEUES)
    return topic

"""Sends messages queue by queue, in batches, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from rs_assets.connectors.rocketmq.client.client import Client
from rs_assets.connectors.rocketmq.client.messages import queue_of
from rs_assets.connectors.rocketmq.client.names import Queue
from rs_assets.connectors.rocketmq.client.route import Route
from rs_assets.connectors.rocketmq.sink.rows import Outgoing
from rs_assets.errors import SinkError

# A request: so many messages and bytes at most; brokers accept 4 MB.
MOST_MESSAGES: Final = 1_000
MOST_BYTES: Final = 1 << 20
# How many messages without a key follow each other in a queue.
TURN: Final = 1_000


def target_of(client: Client, topic: str, step: str) -> Route:
    """The route of a topic that can be written; SinkError if it does not exist."""
    route = client.route(topic)
    if route is None or not route.write:
        raise SinkError(
            f"the topic {topic!r} does not exist, or none of its queues can be written now",
            remedy="create it, or start its brokers, then start again: a sink creates no topics",
            step=step,
            topic=topic,
        )
    return route


def by_queue(found: Iterable[Outgoing], queues: Sequence[Queue]) -> dict[Queue, list[bytes]]:
    """The messages of each queue in their order: by the hash of the key as in Java's clients, else in turns."""
    made: dict[Queue, list[bytes]] = {}
    turn = 0
    for message in found:
        if message.key is None:
            queue = queues[turn // TURN % len(queues)]
            turn += 1
        else:
            queue = queues[queue_of(message.key, len(queues))]
        made.setdefault(queue, []).append(message.content)
    return made


def send_all(
    topic: str, messages: Mapping[Queue, Sequence[bytes]], send: Callable[[str, Queue, bytes], int]
) -> dict[Queue, int]:
    """Send them by `send` (of a client); the offset after the last one of each queue."""
    ends: dict[Queue, int] = {}
    for queue, contents in messages.items():
        for count, batch in requests(contents):
            ends[queue] = send(topic, queue, batch) + count
    return ends


def requests(contents: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """The messages of a queue as requests: how many, and their bytes.

    >>> [count for count, _ in requests([b"x" * 600_000] * 3)]
    [1, 1, 1]
    """
    part: list[bytes] = []
    size = 0
    for content in contents:
        if part and (len(part) == MOST_MESSAGES or size + len(content) > MOST_BYTES):
            yield len(part), b"".join(part)
            part, size = [], 0
        part.append(content)
        size += len(content)
    if part:
        yield len(part), b"".join(part)

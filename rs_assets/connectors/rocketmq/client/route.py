"""Which queues a topic has, and on which brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import orjson

from rs_assets.connectors.rocketmq.client.names import Queue

READABLE, WRITABLE = 4, 2
# The number of the broker of a group that accepts messages; others are copies of it.
MASTER = "0"


@dataclass(frozen=True, slots=True)
class Route:
    """The queues of a topic that can be read and written now. `brokers` has the addresses by the brokers' names."""

    brokers: Mapping[str, str]
    read: tuple[Queue, ...]
    write: tuple[Queue, ...]

    @classmethod
    def load(cls, body: bytes) -> Route:
        """The route in a name server's answer; queues of brokers that are away are left out.

        >>> Route.load(
        ...     b'{"brokerDatas": [{"brokerName": "a", "brokerAddrs": {"0": "10.0.0.1:10911"}}], "queueDatas":'
        ...     b' [{"brokerName": "a", "perm": 6, "readQueueNums": 2, "writeQueueNums": 1}]}'
        ... ).read
        (Queue(broker='a', number=0), Queue(broker='a', number=1))
        """
        found = orjson.loads(body)
        brokers = {
            broker["brokerName"]: broker["brokerAddrs"][MASTER]
            for broker in found.get("brokerDatas") or ()
            if MASTER in broker["brokerAddrs"]
        }
        there = [queues for queues in found.get("queueDatas") or () if queues["brokerName"] in brokers]
        return cls(
            brokers=dict(sorted(brokers.items())),
            read=_queues((q["brokerName"], q["readQueueNums"]) for q in there if q["perm"] & READABLE),
            write=_queues((q["brokerName"], q["writeQueueNums"]) for q in there if q["perm"] & WRITABLE),
        )


def _queues(counts: Iterable[tuple[str, int]]) -> tuple[Queue, ...]:
    return tuple(sorted(Queue(broker, number) for broker, count in counts for number in range(count)))

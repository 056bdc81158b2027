"""Names that RocketMQ accepts, and those reserved for this project."""

from __future__ import annotations

import hashlib
import re
from typing import Final, NamedTuple

from rs_assets.errors import TopologyError

TOPIC: Final = re.compile(r"[%|a-zA-Z0-9_-]{1,127}")
GROUP: Final = re.compile(r"[%|a-zA-Z0-9_-]{1,120}")
# A name server or broker: host and port.
ADDRESS: Final = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):([0-9]{1,5})")
# Topics of exactly-once sinks: each has the commits of the sinks of one topic.
COMMITS: Final = "rs-assets-commits-"
# Topics of RocketMQ itself: of groups, of transactions, of delayed messages, of traces.
SYSTEM: Final = re.compile(
    r"%RETRY%|%DLQ%|rmq_sys_|RMQ_SYS_|SCHEDULE_TOPIC_XXXX$|TBW102$|OFFSET_MOVED_EVENT$|BenchmarkTest$|SELF_TEST_TOPIC$"
)
# The group by which messages are pulled if none is named; each broker makes it for its tools.
TOOLS: Final = "TOOLS_CONSUMER"


class Queue(NamedTuple):
    """A queue of a topic: the name of its broker, and its number there."""

    broker: str
    number: int

    def __str__(self) -> str:
        """The name of the split.

        >>> str(Queue("broker-a", 3))
        'broker-a/3'
        """
        return f"{self.broker}/{self.number}"

    @classmethod
    def of(cls, split: str) -> Queue:
        """The queue of a split; ValueError for another text.

        >>> Queue.of("broker-a/3")
        Queue(broker='broker-a', number=3)
        """
        broker, _, number = split.rpartition("/")
        return cls(broker, int(number))


def commits_of(topic: str) -> str:
    """The topic with the commits of exactly-once sinks of `topic`.

    >>> commits_of("orders")
    'rs-assets-commits-orders'
    """
    named = COMMITS + topic
    return named if len(named) <= 127 else COMMITS + hashlib.sha256(topic.encode()).hexdigest()


def tags_in(expression: str) -> frozenset[str]:
    """The tags that an expression selects, but for `*`.

    >>> sorted(tags_in("a || b")), sorted(tags_in(" || "))
    (['a', 'b'], [])
    """
    return frozenset(part.strip() for part in expression.split("||") if part.strip())


def checked_topic(value: object, *, step: str) -> str:
    """`value` if it may be the name of a topic; else TopologyError.

    >>> checked_topic("shop-orders", step="orders")
    'shop-orders'
    """
    if isinstance(value, str) and TOPIC.fullmatch(value):
        return value
    raise TopologyError(
        f"step {step!r}: {value!r} cannot be the name of a RocketMQ topic",
        remedy="use letters, digits, '_', '-', '%' and '|', at most 127 of them",
        step=step,
    )


def writable_topic(value: object, *, step: str) -> str:
    """`value` if a pipeline may write to a topic of that name; TopologyError also for RocketMQ's own topics and ours.

    >>> writable_topic("shop-orders", step="orders")
    'shop-orders'
    """
    topic = checked_topic(value, step=step)
    if SYSTEM.match(topic) or topic.startswith(COMMITS):
        whose = "exactly-once sinks" if topic.startswith(COMMITS) else "RocketMQ"
        raise TopologyError(
            f"step {step!r} would write into the topic {topic!r}, which belongs to {whose}",
            remedy="write to a topic of another name",
            step=step,
        )
    return topic


def checked_group(value: object, *, step: str) -> str:
    """`value` if it may be the name of a consumer group; else TopologyError."""
    if isinstance(value, str) and GROUP.fullmatch(value):
        return value
    raise TopologyError(
        f"step {step!r}: {value!r} cannot be the name of a consumer group of RocketMQ",
        remedy="use letters, digits, '_', '-', '%' and '|', at most 120 of them",
        step=step,
    )

"""Valid names in Kafka, and the names of topics reserved for this project."""

from __future__ import annotations

import re

from rs_assets.errors import TopologyError

TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
# The commit topic of exactly-once sinks, and the prefix of durable shuffles.
COMMITS, SHUFFLES = "rs-assets-commits", "rs-assets-shuffle."
# Kafka's own topics and ours, as a regular expression for Java and Python: patterns of sources exclude them.
INTERNAL = r"__|rs-assets-commits$|rs-assets-shuffle\."


def is_internal(topic: str) -> bool:
    """Whether a topic is Kafka's own or ours; a source reads it only by its exact name.

    >>> is_internal("rs-assets-commits"), is_internal("rs-assets-commits-of-mine")
    (True, False)
    """
    return re.match(INTERNAL, topic) is not None


def writable_topic(value: object, *, step: str) -> str:
    """`value` if a pipeline may write to a topic of that name; TopologyError also for Kafka's own topics and ours.

    >>> writable_topic("shop.orders", step="orders")
    'shop.orders'
    """
    topic = checked_topic(value, step=step)
    if is_internal(topic):
        whose = "Kafka" if topic.startswith("__") else "exactly-once sinks and durable shuffles"
        raise TopologyError(
            f"step {step!r} would write into the topic {topic!r}, which belongs to {whose}",
            remedy="write to a topic of another name",
            step=step,
        )
    return topic


def checked_topic(value: object, *, step: str) -> str:
    """`value` if it may be the name of a topic; else TopologyError.

    >>> checked_topic("shop.orders", step="orders")
    'shop.orders'
    """
    if isinstance(value, str) and TOPIC.fullmatch(value) and value not in (".", ".."):
        return value
    raise TopologyError(
        f"step {step!r}: {value!r} cannot be the name of a topic",
        remedy="use letters, digits, '.', '_' and '-', at most 249 of them",
        step=step,
    )


def checked_group(value: object, *, step: str) -> str:
    """`value` if it may be the id of a consumer group; else TopologyError."""
    if isinstance(value, str) and value.strip() and value.isprintable() and len(value) <= 255:
        return value
    raise TopologyError(f"step {step!r}: {value!r} cannot be the id of a consumer group", step=step)

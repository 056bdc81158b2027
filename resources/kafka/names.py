"""The names that Kafka allows."""

from __future__ import annotations

import re

from resources.errors import TopologyError

TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


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

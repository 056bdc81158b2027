"""Sample orders and payments: the same on every machine, some of them malformed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import orjson

from pipelines.order_totals import ORDERS, PAYMENTS

SEED = 20_261_121
START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
STEP = timedelta(milliseconds=40)
CUSTOMERS = 12
# Nine of ten orders are paid, a few seconds later.
PAID = 0.9
# One in so many records is malformed.
MALFORMED_EVERY = 1_000


@dataclass(frozen=True, slots=True)
class Event:
    """A record for one of the two topics."""

    topic: str
    key: bytes
    value: bytes


def events(orders: int, *, seed: int = SEED) -> Iterator[Event]:
    """`orders` orders and their payments, in order of time except for the seconds that payments take."""
    chance = random.Random(seed)  # noqa: S311  the same events every time, that is the point
    for number in range(orders):
        customer = f"customer-{int(CUSTOMERS * chance.random() ** 2):02d}"
        cents, at = chance.randrange(100, 50_000), START + STEP * number
        order = {"order_id": number, "customer": customer, "amount": f"{cents / 100:.2f}", "ts": at.isoformat()}
        yield Event(ORDERS, customer.encode(), _spoilt(orjson.dumps(order), number))
        if chance.random() < PAID:
            later = at + timedelta(seconds=chance.uniform(0, 20))
            payment = {**order, "payment_id": number, "ts": later.isoformat()}
            yield Event(PAYMENTS, customer.encode(), orjson.dumps(payment))


def _spoilt(value: bytes, number: int) -> bytes:
    return value[: len(value) // 2] if number % MALFORMED_EVERY == MALFORMED_EVERY // 2 else value

"""One Kafka broker for all tests of this folder, and a topic name for each."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from rs_assets.testing import KafkaBroker


@pytest.fixture(scope="session")
def broker() -> Iterator[KafkaBroker]:
    """A running broker; a test that stops, kills or pauses it brings it back."""
    with KafkaBroker() as started:
        yield started


@pytest.fixture
def topic(broker: KafkaBroker) -> str:
    """A name that no other test has; the topic is not made yet."""
    # A test that failed half way must not take the next ones with it.
    broker.resume()
    broker.start()
    return f"t-{uuid.uuid4().hex[:12]}"

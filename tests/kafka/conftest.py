"""A topic name for each test; the broker is that of the whole suite."""

from __future__ import annotations

import uuid

import pytest

from rs_assets.testing import KafkaBroker


@pytest.fixture
def topic(broker: KafkaBroker) -> str:
    """A name that no other test has; the topic is not made yet."""
    # A test that failed half way must not take the next ones with it.
    broker.resume()
    broker.start()
    return f"t-{uuid.uuid4().hex[:12]}"

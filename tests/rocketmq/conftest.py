"""A topic name for each test; the broker is that of the whole suite."""

from __future__ import annotations

import uuid

import pytest

from rs_assets.testing import RocketMQServer


@pytest.fixture
def topic(rocketmq: RocketMQServer) -> str:
    """A topic of the test's own, with four queues."""
    # A test that failed half way must not take the next ones with it.
    rocketmq.resume()
    rocketmq.start()
    name = f"t-{uuid.uuid4().hex[:12]}"
    rocketmq.create_topic(name, queues=4)
    return name

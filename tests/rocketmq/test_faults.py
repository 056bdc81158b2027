"""A broker that is killed while a pipeline reads one topic and writes another."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress

import pytest

from rs_assets import StreamBuilder
from rs_assets.errors import RsError
from rs_assets.testing import RocketMQMessage
from tests.kafka.reader import until


@pytest.mark.long
def test_a_broker_that_is_killed_loses_and_doubles_nothing(rocketmq, topic, options):
    target = f"{topic}-out"
    rocketmq.create_topic(target, queues=3)
    begin = StreamBuilder.data_stream("shop", "copied").from_rocketmq(
        rocketmq.cluster, topic, schema="n bigint", max_rows_per_batch=100
    )
    pipeline = begin.to_rocketmq(rocketmq.cluster, target, key="n", delivery="exactly_once").build()

    def send(first, last):
        rocketmq.send(topic, [RocketMQMessage(body=b'{"n": %d}' % n) for n in range(first, last)])

    send(0, 2000)
    running = pipeline.start(options)
    until(lambda: rocketmq.read(target))
    rocketmq.restart()
    send(2000, 3000)
    rocketmq.restart()
    with suppress(RsError):
        running.stop()
    pipeline.run(options)
    found = Counter(json.loads(message.body)["n"] for message in rocketmq.read(target))
    assert found == Counter(range(3000))

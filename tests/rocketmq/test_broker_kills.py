"""A broker that is killed again and again while a pipeline copies one topic into a table and into another topic."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from rs_assets import RunOptions, StreamBuilder
from rs_assets.errors import RsError
from rs_assets.runtime.run.running import RunningPipeline
from rs_assets.stream.pipeline import Pipeline
from rs_assets.testing import RocketMQMessage, RocketMQServer

pytestmark = pytest.mark.long
TAGS = ("paid", "free", "paid", "test")
PER_BATCH = 500
# The pipeline and the broker begin, or a batch ends, on a busy machine.
PATIENCE_S = 120


def waited(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, "nothing goes on"
        time.sleep(0.01)


def copying(server: RocketMQServer, topic: str, out: Path) -> Pipeline:
    """Copies the paid messages of a topic into a table and, exactly once, into another topic."""
    read = StreamBuilder.data_stream("shop", "copied").from_rocketmq(
        server.cluster, topic, tags="paid", schema="n bigint", max_rows_per_batch=PER_BATCH
    )
    read.to_delta(str(out), name="table")
    return read.to_rocketmq(server.cluster, f"{topic}-out", key="n", delivery="exactly_once", name="topic").build()


def version(table: Path) -> int:
    with suppress(TableNotFoundError):
        return DeltaTable(table).version()
    return -1


class Campaign:
    """A stream that is started again whenever the death of its broker ended it."""

    def __init__(self, pipeline: Pipeline, options: RunOptions, table: Path) -> None:
        self.pipeline, self.options, self.table = pipeline, options, table
        self.running: RunningPipeline | None = None
        self.ended = 0

    def goes_on(self) -> None:
        """Start the stream if it does not run."""
        if self.running is not None and self.running.active:
            return
        if self.running is not None:
            self.ended += 1
            self.end()
        self.running = self.pipeline.start(self.options)

    def comes(self, more: int) -> None:
        """Wait until the table has so many more commits; the stream may end meanwhile."""
        assert self.running is not None
        running, first = self.running, version(self.table)
        waited(lambda: version(self.table) >= first + more or not running.active)

    def end(self) -> None:
        if self.running is not None:
            with suppress(RsError):
                self.running.stop()


@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("seed", "messages", "kills"), [(1, 100_000, 20)])
def test_a_broker_that_is_killed_often_loses_and_doubles_nothing(
    rocketmq: RocketMQServer, topic: str, options: RunOptions, tmp_path: Path, seed: int, messages: int, kills: int
) -> None:
    chance, table = random.Random(seed), tmp_path / "copied"
    rocketmq.create_topic(f"{topic}-out", queues=4)
    pipeline = copying(rocketmq, topic, table)
    campaign = Campaign(pipeline, options, table)
    for number in range(kills):
        part = range(messages * number // kills, messages * (number + 1) // kills)
        rocketmq.send(topic, [RocketMQMessage(body=b'{"n": %d}' % n, tags=TAGS[n % 4]) for n in part])
        campaign.goes_on()
        campaign.comes(chance.randint(0, 3))
        threading.Event().wait(chance.random())
        rocketmq.kill()
        threading.Event().wait(chance.random())
        rocketmq.start()
    campaign.end()
    pipeline.run(options)
    expected = Counter(n for n in range(messages) if TAGS[n % 4] == "paid")
    assert Counter(DeltaTable(table).to_pyarrow_table()["n"].to_pylist()) == expected
    assert Counter(json.loads(each.body)["n"] for each in rocketmq.read(f"{topic}-out")) == expected
    print(f"{kills} kills, {campaign.ended} ended the stream, {version(table) + 1} commits")

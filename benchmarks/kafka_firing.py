"""Windows that fire more than once, over records of many keys in Kafka, beside Kafka Streams' windows over the same.

Kafka Streams tells of a window when it closes (`suppress`), of each window that changed between two commits (as it does
by default), or of each record (without a cache). It writes a topic, ours a Delta table; both exactly once.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from benchmarks import kafka_load
from benchmarks.bench import Bench
from benchmarks.by_hand import WATER_MARK_S
from benchmarks.firing import ONCE, WAYS
from benchmarks.kafka import broker_and_peer
from benchmarks.keys import KEYS, REDUCED, row_cost, scaled, windows_of
from benchmarks.measure import Figure, timed
from benchmarks.peers.peer import Peer, settings_of
from benchmarks.pipelines_under_test import fired_windows, reduced_windows
from rs_assets import Pipeline, RunOptions, StreamBuilder, Time
from rs_assets.common.home import Home
from rs_assets.testing.servers.kafka import KafkaBroker

NAME = "Kafka, windows by keys"
STRICT = "lateness by record"
ONE, CHANGES, RECORDS = "once", "updates", "each record"
# What Kafka Streams is told for each; without a cache it tells of each record.
STREAMS: Mapping[str, Mapping[str, str | int]] = MappingProxyType(
    {ONE: {"emit": "final"}, CHANGES: {"emit": "updates"}, RECORDS: {"emit": "updates", "cache": 0}}
)
# Which of them does what is nearest to a way of ours; of the others, `updates`.
NEAREST: Mapping[str, str] = MappingProxyType({ONCE: ONE, STRICT: ONE, REDUCED: ONE, "on_record": RECORDS})
MOST_RUNS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """Records of some keys."""

    bench: Bench
    servers: str
    name: str
    rows: int
    keys: int

    def seconds(self, make: Callable[[Any], Pipeline]) -> float:
        """What a run over all records takes, behind one that warms up."""
        start = StreamBuilder.data_stream("bench", "from_kafka")
        runs = []
        for _ in range(1 + min(self.bench.pairs, MOST_RUNS)):
            with self.bench.place() as folder:
                options = RunOptions(home=Home(folder), driver=self.bench.driver)
                pipeline = make(start.from_kafka(self.servers, self.name, schema=kafka_load.SCHEMA))
                runs.append(timed(lambda p=pipeline, o=options: p.run(o).rows_in)[0])  # type: ignore[misc]
        return statistics.median(taken.seconds for taken in runs[1:])

    def of_peer(self, broker: KafkaBroker, peer: Peer, told: Mapping[str, str | int]) -> float:
        """What Kafka Streams takes from the first record to the commit of the last."""
        runs = []
        for _ in range(min(self.bench.pairs, MOST_RUNS)):
            output = kafka_load.make_output(broker)
            settings = settings_of(self.servers, self.name, output, rows=self.rows)
            runs.append(peer.run("windows", "exactly_once_v2", {**settings, **told}).seconds)
            broker.delete_topic(output)
        return statistics.median(runs)


def kafka_firing_figures(bench: Bench) -> Iterator[Figure]:
    """A broker of its own for all of it."""
    with broker_and_peer(bench, NAME) as (broker, peer):
        for keys in KEYS:
            yield from _figures(_loaded(bench, broker, keys), broker, peer)


def _loaded(bench: Bench, broker: KafkaBroker, keys: int) -> Topic:
    rows = bench.rows - bench.rows % kafka_load.PARTITIONS
    users = scaled(keys, rows, step=kafka_load.PARTITIONS)
    bench.say(f"{NAME}: loading records of {users:,} keys")
    topic = kafka_load.make_topic(broker, f"views-{keys}")
    servers, windows = broker.bootstrap_servers, windows_of(rows, users)
    bench.driver.call(lambda spark: kafka_load.load(spark, servers, topic, rows=rows, users=users, windows=windows))
    return Topic(bench=bench, servers=servers, name=topic, rows=rows, keys=users)


def _figures(topic: Topic, broker: KafkaBroker, peer: Peer | None) -> Iterator[Figure]:
    peers: dict[str, float] = {}
    for name, told in STREAMS.items() if peer else ():
        topic.bench.say(f"{NAME}: {topic.keys:,}, Kafka Streams, {name}")
        peers[name] = topic.of_peer(broker, peer, told)  # type: ignore[arg-type]
    for name, make in _ways().items():
        topic.bench.say(f"{NAME}: {topic.keys:,}, {name}")
        yield from _told(topic, name, topic.seconds(make), peers)


def _ways() -> dict[str, Callable[[Any], Pipeline]]:
    """Once, each way of firing, strict lateness, and a function in Python."""
    mark = Time.seconds(WATER_MARK_S)
    ways = {
        ONCE: (ONCE, lambda windows: windows),
        **WAYS,
        STRICT: (ONCE, lambda windows: windows.water_mark(mark, per="split", lateness="record")),
    }
    made: dict[str, Callable[[Any], Pipeline]] = {
        name: lambda views, e=emit, h=how: fired_windows(views, emit=e, how=h)  # type: ignore[misc]
        for name, (emit, how) in ways.items()
    }
    return made | {REDUCED: reduced_windows}


def _told(topic: Topic, name: str, seconds: float, peers: Mapping[str, float]) -> Iterator[Figure]:
    yield row_cost(NAME, name, keys=topic.keys, rows=topic.rows, seconds=seconds)
    nearest = NEAREST.get(name, CHANGES)
    if nearest in peers:
        yield Figure(
            benchmark=NAME, what=f"{topic.keys:,}: {name}, against Kafka Streams, {nearest}",
            value=seconds / peers[nearest], unit="x", target=1.0,
            note=f"{topic.rows / seconds:,.0f} rows/s against {topic.rows / peers[nearest]:,.0f}",
        )  # fmt: skip

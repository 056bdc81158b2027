"""A table of a compacted topic whose process is killed again and again, and Kafka Streams' table of that topic.

    updates come -> the process begins -> more come -> SIGKILL -> it begins again -> ... -> it reads the rest

Then the newest records of its own compacted topic are those of Kafka Streams and of a dictionary, and another pipeline
reads that topic back as the same table.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from deltalake import DeltaTable

from benchmarks.peers.peer import NO_COMPILER, PEER, Guarantee, Peer, javac, settings_of
from rs_assets import RunOptions
from rs_assets.connectors.kafka.nodes import Delivery
from rs_assets.testing import KafkaBroker, KafkaRecord
from tests.kafka.table_program import FIELDS, copied, table_of
from tests.torture.ledger import Program

pytestmark = pytest.mark.long
GUARANTEES: Mapping[Delivery, Guarantee] = {"at_least_once": "at_least_once", "exactly_once": "exactly_once_v2"}
DELETED, UPDATES_OF_A_KEY = 0.1, 11
PARTITIONS = 2
# The broker compacts while the process is killed, in the smallest segments that it has. A record lives for longer than
# a process is away: a batch that is repeated finds all that it has read.
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "60000",
}
WITHOUT_STREAMS = (
    "the table equals a dictionary; for the jars of Kafka Streams, too:"
    " RS_REQUIRE_SERVERS=1 python -m pytest -m 'faults' tests/kafka/test_table_kills.py"
)
BEGIN = datetime(2026, 1, 5, 10, tzinfo=UTC)
# A start of Spark on a busy machine.
PATIENCE_S, LOOK_S = 300, 0.002

Rows = dict[str, list[Any]]


@dataclass(frozen=True, slots=True)
class Kill:
    """After how many steps of batches since its start the process is killed, and so long after the last of them."""

    steps: int
    after_s: float


def planned(seed: int, count: int) -> list[Kill]:
    """The kills of a seed, in or after one of the first two batches."""
    chance = random.Random(seed)
    return [Kill(chance.randint(1, 6), chance.random() * 0.3) for _ in range(count)]


def updates(seed: int, count: int) -> list[KafkaRecord]:
    """Records of keys, one in ten of them a tombstone."""
    chance = random.Random(seed)
    made = []
    for number in range(count):
        key = f"u{chance.randrange(count // UPDATES_OF_A_KEY)}"
        at = (BEGIN + timedelta(seconds=number)).strftime("%Y-%m-%dT%H:%M:%SZ")
        row = {"id": number, "page": f"/{chance.randrange(50)}", "ts": at, "ms": chance.randrange(1000)}
        deleted = chance.random() < DELETED
        made.append(KafkaRecord(key=key.encode(), value=None if deleted else orjson.dumps(row)))
    return made


def newest(records: Sequence[KafkaRecord]) -> Rows:
    """The fields of the last record of each key that is not deleted."""
    last = {each.key or b"": each.value for each in records}
    return {key.decode(): fields_of(orjson.loads(value)) for key, value in last.items() if value is not None}


def fields_of(row: Mapping[str, Any]) -> list[Any]:
    return [row[name] for name in FIELDS]


def parts(records: Sequence[KafkaRecord], count: int) -> Iterator[Sequence[KafkaRecord]]:
    """The records in so many parts, in their order."""
    for number in range(count):
        yield records[len(records) * number // count : len(records) * (number + 1) // count]


def waited(program: Program, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert program.code is None, f"it ended by itself: {program.told()}"
        assert time.monotonic() < deadline, f"nothing goes on: {program.told()}"
        time.sleep(LOOK_S)


def killed(program: Program, kill: Kill, produce: Callable[[], object]) -> None:
    """Start the program and kill it; what `produce` writes arrives meanwhile."""
    before = size(program.signs)
    with ThreadPoolExecutor(1) as pool:
        program.start()
        try:
            waited(program, lambda: size(program.signs) > before)
            arriving = pool.submit(produce)
            waited(program, lambda: size(program.signs) >= before + kill.steps)
            at = time.monotonic() + kill.after_s
            waited(program, lambda: time.monotonic() >= at)
        finally:
            program.kill()
        arriving.result()


def size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


@dataclass(frozen=True, slots=True)
class Topics:
    """A compacted topic of updates, and one for a table of it."""

    broker: KafkaBroker
    name: str

    def __post_init__(self) -> None:
        for topic in (self.name, self.out):
            self.broker.create_topic(topic, PARTITIONS, COMPACTED)

    @property
    def out(self) -> str:
        return f"{self.name}-out"

    def program(self, delivery: Delivery, home: Path) -> Program:
        """A process that copies the table of the one into the other."""
        signs, servers = home.with_name("signs"), self.broker.bootstrap_servers
        arguments = ("tests.kafka.table_program", servers, self.name, self.out, delivery, home, signs)
        return Program("table", arguments, home.parent, signs)

    def fed(self, records: Sequence[KafkaRecord], program: Program, kills: Sequence[Kill]) -> None:
        """Write the records while the program is killed."""
        for kill, part in zip(kills, parts(records, len(kills)), strict=True):
            half = len(part) // 2
            self.broker.produce(self.name, part[:half])
            killed(program, kill, lambda late=part[half:]: self.broker.produce(self.name, late))  # type: ignore[misc]

    def by_streams(self, peer: Peer, rows: int, guarantee: Guarantee) -> Rows:
        """What Kafka Streams makes of the updates."""
        out = f"{self.name}-streams"
        self.broker.create_topic(out, PARTITIONS)
        settings = settings_of(self.broker.bootstrap_servers, self.name, out, rows=rows)
        peer.run("table", guarantee, {**settings, "compacted": "yes"})
        return newest(self.broker.read(out))


def kafka_streams(folder: Path) -> Peer | None:
    """Kafka Streams, if its jars and a compiler are there, or must be."""
    if os.environ.get("RS_REQUIRE_SERVERS") != "1" and not PEER.complete:
        return None
    folder.mkdir()
    return Peer.make(folder)


def test_a_seed_has_its_updates_and_its_kills() -> None:
    made = updates(7, 1_000)
    assert made == updates(7, 1_000)
    assert 60 < sum(record.value is None for record in made) < 140
    assert [record for part in parts(made, 7) for record in part] == made
    assert planned(7, 20)[:5] == planned(7, 5)


LARGE = [(delivery, 100_000, 20, seed) for seed, delivery in enumerate(GUARANTEES, 1)]


@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("delivery", "count", "kills", "seed"), [("exactly_once", 4_000, 2, 3), *LARGE])
def test_a_table_of_a_compacted_topic_whose_process_is_killed_equals_that_of_kafka_streams(
    broker: KafkaBroker, topic: str, options: RunOptions, tmp_path: Path, delivery: Delivery, count: int, kills: int,
    seed: int,
) -> None:  # fmt: skip
    print(f"seed {seed}: {planned(seed, kills)}")
    records = updates(seed, count)
    topics = Topics(broker, topic)
    topics.fed(records, topics.program(delivery, options.home.root), planned(seed, kills))
    servers = broker.bootstrap_servers
    copied(servers, topic, topics.out, delivery).run(options)
    table = newest(records)
    assert newest(broker.read(topics.out)) == table, f"seed {seed}"
    table_of(servers, topics.out, "back").to_delta("back").build().run(options)
    back = DeltaTable(options.home.table("killed", "back")).to_pyarrow_table().to_pylist()
    assert {row["user"]: fields_of(row) for row in back} == table, f"seed {seed}"
    print(f"{len(table)} keys; {len(broker.read(topic))} records left, {len(broker.read(topics.out))} written")
    peer = kafka_streams(tmp_path / "peer")
    if peer is None:
        pytest.skip(WITHOUT_STREAMS if javac() else NO_COMPILER)
    assert topics.by_streams(peer, len(records), GUARANTEES[delivery]) == table, f"seed {seed}"

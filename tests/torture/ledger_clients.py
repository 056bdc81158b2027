"""Who writes a ledger into Kafka and who reads it, each a program of its own: kafka-python, and nothing of the library.

    python -m tests.torture.ledger_clients produce SERVERS TOPIC STOP NAME
    python -m tests.torture.ledger_clients read SERVERS TOPIC STOP LOG

Both go on until the file STOP is there.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.torture.ledger_check import Entry, Seen

KEYS, PARTITIONS, LARGEST = 7, 3, 30
PAUSE_S = 0.1
# One transaction in so many is given up on purpose.
GIVEN_UP = 8
# What a broker that was killed has lost is not waited for two minutes: the program ends, and is started again.
GIVES_UP = {"request_timeout_ms": 5_000, "delivery_timeout_ms": 10_000, "max_block_ms": 20_000}


def produce(servers: str, topic: str, stop: Path, name: str) -> None:
    """Write transactions of a few entries, and tell of each; what the producer before had open is aborted."""
    chance = random.Random(name)
    producer = KafkaProducer(bootstrap_servers=[servers], transactional_id="ledger", **GIVES_UP)
    producer.init_transactions()
    upcoming = Counter(seen.entry.partition for seen in held(servers, topic))
    for number in count():
        if stop.exists():
            break
        made = [_entry(chance, upcoming, f"{name}.{number}") for _ in range(chance.randint(1, LARGEST))]
        producer.begin_transaction()
        for entry in made:
            producer.send(topic, _dumped(entry), entry.key.encode(), partition=entry.partition)
        if chance.randrange(GIVEN_UP):
            producer.commit_transaction()
        else:
            producer.flush()
            producer.abort_transaction()
            upcoming.subtract(entry.partition for entry in made)
        print(number, len(made), flush=True)
        time.sleep(PAUSE_S)
    producer.close()


def read(servers: str, topic: str, stop: Path, log: Path) -> None:
    """Write down what is committed as it comes, to the end of what is there when STOP is."""
    with log.open("a") as out:
        for seen in _followed(servers, topic, stop):
            entry = seen.entry
            line = [seen.place, seen.offset, entry.partition, entry.number, entry.attempt, entry.key]
            out.write(f"{json.dumps(line)}\n")
            out.flush()


def logged(log: Path) -> list[Seen]:
    """What a reader has written down."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [Seen(place, offset, Entry(*entry)) for place, offset, *entry in lines]


def held(servers: str, topic: str) -> list[Seen]:
    """All that is committed in `topic` now."""
    return list(_followed(servers, topic, stop=None))


def _followed(servers: str, topic: str, stop: Path | None) -> Iterator[Seen]:
    consumer = KafkaConsumer(bootstrap_servers=[servers], enable_auto_commit=False, isolation_level="read_committed")
    with closing(consumer):
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = None
        while ends is None or any(consumer.position(each) < end for each, end in ends.items()):
            if ends is None and (stop is None or stop.exists()):
                ends = consumer.end_offsets(partitions)
            for each, records in consumer.poll(timeout_ms=100).items():
                yield from (Seen(each.partition, record.offset, _loaded(record.value)) for record in records)


def _entry(chance: random.Random, upcoming: Counter[int], attempt: str) -> Entry:
    partition = chance.randrange(PARTITIONS)
    number = upcoming[partition]
    upcoming[partition] += 1
    return Entry(partition, number, attempt, f"k{partition}.{number % KEYS}")


def _dumped(entry: Entry) -> bytes:
    fields = {"partition": entry.partition, "number": entry.number, "attempt": entry.attempt, "key": entry.key}
    return json.dumps(fields).encode()


def _loaded(value: bytes) -> Entry:
    return Entry(**json.loads(value))


if __name__ == "__main__":
    what, servers, topic, stop, last = sys.argv[1:]
    if what == "produce":
        produce(servers, topic, Path(stop), last)
    else:
        read(servers, topic, Path(stop), Path(last))

"""Writes Nexmark's events into existing Kafka topics: the lines that the generator writes into files.

python -m pipelines.nexmark.topics [BROKERS] [EVENTS]

The brokers are those of RS_KAFKA, else localhost:9092. Each kind has a topic. The bids on one auction are in one
partition, in their order.
"""

from __future__ import annotations

import re
import sys

from pipelines.nexmark.generator import EVENTS, LINES, Settings, lines
from pipelines.nexmark.sources import default_servers, topic
from rs_assets import KafkaCluster

# The first field of each kind: the person, the auction, or the auction that is bid on.
KEY = re.compile(r'\{"\w+":(\d+)')


def send(cluster: KafkaCluster, settings: Settings) -> int:
    """Send the events of all kinds; returns their number. Raises the first error that a broker reported."""
    from kafka import KafkaProducer

    producer = KafkaProducer(**cluster.for_python(), linger_ms=5, batch_size=1 << 18)
    try:
        sent = [
            producer.send(topic(kind), line.rstrip("\n").encode(), _key(line))
            for number in range(settings.files)
            for kind in LINES
            for line in lines(kind, number, settings)
        ]
        producer.flush()
        return sum(future.get(timeout=0) is not None for future in sent)
    finally:
        producer.close()


def _key(line: str) -> bytes:
    found = KEY.match(line)
    return found[1].encode() if found else b""


def main() -> None:
    """Send the events once more."""
    servers = sys.argv[1] if len(sys.argv) > 1 else default_servers()
    send(KafkaCluster.of(servers), Settings(events=int(sys.argv[2]) if len(sys.argv) > 2 else EVENTS))


if __name__ == "__main__":
    main()

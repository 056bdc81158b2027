"""SIGKILL at random moments while records flow from Kafka through windows to Kafka and Delta: each result once."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from deltalake import DeltaTable

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.common.home import Home
from rs_assets.connectors.kafka.client.admin import connected, partitions_of
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.testing import KafkaBroker, KafkaRecord
from tests.faults.processes import PATIENCE_S, started

# The short ledger (tests/torture/test_ledger.py) has a kill of this kind for `make test`.
pytestmark = pytest.mark.long

KEYS, PARTITIONS, STEP_MS, WINDOW_MS = 50, 4, 10, 10_000
GROUP = "killed"

PROGRAM = """
import sys
from pathlib import Path

from rs_assets.common.home import Home
from rs_assets import RunOptions, StreamBuilder, Time, TumblingWindow

servers, topic, out, home, batch, finish = sys.argv[1:]
windows = (
    StreamBuilder.data_stream("shop", "killed")
    .from_kafka(servers, topic, group="killed", schema="key string, n bigint, at bigint",
                max_rows_per_batch=int(batch))
    .window(TumblingWindow.of(Time.seconds(10), "at"), name="totals")
    .group_by("key").count("rows").sum("n", "total").water_mark(Time.minutes(1)).to_data_stream()
)
pipeline = windows.to_kafka(servers, out, key="key", delivery="exactly_once").to_delta("totals").build()
pipeline.run(RunOptions(home=Home(Path(home))), finish=finish == "finish")
"""

Result = tuple[str, int, int, int]


def records(count: int) -> list[KafkaRecord]:
    return [
        KafkaRecord(
            key=f"k{n % KEYS}".encode(),
            value=orjson.dumps({"key": f"k{n % KEYS}", "n": n, "at": n * STEP_MS}),
            partition=n % PARTITIONS,
        )
        for n in range(count)
    ]


def expected(count: int) -> list[Result]:
    rows: dict[tuple[str, int], int] = defaultdict(int)
    totals: dict[tuple[str, int], int] = defaultdict(int)
    for n in range(count):
        window = f"k{n % KEYS}", n * STEP_MS // WINDOW_MS * WINDOW_MS
        rows[window] += 1
        totals[window] += n
    return sorted((key, at, rows[key, at], totals[key, at]) for key, at in rows)


def in_topic(broker: KafkaBroker, topic: str) -> list[Result]:
    from datetime import datetime

    values = [orjson.loads(record.value or b"") for record in broker.read(topic)]
    at = [int(datetime.fromisoformat(v["start_time"]).timestamp() * 1000) for v in values]
    return sorted((v["key"], start, v["rows"], v["total"]) for v, start in zip(values, at, strict=True))


def in_table(home: Home) -> list[Result]:
    rows = DeltaTable(home.table("shop", "totals")).to_pyarrow_table().to_pylist()
    return sorted((r["key"], int(r["start_time"].timestamp() * 1000), r["rows"], r["total"]) for r in rows)


def killed_and_run(broker: KafkaBroker, topic: str, home: Home, *, kills: int, batch: int, seed: int) -> int:
    """Kill the run `kills` times and let the last one end; gives the number of kills that met it at work."""
    chance, met = random.Random(seed), 0
    log = CheckpointLog(home.job("shop", "killed") / "g0001" / "totals" / "checkpoint")
    arguments = (broker.bootstrap_servers, topic, f"{topic}-out", home.root, batch)
    for _ in range(kills):
        before = log.last_committed()
        with started(PROGRAM, *arguments, "go") as process:
            deadline = time.monotonic() + PATIENCE_S
            while log.last_committed() <= before and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)
            # Anywhere in the batches that follow: that moment is what is tried.
            time.sleep(chance.random() * 2)
            met += process.poll() is None
    with started(PROGRAM, *arguments, "finish") as process:
        output, _ = process.communicate(timeout=PATIENCE_S * 2)
        assert process.returncode == 0, output.decode()[-3000:]
    return met


def check_ledger(broker: KafkaBroker, topic: str, home: Home) -> None:
    """The catalog's offsets never go back and end where the partitions end, and so does the consumer group."""
    with connected(KafkaCluster.of(broker.bootstrap_servers)) as admin:
        ends = admin.latest(partitions_of(admin.topics([topic])))
        shown = admin.group_offsets(GROUP)
    rows = DeltaTable(str(home.catalog / "checkpoints")).to_pyarrow_table().to_pylist()
    ledger: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        if row["topic"] == "kafka":
            ledger[row["queue"]].append((row["batch_id"], int(row["offset"])))
    assert ledger.keys() == {f"{topic}-{number}" for number in range(PARTITIONS)}
    for split, entries in ledger.items():
        batches, offsets = zip(*sorted(entries), strict=True)
        assert list(batches) == list(range(len(batches))), f"{split}: a batch is missing or there twice"
        assert list(offsets) == sorted(offsets), f"{split}: an offset went back"
        assert offsets[-1] == ends[topic, int(split.rsplit("-", 1)[1])]
    assert shown == ends


@pytest.mark.faults
@pytest.mark.parametrize(
    ("count", "batch", "kills"),
    [
        pytest.param(20_000, 2_000, 2, id="2 kills", marks=pytest.mark.timeout(900)),
        pytest.param(200_000, 1_600, 20, id="20 kills", marks=pytest.mark.timeout(1_800)),
    ],
)
def test_every_result_comes_once_to_table_and_topic(
    broker: KafkaBroker, tmp_path: Path, outcome: Callable[[str, str], None], count: int, batch: int, kills: int
) -> None:
    topic, home, seed = f"killed-{count}", Home(tmp_path), random.randrange(1 << 30)
    broker.create_topic(topic, PARTITIONS)
    broker.create_topic(f"{topic}-out", 2)
    broker.produce(topic, records(count))
    met = killed_and_run(broker, topic, home, kills=kills, batch=batch, seed=seed)
    wanted = expected(count)
    assert in_topic(broker, f"{topic}-out") == wanted, f"seed {seed}"
    assert in_table(home) == wanted, f"seed {seed}"
    check_ledger(broker, topic, home)
    outcome(f"SIGKILL of a driver between Kafka and Kafka, {met} times at work", f"{len(wanted)} results, each once")

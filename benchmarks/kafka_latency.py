"""How long a record takes from one topic of Kafka into another, at a steady rate."""

from __future__ import annotations

import statistics
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from benchmarks.bench import Bench
from benchmarks.kafka_load import SCHEMA
from benchmarks.measure import Figure
from rs_assets import Pipeline, RunOptions, StreamBuilder, Time, TumblingWindow
from rs_assets.common.home import Home
from rs_assets.connectors.kafka.nodes import Delivery
from rs_assets.testing.servers.kafka import KafkaBroker

RATE = 200
# Records for each row that other latencies are measured with: half a second's worth, so 30 s for 60 rows.
RECORDS_PER_ROW = 100
WARM_UP = 5 * RATE
WINDOW_MS = 100
INTERVAL = timedelta(milliseconds=10)
# The first batch compiles code; what is at its end is not measured.
PATIENCE_S = 60

Make = Callable[[str, str, str], Pipeline]
Told = Callable[[Mapping[str, Any]], Iterable[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A pipeline from a topic to a topic. `windowed`: its rows are windows, which the next one's first record closes.

    `told` gives the names of what a row of the output tells of: ids of records, or where windows start. `latency` is
    how the pipeline is started.
    """

    what: str
    make: Make
    told: Told
    windowed: bool = False
    latency: str = "micro-batch"


def _stateless(delivery: Delivery) -> Make:
    def make(servers: str, source: str, sink: str) -> Pipeline:
        stream = StreamBuilder.data_stream("bench", "live").from_kafka(servers, source, schema=SCHEMA)
        return stream.filter("ms >= 0").to_kafka(servers, sink, delivery=delivery).build()

    return make


def _real_time(servers: str, source: str, sink: str) -> Pipeline:
    # Dead letters would need a second look at a batch, which real-time mode has not.
    stream = StreamBuilder.data_stream("bench", "live").from_kafka(servers, source, schema=SCHEMA, bad_records="skip")
    return stream.filter("ms >= 0").to_kafka(servers, sink).build()


def _windowed(servers: str, source: str, sink: str) -> Pipeline:
    stream = StreamBuilder.data_stream("bench", "live").from_kafka(servers, source, schema=SCHEMA)
    windows = stream.window(TumblingWindow.of(Time.milliseconds(WINDOW_MS), "ts")).group_by("user").count("views")
    return windows.water_mark(Time.milliseconds(0)).to_data_stream().to_kafka(servers, sink).build()


def _updates(servers: str, source: str, sink: str) -> Pipeline:
    stream = StreamBuilder.data_stream("bench", "live").from_kafka(servers, source, schema=SCHEMA)
    window = TumblingWindow.of(Time.milliseconds(WINDOW_MS), "ts")
    windows = stream.window(window, emit="on_window_update").group_by("user").count("views").max("id", "last")
    return windows.water_mark(Time.milliseconds(0)).to_data_stream().to_kafka(servers, sink).build()


def _itself(row: Mapping[str, Any]) -> Iterable[int]:
    return (row["id"],)


def _start(row: Mapping[str, Any]) -> Iterable[int]:
    return (_millis(datetime.fromisoformat(row["start_time"])),)


def _counted(row: Mapping[str, Any]) -> Iterable[int]:
    """The records in a window: it has one user, whose ids follow one another."""
    return range(row["last"] - row["views"] + 1, row["last"] + 1)


CASES = (
    Case(what="no state, at least once", make=_stateless("at_least_once"), told=_itself),
    Case(what="no state, exactly once", make=_stateless("exactly_once"), told=_itself),
    Case(what="from the record that closes a window to the window's row", make=_windowed, told=_start, windowed=True),
    Case(what="windowed, updates: from a record to its window's updated row", make=_updates, told=_counted),
    Case(what="no state, in real time", make=_real_time, told=_itself, latency="real-time"),
)


def latency_figures(bench: Bench, broker: KafkaBroker) -> Iterator[Figure]:
    """The median and the 99th percentile of each case."""
    for case in CASES:
        bench.say(f"latency over Kafka: {case.what}")
        took = sorted(_latencies(bench, broker, case))
        for name, value in (("p50", statistics.median(took)), ("p99", took[int(len(took) * 0.99)])):
            yield Figure(
                benchmark=f"Kafka to Kafka, {RATE} records/s",
                what=f"{case.what}, {name}",
                value=value,
                unit="ms",
                note=f"of {len(took):,} rows",
            )


def _latencies(bench: Bench, broker: KafkaBroker, case: Case) -> list[float]:
    """Milliseconds of each row behind the warm-up."""
    source, sink = (f"{kind}-{uuid.uuid4().hex[:8]}" for kind in ("in", "out"))
    for topic in (source, sink):
        broker.create_topic(topic, partitions=1)
    pipeline = case.make(broker.bootstrap_servers, source, sink)
    with bench.place() as folder:
        options = RunOptions(home=Home(folder), driver=bench.driver, interval=INTERVAL)
        with pipeline.start(options, latency=case.latency):  # type: ignore[call-overload]
            arrivals = Arrivals(broker, sink, told=case.told)
            with closing(arrivals):
                sent = _send(broker, source, WARM_UP + bench.latency_rows * RECORDS_PER_ROW, case, arrivals)
    for topic in (source, sink):
        broker.delete_topic(topic)
    took = {name: (arrivals.seen[name] - at) * 1000 for name, at in sent.items() if name in arrivals.seen}
    if len(took) < len(sent):
        raise TimeoutError(f"{case.what}: of {len(sent)} rows {len(took)} arrived within {PATIENCE_S} s")
    return list(took.values())


class Arrivals:
    """Reads committed records of a topic in a thread of its own and notes when each was there."""

    def __init__(self, broker: KafkaBroker, topic: str, *, told: Told) -> None:
        from kafka import KafkaConsumer, TopicPartition

        self.seen: dict[int, float] = {}
        self._told = told
        self._consumer = KafkaConsumer(
            bootstrap_servers=broker.bootstrap_servers,
            group_id=None,
            isolation_level="read_committed",
            enable_auto_commit=False,
        )
        partition = TopicPartition(topic, 0)
        self._consumer.assign([partition])
        self._consumer.seek_to_beginning(partition)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def await_all(self, names: set[int]) -> None:
        """Wait until all were seen, or PATIENCE_S is over."""
        deadline = time.monotonic() + PATIENCE_S
        while not names <= self.seen.keys() and time.monotonic() < deadline:
            self._ended.wait(0.05)

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        while not self._ended.is_set():
            for batch in self._consumer.poll(timeout_ms=20).values():
                now = time.perf_counter()
                for entry in batch:
                    for name in self._told(orjson.loads(entry.value)):
                        self.seen.setdefault(name, now)


def _send(broker: KafkaBroker, topic: str, count: int, case: Case, arrivals: Arrivals) -> dict[int, float]:
    """Send `count` records at RATE; when each row behind the warm-up could be made, by its name."""
    from kafka import KafkaProducer

    due: dict[int, float] = {}
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0)
    with closing(producer):
        # Only when the first batch is over does the clock run.
        producer.send(topic, _record(-1, datetime.now(UTC))).get(PATIENCE_S)
        if not case.windowed:
            arrivals.await_all({-1})
        began, window = time.perf_counter(), 0
        for number in range(count):
            wait = began + number / RATE - time.perf_counter()
            if wait > 0:
                threading.Event().wait(wait)
            at, now = datetime.now(UTC), time.perf_counter()
            producer.send(topic, _record(number, at))
            this = _millis(at) // WINDOW_MS * WINDOW_MS
            if case.windowed and window and this > window and number >= WARM_UP:
                due[window] = now
            elif not case.windowed and number >= WARM_UP:
                due[number] = now
            window = this
        producer.flush()
        arrivals.await_all(set(due))
    return due


def _millis(at: datetime) -> int:
    return int(at.timestamp() * 1000 + 0.5)


def _record(number: int, at: datetime) -> bytes:
    row: dict[str, Any] = {"id": number, "user": "u0001", "page": "/", "ts": at.isoformat(), "ms": 1, "note": ""}
    return orjson.dumps(row)

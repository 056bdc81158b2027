"""Kafka to Kafka and Kafka to Delta: ours, the same by hand in PySpark, and Kafka Streams, on one broker in turns."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks import kafka_load, kafka_queries
from benchmarks.bench import Bench
from benchmarks.by_hand import Sink
from benchmarks.kafka_latency import latency_figures
from benchmarks.measure import Comparison, DifferentResultsError, Figure, Taken, timed
from benchmarks.peers.peer import NO_COMPILER, VERSION, Guarantee, Mode, Peer, settings_of
from rs_assets import Pipeline, RunOptions
from rs_assets.common.home import Home
from rs_assets.connectors.kafka.nodes import Delivery
from rs_assets.testing.servers.kafka import KafkaBroker

MOST_BY_HAND = 1.05
# A run of a peer starts a Java of its own and takes as long as all others together.
PEER_RUNS = 3
BROKER_HEAP_MB = 512
# Test brokers compile with the quick compiler alone, because they live for seconds.
BROKER_JAVA = ("-XX:TieredStopAtLevel=4",)
HAND = "PySpark by hand"
STREAMS: Mapping[Guarantee, str] = {
    "at_least_once": f"Kafka Streams {VERSION}, at least once",
    "exactly_once_v2": f"Kafka Streams {VERSION}, exactly once",
}
OURS: Mapping[Delivery, str] = {"at_least_once": "ours, at least once", "exactly_once": "ours, exactly once"}
OUR_WINDOWS = "ours, exactly once into Delta"
HAND_WINDOWS: Mapping[Sink, str] = {
    "parquet": f"{HAND} writing Parquet",
    "delta": f"{HAND} writing Delta (JVM connector)",
}

# What the output held: rows, and a sum or two over them.
Result = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One run of one way."""

    taken: Taken
    result: Result


Way = Callable[[], Ran]
# What is compared of the records of an output.
Look = Callable[[DataFrame], DataFrame]


@contextmanager
def broker_and_peer(bench: Bench, name: str) -> Iterator[tuple[KafkaBroker, Peer | None]]:
    """A broker of its own for the benchmark `name`, and Kafka Streams, if there is a compiler for it."""
    with ExitStack() as stack:
        bench.say(f"{name}: starting a broker")
        broker = stack.enter_context(KafkaBroker(heap_mb=BROKER_HEAP_MB, java_options=BROKER_JAVA))
        peer = Peer.make(Path(stack.enter_context(tempfile.TemporaryDirectory(dir=bench.folder))))
        if peer is None:
            bench.say(NO_COMPILER)
        yield broker, peer


def kafka_figures(bench: Bench) -> Iterator[Figure]:
    """A broker of its own for all of it."""
    with broker_and_peer(bench, "Kafka") as (broker, peer):
        ways = Ways(bench=bench, broker=broker, peer=peer, rows=bench.rows - bench.rows % kafka_load.PARTITIONS)
        bench.say(f"Kafka: loading {ways.rows:,} records")
        kafka_load.make_topic(broker, kafka_queries.INPUT)
        servers = broker.bootstrap_servers
        bench.driver.call(lambda spark: kafka_load.load(spark, servers, kafka_queries.INPUT, rows=ways.rows))
        yield from _filter(ways)
        yield from _windows(ways)
        yield from latency_figures(bench, broker)


def _filter(ways: Ways) -> Iterator[Figure]:
    name = "Kafka to Kafka, half kept"
    ran = in_turns(ways.bench, name, ways.filters())
    for delivery, target in (("at_least_once", MOST_BY_HAND), ("exactly_once", None)):
        ours = OURS[delivery]  # type: ignore[index]
        yield against(name, ran, ours, HAND, ways.rows, target=target)
        streams = STREAMS["at_least_once" if delivery == "at_least_once" else "exactly_once_v2"]
        if streams in ran:
            yield against(name, ran, ours, streams, ways.rows)


def _windows(ways: Ways) -> Iterator[Figure]:
    name = "Kafka, 10 s windows"
    ran = in_turns(ways.bench, name, ways.windows())
    for hand in HAND_WINDOWS.values():
        yield against(name, ran, OUR_WINDOWS, hand, ways.rows, target=MOST_BY_HAND)
    for streams in STREAMS.values():
        if streams in ran:
            yield against(name, ran, OUR_WINDOWS, streams, ways.rows)


def in_turns(bench: Bench, name: str, ways: Mapping[str, Way]) -> dict[str, list[Ran]]:
    """All ways in turns, the order reversed each time; DifferentResultsError if their outputs are not the same."""
    ran: dict[str, list[Ran]] = {way: [] for way in ways}
    for number in range(-bench.warm_up, bench.pairs):
        order = sorted(ways, reverse=bool(number % 2))
        # A peer is a fresh Java each time: there is nothing to warm up.
        now = [way for way in order if way not in STREAMS.values() or 0 <= number < PEER_RUNS]
        found: dict[str, Result] = {}
        for way in now:
            bench.say(f"{name}: {way}, {'warm-up' if number < 0 else f'{number + 1} of {bench.pairs}'}")
            one = ways[way]()
            found[way] = one.result
            if number >= 0:
                ran[way].append(one)
        if len(set(found.values())) > 1:
            raise DifferentResultsError(f"{name}: the outputs differ: {found}")
    return ran


def against(
    benchmark: str, ran: Mapping[str, list[Ran]], ours: str, other: str, rows: int, *, target: float | None = None
) -> Figure:
    """How the time of one way compares with that of another."""
    pairs = list(zip(ran[ours], ran[other], strict=False))
    result = Comparison(ours=tuple(a.taken for a, _ in pairs), other=tuple(b.taken for _, b in pairs))
    first, second = (rows / statistics.median(t.seconds for t in taken) for taken in (result.ours, result.other))
    # The processor time of a peer is not ours to see: it has ended.
    cpu = f"; processor time {result.cpu_ratio:.2f}" if other not in STREAMS.values() else ""
    note = f"{first / 1000:,.0f} k rows/s against {second / 1000:,.0f} k, median of {len(pairs)}{cpu}"
    return Figure(
        benchmark=benchmark, what=f"{ours}, against {other}", value=result.ratio, unit="x", target=target, note=note
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """The ways to do each thing; what is timed is the run alone, then its output is looked at and removed."""

    bench: Bench
    broker: KafkaBroker
    peer: Peer | None
    rows: int

    def filters(self) -> dict[str, Way]:
        """Kafka to Kafka."""
        servers, driver = self.broker.bootstrap_servers, self.bench.driver
        made: dict[str, Way] = {
            HAND: lambda: self._to_topic(
                lambda topic, folder: driver.call(
                    lambda spark: kafka_queries.run_filter_by_hand(spark, servers, topic, folder)
                )
            )
        }
        for delivery, name in OURS.items():
            made[name] = lambda d=delivery: self._to_topic(  # type: ignore[misc]
                lambda topic, folder: self._run(kafka_queries.our_filter(servers, topic, delivery=d), folder)
            )
        return made | self._peers("filter", _sums_of_json)

    def windows(self) -> dict[str, Way]:
        """Kafka to Delta; the peer has no Delta and writes a topic."""
        servers, driver = self.broker.bootstrap_servers, self.bench.driver
        made: dict[str, Way] = {
            OUR_WINDOWS: lambda: self._to_table(
                lambda folder: self._run(kafka_queries.our_windows(servers), folder),
                lambda folder: Home(folder).table("bench", "per_user"),
            ),
        }
        for sink, name in HAND_WINDOWS.items():
            made[name] = lambda s=sink: self._to_table(  # type: ignore[misc]
                lambda folder: driver.call(
                    lambda spark: kafka_queries.run_windows_by_hand(spark, servers, folder, sink=s)
                ),
                lambda folder: folder / "rows",
            )
        return made | self._peers("windows", _sum_of_longs)

    def _peers(self, mode: Mode, look: Look) -> dict[str, Way]:
        if self.peer is None:
            return {}
        return {
            name: lambda g=guarantee: self._of_peer(self.peer, mode, g, look)  # type: ignore[misc]
            for guarantee, name in STREAMS.items()
        }

    def _run(self, pipeline: Pipeline, folder: Path) -> None:
        pipeline.run(RunOptions(home=Home(folder), driver=self.bench.driver))

    def _to_topic(self, run: Callable[[str, Path], None], look: Look | None = None) -> Ran:
        topic = kafka_load.make_output(self.broker)
        with self.bench.place() as folder:
            taken, _ = timed(lambda: run(topic, folder) or 0)  # type: ignore[func-returns-value]
        return Ran(taken=taken, result=self._look(topic, look or _sums_of_json))

    def _to_table(self, run: Callable[[Path], None], table: Callable[[Path], Path | str]) -> Ran:
        with self.bench.place() as folder:
            taken, _ = timed(lambda: run(folder) or 0)  # type: ignore[func-returns-value]
            return Ran(taken=taken, result=_sum_of_table(Path(table(folder))))

    def _of_peer(self, peer: Peer, mode: Mode, guarantee: Guarantee, look: Look) -> Ran:
        topic = kafka_load.make_output(self.broker)
        settings = settings_of(self.broker.bootstrap_servers, kafka_queries.INPUT, topic, rows=self.rows)
        told = peer.run(mode, guarantee, {**settings, "emit": "final", "least": kafka_load.LEAST_MS})
        return Ran(taken=Taken(seconds=told.seconds, cpu_s=0.0), result=self._look(topic, look))

    def _look(self, topic: str, look: Look) -> Result:
        """What readers of committed records find in `topic`, which goes away."""
        options = {
            "kafka.bootstrap.servers": self.broker.bootstrap_servers,
            "subscribe": topic,
            "kafka.isolation.level": "read_committed",
        }

        def found(spark: SparkSession) -> Result:
            return tuple(look(spark.read.format("kafka").options(**options).load()).first() or ())

        result = self.bench.driver.call(found)
        self.broker.delete_topic(topic)
        return result


def _sums_of_json(records: DataFrame) -> DataFrame:
    fields = F.from_json(F.col("value").cast("string"), "id bigint, ms bigint")
    return records.select(fields.alias("v")).agg(F.count(F.lit(1)), F.sum("v.id"), F.sum("v.ms"))


def _sum_of_longs(records: DataFrame) -> DataFrame:
    number = F.conv(F.hex("value"), 16, 10).cast("bigint")
    return records.agg(F.count(F.lit(1)), F.sum(number))


def _sum_of_table(path: Path) -> Result:
    import pyarrow.compute as pc
    import pyarrow.dataset as ds
    from deltalake import DeltaTable

    # Spark's own sink keeps a log of its files; each run has a folder to itself, so all of them count.
    is_delta = (path / "_delta_log").exists()
    rows = DeltaTable(path).to_pyarrow_dataset() if is_delta else ds.dataset(sorted(path.glob("*.parquet")))
    views = rows.to_table(columns=["views"]).column("views")
    return len(views), pc.sum(views).as_py()

"""Tables of many keys from a topic into a compacted topic, beside the `KTable` of Kafka Streams over the same records.

Both keep the newest record of each key in RocksDB and send what changed: Kafka Streams between two commits, ours in a
batch. The newest records of the outputs are the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks import kafka_load, kafka_queries
from benchmarks.bench import Bench
from benchmarks.kafka import OURS, STREAMS, Way, Ways, against, broker_and_peer, in_turns
from benchmarks.keys import scaled
from benchmarks.measure import Figure
from benchmarks.tables import KEYS
from rs_assets import Pipeline, StreamBuilder
from rs_assets.connectors.kafka.nodes import Delivery

NAME = "Kafka, tables by keys"


class TableWays(Ways):
    """A table from a topic into a topic."""

    def tables(self) -> dict[str, Way]:
        """All ways by name."""
        servers = self.broker.bootstrap_servers
        made: dict[str, Way] = {
            name: lambda d=delivery: self._to_topic(  # type: ignore[misc]
                lambda topic, folder: self._run(_our_table(servers, topic, d), folder), _newest
            )
            for delivery, name in OURS.items()
        }
        return made | self._peers("table", _newest)


def kafka_table_figures(bench: Bench) -> Iterator[Figure]:
    """A broker of its own for all of it."""
    with broker_and_peer(bench, NAME) as (broker, peer):
        if peer is None:
            return
        keys = scaled(KEYS, bench.rows) // kafka_load.PARTITIONS * kafka_load.PARTITIONS
        ways = TableWays(bench=bench, broker=broker, peer=peer, rows=bench.rows - bench.rows % kafka_load.PARTITIONS)
        bench.say(f"{NAME}: loading {ways.rows:,} records of {keys:,} keys")
        kafka_load.make_topic(broker, kafka_queries.INPUT)
        servers = broker.bootstrap_servers
        bench.driver.call(
            lambda spark: kafka_load.load(spark, servers, kafka_queries.INPUT, rows=ways.rows, users=keys)
        )
        ran = in_turns(bench, NAME, ways.tables())
        for ours, streams in zip(OURS.values(), STREAMS.values(), strict=True):
            yield against(NAME, ran, ours, streams, ways.rows)


def _our_table(servers: str, output: str, delivery: Delivery) -> Pipeline:
    views = StreamBuilder.data_stream("bench", "table").from_kafka(
        servers, kafka_queries.INPUT, schema=kafka_load.SCHEMA
    )
    return views.to_table("user").to_kafka(servers, output, delivery=delivery).build()


def _newest(records: DataFrame) -> DataFrame:
    """How many keys there are, and sums over their newest records."""
    newest = records.groupBy("key").agg(F.max_by("value", F.struct("partition", "offset")).alias("value"))
    fields = F.from_json(F.col("value").cast("string"), "id bigint, ms bigint")
    return newest.select(fields.alias("v")).agg(F.count(F.lit(1)), F.sum("v.id"), F.sum("v.ms"))

"""Input for the Kafka benchmarks: a topic of page views as JSON, in order of time within each partition."""

from __future__ import annotations

import uuid

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.data import START, USERS, WINDOW_S, WINDOWS
from rs_assets.testing.servers.kafka import KafkaBroker

SCHEMA = "id bigint, user string, page string, ts timestamp, ms bigint, note string"
PARTITIONS = 4
PAGES = 50
# The length of a record, to which `note` fills it up.
RECORD_BYTES = 120
# Milliseconds are evenly spread over 0 to MS; the filter keeps half of the rows.
MS, LEAST_MS = 1000, 500
# Beside broker and driver on two cores, the largest batches that pay; the default of 16 kB is half as fast.
_PRODUCER = {"kafka.linger.ms": "20", "kafka.batch.size": "262144"}


def make_topic(broker: KafkaBroker, topic: str, *, partitions: int = PARTITIONS) -> str:
    """An empty topic."""
    broker.create_topic(topic, partitions=partitions)
    return topic


def make_output(broker: KafkaBroker) -> str:
    """An empty topic for one run, whose name no other has."""
    return make_topic(broker, f"out-{uuid.uuid4().hex[:8]}")


def load(
    spark: SparkSession, servers: str, topic: str, *, rows: int, users: int = USERS, windows: int = WINDOWS
) -> None:
    """Write `rows` records into `topic`, each keyed by its user, who is in one partition.

    One task writes a partition, so that it lies in order of time; all partitions cover the same time, so that windows
    which end before the last of them close in every processor.
    """
    made = records(spark, rows=rows, users=users, windows=windows)
    written = made.write.format("kafka").options(**_PRODUCER)
    written.option("kafka.bootstrap.servers", servers).option("topic", topic).save()


def records(spark: SparkSession, *, rows: int, users: int = USERS, windows: int = WINDOWS) -> DataFrame:
    """`partition`, `key` and `value` of each record; `rows` and `users` must be multiples of PARTITIONS."""
    per_partition = rows // PARTITIONS
    number = F.col("id") % per_partition
    partition = F.floor(F.col("id") / per_partition).cast("int")
    row = number * PARTITIONS + partition
    # A fixed mixture instead of a random number: the same rows on every machine, and at every partitioning.
    mixed = F.abs(F.xxhash64(row))
    user = F.pmod(mixed, F.lit(users // PARTITIONS)) * PARTITIONS + partition
    at = F.timestamp_millis(F.lit(int(START.timestamp() * 1000)) + F.floor(row * WINDOW_S * windows * 1000 / rows))
    made = spark.range(0, per_partition * PARTITIONS, 1, PARTITIONS).select(
        partition.alias("partition"),
        row.alias("row"),
        F.format_string("u%04d", user).alias("key"),
        F.concat(F.lit("/page/"), F.pmod(F.shiftright(mixed, 16), F.lit(PAGES))).alias("page"),
        F.date_format(at, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'").alias("ts"),
        F.pmod(F.shiftright(mixed, 32), F.lit(MS)).alias("ms"),
    )
    text = F.concat(
        F.lit('{"id":'), "row", F.lit(',"user":"'), "key", F.lit('","page":"'), "page",
        F.lit('","ts":"'), "ts", F.lit('","ms":'), "ms", F.lit(',"note":"'),
    )  # fmt: skip
    return made.select("partition", "key", F.concat(F.rpad(text, RECORD_BYTES - 2, "x"), F.lit('"}')).alias("value"))

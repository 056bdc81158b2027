"""The queries of the Kafka benchmarks: our pipelines, and the same as somebody would write them in plain PySpark."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.by_hand import WATER_MARK_S, Sink
from benchmarks.data import WINDOW_S
from benchmarks.kafka_load import LEAST_MS, SCHEMA
from rs_assets import Pipeline, StreamBuilder, Time, TumblingWindow
from rs_assets.connectors.kafka.nodes import Delivery

# Both read batches of the same size: what ours reads without being told otherwise.
ROWS_PER_BATCH = 1_000_000
INPUT = "views"
COLUMNS = ("id", "user", "page", "ts", "ms", "note")


def our_filter(servers: str, output: str, *, delivery: Delivery, job: str = "rare") -> Pipeline:
    """Kafka to Kafka; half of the rows are kept."""
    views = StreamBuilder.data_stream("bench", job).from_kafka(servers, INPUT, schema=SCHEMA)
    kept = views.filter(f"ms >= {LEAST_MS}")
    return kept.to_kafka(servers, output, key="user", delivery=delivery).build()


def our_windows(servers: str) -> Pipeline:
    """Kafka to Delta: views of each user in each window."""
    views = StreamBuilder.data_stream("bench", "per_user").from_kafka(servers, INPUT, schema=SCHEMA)
    windows = views.window(TumblingWindow.of(Time.seconds(WINDOW_S), "ts")).group_by("user").count("views")
    return windows.water_mark(Time.seconds(WATER_MARK_S)).to_data_stream().to_delta("per_user").build()


def run_filter_by_hand(spark: SparkSession, servers: str, output: str, folder: Path) -> None:
    """Process all there is, with a fresh checkpoint."""
    kept = _views(spark, servers).filter(F.col("ms") >= LEAST_MS)
    made = kept.select(F.col("user").alias("key"), F.to_json(F.struct(*COLUMNS)).alias("value"))
    writer = made.writeStream.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", output)
    writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()


def run_windows_by_hand(spark: SparkSession, servers: str, folder: Path, *, sink: Sink) -> None:
    """Process all there is into `folder`, as Parquet or by Delta's own connector, with a fresh checkpoint."""
    counts = (
        _views(spark, servers)
        .withWatermark("ts", f"{WATER_MARK_S} seconds")
        .groupBy(F.window("ts", f"{WINDOW_S} seconds").alias("w"), "user")
        .agg(F.count(F.lit(1)).alias("views"))
        .select("user", "views", F.col("w.start").alias("start_time"), F.col("w.end").alias("end_time"))
    )
    writer = counts.writeStream.format(sink).outputMode("append").trigger(availableNow=True)
    writer.option("checkpointLocation", str(folder / "checkpoint")).start(str(folder / "rows")).awaitTermination()


def _views(spark: SparkSession, servers: str) -> DataFrame:
    # A session that evolves its sources, as ours, asks for names.
    reader = spark.readStream.name(INPUT).format("kafka").option("kafka.bootstrap.servers", servers)
    records = reader.option("subscribe", INPUT).option("startingOffsets", "earliest")
    parsed = records.option("maxOffsetsPerTrigger", ROWS_PER_BATCH).load()
    return parsed.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("v")).select("v.*")

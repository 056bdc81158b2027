"""The same queries as somebody would write them in plain PySpark."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.data import RARE_PAGE, SCHEMA, WINDOW_S

Sink = Literal["parquet", "delta"]
WATER_MARK_S, MINUTE_S = 5, 60


def filter_query(spark: SparkSession, source: Path) -> DataFrame:
    """The rows of the rare page."""
    return _views(spark, source).filter(F.col("page") == RARE_PAGE)


def window_query(spark: SparkSession, source: Path) -> DataFrame:
    """Views and milliseconds of each user in each window."""
    return (
        _views(spark, source)
        .withWatermark("ts", f"{WATER_MARK_S} seconds")
        .groupBy(F.window("ts", f"{WINDOW_S} seconds").alias("w"), "user")
        .agg(F.count(F.lit(1)).alias("views"), F.sum("ms").alias("total_ms"))
        .select("user", "views", "total_ms", F.col("w.start").alias("start_time"), F.col("w.end").alias("end_time"))
    )


def chained_query(spark: SparkSession, source: Path) -> DataFrame:
    """Users and views of each minute, from the windows of ten seconds."""
    spark.conf.set("spark.sql.streaming.statefulOperator.allowMultiple", value=True)
    tens = (
        _views(spark, source)
        .withWatermark("ts", f"{WATER_MARK_S} seconds")
        .groupBy(F.window("ts", f"{WINDOW_S} seconds").alias("w"), "user")
        .agg(F.count(F.lit(1)).alias("views"))
    )
    return (
        tens.groupBy(F.window(F.window_time("w"), f"{MINUTE_S} seconds").alias("w"))
        .agg(F.count(F.lit(1)).alias("users"), F.sum("views").alias("views"))
        .select("users", "views", F.col("w.start").alias("start_time"), F.col("w.end").alias("end_time"))
    )


def run(query: DataFrame, folder: Path, *, sink: Sink) -> int:
    """Process all there is into `folder`, with a fresh checkpoint; the number of rows written."""
    writer = query.writeStream.format(sink).outputMode("append").trigger(availableNow=True)
    running = writer.option("checkpointLocation", str(folder / "checkpoint")).start(str(folder / "rows"))
    running.awaitTermination()
    return rows_below(folder / "rows")


def rows_below(folder: Path) -> int:
    """The rows in all Parquet files below `folder`, read from their footers: runs here only ever add."""
    import pyarrow.parquet as pq

    files = (f for f in folder.rglob("*.parquet") if "_delta_log" not in f.parts)
    return sum(pq.read_metadata(f).num_rows for f in files)


def _views(spark: SparkSession, source: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).name("views").json(str(source))

"""Common parts of array and memory channel: their rows are in a folder of Parquet files, which Spark reads."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rs_assets.checkpoint.source_log import SourceBatch
from rs_assets.connectors.files.whole import spark_files as native
from rs_assets.connectors.source import Reading


def spool_stream(reading: Reading, folder: Path, schema: StructType, *, split: str) -> DataFrame:
    """The rows of a spool folder as a stream."""
    rows = native.read_spool(reading.spark, name=reading.name, folder=folder, schema=schema)
    return rows.withColumns(native.spool_address(schema, split=split)) if reading.positioned else rows


def spool_batch(reading: Reading, batch: SourceBatch, schema: StructType, *, split: str) -> DataFrame:
    """The rows of the spool files that a batch planned."""
    files = [str(file.local) for file in batch.files]
    return native.read_spool_files(reading.spark, files=files, schema=schema, split=split)


def spool_order() -> tuple[Column, Column, Column]:
    """The names of spool files are ordered by row number."""
    return F.lit(None), F.col("_metadata.file_name"), F.col("_metadata.file_block_start")

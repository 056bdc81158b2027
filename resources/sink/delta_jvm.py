"""The Delta connector inside Spark, with the marker of the native one; it checks each rule of a table by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from resources.source.parse import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from resources.sink.base import BatchMark

# Session settings for the marker of a MERGE; Delta has no writer option for those.
TXN_APP, TXN_VERSION = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"


def write_jvm(frame: DataFrame, path: str, mark: BatchMark, *, replaces: bool) -> None:
    """Append `frame`, or replace the table by it."""
    writer = frame.write.format("delta").mode("overwrite" if replaces else "append")
    writer.option("txnAppId", mark.writer).option("txnVersion", mark.batch_id).save(path)


def merge_jvm(frame: DataFrame, path: str, mark: BatchMark, *, keys: Sequence[str]) -> None:
    """Replace the rows of the same keys in the table at `path`."""
    from delta.tables import DeltaTable as JvmTable

    session = frame.sparkSession
    condition = " AND ".join(f"t.{quoted(k)} <=> s.{quoted(k)}" for k in keys)
    session.conf.set(TXN_APP, mark.writer)
    session.conf.set(TXN_VERSION, mark.batch_id)
    try:
        merge = JvmTable.forPath(session, path).alias("t").merge(frame.alias("s"), condition)
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    finally:
        session.conf.unset(TXN_APP)
        session.conf.unset(TXN_VERSION)

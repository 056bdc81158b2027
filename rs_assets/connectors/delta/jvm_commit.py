"""Writes by the Delta connector inside Spark, with our marker; that connector itself checks the rules of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rs_assets.connectors.delta.log.commit_info import as_user_metadata
from rs_assets.connectors.delta.merge import both, not_older, same, stays

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rs_assets.connectors.sink import BatchMark

# Session settings for the marker of a MERGE; Delta has no writer option for them.
TXN_APP, TXN_VERSION = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
COMMENT = "spark.databricks.delta.commitInfo.userMetadata"


def write_jvm(
    frame: DataFrame,
    path: str,
    mark: BatchMark,
    *,
    replaces: bool,
    partition_by: Sequence[str],
    configuration: Mapping[str, str | None],
) -> None:
    """Append `frame`, or replace the table by it; a new table has the properties of `configuration`."""
    writer = frame.write.format("delta").mode("overwrite" if replaces else "append").options(**configuration)
    writer.option("userMetadata", as_user_metadata(mark))
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    writer.option("txnAppId", mark.writer).option("txnVersion", mark.batch_id).save(path)


def merge_jvm(
    frame: DataFrame,
    path: str,
    mark: BatchMark,
    *,
    keys: Sequence[str],
    order_by: Sequence[str],
    deletes: str | None = None,
) -> None:
    """Replace the rows of the same keys in the table at `path`, except rows that are newer by `order_by`.

    Rows are deleted where the field `deletes` is true.
    """
    from delta.tables import DeltaTable as JvmTable

    conf = frame.sparkSession.conf
    metadata = {TXN_APP: mark.writer, TXN_VERSION: str(mark.batch_id), COMMENT: as_user_metadata(mark)}
    for name, value in metadata.items():
        conf.set(name, value)
    try:
        merge = (
            JvmTable.forPath(frame.sparkSession, path)
            .alias("t")
            .merge(frame.alias("s"), " AND ".join(same(key) for key in keys))
        )
        newer, stay = not_older(order_by), None if deletes is None else stays("s.", deletes)
        if stay is not None:
            merge = merge.whenMatchedDelete(both(newer, f"NOT {stay}"))
        merge.whenMatchedUpdateAll(newer).whenNotMatchedInsertAll(stay).execute()
    finally:
        for name in metadata:
            conf.unset(name)

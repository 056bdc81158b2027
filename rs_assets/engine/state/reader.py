"""The state of a query as rows, by Spark's state reader; the query may be running."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from rs_assets.errors import CheckpointError

KEY, VALUE, PARTITION, BATCH, CHANGE = "key", "value", "partition", "batch_id", "change"
# Null fields are written: a key must not change when a field of it becomes null.
AS_JSON: Mapping[str, str] = MappingProxyType({"ignoreNullFields": "false"})
DELETED = "delete"


def state_rows(spark: SparkSession, checkpoint: Path, *, batch_id: int | None = None) -> DataFrame:
    """Key and value (JSON text) and partition of every row of state, after batch `batch_id` (None: the last one).

    CheckpointError if that batch is not there any more.
    """
    return _as_json(_load(spark, checkpoint, {} if batch_id is None else {"batchId": batch_id})).select(
        KEY, VALUE, PARTITION
    )


def state_changes(spark: SparkSession, checkpoint: Path, *, first: int, last: int) -> DataFrame:
    """The last change of each key in the batches `first` to `last`: key, value, partition, batch_id, change.

    `change` is `update` or `delete`; a deleted key has no value. CheckpointError if the files do not reach back.
    """
    options = {"readChangeFeed": "true", "changeStartBatchId": first, "changeEndBatchId": last}
    frame = _as_json(_load(spark, checkpoint, options).withColumnRenamed("change_type", CHANGE))
    newest = F.max_by(F.struct(VALUE, PARTITION, BATCH, CHANGE), BATCH).alias("_last")
    return frame.groupBy(KEY).agg(newest).select(KEY, "_last.*")


def state_frame(spark: SparkSession, checkpoint: Path, *, batch_id: int | None = None) -> DataFrame:
    """The state as Spark gives it: key and value as structs whose fields have names of their own."""
    return _named(_load(spark, checkpoint, {} if batch_id is None else {"batchId": batch_id}))


def _load(spark: SparkSession, checkpoint: Path, options: Mapping[str, object]) -> DataFrame:
    # Spark 4.2.0 makes what the reader needs only with the first look at its streams.
    _ = spark.streams.active
    reader = spark.read.format("statestore").option("path", str(checkpoint))
    for name, value in options.items():
        reader = reader.option(name, str(value))
    try:
        return reader.load()
    except Exception as error:
        raise CheckpointError(
            f"the state cannot be read: {str(error).splitlines()[0][:300]}",
            remedy="name a batch whose state is still there; Spark keeps that of the last 100 or so",
            file=checkpoint,
            **{name: value for name, value in options.items() if "Batch" in name},
        ) from error


def _as_json(frame: DataFrame) -> DataFrame:
    named = _named(frame)
    return (
        named.withColumn(KEY, F.to_json(KEY, dict(AS_JSON)))
        .withColumn(VALUE, F.to_json(VALUE, dict(AS_JSON)))
        .withColumnRenamed("partition_id", PARTITION)
    )


def _named(frame: DataFrame) -> DataFrame:
    """Aggregation buffers have fields of one name (`sum`, `sum`): number them, so that each can be addressed."""
    return frame.withColumn(VALUE, F.col(VALUE).cast(unique_names(frame.schema[VALUE].dataType)))


def unique_names(kind: DataType) -> DataType:
    """A struct type whose repeated field names are numbered: sum, sum_2."""
    if not isinstance(kind, StructType):
        return kind
    seen: dict[str, int] = {}
    fields = []
    for field in kind.fields:
        place = seen[field.name] = seen.get(field.name, 0) + 1
        name = field.name if place == 1 else f"{field.name}_{place}"
        fields.append(StructField(name, field.dataType, field.nullable))
    return StructType(fields)

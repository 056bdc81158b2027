"""Reads the state of a query as rows, by Spark's state reader; the query may be running."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from rs_assets.errors import CheckpointError
from rs_assets.operators.state.exchange import location_of

KEY, VALUE, PARTITION, BATCH, CHANGE = "key", "value", "partition", "batch_id", "change"
# Null fields are written: a key must not change when a field of it becomes null.
AS_JSON: Mapping[str, str] = MappingProxyType({"ignoreNullFields": "false"})
DELETED = "delete"
# The reader's option that names a store.
STORE = "storeName"
# The reader's names of key and value of a processor's map, of which a key of state has several.
MAP_KEY, MAP_VALUE = "user_map_key", "user_map_value"
# The name of such a row's key in our keys.
PART = "_part"
# The only field of such a key where a processor keeps the keys of many: they are the keys of its map.
BUCKET = "bucket"


@dataclass(frozen=True, slots=True)
class StateOf:
    """The state of one step in the checkpoint of a query, by the number of its operator in Spark.

    `variable` is the name of the state of a processor, which may have several; None for Spark's own operators. `stores`
    maps our names to the stores of an operator that has several, of a join one a side; `keys` are the names of the
    fields of their keys, which Spark only numbers.
    """

    checkpoint: Path
    operator: int = 0
    variable: str | None = None
    stores: Mapping[str, str] | None = None
    keys: tuple[str, ...] = ()


def state_rows(spark: SparkSession, state: StateOf, *, batch_id: int | None = None) -> DataFrame:
    """Key and value (JSON text) and partition of every row of state, after batch `batch_id` (None: the last one).

    A key begins with the name of its store if there are several. CheckpointError if that batch is gone.
    """
    options = {} if batch_id is None else {"batchId": batch_id}
    if not state.stores:
        return _as_json(_load(spark, state, options)).select(KEY, VALUE, PARTITION)
    frames = []
    for name, store in state.stores.items():
        frame = _load(spark, state, {**options, STORE: store})
        numbered = [F.col(f"{KEY}.field{place}").alias(own) for place, own in enumerate(state.keys)]
        key = F.struct(F.lit(name).alias("side"), *numbered, F.col(f"{KEY}.index"))
        frames.append(_as_json(frame.withColumn(KEY, key)).select(KEY, VALUE, PARTITION))
    return reduce(DataFrame.unionAll, frames)


def state_changes(spark: SparkSession, state: StateOf, *, first: int, last: int) -> DataFrame:
    """The last change of each key in the batches `first` to `last`: key, value, partition, batch_id, change.

    `change` is `update` or `delete`; a deleted key has no value. CheckpointError if the files do not reach back, and
    for several stores, where a row may change more than once in a batch.
    """
    if state.stores:
        raise CheckpointError("the changes of a join's state have no order", file=state.checkpoint)
    options = {"readChangeFeed": "true", "changeStartBatchId": first, "changeEndBatchId": last}
    frame = _as_json(_load(spark, state, options).withColumnRenamed("change_type", CHANGE))
    newest = F.max_by(F.struct(VALUE, PARTITION, BATCH, CHANGE), BATCH).alias("_last")
    return frame.groupBy(KEY).agg(newest).select(KEY, "_last.*")


def state_frame(spark: SparkSession, state: StateOf) -> DataFrame:
    """The state as Spark returns it: key and value as structs whose fields have unique names."""
    return _named(_load(spark, state, {}))


def store_frame(spark: SparkSession, state: StateOf, store: str) -> DataFrame:
    """One store of the state as Spark returns it, after the last committed batch."""
    return _named(_load(spark, state, {STORE: store}))


def _load(spark: SparkSession, state: StateOf, options: Mapping[str, object]) -> DataFrame:
    # Spark 4.2.0 initialises the reader only at the first access to its streams.
    _ = spark.streams.active
    reader = (
        spark.read.format("statestore")
        .option("path", location_of(spark, state.checkpoint))
        .option("operatorId", state.operator)
    )
    if state.variable is not None:
        reader = reader.option("stateVarName", state.variable)
    for name, value in options.items():
        reader = reader.option(name, str(value))
    try:
        return _parted(reader.load())
    except Exception as error:
        raise CheckpointError(
            f"the state cannot be read: {str(error).splitlines()[0][:300]}",
            remedy="look for damage: rs-assets verify",
            file=state.checkpoint,
            **{name: value for name, value in options.items() if "batch" in name.casefold()},
        ) from error


def _parted(frame: DataFrame) -> DataFrame:
    """`frame` with one key and one value a row, where a processor keeps several rows of a key."""
    if MAP_KEY not in frame.columns:
        return frame
    kind = frame.schema[KEY].dataType
    bucket = isinstance(kind, StructType) and kind.names == [BUCKET]
    key = (F.col(MAP_KEY) if bucket else F.struct(f"{KEY}.*", F.col(MAP_KEY).alias(PART))).alias(KEY)
    others = [name for name in frame.columns if name not in {KEY, MAP_KEY, MAP_VALUE}]
    return frame.select(key, F.col(MAP_VALUE).alias(VALUE), *others)


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

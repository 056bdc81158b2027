"""Which columns a table can have."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    CalendarIntervalType,
    DataType,
    DayTimeIntervalType,
    MapType,
    NullType,
    StructType,
    TimestampNTZType,
    TimestampType,
    YearMonthIntervalType,
)

from rs_assets.connectors.delta.files.event_partitions import EventTimePartitions
from rs_assets.connectors.delta.files.partitions import may_partition
from rs_assets.connectors.delta.nodes import FEED_COLUMNS, KEYED, VALIDITY, DeltaSink
from rs_assets.connectors.messages import (
    feed_taken,
    history_taken,
    no_condition,
    no_key,
    no_record_time,
    partition_taken,
)
from rs_assets.errors import TopologyError
from rs_assets.records.columns import check_fields, visible
from rs_assets.records.contained import contains

# Types whose values are compared by their parts, or not at all.
NESTED = (ArrayType, MapType, StructType)
TIMES = (TimestampType, TimestampNTZType)
INTERVALS = (DayTimeIntervalType, YearMonthIntervalType, CalendarIntervalType)


def check_columns(df: DataFrame, node: DeltaSink) -> None:
    """TopologyError if a field that the sink names is missing or has an unsuitable type, or a field has no type."""
    check_fields(df, node.named, step=node.name)
    kinds = {field.name: field.dataType for field in df.schema.fields}
    if node.deletes is not None and not isinstance(kinds[node.deletes], BooleanType):
        raise no_condition(node.deletes, kinds[node.deletes].simpleString(), step=node.name)
    if node.time_field is not None and not isinstance(kinds[node.time_field], TIMES):
        raise no_record_time(node.time_field, kinds[node.time_field].simpleString(), step=node.name)
    if node.partitions is not None:
        _check_partitions(df, node.partitions, step=node.name)
    wrong = [
        *(f"the key {n!r} is {kinds[n].simpleString()}" for n in node.keys if isinstance(kinds[n], NESTED)),
        *(f"{n!r} of order_by is {kinds[n].simpleString()}" for n in node.order_by if isinstance(kinds[n], NESTED)),
        *(
            f"{n!r} of partition_by is {kinds[n].simpleString()}"
            for n in node.partition_by
            if not may_partition(kinds[n])
        ),
    ]
    if wrong:
        raise no_key(wrong[0], step=node.name)
    taken = [name for name in kinds if name.lower() in VALIDITY] if node.mode == "history" else []
    if taken:
        raise history_taken(taken[0], step=node.name)
    fed = [name for name in kinds if name.lower() in FEED_COLUMNS] if node.change_feed else []
    if fed:
        raise feed_taken(fed[0], step=node.name)
    _check_types(kinds, step=node.name)
    quote = [name for name in kinds if "`" in name]
    if quote and node.mode in KEYED and node.connector == "native":
        raise TopologyError(
            f"step {node.name!r}: delta-rs cannot merge a field with a backtick in its name, {quote[0]!r}",
            remedy="rename it before the sink, or use connector='jvm'",
            step=node.name,
        )
    if node.partition_by and not set(visible(df.columns)) - set(node.partition_by):
        raise TopologyError(f"step {node.name!r}: partition_by leaves no field for the files", step=node.name)


def _check_types(kinds: Mapping[str, DataType], *, step: str) -> None:
    """TopologyError for a field with a type, or a part of one, that no table has."""
    for name, kind in kinds.items():
        if contains(kind, (NullType,)):
            raise TopologyError(
                f"step {step!r}: the field {name!r} is null in all rows, so it has no type",
                remedy="give the source a schema, or cast it with with_fields",
                step=step,
            )
        if contains(kind, INTERVALS):
            raise TopologyError(
                f"step {step!r}: the field {name!r} is an interval ({kind.simpleString()}), which tables do not have",
                remedy=f"make it a text before: .with_fields({name}='CAST({name} AS string)')",
                step=step,
            )


def _check_partitions(df: DataFrame, partitions: EventTimePartitions, *, step: str) -> None:
    kind = df.schema[partitions.field].dataType
    if not isinstance(kind, TIMES):
        raise no_record_time(partitions.field, kind.simpleString(), step=step)
    if any(name.casefold() == partitions.column for name in visible(df.columns)):
        raise partition_taken(partitions.column, step=step)

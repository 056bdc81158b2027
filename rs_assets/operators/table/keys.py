"""Which fields can be the key of a table."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DoubleType, FloatType, MapType, StructType, VariantType

from rs_assets.connectors.messages import not_plain
from rs_assets.records.columns import check_fields
from rs_assets.records.schema import quoted

# Types whose values a processor cannot compare, or only by their parts.
NOT_PLAIN = (ArrayType, BinaryType, MapType, StructType, VariantType)


def check_keys(frame: DataFrame, fields: Sequence[str], *, step: str) -> None:
    """UnknownFieldError for a field that `frame` lacks, TopologyError for one that cannot be a key."""
    check_fields(frame, fields, step=step)
    for name in fields:
        kind = frame.schema[name].dataType
        if isinstance(kind, NOT_PLAIN):
            raise not_plain(name, kind.simpleString(), step=step)


def normal_keys(frame: DataFrame, keys: Sequence[str]) -> DataFrame:
    """`frame` with one zero and one NaN among its keys, as groups have them: a function may group rows by them."""
    for name in keys:
        kind, column = frame.schema[name].dataType, F.col(quoted(name))
        if isinstance(kind, FloatType | DoubleType):
            one = F.when(F.isnan(column), F.lit(float("nan"))).otherwise(column + F.lit(0.0))
            frame = frame.withColumn(name, one.cast(kind))
    return frame

"""Which fields can be the key of a table."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType, VariantType

from rs_assets.connectors.messages import not_plain
from rs_assets.records.columns import check_fields

# Types whose values a processor cannot compare, or only by their parts.
NOT_PLAIN = (ArrayType, BinaryType, MapType, StructType, VariantType)


def check_keys(frame: DataFrame, fields: Sequence[str], *, step: str) -> None:
    """UnknownFieldError for a field that `frame` lacks, TopologyError for one that cannot be a key."""
    check_fields(frame, fields, step=step)
    for name in fields:
        kind = frame.schema[name].dataType
        if isinstance(kind, NOT_PLAIN):
            raise not_plain(name, kind.simpleString(), step=step)

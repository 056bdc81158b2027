"""Which types a type of Spark has in it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def contains(kind: DataType, kinds: Collection[type[DataType]]) -> bool:
    """Whether a type is one of `kinds`, or has a part that is, at any depth.

    >>> from pyspark.sql.types import ArrayType, DateType, LongType
    >>> contains(ArrayType(DateType()), (DateType,)), contains(LongType(), (DateType,))
    (True, False)
    """
    from pyspark.sql.types import ArrayType, MapType, StructType

    if type(kind) in kinds:
        return True
    if isinstance(kind, StructType):
        return any(contains(field.dataType, kinds) for field in kind.fields)
    if isinstance(kind, MapType):
        return contains(kind.keyType, kinds) or contains(kind.valueType, kinds)
    return isinstance(kind, ArrayType) and contains(kind.elementType, kinds)

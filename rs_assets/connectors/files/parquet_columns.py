"""The columns of a Parquet file: whether they are the fields of a schema, by name and type."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import StructType

from rs_assets.errors import SourceReadError
from rs_assets.records.ddl import arrow_schema


def any_of(*kinds: Callable[[pa.DataType], bool]) -> Callable[[pa.DataType], bool]:
    """Whether a type is one of some kinds."""
    return lambda kind: any(each(kind) for each in kinds)


IS_LIST: Final = any_of(types.is_list, types.is_large_list, types.is_fixed_size_list)
# Families of types whose values differ by their size, their zone or their parts alone.
FAMILIES: Final = (
    any_of(types.is_string, types.is_large_string, types.is_binary, types.is_large_binary, types.is_fixed_size_binary),
    IS_LIST,
    types.is_timestamp,
    types.is_date,
    types.is_struct,
    types.is_map,
)


def schema_of(file: Path) -> pa.Schema:
    """The columns of a Parquet file; SourceReadError if it is not one."""
    try:
        return pq.read_schema(file)
    except (OSError, pa.ArrowException) as error:
        raise SourceReadError(
            "a file is not Parquet, or is damaged", remedy="replace it by a complete one, or move it away", file=file
        ) from error


def fields_of(declared: str | None, inferred: str | None) -> pa.Schema:
    """The fields of a declared schema, or of an inferred one in JSON; none if only Spark can read it."""
    if declared is not None:
        return arrow_schema(declared) or pa.schema([])
    if inferred is None:
        return pa.schema([])
    return to_arrow_schema(StructType.fromJson(json.loads(inferred)), timezone="UTC")


def check_columns(file: Path, fields: pa.Schema) -> None:
    """SourceReadError if a file lacks one of `fields`, or has it as a type whose values are not those of the field."""
    check_fields(schema_of(file), fields, file)


def check_fields(found: pa.Schema, fields: pa.Schema, file: Path | str) -> None:
    """The same of columns that were found in a file."""
    there = {column.name.lower(): column for column in found}
    for field in fields:
        column = there.get(field.name.lower())
        if column is None:
            names = ", ".join(each.name for each in there.values())
            raise SourceReadError(
                f"the file has no column {field.name!r}",
                remedy=f"name the fields of the schema like its columns: {names}",
                file=file,
            )
        if not holds(field.type, column.type):
            raise SourceReadError(
                f"the file has {column.name!r} as {_name(column.type)}, and the schema as {_name(field.type)}",
                remedy=f"declare it as {_name(column.type)}, and cast it in a step",
                file=file,
            )


def holds(wanted: pa.DataType, found: pa.DataType) -> bool:
    """Whether a field of type `wanted` can hold each value of a column of type `found`, and has no part that it lacks.

    >>> holds(pa.int64(), pa.int32()), holds(pa.int32(), pa.int64()), holds(pa.string(), pa.int64())
    (True, False, False)
    >>> holds(pa.list_(pa.int32()), pa.list_(pa.int64()))
    False
    """
    if types.is_dictionary(found):
        found = found.value_type
    if wanted == found or types.is_null(found):
        return True
    if types.is_integer(wanted) and types.is_integer(found):
        unsigned = types.is_unsigned_integer(found)
        return bool(found.bit_width + unsigned <= wanted.bit_width)
    if types.is_decimal(wanted) and types.is_decimal(found):
        whole = found.precision - found.scale
        return bool(wanted.scale >= found.scale and wanted.precision - wanted.scale >= whole)
    if types.is_floating(wanted) and types.is_floating(found):
        return bool(wanted.bit_width >= found.bit_width)
    if types.is_integer(found) and (types.is_decimal(wanted) or types.is_floating(wanted)):
        # Spark decides, and says what it does not read.
        return True
    return any(family(wanted) and family(found) for family in FAMILIES) and _hold(_parts(wanted), _parts(found))


def _hold(wanted: Mapping[str, pa.DataType], found: Mapping[str, pa.DataType]) -> bool:
    return all(name in found and holds(kind, found[name]) for name, kind in wanted.items())


def _parts(kind: pa.DataType) -> Mapping[str, pa.DataType]:
    """The types in a type, by names that are the same for the same parts."""
    if types.is_struct(kind):
        return {field.name.lower(): field.type for field in kind}
    if types.is_map(kind):
        return {"key": kind.key_type, "value": kind.item_type}
    return {"element": kind.value_type} if IS_LIST(kind) else {}


def _name(kind: pa.DataType) -> str:
    """Spark's name of a type, Arrow's of one that Spark does not have."""
    try:
        return str(from_arrow_type(kind).simpleString())
    except PySparkException:
        return str(kind)

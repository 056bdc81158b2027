"""Tables and columns that a user-defined function returns, with exactly the types of its schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from rs_assets.records.rows import first_changed, type_name

UNFIT = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, ValueError, TypeError)


# Types of Arrow among which a cast keeps what a value means, or fails.
FAMILIES: Final = (
    (kinds.is_integer, kinds.is_floating, kinds.is_decimal),
    (kinds.is_boolean,),
    (kinds.is_string, kinds.is_large_string, kinds.is_string_view, kinds.is_binary, kinds.is_large_binary),
    (kinds.is_timestamp, kinds.is_date),
)
LISTS: Final = (kinds.is_list, kinds.is_large_list, kinds.is_fixed_size_list)


class UnfitError(Exception):
    """A result that does not fit; `text` says what was returned, `remedy` what to return."""

    def __init__(self, text: str, remedy: str = "") -> None:
        super().__init__(text)
        self.text, self.remedy = text, remedy


def fitted(value: Any, schema: pa.Schema, *, what: str, remedy: str) -> pa.Table:
    """`value` as a table of `schema`: an Arrow batch or table, a data frame, or columns by name.

    UnfitError if it is none of these, has other fields, or values that the types do not hold; `what` names the result,
    `remedy` says what to return.
    """
    table = _table(value)
    if table is None:
        raise UnfitError(f"returned {type(value).__name__} as {what}", remedy)
    if sorted(table.column_names) != sorted(schema.names):
        fields = f"the fields {', '.join(table.column_names)}, not {', '.join(schema.names)}"
        raise UnfitError(f"returned {what} with {fields}", "name exactly the fields of the schema")
    try:
        made = table.select(schema.names).cast(schema)
        changed = next((field for field in schema if any(_changes(whole(table[field.name]), field.type))), None)
    except UNFIT as error:
        raise UnfitError(f"returned {what} that do not fit the schema: {error}") from error
    if changed is not None:
        of = f"{changed.name} is {type_name(table[changed.name].type)}, not {type_name(changed.type)}"
        raise UnfitError(f"returned {what} that do not fit the schema: {of}, which would change its values")
    return made


def cast_kept(column: pa.Array, to: pa.DataType) -> pa.Array:
    """A column as another type; ValueError if the cast would change a value.

    >>> cast_kept(pa.array([1.0]), pa.int64()).to_pylist()
    [1]
    >>> cast_kept(pa.array([True]), pa.int64())
    Traceback (most recent call last):
    ValueError: it returned boolean, not bigint, which would change its values
    """
    if any(_changes(column, to)):
        raise ValueError(f"it returned {type_name(column.type)}, not {type_name(to)}, which would change its values")
    return column.cast(to)


def series_kept(series: Any, to: pa.DataType) -> pa.Array:
    """A series of pandas as an array of a type, NaN as it is; ValueError if a value would change."""
    if series.dtype == object:
        values = series.tolist()
        changed = first_changed(values, to)
        if changed is not None:
            raise ValueError(f"it returned {values[changed]!r}, which is not of type {type_name(to)}")
        return pa.array(series, to, from_pandas=False)
    made = pa.array(series, from_pandas=False)
    return cast_kept(made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made, to)


def _changes(column: pa.Array, to: pa.DataType) -> Iterator[bool]:
    """Whether a cast that Arrow takes for safe would change values of a column, for each part of its type."""
    of = column.type
    if kinds.is_dictionary(of):
        yield from _changes(column.dictionary_decode(), to)
    elif kinds.is_struct(of) and kinds.is_struct(to):
        # Arrow finds members by name, and makes nulls of those that are missing.
        yield {field.name for field in of} != {field.name for field in to}
        for field in to:
            if of.get_field_index(field.name) >= 0:
                yield from _changes(column.field(field.name), field.type)
    elif kinds.is_map(of) and kinds.is_map(to):
        yield from _changes(column.keys, to.key_type)
        yield from _changes(column.items, to.item_type)
    elif any(is_list(of) for is_list in LISTS) and kinds.is_list(to):
        yield from _changes(column.flatten(), to.value_type)
    elif not kinds.is_null(of):
        yield not any(_is_one(family, of) and _is_one(family, to) for family in FAMILIES) or _loses(column, to)


def _is_one(family: tuple[Any, ...], kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in family)


def _loses(column: pa.Array, to: pa.DataType) -> bool:
    """Whether the values of a plain column lose a time of the day, digits after the point, or their size."""
    of = column.type
    if kinds.is_date(to) or (kinds.is_decimal(to) and kinds.is_floating(of)):
        return bool(pc.any(pc.not_equal(column.cast(to).cast(of), column)).as_py())
    if kinds.is_float32(to):
        return bool(pc.any(pc.and_(pc.is_inf(column.cast(to)), pc.is_finite(column))).as_py())
    return False


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _table(value: Any) -> pa.Table | None:
    if isinstance(value, pa.Table):
        return value
    if isinstance(value, pa.RecordBatch):
        return pa.Table.from_batches([value])
    try:
        return pa.table(value)
    except UNFIT:
        return None

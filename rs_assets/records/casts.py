"""Casts of Arrow that keep what values mean: those that Arrow takes for safe may change them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from rs_assets.records.rows import type_name

# Types of Arrow among which a cast keeps what a value means, or fails.
FAMILIES: Final = (
    (kinds.is_integer, kinds.is_floating, kinds.is_decimal),
    (kinds.is_boolean,),
    (kinds.is_string, kinds.is_large_string, kinds.is_string_view, kinds.is_binary, kinds.is_large_binary),
    (kinds.is_timestamp, kinds.is_date),
)
LISTS: Final = (kinds.is_list, kinds.is_large_list, kinds.is_fixed_size_list)


def cast_kept(column: pa.Array, to: pa.DataType) -> pa.Array:
    """A column as another type; ValueError if the cast would change a value.

    >>> cast_kept(pa.array([1.0]), pa.int64()).to_pylist()
    [1]
    >>> cast_kept(pa.array([True]), pa.int64())
    Traceback (most recent call last):
    ValueError: it returned boolean, not bigint, which would change its values
    """
    if any(changes(column, to)):
        raise ValueError(f"it returned {type_name(column.type)}, not {type_name(to)}, which would change its values")
    return column.cast(to)


def changes(column: pa.Array, to: pa.DataType) -> Iterator[bool]:
    """Whether a cast that Arrow takes for safe would change values of a column, for each part of its type."""
    of = column.type
    if kinds.is_dictionary(of):
        yield from changes(column.dictionary_decode(), to)
    elif kinds.is_struct(of) and kinds.is_struct(to):
        # Arrow finds members by name, and makes nulls of those that are missing.
        yield {field.name for field in of} != {field.name for field in to}
        for field in to:
            if of.get_field_index(field.name) >= 0:
                yield from changes(column.field(field.name), field.type)
    elif kinds.is_map(of) and kinds.is_map(to):
        yield from changes(column.keys, to.key_type)
        yield from changes(column.items, to.item_type)
    elif any(is_list(of) for is_list in LISTS) and kinds.is_list(to):
        yield from changes(column.flatten(), to.value_type)
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

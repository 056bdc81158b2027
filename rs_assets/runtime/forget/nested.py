"""Finds fields in columns of Arrow at any depth: in structs, lists and maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

# The wanted values of a field, in the type of a column.
Values: TypeAlias = Callable[[pa.DataType], pa.Array]


def field_names(schema: pa.Schema) -> frozenset[str]:
    """The names of all columns, and of all fields within them.

    >>> sorted(field_names(pa.schema([("at", pa.list_(pa.struct([("user", pa.int64())])))])))
    ['at', 'user']
    """
    return frozenset(name for field in schema for name in _names(field))


def holders(schema: pa.Schema, wanted: Mapping[str, object]) -> Sequence[str]:
    """The columns that are one of `wanted`, or have a field of that name or path within them.

    >>> holders(pa.schema([("who", pa.struct([("id", pa.int64())])), ("n", pa.int64())]), {"who.id": 17})
    ['who']
    """
    return [field.name for field in schema if any(_has(field, name) for name in wanted)]


def within(rows: pa.Table, wanted: Mapping[str, Values]) -> pa.Array:
    """For each row whether a column, or a field within one, has a wanted value; errors of `wanted` are raised."""
    found = pa.array([False] * rows.num_rows, pa.bool_())
    for field in rows.schema:
        for name, values in wanted.items():
            if _has(field, name):
                found = pc.or_(found, _found(rows[field.name].combine_chunks(), field, name, values))
    return found


def _names(field: pa.Field) -> Iterator[str]:
    if field.name:
        yield field.name
    for inner in _inner(field.type):
        yield from _names(inner)


def _inner(kind: pa.DataType) -> list[pa.Field]:
    """The fields of a struct, and the parts of a list or a map, whose names nothing asks for."""
    if pa.types.is_struct(kind):
        return list(kind)
    if pa.types.is_map(kind):
        return [pa.field("", kind.key_type), pa.field("", kind.item_type)]
    return [pa.field("", kind.value_type)] if _is_list(kind) else []


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _has(field: pa.Field, name: str) -> bool:
    first, _, rest = name.partition(".")
    ways = [name] + [rest] * bool(rest and field.name == first)
    return field.name == name or any(_has(inner, way) for inner in _inner(field.type) for way in ways)


def _found(values: pa.Array, field: pa.Field, name: str, wanted: Values) -> pa.Array:
    """For each value of a column or field whether it is wanted, or has the field `name` with a wanted value."""
    if field.name == name:
        return pc.fill_null(pc.is_in(values, value_set=wanted(values.type)), False)  # noqa: FBT003
    first, _, rest = name.partition(".")
    found = pa.array([False] * len(values), pa.bool_())
    for way in [name] + [rest] * bool(rest and field.name == first):
        for place, inner in enumerate(_inner(field.type)):
            if _has(inner, way):
                found = pc.or_(found, _inside(values, place, inner, way, wanted))
    return found


def _inside(values: pa.Array, place: int, inner: pa.Field, name: str, wanted: Values) -> pa.Array:
    """For each value of a struct, a list or a map whether its field or part at `place` has it."""
    if pa.types.is_struct(values.type):
        return pc.and_(pc.is_valid(values), _found(pc.struct_field(values, [place]), inner, name, wanted))
    if pa.types.is_map(values.type):
        parts = [pa.field("key", values.type.key_type, nullable=False), pa.field("value", values.type.item_type)]
        values = values.cast(pa.list_(pa.struct(parts)))
        return _inside(values, 0, pa.field("", pa.struct(parts)), name, wanted)
    owners = pc.list_parent_indices(values)
    having = owners.filter(_found(pc.list_flatten(values), inner, name, wanted))
    return pc.is_in(pa.array(range(len(values)), having.type), value_set=having)

"""Functions of arrays and maps as in Flink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import Final

from rs_assets.expressions.functions.builtin.arrays import pairs_map
from rs_assets.records.types import Type
from rs_assets.sql.expressions.sql_function import MANY, SqlFunction, as_int, kind_of_first, textual
from rs_assets.sql.expressions.values import Value

# Variables of lambdas that have an argument inside: no column has such a name.
ELEMENT, PLACE = "_rs_e", "_rs_i"


def _element_type(values: Sequence[Value]) -> Type | None:
    kind = values[0].type
    return dict(kind.parts).get("element") if kind is not None else None


def _of_element(values: Sequence[Value], place: int = 1) -> str:
    """A value cast to the element type of the first array."""
    kind, value = _element_type(values), values[place]
    if kind is None or value.type is None or value.type.text == kind.text:
        return value.plain
    return f"cast({value.plain} AS {kind.text})"


def _contains(values: Sequence[Value]) -> str:
    return f"exists({values[0].plain}, {ELEMENT} -> {ELEMENT} <=> {_of_element(values)})"


def _removed(values: Sequence[Value]) -> str:
    return f"filter({values[0].plain}, {ELEMENT} -> NOT ({ELEMENT} <=> {_of_element(values)}))"


def _position(values: Sequence[Value]) -> str:
    return f"cast(array_position({values[0].plain}, {_of_element(values)}) AS int)"


def _ended(name: str) -> SqlFunction:
    """An array with one more element."""
    return SqlFunction(2, 2, lambda v: f"{name}({v[0].plain}, {_of_element(v)})", kind_of_first)


def _sliced(values: Sequence[Value]) -> str:
    """A slice between two positions, both counted from 1, or from the end; 0 is 1."""
    array, size = values[0].plain, f"size({values[0].plain})"
    first = _counted(as_int(values[1]), size)
    last = _counted(as_int(values[2]), size) if len(values) > 2 else size
    made = f"filter({array}, ({ELEMENT}, {PLACE}) -> {PLACE} + 1 BETWEEN {first} AND {last})"
    missing = " OR ".join(f"{value.text} IS NULL" for value in values[1:])
    return f"if({missing}, NULL, {made})"


def _counted(place: str, size: str) -> str:
    return f"(CASE WHEN {place} < 0 THEN {size} + {place} + 1 WHEN {place} = 0 THEN 1 ELSE {place} END)"


def _united(values: Sequence[Value]) -> str:
    """All entries; for a duplicate key the last map wins."""

    def both(one: str, other: str) -> str:
        return (
            f"map_concat(map_filter({one}, ({ELEMENT}, {PLACE}) -> NOT map_contains_key({other}, {ELEMENT})), {other})"
        )

    return reduce(both, (value.plain for value in values))


def _part_of_map(part: str) -> SqlFunction:
    def kind(values: Sequence[Value]) -> Type | None:
        of = dict(values[0].type.parts).get(part) if values[0].type is not None else None
        return Type("array", (("element", of),)) if of is not None else None

    return SqlFunction(1, 1, f"map_{part}s({{0}})", kind)


def _same_arrays(name: str) -> SqlFunction:
    return SqlFunction(2, 2, f"{name}({{0}}, {{1}})", kind_of_first)


def _pairs(values: Sequence[Value]) -> str:
    """The separators are patterns, by default a comma and an equals sign."""
    given = [value.plain for value in values]
    return pairs_map(*given, *("','", "'='")[len(given) - 1 :])


COLLECTIONS: Final[Mapping[str, SqlFunction]] = MappingProxyType(
    {
        "CARDINALITY": SqlFunction(1, 1, "cardinality({0})", "int"),
        "ARRAY_APPEND": _ended("array_append"),
        "ARRAY_PREPEND": _ended("array_prepend"),
        "ARRAY_CONCAT": SqlFunction(1, MANY, "concat({all})", kind_of_first),
        "ARRAY_CONTAINS": SqlFunction(2, 2, _contains, "boolean"),
        "ARRAY_DISTINCT": SqlFunction(1, 1, "array_distinct({0})", kind_of_first),
        "ARRAY_EXCEPT": _same_arrays("array_except"),
        "ARRAY_INTERSECT": _same_arrays("array_intersect"),
        "ARRAY_UNION": _same_arrays("array_union"),
        "ARRAY_JOIN": SqlFunction(2, 3, "array_join({all})", "string", texts=(1, 2)),
        "ARRAY_MAX": SqlFunction(1, 1, "array_max({0})", _element_type),
        "ARRAY_MIN": SqlFunction(1, 1, "array_min({0})", _element_type),
        "ARRAY_POSITION": SqlFunction(2, 2, _position, "int"),
        "ARRAY_REMOVE": SqlFunction(2, 2, _removed, kind_of_first),
        "ARRAY_REVERSE": SqlFunction(1, 1, "reverse({0})", kind_of_first),
        "ARRAY_SLICE": SqlFunction(2, 3, _sliced, kind_of_first, numbers=(1, 2)),
        "ARRAY_SORT": SqlFunction(1, 2, "sort_array({all})", kind_of_first),
        "MAP_KEYS": _part_of_map("key"),
        "MAP_VALUES": _part_of_map("value"),
        "MAP_ENTRIES": SqlFunction(1, 1, "map_entries({0})", ""),
        "MAP_FROM_ARRAYS": SqlFunction(2, 2, "map_from_arrays({0}, {1})", ""),
        "MAP_UNION": SqlFunction(1, MANY, _united, kind_of_first),
        "STR_TO_MAP": textual(_pairs, 1, 3, "map<string,string>", (0, 1, 2)),
    }
)

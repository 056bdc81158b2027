"""Converts Python rows to Arrow tables: a value is kept exactly, or its row is refused."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import partial
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as kinds

from rs_assets.errors import SchemaError

Row = Mapping[str, Any]
Rows = Sequence[Row]
# Arrow raises these for a value that does not fit a type; all but the first are ordinary Python errors.
MISFITS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError, OverflowError, ValueError)
# Schema names of types whose Arrow name differs.
NAMES: Mapping[str, str] = {
    "int64": "bigint",
    "int32": "int",
    "int16": "smallint",
    "int8": "tinyint",
    "bool": "boolean",
} | {"date32[day]": "date"}
# How much of a value an error shows, in characters.
SHOWN = 200
FLOAT_MAX = 3.4028234663852886e38


class MisfitError(SchemaError):
    """A value that does not fit its field; `text` is the message without the row number."""

    def __init__(self, text: str, *, row: int, field: str) -> None:
        super().__init__(f"row {row}: {text}", row=row, field=field)
        self.text = text
        self.row = row
        self.field = field


def to_table(rows: Rows, schema: pa.Schema) -> pa.Table:
    """`rows` as a table of exactly `schema`; SchemaError names the row and the field that do not fit.

    Missing fields are null. A timestamp may be text in ISO form, in UTC unless it has an offset.
    """
    names = set(schema.names)
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise SchemaError(f"row {number} is not a dict: {row!r}", row=number)
        if not names.issuperset(row):
            unknown = next(name for name in row if name not in names)
            raise SchemaError(
                f"row {number} has the field {unknown!r}, which is not in the schema",
                remedy=f"the schema has: {', '.join(schema.names)}",
                row=number,
            )
    return pa.Table.from_arrays(to_arrays(rows, schema), schema=schema)


def to_arrays(rows: Rows, schema: pa.Schema) -> list[pa.Array]:
    """The fields of `schema` of all `rows`, null where a row lacks one; MisfitError for the first that does not fit."""
    return [_column([row.get(field.name) for row in rows], field) for field in schema]


def misfits(rows: Rows, schema: pa.Schema) -> Iterator[MisfitError]:
    """An error for each of `rows` that does not fit `schema`, in order."""
    for number, row in enumerate(rows):
        try:
            to_arrays([row], schema)
        except MisfitError as error:
            yield MisfitError(error.text, row=number, field=error.field)
        except Exception as error:  # noqa: BLE001  values may be of any class, and raise anything
            yield MisfitError(f"{type(error).__name__}: {error}", row=number, field="")


def infer_schema(rows: Rows, *, step: str) -> pa.Schema:
    """The Arrow schema of all `rows`: whole numbers are bigint, naive datetimes are taken as UTC.

    SchemaError names the field, and the first row that does not fit the earlier rows.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    _check_names(names, step=step)
    return pa.schema([pa.field(name, _inferred([row.get(name) for row in rows], name, step)) for name in names])


def as_dicts(table: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of `table`; maps are dicts. If one map has keys that a dict cannot hold, all are lists of pairs."""
    try:
        rows: list[dict[str, Any]] = table.to_pylist(maps_as_pydicts="strict")
    except (TypeError, KeyError):
        rows = table.to_pylist()
    return rows


def type_name(kind: pa.DataType) -> str:
    """The name of `kind` in a schema.

    >>> type_name(pa.int64()), type_name(pa.timestamp("us", tz="UTC")), type_name(pa.list_(pa.int32()))
    ('bigint', 'timestamp', 'array<int>')
    """
    if kinds.is_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if kinds.is_map(kind):
        return f"map<{type_name(kind.key_type)},{type_name(kind.item_type)}>"
    if kinds.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{type_name(field.type)}' for field in kind)}>"
    if kinds.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    return NAMES.get(str(kind), str(kind).replace("decimal128", "decimal").replace(", ", ","))


def _column(values: list[Any], field: pa.Field) -> pa.Array:
    """`values` as an array, unchanged; SchemaError with the number of the first that does not fit."""
    if kinds.is_timestamp(field.type) and str in set(map(type, values)):
        values = [_moment(value, field.name, number) for number, value in enumerate(values)]
    if not field.nullable:
        missing = next((number for number, value in enumerate(values) if value is None), None)
        if missing is not None:
            raise _misfit(missing, None, field)
    changed = first_changed(values, field.type)
    if changed is None:
        try:
            array = pa.array(values, type=field.type)
            if not _has_gap(array, field):
                return array
            why = "null"
        except MISFITS as error:
            why = str(error)
        changed = next((n for n, value in enumerate(values) if not _fits(value, field)), None)
        if changed is None:
            raise MisfitError(f"{field.name} does not fit: {why}", row=0, field=field.name)
    raise _misfit(changed, values[changed], field)


def _misfit(row: int, value: object, field: pa.Field) -> MisfitError:
    text = repr(value)
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
    return MisfitError(f"{field.name}={shown} is not of type {type_name(field.type)}", row=row, field=field.name)


def _fits(value: object, field: pa.Field) -> bool:
    try:
        return not _has_gap(pa.array([value], type=field.type), field)
    except MISFITS:
        return False


def _has_gap(array: pa.Array, field: pa.Field) -> bool:
    """Whether `array` has a null that its field, or a member of it, does not allow."""
    if array.null_count and not field.nullable:
        return True
    if kinds.is_struct(field.type):
        there = array.drop_null() if array.null_count else array
        return any(_has_gap(there.field(n), member) for n, member in enumerate(field.type))
    if kinds.is_map(field.type):
        return _has_gap(array.items, field.type.item_field)
    return kinds.is_list(field.type) and _has_gap(array.flatten(), field.type.value_field)


def _moment(value: object, field: str, row: int) -> object:
    if not isinstance(value, str):
        return value
    try:
        made = datetime.fromisoformat(value)
    except ValueError as error:
        raise MisfitError(f"{field}={value!r} is not a timestamp", row=row, field=field) from error
    return made if made.tzinfo else made.replace(tzinfo=UTC)


def first_changed(values: Sequence[Any], kind: pa.DataType) -> int | None:
    """The index of the first value that Arrow would change when it converts it to `kind`; None if there is none.

    >>> (
    ...     first_changed([1, 2.0, 2.5], pa.int64()),
    ...     first_changed([5], pa.timestamp("us")),
    ...     first_changed([True], pa.float64()),
    ... )
    (2, 0, 0)
    """
    for is_kind, usual, keeps in EXACT:
        if is_kind(kind):
            unusual = set(map(type, values)) - usual
            return next((n for n, v in enumerate(values) if type(v) in unusual and not keeps(v)), None)
    return _first_changed_within(values, kind) if kinds.is_nested(kind) else None


def _first_changed_within(values: Sequence[Any], kind: pa.DataType) -> int | None:
    """As `first_changed`, for nested values; one of another form than `kind` counts as changed."""
    other = _other_form(kind)
    found = [next((n for n, value in enumerate(values) if value is not None and other(value)), len(values))]
    for parts, of in _parts(kind):
        held = [() if value is None else parts(value) for value in values[: found[0]]]
        inner = first_changed(list(chain.from_iterable(held)), of)
        if inner is not None:
            found.append(_owner(held, inner))
    return min((n for n in found if n < len(values)), default=None)


def _parts(kind: pa.DataType) -> Iterable[tuple[Callable[[Any], Sequence[Any]], pa.DataType]]:
    """How to extract the values of each inner type from one of `kind`; Arrow itself refuses values of another form."""
    if kinds.is_list(kind):
        return [(_items, kind.value_type)]
    if kinds.is_map(kind):
        return [(partial(_of_pairs, 0), kind.key_type), (partial(_of_pairs, 1), kind.item_type)]
    if kinds.is_struct(kind):
        return [(partial(_member, place, field.name), field.type) for place, field in enumerate(kind)]
    return []


def _other_form(kind: pa.DataType) -> Callable[[Any], bool]:
    """Whether Arrow would make a value of `kind` of what is none, or end the process by it."""
    if kinds.is_struct(kind):
        names = tuple(field.name for field in kind)
        return partial(_is_other_struct, names, frozenset(names))
    if kinds.is_map(kind):
        return _is_other_map
    # Arrow would read a text as the list of its characters.
    return lambda value: isinstance(value, TEXTS)


def _is_other_struct(names: tuple[str, ...], known: frozenset[str], value: Any) -> bool:
    """Arrow takes members by name from a dict and from a list of pairs, by position from a tuple."""
    if isinstance(value, (dict, Mapping)):
        return not known.issuperset(value)
    if isinstance(value, tuple):
        # A named tuple, and a Row of Spark, with its members in another order.
        named = getattr(value, "_fields", None) or getattr(value, "__fields__", None)
        return named is not None and tuple(named) != names
    if isinstance(value, list):
        members = _named(value)
        return len(members) < max(1, len(value)) or not known.issuperset(members)
    return not isinstance(value, pa.Scalar)


def _is_other_map(value: Any) -> bool:
    """A map is a dict, or a collection of pairs; each key is there once."""
    if isinstance(value, Mapping | pa.Scalar):
        return False
    pairs = _items(value) if not isinstance(value, TEXTS) else None
    if pairs is None or not all(isinstance(pair, tuple) and len(pair) == PAIR for pair in pairs):
        return True
    try:
        return len({pair[0] for pair in pairs}) < len(pairs)
    except TypeError:
        return False


def _items(value: Any) -> Sequence[Any]:
    """The items of whatever Arrow takes for a list: also of sets, deques, arrays, series, and the values of a dict."""
    if isinstance(value, (list, tuple)):
        return value
    one = isinstance(value, (Mapping, pa.Scalar, *TEXTS)) or not getattr(value, "ndim", 1)
    return () if one or not (hasattr(value, "__len__") and hasattr(value, "__iter__")) else list(value)


def _of_pairs(which: int, value: object) -> Sequence[Any]:
    pairs = list(value.items()) if isinstance(value, Mapping) else _items(value)
    return [pair[which] for pair in pairs if isinstance(pair, (list, tuple)) and len(pair) == PAIR]


def _member(place: int, name: str, value: object) -> Sequence[Any]:
    if isinstance(value, tuple):
        return value[place : place + 1]
    members = _named(value)
    return (members.get(name),) if members else ()


def _named(value: object) -> Mapping[Any, Any]:
    """The members of a struct, which Arrow also takes as pairs."""
    if isinstance(value, Mapping):
        return value
    pairs = value if isinstance(value, list) else ()
    named = all(isinstance(pair, tuple) and len(pair) == PAIR and isinstance(pair[0], str) for pair in pairs)
    return dict(pairs) if named else {}


def _owner(held: Sequence[Sequence[Any]], place: int) -> int:
    """The index of the sequence in `held` that holds element `place` of their concatenation."""
    for number, parts in enumerate(held):
        place -= len(parts)
        if place < 0:
            return number
    return len(held)


# What NumPy calls numbers: whole ones, those without a sign, those of floating point.
NUMBERS: Final = frozenset("iuf")


def _code(value: object) -> str:
    """The kind of a value by NumPy's code, also of a number of Python; empty if it has none."""
    for of, code in ((bool, "b"), (int, "i"), ((float, Decimal), "f")):
        if isinstance(value, of):
            return code
    return "" if _is_array(value) else str(getattr(getattr(value, "dtype", None), "kind", ""))


def _is_array(value: Any) -> bool:
    return bool(getattr(value, "ndim", None))


def _is_whole(value: Any) -> bool:
    # Division of a long decimal, or of one that is not a number, is an error.
    if isinstance(value, Decimal):
        return value.is_finite() and value == value.to_integral_value()
    return bool(value == value // 1) if _code(value) == "f" else _is_number(value)


def _is_number(value: object) -> bool:
    # Arrow cuts whatever has `__int__`: a fraction, an address of a network, an identifier.
    return _code(value) in NUMBERS or isinstance(value, pa.Scalar)


def _is_short_number(value: object) -> bool:
    return _is_number(value) and not (isinstance(value, float) and FLOAT_MAX < abs(value) < math.inf)


def _is_moment(value: Any) -> bool:
    # Arrow cuts nanoseconds of pandas, and within an array takes moments of another unit for microseconds.
    if _code(value) == "M":
        return bool(value.dtype.str.endswith("[us]"))
    return isinstance(value, datetime | pa.Scalar) and not getattr(value, "nanosecond", 0) > 0


def _is_day(value: Any) -> bool:
    if isinstance(value, datetime):
        # What pandas has for no time is not equal to itself.
        return bool(value == value) and value.time() == time()  # noqa: PLR0124
    return isinstance(value, date | pa.Scalar)


# Types to which Arrow converts with loss: the Python types to accept, and a test for other accepted values.
EXACT: tuple[tuple[Callable[[pa.DataType], bool], set[type], Callable[[Any], bool]], ...] = (
    (kinds.is_integer, {int, type(None)}, _is_whole),
    (kinds.is_float64, {float, int, type(None)}, _is_number),
    (kinds.is_float32, {int, type(None)}, _is_short_number),
    (kinds.is_timestamp, {datetime, type(None)}, _is_moment),
    (kinds.is_date, {date, type(None)}, _is_day),
)
# What is a list of numbers for Arrow, and is a text.
TEXTS: Final = (str, bytes, bytearray, memoryview)
PAIR: Final = 2


# Arrow types that Spark does not have.
FOREIGN = (kinds.is_time, kinds.is_unsigned_integer, kinds.is_float16, kinds.is_dictionary)


def _check_names(names: Sequence[object], *, step: str) -> None:
    remedy = "give each field one name"
    odd = next((name for name in names if not isinstance(name, str)), None)
    if odd is not None:
        raise SchemaError(f"the rows of step {step!r} have a field {odd!r}; names are text", remedy=remedy, step=step)
    seen: dict[str, str] = {}
    for name in map(str, names):
        other = seen.setdefault(name.lower(), name)
        if other != name:
            what = f"the rows of step {step!r} have the fields {other!r} and {name!r}, which Spark cannot distinguish"
            raise SchemaError(what, remedy=remedy, step=step)


def _inferred(values: list[Any], field: str, step: str) -> pa.DataType:
    """The type of all `values`."""
    try:
        kind = _common(values)
        wrong = first_changed(values, kind)
        what = None if wrong is None else f"row {wrong}: {field}={values[wrong]!r} is not of type {type_name(kind)}"
        what = what or _unusable(kind, field)
    except MISFITS as error:
        number = bisect_left(range(len(values)), True, key=lambda n: not _has_type(values[: n + 1]))  # noqa: FBT003
        what = f"row {number}: {field}={values[number]!r} does not fit the earlier rows ({error})"
    if what is not None:
        remedy = f"declare it: schema='{field} ...'"
        raise SchemaError(
            f"the rows of step {step!r} have no common schema: {what}", remedy=remedy, step=step, field=field
        )
    return pa.timestamp("us", tz="UTC") if kinds.is_timestamp(kind) else kind


def _common(values: Sequence[Any]) -> pa.DataType:
    return pa.array(values).type


def _has_type(values: Sequence[Any]) -> bool:
    try:
        _common(values)
    except MISFITS:
        return False
    return True


def _unusable(kind: pa.DataType, field: str) -> str | None:
    """Why no column can have the type `kind`; None if one can."""
    if any(is_kind(kind) for is_kind in FOREIGN):
        return f"{field} is a {kind}, for which Spark has no type"
    if kinds.is_null(kind):
        return f"{field} is None in all rows"
    if kinds.is_struct(kind) and not kind.num_fields:
        return f"{field} is a dict without fields"
    inner = (kind.field(n) for n in range(kind.num_fields)) if kinds.is_nested(kind) else ()
    return next((why for each in inner if (why := _unusable(each.type, f"{field}.{each.name}"))), None)

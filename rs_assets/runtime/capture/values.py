"""Values of rows as JSON, from which the declared type of a field gives back the same value."""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as kinds

from rs_assets.errors import SchemaError

# Sums of floating-point numbers depend on the order of rows: they are compared to so many digits after the first.
DIGITS: Final = ".11e"


def plain(value: Any) -> Any:
    """A value of a row as JSON has it; SchemaError for one of another type than Spark's.

    Times and dates are text in ISO form, decimals text with all digits, bytes base64, and numbers that JSON lacks
    "nan", "inf" and "-inf". A map with other keys than text is a list of pairs.

    >>> plain({"at": datetime(2026, 1, 5, 10, 0, 0, 1), "price": Decimal("12.30"), "raw": b"ab", "ms": float("nan")})
    {'at': '2026-01-05T10:00:00.000001', 'price': '12.30', 'raw': 'YWI=', 'ms': 'nan'}
    >>> plain([{1: date(2026, 1, 5)}])
    [[[1, '2026-01-05']]]
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: plain(each) for key, each in value.items()}
        return [[plain(key), plain(each)] for key, each in value.items()]
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return _as_text(value)


def _as_text(value: Any) -> str:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return b64encode(value).decode()
    raise SchemaError(f"a value of type {type(value).__name__} cannot be captured: {value!r}")


# How a value is made of JSON, by the type of its field; others are as JSON has them.
READ: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]], ...]] = (
    (kinds.is_floating, float),
    (kinds.is_timestamp, datetime.fromisoformat),
    (kinds.is_date, date.fromisoformat),
    (kinds.is_decimal, Decimal),
    (kinds.is_binary, b64decode),
)


def typed(value: Any, kind: pa.DataType) -> Any:
    """The value of a field of type `kind` that `plain` has made JSON of.

    >>> typed("12.30", pa.decimal128(9, 2)), typed([[1, "YQ=="]], pa.map_(pa.int32(), pa.binary()))
    (Decimal('12.30'), [(1, b'a')])
    """
    if value is None:
        return None
    if kinds.is_struct(kind):
        fields = {field.name: field.type for field in kind}
        # Fields that the type lacks stay, and are refused with their name where rows are checked.
        return {name: typed(each, fields[name]) if name in fields else each for name, each in value.items()}
    if kinds.is_map(kind):
        pairs = value.items() if isinstance(value, Mapping) else value
        return [(typed(key, kind.key_type), typed(each, kind.item_type)) for key, each in pairs]
    if kinds.is_list(kind):
        return [typed(each, kind.value_type) for each in value]
    read = next((read for is_kind, read in READ if is_kind(kind)), None)
    return value if read is None else read(value)


def as_line(row: Mapping[str, Any]) -> str:
    """A row as one line of JSON."""
    return json.dumps(plain(row), ensure_ascii=False)


def typed_rows(lines: Sequence[Mapping[str, Any]], schema: pa.Schema) -> list[dict[str, Any]]:
    """Rows of a source, of JSON; fields that the schema lacks stay as they are."""
    types = {field.name: field.type for field in schema}
    return [
        {name: typed(value, types[name]) if name in types else value for name, value in line.items()} for line in lines
    ]


def comparable(row: Mapping[str, Any]) -> str:
    """A text that rows have in common which are equal: a missing field is null, and floats have twelve digits.

    >>> comparable({"n": 0.1 + 0.2, "page": None}) == comparable({"n": 0.3})
    True
    """
    return json.dumps(
        {name: rounded(each) for name, each in plain(row).items() if each is not None},
        ensure_ascii=False,
        sort_keys=True,
    )


def rounded(value: Any) -> Any:
    """A value with floating-point numbers of twelve digits, in lists and dicts as well; -0.0 is 0.0.

    >>> rounded([{"n": 0.1 + 0.2}, -0.0, "0.30000000000000004"])
    [{'n': 0.3}, 0.0, '0.30000000000000004']
    """
    if isinstance(value, float):
        # Adding zero makes -0.0 the same as 0.0.
        return float(format(value, DIGITS)) + 0.0
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list) else value

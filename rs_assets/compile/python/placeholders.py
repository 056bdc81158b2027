"""A placeholder value for each type, for invisible rows: null would break Spark where the schema is not nullable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

BLANKS: tuple[tuple[Callable[[pa.DataType], bool], Any], ...] = (
    (pa.types.is_string, ""),
    (pa.types.is_large_string, ""),
    (pa.types.is_binary, b""),
    (pa.types.is_large_binary, b""),
    (pa.types.is_boolean, False),
    (pa.types.is_map, []),
    (pa.types.is_list, []),
    (pa.types.is_large_list, []),
)


def blank(field: pa.Field) -> Any:
    """Null if `field` allows it, else a neutral value.

    >>> blank(pa.field("ms", pa.int64())), blank(pa.field("ms", pa.int64(), nullable=False))
    (None, 0)
    """
    if field.nullable:
        return None
    if pa.types.is_struct(field.type):
        return {member.name: blank(member) for member in field.type}
    return next((value for is_kind, value in BLANKS if is_kind(field.type)), 0)

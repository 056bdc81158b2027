"""The inner keys and times of stores: a value is found however it was given, in this batch and in later ones."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

# Types of which state may give back another value than was put: a time in UTC, a number with fewer digits.
CHANGED: Final = ("timestamp", "float")


def settled(name: str, value: Any, schema: str) -> Any:
    """`value` of the field `name` of a key as state gives it back; MisfitError if it is not of its type.

    >>> settled("at", datetime(2026, 1, 5, 10), "at timestamp").isoformat()
    '2026-01-05T10:00:00+00:00'
    >>> settled("weight", 0.1, "weight float"), settled("sku", "pen", "sku string")
    (0.10000000149011612, 'pen')
    """
    kind = _changed(schema).get(name)
    if kind is None or value is None or (isinstance(value, datetime) and value.tzinfo is not None and _zoned(kind)):
        return value
    import pyarrow as pa

    from rs_assets.records.rows import to_arrays

    return to_arrays([{name: value}], pa.schema([(name, kind)]))[0][0].as_py()


def moment(at: datetime) -> datetime:
    """A time of a store, in UTC if it has no zone, as all times of rows; TypeError for what is none.

    >>> moment(datetime(2026, 1, 5, 10)).isoformat()
    '2026-01-05T10:00:00+00:00'
    """
    if not isinstance(at, datetime):
        raise TypeError(f"a time of a store must be a datetime, such as context.time, not {at!r}")
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _zoned(kind: pa.DataType) -> bool:
    return getattr(kind, "tz", None) is not None


@cache
def _changed(schema: str) -> dict[str, pa.DataType]:
    """The fields of a key whose values state may change; none of a schema that only Spark can read."""
    from rs_assets.records.ddl import arrow_schema

    known = arrow_schema(schema) or ()
    return {field.name: field.type for field in known if str(field.type).startswith(CHANGED)}

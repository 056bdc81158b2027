"""Tables that a user-defined function returns, with exactly the fields of its schema."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

UNFIT = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, ValueError, TypeError)


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
        return table.select(schema.names).cast(schema)
    except UNFIT as error:
        raise UnfitError(f"returned {what} that do not fit the schema: {error}") from error


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

"""Tables and columns that a user-defined function returns, with exactly the types of its schema."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from rs_assets.records.casts import cast_kept, changes, whole
from rs_assets.records.rows import first_changed, type_name

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
        made = table.select(schema.names).cast(schema)
        changed = next((field for field in schema if any(changes(whole(table[field.name]), field.type))), None)
    except UNFIT as error:
        raise UnfitError(f"returned {what} that do not fit the schema: {error}") from error
    if changed is not None:
        of = f"{changed.name} is {type_name(table[changed.name].type)}, not {type_name(changed.type)}"
        raise UnfitError(f"returned {what} that do not fit the schema: {of}, which would change its values")
    return made


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


def _table(value: Any) -> pa.Table | None:
    if isinstance(value, pa.Table):
        return value
    if isinstance(value, pa.RecordBatch):
        return pa.Table.from_batches([value])
    try:
        return pa.table(value)
    except UNFIT:
        return None

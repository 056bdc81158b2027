"""Rows of the program as Parquet files in a folder, for Spark's own file source to read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from resources.errors import SchemaError
from resources.files import write_atomically

Rows = Sequence[Mapping[str, Any]]


def write_spool_file(folder: Path, rows: Rows, schema: pa.Schema, *, first_row: int) -> Path:
    """Write `rows` as one file that appears by a rename; its name carries the place of its first row."""
    return _publish(to_table(rows, schema), folder / f"rows-{first_row:015d}.parquet")


def write_array(folder: Path, rows: Rows, schema: pa.Schema) -> Path:
    """Write the rows of an array source, once: the name is a digest of the content, so other rows are new input."""
    table = to_table(rows, schema)
    digest = hashlib.sha256(repr([sorted(row.items(), key=str) for row in table.to_pylist()]).encode()).hexdigest()[:16]
    path = folder / f"rows-{0:015d}-{digest}.parquet"
    return path if path.exists() else _publish(table, path)


def infer_schema(rows: Rows, *, step: str) -> pa.Schema:
    """The Arrow schema of `rows`: whole numbers are bigint, naive datetimes are taken as UTC."""
    try:
        schema = pa.Table.from_pylist([dict(row) for row in rows]).schema
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SchemaError(
            f"the rows of step {step!r} have no common schema: {error}", remedy="pass schema='...'"
        ) from error
    return pa.schema([pa.field(f.name, _zoned(f.type)) for f in schema])


def to_table(rows: Rows, schema: pa.Schema) -> pa.Table:
    """`rows` as a table of exactly `schema`; SchemaError names the row and the field that do not fit.

    Missing fields are null. Text is accepted for a timestamp in ISO form, UTC unless it says otherwise.
    """
    names = set(schema.names)
    stamps = {f.name for f in schema if pa.types.is_timestamp(f.type)}
    plain: list[dict[str, Any]] = []
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise SchemaError(f"row {number} is not a dict: {row!r}")
        unknown = [name for name in row if name not in names]
        if unknown:
            raise SchemaError(
                f"row {number} has the field {unknown[0]!r}, which is not in the schema",
                remedy=f"the schema has: {', '.join(schema.names)}",
            )
        plain.append({k: _timestamp(v, k, number) if k in stamps else v for k, v in row.items()})
    try:
        return pa.Table.from_pylist(plain, schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise _misfit(plain, schema, error) from error


def _misfit(rows: list[dict[str, Any]], schema: pa.Schema, error: Exception) -> SchemaError:
    """The error for the first row and field that do not fit."""
    for number, row in enumerate(rows):
        for field in schema:
            try:
                pa.array([row.get(field.name)], type=field.type)
            except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
                return SchemaError(
                    f"row {number}: {field.name}={row.get(field.name)!r} is no {field.type}",
                    row=number,
                    field=field.name,
                )
    return SchemaError(f"the rows do not fit the schema: {error}")


def _timestamp(value: object, field: str, row: int) -> object:
    if not isinstance(value, str):
        return value
    try:
        made = datetime.fromisoformat(value)
    except ValueError as error:
        raise SchemaError(f"row {row}: {field}={value!r} is no timestamp", row=row, field=field) from error
    return made if made.tzinfo else made.replace(tzinfo=UTC)


def _zoned(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", tz="UTC") if pa.types.is_timestamp(kind) else kind


def _publish(table: pa.Table, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    written = pa.BufferOutputStream()
    pq.write_table(table, written)
    write_atomically(path, written.getvalue().to_pybytes())
    return path

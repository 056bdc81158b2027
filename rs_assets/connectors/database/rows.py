"""Rows of a batch for a database: as CSV for COPY, or as Python values for statements."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from pyarrow import csv

# Rows of one statement, and of one piece of CSV.
STATEMENT_ROWS, PIECE_ROWS = 5_000, 20_000


def as_csv(rows: pa.Table) -> Iterator[bytes]:
    """The rows as CSV of Postgres in pieces, without a header: null is an empty value, text is always quoted."""
    options = csv.WriteOptions(include_header=False, quoting_style="all_valid")
    plain = pa.table([_plain(column) for column in rows.columns], names=[str(n) for n in range(rows.num_columns)])
    for start in range(0, plain.num_rows, PIECE_ROWS):
        piece = io.BytesIO()
        csv.write_csv(plain.slice(start, PIECE_ROWS), piece, options)
        yield piece.getvalue()


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as Arrow writes it: bytes as Postgres' hex text, times with their zone."""
    kind = column.type
    if kinds.is_binary(kind) or kinds.is_large_binary(kind):
        return pa.chunked_array([pa.array([_hex(value) for value in column.to_pylist()], pa.string())])
    if kinds.is_decimal(kind) or kinds.is_floating(kind):
        return pc.cast(column, pa.string())
    if kinds.is_timestamp(kind) and kind.tz is not None:
        # Without the zone's database: UTC is written as an offset.
        naive = pc.cast(pc.cast(column, pa.timestamp("us", tz="UTC")), pa.timestamp("us"))
        return pc.binary_join_element_wise(pc.cast(naive, pa.string()), "+00", "")
    return column


def as_lines(rows: pa.Table) -> Iterator[bytes]:
    r"""The rows as lines of LOAD DATA in pieces: fields end with a tab, null is \N, bytes are hex.

    >>> b"".join(as_lines(pa.table({"id": [1, None], "page": ["a\tb", ""], "ok": [True, False]})))
    b'1\ta\\tb\t1\n\\N\t\t0\n'
    """
    for start in range(0, rows.num_rows, PIECE_ROWS):
        fields = [_field(column) for column in rows.slice(start, PIECE_ROWS).columns]
        lines = pc.binary_join_element_wise(*fields, "\t", null_handling="replace", null_replacement="\\N")
        yield "".join(f"{line}\n" for line in lines.to_pylist()).encode()


def _field(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if kinds.is_boolean(kind):
        return pc.cast(pc.cast(column, pa.int8()), pa.string())
    if kinds.is_binary(kind) or kinds.is_large_binary(kind):
        return pa.chunked_array([pa.array([None if v is None else v.hex() for v in column.to_pylist()], pa.string())])
    if kinds.is_timestamp(kind):
        naive = (
            pc.cast(column, pa.timestamp("us")) if kind.tz is None else pc.cast(column, pa.timestamp("us", tz="UTC"))
        )
        return pc.cast(pc.cast(naive, pa.timestamp("us")), pa.string())
    if not kinds.is_string(kind) and not kinds.is_large_string(kind):
        return pc.cast(column, pa.string())
    for mark, escaped in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n")):
        column = pc.replace_substring(column, mark, escaped)
    return pc.cast(column, pa.string())


def _hex(value: bytes | None) -> str | None:
    return None if value is None else f"\\x{value.hex()}"


def has_rest(times: pa.ChunkedArray, digits: int) -> bool:
    """Whether one of the times has more digits of a second than `digits`.

    >>> has_rest(pa.chunked_array([pa.array([1_500, None], pa.timestamp("us"))]), 3)
    True
    """
    micros = pc.drop_null(pc.cast(pc.cast(times, pa.timestamp("us", times.type.tz)), pa.int64()))
    return bool(np.any(micros.to_numpy() % 10 ** (6 - digits)))


def statements(rows: pa.Table, dialect: str) -> Iterator[list[dict[str, Any]]]:
    """The rows as parameters of statements, some at a time."""
    for start in range(0, rows.num_rows, STATEMENT_ROWS):
        part = rows.slice(start, STATEMENT_ROWS)
        values = [_values(column, dialect) for column in part.columns]
        yield [dict(zip(part.column_names, row, strict=True)) for row in zip(*values, strict=True)]


def _values(column: pa.ChunkedArray, dialect: str) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if kinds.is_decimal(column.type) and dialect == "sqlite":
        return [None if value is None else str(value) for value in values]
    if kinds.is_timestamp(column.type) and column.type.tz is not None:
        return [None if value is None else value.astimezone(UTC) for value in values]
    return values

"""Rows of user code as lines of JSON with their split and offset, in Arrow batches of bounded size."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rs_assets.errors import SourceReadError

# A mapping, or the text of a JSON object.
OwnRow = Mapping[str, Any] | str | bytes
Numbered = tuple[int, OwnRow]
# The columns of `rs_lines`.
SCHEMA = pa.schema(
    [
        ("split", pa.string()),
        ("line", pa.int64()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("value", pa.binary()),
    ]
)
# How many rows go to Spark at once.
CHUNK = 2_000
# A value that no JSON parser accepts as an object: an empty line would be passed over as blank.
EMPTY = b'""'


def line_of(row: object) -> bytes:
    r"""A row as the text of a JSON object; SourceReadError for one that is neither a mapping nor text.

    Times are ISO 8601, exact numbers are texts, bytes are Base64; Spark's parser gives them their types.

    >>> line_of({"n": Decimal("1.10"), "raw": b"\xff"}), line_of('{"n": 1}'), line_of("")
    (b'{"n": "1.10", "raw": "/w=="}', b'{"n": 1}', b'""')
    """
    if type(row) is bytes and row[:1] == b"{":
        return row
    if isinstance(row, Mapping):
        return json.dumps(dict(row), ensure_ascii=False, default=plain).encode(errors="surrogateescape")
    if isinstance(row, str | bytes):
        text = row.encode(errors="surrogateescape") if isinstance(row, str) else row
        return text if text.strip() else EMPTY
    raise SourceReadError(
        f"a row must be a dict or the text of a JSON object, not {type(row).__name__}",
        remedy="return dicts with the fields of the schema",
    )


@dataclass(frozen=True, slots=True)
class Lines:
    """Rows that lie together in memory, each as the text of a JSON object; `values` are binary.

    >>> lines = Lines(pa.chunked_array([[b'{"n": 1}', b'{"n": 2}']], pa.binary()))
    >>> len(lines), next(iter(lines)), [batch["line"].to_pylist() for batch in lines.batches("poll", 7)]
    (2, b'{"n": 1}', [[7, 8]])
    """

    values: pa.ChunkedArray

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.values)

    def __iter__(self) -> Iterator[bytes]:
        """The text of each row."""
        return (value.as_py() for value in self.values)

    def batches(self, split: str, first: int) -> Iterator[pa.RecordBatch]:
        """The rows as those of a split; the line of a row is its number, from `first` on."""
        for values in self.values.chunks:
            numbers = pa.array(range(first, first + len(values)), pa.int64())
            lengths = pc.binary_length(values).cast(pa.int64())
            columns = [pa.repeat(split, len(values)), numbers, numbers, lengths, values]
            yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
            first += len(values)


def batches_of(split: str, rows: Iterable[Numbered]) -> Iterator[pa.RecordBatch]:
    """Numbered rows of a split, CHUNK at a time; the line of a row is its number."""
    for chunk in _chunks(rows):
        numbers = pa.array([number for number, _ in chunk], pa.int64())
        values = [line_of(row) for _, row in chunk]
        lengths = pa.array(map(len, values), pa.int64())
        columns = [pa.array([split] * len(chunk)), numbers, numbers, lengths, pa.array(values, pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _chunks(rows: Iterable[Numbered]) -> Iterator[list[Numbered]]:
    chunk: list[Numbered] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def plain(value: object) -> object:
    """What JSON has in place of a value that it lacks; SourceReadError for one without a form there."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    raise SourceReadError(
        f"a value of type {type(value).__name__} has no form in JSON",
        remedy="return texts, numbers, booleans, bytes, dates, datetimes, lists and dicts",
    )

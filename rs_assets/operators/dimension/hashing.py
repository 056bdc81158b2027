"""64-bit fingerprints of keys, computed over whole columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

Words = np.ndarray[Any, np.dtype[np.uint64]]
# The odd factors of SplitMix64: https://prng.di.unimi.it/splitmix64.c
_STEP, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
# Masks for words that contain 0 to 8 bytes of a value.
_MASKS = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)
# The offset widths of texts and bytes.
OFFSETS: Mapping[pa.DataType, type] = MappingProxyType(
    {pa.string(): np.int32, pa.binary(): np.int32, pa.large_string(): np.int64, pa.large_binary(): np.int64}
)
# Longer values are hashed one by one.
LONG_BYTES = 512


def fingerprints(columns: Sequence[pa.Array]) -> Words:
    """A fingerprint for each row of `columns`, equal where all values are; undefined for a row with a null.

    Zero and minus zero are equal, as all NaN are. Whole numbers of any width are equal if they are the same number.

    >>> first, second = fingerprints([pa.array(["a", "b"])]), fingerprints([pa.array(["x", "b"])])
    >>> bool(first[0] == second[0]), bool(first[1] == second[1])
    (False, True)
    """
    made = np.full(len(columns[0]), _STEP, np.uint64)
    for column in columns:
        made = _mixed(made ^ _column(column))
    return made


def comparable(column: pa.Array) -> pa.Array:
    """`column` in a form in which keys compare as equal if and only if they are."""
    kind = column.type
    if kinds.is_floating(kind):
        return pa.Array.from_buffers(pa.int64(), len(column), [_validity(column), pa.py_buffer(_bits(column))])
    if kinds.is_integer(kind):
        return column.cast(pa.int64())
    if kinds.is_temporal(kind):
        return column.view(pa.int32() if kinds.is_date32(kind) else pa.int64())
    if kinds.is_large_string(kind):
        return column.cast(pa.string())
    return column.cast(pa.binary()) if kinds.is_large_binary(kind) else column


def _column(column: pa.Array) -> Words:
    kind = column.type
    if kind in OFFSETS:
        return _texts(column, OFFSETS[kind])
    if kinds.is_floating(kind):
        return _mixed(_bits(column).view(np.uint64))
    if kinds.is_decimal128(kind):
        low, high = _words(column, 2).T
        return _mixed(_mixed(low.copy()) ^ high)
    if kinds.is_boolean(kind):
        return _mixed(_plain(column.cast(pa.uint8())).astype(np.uint64))
    if kinds.is_temporal(kind):
        return _mixed(_plain(comparable(column)).astype(np.int64).view(np.uint64))
    return _mixed(_plain(column).astype(np.int64).view(np.uint64))


def _mixed(words: Words) -> Words:
    """Each word with its bits mixed."""
    words = words + _STEP
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    mixed: Words = words ^ (words >> np.uint64(31))
    return mixed


def _plain(column: pa.Array) -> np.ndarray[Any, Any]:
    """The values of numbers; those of nulls are arbitrary."""
    filled = pc.fill_null(column, 0) if column.null_count else column
    values: np.ndarray[Any, Any] = filled.to_numpy(zero_copy_only=False)
    return values


def _bits(column: pa.Array) -> np.ndarray[Any, Any]:
    """The bits of floating numbers, with one zero and one NaN."""
    values = _plain(column).astype(np.float64) + 0.0
    values[np.isnan(values)] = np.nan
    return values.view(np.int64)


def _words(column: pa.Array, each: int) -> Words:
    data: Words = np.frombuffer(column.buffers()[1], np.uint64).reshape(-1, each)
    return data[column.offset : column.offset + len(column)]


def _validity(column: pa.Array) -> pa.Buffer | None:
    return column.is_valid().buffers()[1] if column.null_count else None


def _texts(column: pa.Array, offset: type) -> Words:
    """Hashes texts and bytes, eight bytes of all values at a time."""
    _, places, data = column.buffers()
    ends = np.frombuffer(places, offset)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    starts, lengths = ends[:-1], np.diff(ends)
    made = _mixed(lengths.view(np.uint64))
    if not len(lengths) or not lengths.max():
        return made
    content = np.frombuffer(data, np.uint8)[: ends[-1]]
    padded = np.zeros(len(content) + 8, np.uint8)
    padded[: len(content)] = content
    windows = np.ndarray((len(content) + 1,), "<u8", padded, strides=(1,))
    for at in range(0, min(int(lengths.max()), LONG_BYTES), 8):
        rows: Any = slice(None) if int(lengths.min()) > at else np.flatnonzero(lengths > at)
        words = windows[starts[rows] + at] & _MASKS[np.minimum(lengths[rows] - at, 8)]
        made[rows] = _mixed(made[rows] ^ words)
    for row in np.flatnonzero(lengths > LONG_BYTES):
        whole = content[starts[row] : ends[row + 1]].tobytes()
        made[row] = int.from_bytes(blake2b(whole, digest_size=8).digest(), "little")
    return made

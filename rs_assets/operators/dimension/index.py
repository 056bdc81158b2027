"""The index of one version: a file of rows in the order of their keys' fingerprints, mapped into memory.

Rows are sorted by a 64-bit fingerprint of the key. Its first bits select a bucket of some four rows, the next 16 are
kept as a tag; rows with the tag are compared with the key itself. All processes of a machine share the pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from rs_assets.operators.dimension.hashing import Words, comparable, fingerprints
from rs_assets.operators.dimension.packing import packed, unpacked

ROWS, BUCKETS = "rows.arrow", "buckets.npy"
TAG = "_rs_tag"
TAG_BITS = 16
# Rows of a bucket, as a power of two.
BUCKET_BITS = 2
# The limit of 32-bit offsets.
SHORT_BYTES = (1 << 31) - 1

Places = np.ndarray[Any, np.dtype[np.int64]]


def build_index(table: pa.Table, keys: Sequence[str], folder: Path) -> int:
    """Write the index of `table` over its fields `keys` into `folder`; returns its number of rows.

    Rows without a key, null or an empty text, match nothing and are left out. Rows of one key keep their order.
    """
    table = with_keys(table, keys).combine_chunks()
    prints = fingerprints([_whole(table[name]) for name in keys])
    order = np.argsort(prints, kind="stable")
    prints = prints[order]
    bits = _bits(len(prints))
    firsts = prints >> np.uint64(64 - bits)
    starts = np.searchsorted(firsts, np.arange((1 << bits) + 1, dtype=np.uint64)).astype(np.uint32)
    write_rows(table, order, folder, {TAG: pa.array(_tags(prints, bits))})
    np.save(folder / BUCKETS, starts)
    return len(prints)


def write_rows(table: pa.Table, order: Any, folder: Path, beside: Mapping[str, pa.Array]) -> None:
    """Write the rows of `table` in `order`, with further columns."""
    taken = ((name, _wide(table[name]).take(pa.array(order))) for name in table.column_names)
    columns = [packed(_whole(column), name) for name, column in taken]
    columns += [(column, pa.field(name, column.type)) for name, column in beside.items()]
    rows = pa.table([column for column, _ in columns], schema=pa.schema([field for _, field in columns]))
    with pa.OSFile(str(folder / ROWS), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)


def mapped_rows(folder: Path) -> pa.RecordBatch:
    """The rows in `folder`, mapped; OSError or ArrowInvalid if they cannot be read."""
    with pa.memory_map(str(folder / ROWS)) as source, pa.ipc.open_file(source) as file:
        return file.get_batch(0) if file.num_record_batches else pa.RecordBatch.from_pylist([], file.schema)


def values_at(rows: pa.RecordBatch, name: str, places: Places) -> pa.Array:
    """The field `name` of the rows at some places."""
    return unpacked(rows.column(name).take(pa.array(places)), rows.schema.field(name))


def spread(asked: Places, firsts: Places, counts: Places) -> tuple[Places, Places]:
    """For each one asked for its rows, `counts` from `firsts` on: pairs of who asked and a row.

    >>> who, rows = spread(np.array([3, 8]), np.array([10, 50]), np.array([2, 1]))
    >>> who.tolist(), rows.tolist()
    ([3, 3, 8], [10, 11, 50])
    """
    who, begun = np.repeat(asked, counts), np.repeat(np.cumsum(counts) - counts, counts)
    return who, np.repeat(firsts, counts) + np.arange(len(who)) - begun


def ends_of(who: Places, count: int) -> Places:
    """Where the rows of each of `count` begin among those found, sorted by who asked; one more than there are."""
    ends = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(who, minlength=count), out=ends[1:])
    return ends


@dataclass(frozen=True, slots=True)
class Index:
    """An open index; `find` returns the rows of some keys, `values` the fields of those rows."""

    rows: pa.RecordBatch
    keys: tuple[str, ...]
    starts: np.ndarray[Any, np.dtype[np.uint32]]
    tags: np.ndarray[Any, np.dtype[np.uint16]]

    @classmethod
    def open(cls, folder: Path, keys: Sequence[str]) -> Self:
        """Map the files in `folder`; OSError or ArrowInvalid if they cannot be read."""
        rows = mapped_rows(folder)
        starts = np.load(folder / BUCKETS, mmap_mode="r")
        return cls(rows, tuple(keys), starts, rows.column(TAG).to_numpy())

    def find(self, keys: Sequence[pa.Array]) -> tuple[Places, Places]:
        """Where the rows of each key begin among those found (one more than there are keys), and the rows found.

        A key with a null or an empty text finds nothing.
        """
        asked = np.flatnonzero(_there(keys))
        prints = fingerprints(keys)[asked]
        firsts, counts = self._tagged(prints)
        probes, rows = spread(asked, firsts, counts)
        equal = self._equal(keys, probes, rows)
        return ends_of(probes[equal], len(keys[0])), rows[equal]

    def values(self, name: str, rows: Places) -> pa.Array:
        """The field `name` of some rows."""
        return values_at(self.rows, name, rows)

    def _tagged(self, prints: Words) -> tuple[Places, Places]:
        """The first row with the tag of each fingerprint in its bucket, and the number of rows with it."""
        bits = _bits(self.rows.num_rows)
        bucket, tags = (prints >> np.uint64(64 - bits)).astype(np.int64), _tags(prints, bits)
        begin, end = self.starts[bucket].astype(np.int64), self.starts[bucket + 1].astype(np.int64)
        firsts = self._bound(begin, end, tags, np.less)
        found = firsts < end
        found[found] = self.tags[firsts[found]] == tags[found]
        counts = found.astype(np.int64)
        several = np.flatnonzero(found & (firsts + 1 < end))
        several = several[self.tags[firsts[several] + 1] == tags[several]]
        counts[several] = self._bound(firsts[several], end[several], tags[several], np.less_equal) - firsts[several]
        return firsts, counts

    def _bound(self, begin: Places, end: Places, tags: Any, before: Any) -> Places:
        """The position in each range of rows of the first tag that is not `before` the wanted one."""
        begin, size = begin.copy(), end - begin
        while len(size) and size.max() > 0:
            half = size >> 1
            middle = np.minimum(begin + half, len(self.tags) - 1)
            behind = (size > 0) & before(self.tags[middle], tags)
            begin = np.where(behind, begin + half + 1, begin)
            size = np.where(behind, size - half - 1, half)
        return begin

    def _equal(self, keys: Sequence[pa.Array], probes: Places, rows: Places) -> Any:
        """Whether keys and rows are equal, pair by pair."""
        equal = np.ones(len(probes), np.bool_)
        for name, asked in zip(self.keys, keys, strict=True):
            kept = comparable(self.values(name, rows))
            same = pc.equal(comparable(asked.take(pa.array(probes))), kept)
            equal &= same.to_numpy(zero_copy_only=False).astype(np.bool_)
        return equal


def _bits(rows: int) -> int:
    """The number of fingerprint bits that select the bucket."""
    return max(1, (max(rows, 1) - 1).bit_length() - BUCKET_BITS)


def _tags(prints: Words, bits: int) -> np.ndarray[Any, np.dtype[np.uint16]]:
    return ((prints >> np.uint64(64 - bits - TAG_BITS)) & np.uint64((1 << TAG_BITS) - 1)).astype(np.uint16)


def _there(keys: Sequence[pa.Array]) -> Any:
    """Whether a key is complete: no part is null or an empty text."""
    there = np.ones(len(keys[0]), np.bool_)
    for key in keys:
        full = pc.is_valid(key)
        if kinds.is_string(key.type) or kinds.is_large_string(key.type):
            full = pc.and_(full, pc.fill_null(pc.greater(pc.binary_length(key), 0), False))  # noqa: FBT003
        there &= full.to_numpy(zero_copy_only=False).astype(np.bool_)
    return there


def with_keys(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The rows of `table` with a complete key: no part of it is null or an empty text."""
    there = _there([_whole(table[name]) for name in keys])
    return table if there.all() else table.filter(pa.array(there))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """All chunks as one array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return _wide(column).combine_chunks()


def _wide(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """With 64-bit offsets if those of 32 bits do not reach."""
    if column.nbytes < SHORT_BYTES or not (kinds.is_string(column.type) or kinds.is_binary(column.type)):
        return column
    return column.cast(pa.large_string() if kinds.is_string(column.type) else pa.large_binary())

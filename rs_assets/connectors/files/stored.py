"""Files in an object store as a log: an object is a split, its rows have numbers, and it does not change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from rs_assets.common.storage import storage_options
from rs_assets.connectors.delta.log.store import store
from rs_assets.connectors.files.codecs import PACK_AGAIN, codec_of, is_foreign
from rs_assets.connectors.files.listing import MAGIC
from rs_assets.connectors.files.parquet_columns import check_fields, fields_of
from rs_assets.connectors.own.lines import OwnRow
from rs_assets.connectors.own.log import LogReader, LogSource
from rs_assets.connectors.own.plan import loaded
from rs_assets.connectors.own.reader import fresh, within
from rs_assets.connectors.source import Lag
from rs_assets.errors import SourceReadError

# About how long a line is: a batch of so many rows is cut by bytes.
LINE_BYTES = 200
BLOCK_BYTES = 1 << 20
# An archive has at most 2^16 times its bytes when it is unpacked, so a number below that is one of its rows: a block of
# zstd has at most 128 KiB and at least four bytes, and gzip packs less.
PACKED_BITS: Final = 16
# What follows the name of an object in that of its split.
FACTS = re.compile(r" \((\d+) bytes, (\d+) ms\)$")


class StoredFiles(LogSource):
    """The objects at an address such as `s3://bucket/in/*.jsonl`: a glob, one object, or all below a folder.

    A row's number is the byte at which its line begins in JSON, in an archive once it is unpacked, and its place in the
    file in Parquet. Size and time of an object are part of the name of its split: one that was replaced is a split that
    is gone, a data loss. `form` is "json" (JSON lines, also in archives of gzip and zstd) or "parquet". Parquet files
    must have the columns of a declared `schema`.
    """

    def __init__(self, address: str, form: str, schema: str | None = None) -> None:
        self.address, self.form, self.schema = address, form, schema
        scheme, _, rest = address.partition("://")
        self.bucket, self._path = f"{scheme}://{rest.partition('/')[0]}", rest.partition("/")[2]
        self.gaps = form == "json"
        self._options: Mapping[str, str] | None = None
        self._rows: dict[str, int] = {}

    def __getstate__(self) -> dict[str, Any]:
        """With the options of this process, which other processes may not have."""
        return {**self.__dict__, "_options": self._options or storage_options(self.address)}

    def location(self) -> str:
        """The address."""
        return self.address

    def ends(self) -> Mapping[str, int]:
        """The objects that are there, and how long they are."""
        found = self._splits().items()
        return {split: _end(info) if self.gaps else self._count(split, info.path) for split, info in found}

    def read(self, split: str, start: int, end: int) -> Iterable[OwnRow | tuple[int, OwnRow]]:
        """The lines that begin in the range, or the rows of these numbers."""
        name = FACTS.sub("", split)
        if split != _split_of(self._files().get_file_info(name)):
            raise FileNotFoundError(f"{name} was replaced since its rows were planned")
        return self._lines(name, start, end) if self.gaps else self._records(name, start, end)

    def cut(self, split: str, start: int, end: int, rows: int) -> int:
        """About so many lines, or exactly so many rows; an archive is not cut."""
        if self.gaps and _codec_of(FACTS.sub("", split)):
            return end
        return min(end, start + rows * (LINE_BYTES if self.gaps else 1))

    def unread_bytes(self, read: Mapping[str, int]) -> int:
        """The bytes of the objects after the numbers `read`, by split; of archives as they are stored."""
        left = ((info, _end(info) - read.get(split, 0)) for split, info in self._splits().items())
        return sum(max(0, rest >> PACKED_BITS if _codec_of(info.path) else rest) for info, rest in left)

    def reader(self, name: str) -> LogReader:
        """The reader of the step `name`."""
        return StoredReader(name=name, max_rows_per_batch=self.max_rows_per_batch, source=self)

    def _splits(self) -> Mapping[str, fs.FileInfo]:
        """The objects that are there, by the names of their splits; SourceReadError for one that is not read."""
        there = [*self._found()]
        for info in there:
            _check_archive(info.path)
        return {_split_of(info): info for info in there}

    def _files(self) -> fs.FileSystem:
        return store(self.bucket, self._options or storage_options(self.address))

    def _found(self) -> Iterator[fs.FileInfo]:
        magic = MAGIC.search(self._path)
        fixed = self._path[: magic.start()].rpartition("/")[0] if magic else self._path.rstrip("/")
        one = self._files().get_file_info(fixed) if fixed and not magic else None
        if one is not None and one.is_file:
            yield one
            return
        for info in self._files().get_file_info(fs.FileSelector(fixed, allow_not_found=True, recursive=True)):
            hidden = any(part.startswith(("_", ".")) for part in info.path.removeprefix(fixed).split("/"))
            if info.is_file and info.size and not hidden and (not magic or fnmatchcase(info.path, self._path)):
                yield info

    def _count(self, split: str, name: str) -> int:
        """The rows of a Parquet file, looked up once in a process."""
        if split not in self._rows:
            with self._files().open_input_file(name) as file:
                self._rows[split] = pq.read_metadata(file).num_rows
        return self._rows[split]

    def _lines(self, name: str, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        codec = _codec_of(name)
        with self._files().open_input_file(name) as file:
            # One byte earlier: whether a line begins at `start` depends on it. An archive is unpacked as a whole.
            at, rest = 0 if codec else max(0, start - 1), b""
            file.seek(at)
            content = pa.CompressedInputStream(file, codec) if codec else file
            whole = at == 0
            while True:
                block = content.read(BLOCK_BYTES)
                *lines, rest = (rest + block).split(b"\n")
                for line in lines if block else [rest]:
                    if whole and start <= at < end and line.strip():
                        yield at, line.rstrip(b"\r")
                    at, whole = at + len(line) + 1, True
                if not block or at >= end:
                    return

    def _records(self, name: str, start: int, end: int) -> Iterator[Mapping[str, Any]]:
        with self._files().open_input_file(name) as file:
            at, parquet = 0, pq.ParquetFile(file)
            check_fields(parquet.schema_arrow, fields_of(self.schema, None), name)
            for batch in parquet.iter_batches():
                first, last = max(start - at, 0), min(end - at, batch.num_rows)
                if first < last:
                    yield from batch.slice(first, last - first).to_pylist()
                at += batch.num_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReader(LogReader):
    """The reader of files in an object store, whose lag is in bytes unless their rows are counted."""

    source: StoredFiles = field(repr=False)

    def lag(self, offset: str | None, patience: timedelta) -> Lag:
        """The bytes that were not read; of Parquet the rows."""
        if not self.source.gaps:
            return LogReader.lag(self, offset, patience)
        read = {split: at.next for split, at in loaded(offset).items()}
        return Lag(bytes=within(patience, lambda: fresh(self.source).unread_bytes(read), step=self.name))


def _split_of(info: fs.FileInfo) -> str:
    """The name of the split of an object, with its size and time: other content is another split."""
    return f"{info.path} ({info.size} bytes, {(info.mtime_ns or 0) // 1_000_000} ms)"


def _codec_of(name: str) -> str | None:
    return codec_of(PurePosixPath(name))


def _check_archive(name: str) -> None:
    """SourceReadError for an object that is packed in a way that is not read."""
    suffix = PurePosixPath(name).suffix
    if is_foreign(suffix):
        raise SourceReadError(f"objects ending in {suffix} are not read", remedy=PACK_AGAIN, object=name)


def _end(info: fs.FileInfo) -> int:
    """A number above those of all lines of an object."""
    return int(info.size) << PACKED_BITS if _codec_of(info.path) else int(info.size)

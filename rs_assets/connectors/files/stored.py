"""Files in an object store as a log: an object is a split, its rows have numbers, and it does not change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import pyarrow.parquet as pq
from pyarrow import fs

from rs_assets.common.storage import storage_options
from rs_assets.connectors.delta.log.store import store
from rs_assets.connectors.files.listing import MAGIC
from rs_assets.connectors.files.parquet_columns import check_fields, fields_of
from rs_assets.connectors.own.lines import OwnRow
from rs_assets.connectors.own.log import LogSource

# About how long a line is: a batch of so many rows is cut by bytes.
LINE_BYTES = 200
BLOCK_BYTES = 1 << 20
# What follows the name of an object in that of its split.
FACTS = re.compile(r" \((\d+) bytes, (\d+) ms\)$")


class StoredFiles(LogSource):
    """The objects at an address such as `s3://bucket/in/*.jsonl`: a glob, one object, or all below a folder.

    A row's number is the byte at which its line begins in JSON, and its place in the file in Parquet. Size and time of
    an object are part of the name of its split: one that was replaced is a split that is gone, a data loss. `form` is
    "json" (JSON lines) or "parquet". Parquet files must have the columns of a declared `schema`.
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
        found = ((f"{info.path} ({info.size} bytes, {info.mtime_ns // 1_000_000} ms)", info) for info in self._found())
        return {split: info.size if self.gaps else self._count(split, info.path) for split, info in found}

    def read(self, split: str, start: int, end: int) -> Iterable[OwnRow | tuple[int, OwnRow]]:
        """The lines that begin in the range, or the rows of these numbers."""
        name = FACTS.sub("", split)
        info = self._files().get_file_info(name)
        if split != f"{name} ({info.size} bytes, {(info.mtime_ns or 0) // 1_000_000} ms)":
            raise FileNotFoundError(f"{name} was replaced since its rows were planned")
        return self._lines(name, start, end) if self.gaps else self._records(name, start, end)

    def cut(self, split: str, start: int, end: int, rows: int) -> int:  # noqa: ARG002  as in a log
        """About so many lines, or exactly so many rows."""
        return min(end, start + rows * (LINE_BYTES if self.gaps else 1))

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
        with self._files().open_input_file(name) as file:
            # One byte earlier: whether a line begins at `start` depends on it.
            at, rest = max(0, start - 1), b""
            file.seek(at)
            whole = start == 0
            while True:
                block = file.read(BLOCK_BYTES)
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

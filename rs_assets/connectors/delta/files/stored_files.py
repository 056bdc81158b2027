"""Parquet files of a batch in an object store: Spark's tasks write each under its final name.

There a move is a copy, and a name appears with the whole file or not at all. So nothing is staged elsewhere: readers
see the files that a commit names, and a vacuum removes the others. The tasks write by the same library that commits:
Spark needs no jars for it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame

from rs_assets.common.storage import storage_options
from rs_assets.connectors.delta.files.data_files import BatchFiles, DataFile
from rs_assets.connectors.delta.files.partitions import partitioned, value_in
from rs_assets.connectors.delta.files.statistics import FileStatistics, file_statistics
from rs_assets.connectors.delta.log.store import files_of, store
from rs_assets.connectors.sink import BatchMark

# What a task returns for each file, as JSON.
FILE, SCHEMA = "file", pa.schema([("file", pa.string())])


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile(DataFile):
    """A file in the store."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFiles(BatchFiles):
    """The files of a batch in the table at `path`."""

    path: str
    files: tuple[StoredFile, ...]

    def discard(self) -> None:
        """Delete them, as far as that is possible."""
        for file in self.files:
            with suppress(OSError):
                files_of(self.path).delete_file(file.name)

    def placed(self, *, step: str) -> list[AddAction]:  # noqa: ARG002  as on a file system
        """They are in their place."""
        return [file.added(file.name) for file in self.files]


def store_files(batch: DataFrame, path: str, mark: BatchMark, *, partition_by: Sequence[str]) -> StoredFiles:
    """Compute `batch` and write it."""
    rows, columns = partitioned(batch, partition_by) if partition_by else (batch, [])
    write = partial(
        _written, path=path, options=storage_options(path), begin=f"{mark.folder}-{uuid.uuid4().hex[:8]}", by=columns
    )
    made = [orjson.loads(row[FILE]) for row in rows.mapInArrow(write, f"{FILE} string").collect()]
    return StoredFiles(path=path, files=tuple(_stored(each, partition_by) for each in made))


def _stored(made: Mapping[str, Any], partition_by: Sequence[str]) -> StoredFile:
    return StoredFile(
        name=made["name"],
        size=made["size"],
        modified_ms=made["modified_ms"],
        statistics=FileStatistics.of_text(made["statistics"]),
        values={column: value_in(text) for column, text in zip(partition_by, made["values"], strict=True)},
    )


def _written(
    batches: Iterator[pa.RecordBatch], *, path: str, options: Mapping[str, str] | None, begin: str, by: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """In a task: write its rows, one file for each partition of the table; a repeated task writes files of its own."""
    files: dict[tuple[str, ...], _File] = {}
    for batch in batches:
        for values, rows in _parts(batch, by):
            if values not in files:
                files[values] = _File(path, options, f"{begin}-{uuid.uuid4().hex}.parquet", rows.schema)
            files[values].write(rows)
    yield pa.RecordBatch.from_pylist([{FILE: file.closed(values)} for values, file in files.items()], schema=SCHEMA)


def _parts(batch: pa.RecordBatch, by: Sequence[str]) -> Iterator[tuple[tuple[str, ...], pa.RecordBatch]]:
    """The rows of a batch by the values of the columns `by`, and without these."""
    if not batch.num_rows:
        return
    if not by:
        yield (), batch
        return
    rows = batch.select([name for name in batch.schema.names if name not in by])
    places = pa.table([*(batch[name] for name in by), pa.array(range(batch.num_rows))], names=[*by, "place"])
    for part in places.group_by(list(by), use_threads=False).aggregate([("place", "list")]).to_pylist():
        yield tuple(part[name] for name in by), rows.take(pa.array(part["place_list"]))


class _File:
    """A file that is being written."""

    def __init__(self, path: str, options: Mapping[str, str] | None, name: str, schema: pa.Schema) -> None:
        self.name = name
        self._footer: list[pq.FileMetaData] = []
        self._stream = store(path, options).open_output_stream(name)
        self._writer = pq.ParquetWriter(self._stream, schema, metadata_collector=self._footer)
        self._nan: set[str] = set()

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows."""
        self._writer.write_batch(rows)
        self._nan.update(name for name, column in zip(rows.schema.names, rows.columns, strict=True) if _has_nan(column))

    def closed(self, values: Sequence[str]) -> str:
        """Finish the file; returns what the driver must know of it."""
        self._writer.close()
        size = self._stream.tell()
        self._stream.close()
        made = {
            "name": self.name,
            "size": size,
            "modified_ms": int(time.time() * 1000),
            "statistics": file_statistics(self._footer[0]).without_range(self._nan).text(),
            "values": list(values),
        }
        return orjson.dumps(made).decode()


def _has_nan(column: pa.Array) -> bool:
    """Whether it has a NaN, which Arrow leaves out of a range and Spark takes for the greatest number."""
    return pa.types.is_floating(column.type) and bool(pc.any(pc.is_nan(column)).as_py())

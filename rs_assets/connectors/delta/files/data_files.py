"""Parquet files of a batch on a file system: written where no vacuum looks, checked, and then moved into the table."""

from __future__ import annotations

import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pyarrow.parquet as pq
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame

from rs_assets.common.files import modified_ms
from rs_assets.common.plural import count_of
from rs_assets.connectors.delta.files.partitions import PARTITION, partitioned, value_in
from rs_assets.connectors.delta.files.staging import staging_of
from rs_assets.connectors.delta.files.statistics import FileStatistics, file_statistics
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import SinkError


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A file of a batch; `values` are those of the table's partition columns."""

    size: int
    modified_ms: int
    statistics: FileStatistics
    values: Mapping[str, str | None]

    def nulls(self, column: str) -> int | None:
        """How many nulls a column has, None if the file does not say."""
        if column in self.values:
            return self.statistics.rows if self.values[column] is None else 0
        return self.statistics.nulls.get(column)

    def added(self, path: str) -> AddAction:
        """The action that adds it under the name `path`."""
        return AddAction(
            path=path,
            size=self.size,
            partition_values=self.values,
            modification_time=self.modified_ms,
            data_change=True,
            stats=self.statistics.text(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile(DataFile):
    """A file as of staging."""

    path: Path

    @property
    def there(self) -> bool:
        """Whether it still exists unchanged."""
        try:
            return self.path.stat().st_size == self.size
        except OSError:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFiles(ABC):
    """The files of a batch, which no version of the table names yet."""

    files: tuple[DataFile, ...]

    @property
    def rows(self) -> int:
        """The total number of rows."""
        return sum(file.statistics.rows for file in self.files)

    def without_nulls(self, column: str) -> bool:
        """Whether it is certain that a column has no nulls."""
        return all(file.nulls(column) == 0 for file in self.files if file.statistics.rows)

    @abstractmethod
    def discard(self) -> None:
        """Delete them."""

    @abstractmethod
    def placed(self, *, step: str) -> list[AddAction]:
        """The actions that add the files with rows, each of which is then in its place; SinkError if one is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFiles(BatchFiles):
    """The files of a batch in their own folder, inside that of the table at `root`."""

    root: Path
    folder: Path
    files: tuple[StagedFile, ...]

    def discard(self) -> None:
        """Delete them."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def placed(self, *, step: str) -> list[AddAction]:
        """Move the files with rows into the table's folder; SinkError if one is gone, before any file is moved."""
        gone = [file for file in self.files if not file.there]
        if gone:
            raise SinkError(
                f"another process has removed or changed {len(gone)} of {count_of(len(self.files), 'staged file')}",
                remedy="start again: the batch is computed again",
                step=step,
                file=gone[0].path,
            )
        actions = []
        for number, file in enumerate(f for f in self.files if f.statistics.rows):
            name = f"{self.folder.name}-{number:05d}.parquet"
            file.path.rename(self.root / name)
            actions.append(file.added(name))
        self.discard()
        return actions


def stage_files(
    batch: DataFrame, root: Path, mark: BatchMark, *, partition_by: Sequence[str], step: str
) -> StagedFiles:
    """Compute `batch` and write it; SinkError if the files vanish at once."""
    folder = staging_of(root, mark) / f"{mark.folder}-{uuid.uuid4().hex[:8]}"
    if partition_by:
        split, columns = partitioned(batch, partition_by)
        split.write.partitionBy(*columns).parquet(str(folder))
    else:
        batch.write.parquet(str(folder))
    try:
        files = tuple(_staged(file, folder, partition_by) for file in sorted(folder.rglob("*.parquet")))
        if not folder.is_dir():
            raise FileNotFoundError(folder)
    except OSError as error:
        raise SinkError(
            "the staged files of the batch cannot be read", remedy="start again", step=step, file=folder
        ) from error
    return StagedFiles(root=root, folder=folder, files=files)


def _staged(file: Path, folder: Path, partition_by: Sequence[str]) -> StagedFile:
    facts = file.stat()
    parts = file.relative_to(folder).parts[:-1]
    values = {
        column: value_in(unquote(part.removeprefix(f"{PARTITION}{number}=")))
        for number, (column, part) in enumerate(zip(partition_by, parts, strict=True))
    }
    return StagedFile(
        path=file,
        size=facts.st_size,
        modified_ms=modified_ms(facts),
        statistics=file_statistics(pq.read_metadata(file)),
        values=values,
    )

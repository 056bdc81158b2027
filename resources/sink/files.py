"""JSON lines: one folder a batch, made visible by one rename."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame

from resources.sink.base import BatchMark, Staged


@dataclass(frozen=True, slots=True)
class FileWriter:
    """Writes `path/batch=<generation and id>/part-*.json`; Spark, DuckDB and friends read `path` as a whole.

    A rename is atomic on a local or mounted file system; object stores have none.
    """

    name: str
    path: str

    def location(self) -> str:
        """The folder of all batches."""
        return self.path

    def committed(self, mark: BatchMark) -> bool:
        """Whether the folder of this batch is there."""
        return self._target(mark).exists()

    def last_committed(self, mark: BatchMark) -> int | None:
        """The greatest batch that has a folder; empty batches leave none."""
        prefix = f"batch=g{mark.generation:04d}-b"
        return max((int(f.name.removeprefix(prefix)) for f in Path(self.path).glob(f"{prefix}*")), default=-1)

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:
        """Write the batch into a hidden folder."""
        hidden = Path(self.path) / f".{mark.folder}.tmp"
        shutil.rmtree(hidden, ignore_errors=True)
        batch.write.json(str(hidden))
        return Staged(lambda: self._publish(hidden, mark))

    def rewind(self, kept: BatchMark, begun: BatchMark) -> str:
        """Remove the folders of later batches, and let the others belong to the new generation."""
        prefix, last = f"batch=g{kept.generation:04d}-b", self._target(kept).name
        folders = sorted(Path(self.path).glob(f"{prefix}*"))
        later = [folder for folder in folders if folder.name > last]
        for folder in reversed(later):
            shutil.rmtree(folder)
        for folder in (f for f in folders if f.name <= last):
            folder.rename(folder.with_name(folder.name.replace(prefix, f"batch=g{begun.generation:04d}-b")))
        return f"{len(later)} batches removed"

    def _target(self, mark: BatchMark) -> Path:
        return Path(self.path) / f"batch={mark.folder}"

    def _publish(self, hidden: Path, mark: BatchMark) -> int:
        rows = 0
        for file in hidden.iterdir():
            if file.suffix == ".json" and file.stat().st_size:
                with file.open("rb") as lines:
                    rows += sum(block.count(b"\n") for block in iter(lambda: lines.read(1 << 20), b""))
            else:
                file.unlink()
        if rows:
            hidden.rename(self._target(mark))
            self._remove_earlier(mark)
        else:
            hidden.rmdir()
        return rows

    def _remove_earlier(self, mark: BatchMark) -> None:
        """A new generation writes everything again, so the folders of the ones before go."""
        for folder in Path(self.path).glob("batch=g*-b*"):
            if folder.name < f"batch=g{mark.generation:04d}":
                shutil.rmtree(folder)

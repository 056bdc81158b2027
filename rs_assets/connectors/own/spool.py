"""The rows of a poller on disk: one Parquet file for each poll, with the cursor that follows, which appears at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rs_assets.common.files import write_atomically
from rs_assets.connectors.own.lines import CHUNK, SCHEMA
from rs_assets.errors import DataLossError, SourceReadError

# Rows that are read together.
GROUP = 20_000
# The rows of a file: the number of the first one, and of the row after the last one.
NAME = re.compile(r"rows-(\d{15})-(\d{15})\.parquet")
CURSOR = b"cursor"


@dataclass(frozen=True, slots=True)
class Spool:
    """The files below `folder`, to which one process at a time adds, within `read_alone` of it."""

    folder: Path

    def files(self) -> list[tuple[int, int, Path]]:
        """First row, next row and path of each file, in order."""
        found = ((NAME.fullmatch(file.name), file) for file in self.folder.glob("rows-*.parquet"))
        return sorted((int(name[1]), int(name[2]), file) for name, file in found if name)

    def end(self) -> int:
        """The number of the next row that is spooled; 0 for none."""
        files = self.files()
        return files[-1][1] if files else 0

    def cursor(self) -> Any:
        """The cursor after the newest file; None for none."""
        files = self.files()
        return json.loads(pq.read_schema(files[-1][2]).metadata[CURSOR]) if files else None

    def add(self, batches: Sequence[pa.RecordBatch], cursor: Any) -> int:
        """Write rows and their cursor in one file, which is on the disk on return; the number of the next row.

        SourceReadError for a cursor that has no form in JSON.
        """
        first = self.end()
        try:
            text = json.dumps(cursor)
        except (TypeError, ValueError) as error:
            raise SourceReadError(
                f"the cursor of a poll has no form in JSON: {error}",
                remedy="return a text, a number, a list or a dict of such as the cursor",
            ) from error
        table = pa.Table.from_batches(batches, schema=SCHEMA).replace_schema_metadata({CURSOR: text})
        end = first + int(table.num_rows)
        self.folder.mkdir(parents=True, exist_ok=True)
        written = pa.BufferOutputStream()
        pq.write_table(table, written, row_group_size=GROUP)
        write_atomically(self.folder / f"rows-{first:015d}-{end:015d}.parquet", written.getvalue().to_pybytes())
        return end

    def read(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The rows `start` up to `end`; DataLossError if they are not all there."""
        number = start
        for first, last, file in self.files():
            if last <= number or number >= end:
                continue
            if first > number:
                break
            for batch in rows_between(file, first, number, min(last, end), most=CHUNK):
                number += batch.num_rows
                yield batch
        if number < end:
            raise spool_lost(self.folder, number)

    def purge(self, end: int, *, keep: int) -> None:
        """Remove the files whose rows all lie before `end`, except the newest `keep`, at least one."""
        done = [file for _, last, file in self.files() if last <= end]
        for file in done[: max(0, len(done) - max(1, keep))]:
            file.unlink(missing_ok=True)


def rows_between(path: Path, first: int, start: int, end: int, *, most: int) -> Iterator[pa.RecordBatch]:
    """The rows `start` up to `end` of a file whose first one is `first`, at most `most` together.

    Groups of rows that lie outside are not read.
    """
    with pq.ParquetFile(path) as file:
        number = first
        for group in range(file.num_row_groups):
            after = number + file.metadata.row_group(group).num_rows
            if after > start and number < end:
                table = file.read_row_group(group).cast(SCHEMA)
                found = table.slice(max(0, start - number), min(after, end) - max(start, number))
                yield from found.to_batches(max_chunksize=most)
            number = after


def spool_lost(folder: Path, number: int) -> DataLossError:
    """The error for rows that were polled, and are not in the spool any more."""
    return DataLossError(
        f"row {number} of a poller is not in its spool",
        remedy="put the files of the folder back; or begin a new generation (--new-generation), which polls from the"
        " first cursor",
        folder=folder,
    )

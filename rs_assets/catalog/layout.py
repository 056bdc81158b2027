"""Tables of the catalog that grow with every batch, partitioned by owner and day.

Readers of the newest rows open only the newest files; removal of outdated rows drops partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, WriterProperties
from pyarrow import fs

from rs_assets.common.storage import is_remote
from rs_assets.connectors.delta.joining import joining
from rs_assets.connectors.delta.log.store import files_of

DAY = "day"
# The partition of rows that are older than the retention, but the newest of their key.
FOR_GOOD = date(1970, 1, 1)
# A commit every ten seconds, for years: the log and replaced files must be removed automatically.
CONFIGURATION: Mapping[str, str] = MappingProxyType(
    {"delta.logRetentionDuration": "interval 1 hours", "delta.deletedFileRetentionDuration": "interval 1 days"}
)
# How long readers that opened the table earlier can still read a replaced file, in hours.
READERS_H = 1
# Small row groups, so that few rows are decoded to find some of them in the file of a day.
ROW_GROUP = 10_000

# Generation and batch: of two rows of one source the one with the greater place is newer.
Place: TypeAlias = tuple[int, int]
UNKNOWN: Place = (1 << 62, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A file of a table: none of its rows is after `last`, or of a batch outside `batches`.

    `path` is a name among the `files` of its table in an object store, and a path of the disk if that is None. `day` is
    None without partitions.
    """

    path: str
    files: fs.FileSystem | None
    day: date | None
    last: Place
    batches: range

    def read(self, *, columns: Sequence[str] | None = None, filters: pc.Expression | None = None) -> pa.Table:
        """Its rows that pass `filters`, with these columns or all; without those of partitions."""
        names = None if columns is None else [*columns]
        return pq.read_table(self.path, columns=names, filters=filters, filesystem=self.files, partitioning=None)


def day_of(at: datetime) -> date:
    """The partition of a row of that time."""
    return at.astimezone(UTC).date()


def partitioned(table: DeltaTable) -> bool:
    """Whether the table has this layout; tables of earlier releases do not."""
    return DAY in table.metadata().partition_columns


def data_files(table: DeltaTable, owner: Mapping[str, str]) -> list[DataFile]:
    """The files that may have rows of `owner` (partition column to value), those with the newest rows first."""
    actions = pa.table(table.get_add_actions(flatten=True))
    if partitioned(table):
        for column, value in owner.items():
            actions = actions.filter(pc.field(f"partition.{column}") == value)
    uri = table.table_uri
    # Decoded: the URI of a table has %20 for a space.
    files, root = (files_of(uri), "") if is_remote(uri) else (None, f"{unquote(urlsplit(uri).path).rstrip('/')}/")
    found = [
        DataFile(
            path=root + row["path"],
            files=files,
            day=row.get(f"partition.{DAY}"),
            last=_last(row),
            batches=_batches(row),
        )
        for row in actions.to_pylist()
    ]
    return sorted(found, key=lambda file: file.last, reverse=True)


def newest_rows(
    files: Sequence[DataFile], *, only: pc.Expression, batches: int, before: Place | None = None
) -> pa.Table | None:
    """The rows passing `only` in the newest `batches` batches with such rows, before the place `before`.

    None if there are none. `files` come from `data_files`; only files that may have such rows are opened.
    """
    found: pa.Table | None = None
    least: Place | None = None
    if before is not None:
        only &= ~_from(before)
    for file in files:
        if least is not None and file.last < least:
            break
        with pq.ParquetFile(file.path, filesystem=file.files) as opened:
            for last, number in _row_groups(opened):
                if least is not None and last < least:
                    break
                passed = opened.read_row_group(number).filter(only)
                if passed.num_rows:
                    found, least = _newest(passed if found is None else pa.concat_tables([found, passed]), batches)
    return found


def rows_of_batches(files: Sequence[DataFile], *, only: pc.Expression | None, batches: range) -> pa.Table | None:
    """The rows of these batches, in any generation, that pass `only`; None if there are none."""
    batch = pc.field("batch_id")
    asked = (batch >= batches.start) & (batch < batches.stop)
    only = asked if only is None else only & asked
    found = [
        file.read(filters=only)
        for file in files
        if file.batches.start < batches.stop and batches.start < file.batches.stop
    ]
    return pa.concat_tables(found) if found else None


def join_files(table: DeltaTable, owner: Mapping[str, str]) -> None:
    """Join the files of each day of `owner` into one, and remove files that were replaced a while ago."""
    with joining(table):
        days = [file.day for file in data_files(table, owner)]
        for day in sorted({day for day in days if day is not None and days.count(day) > 1}):
            table.optimize.compact(
                partition_filters=[*((name, "=", value) for name, value in owner.items()), (DAY, "=", day.isoformat())],
                writer_properties=WriterProperties(max_row_group_size=ROW_GROUP),
            )
    table.vacuum(READERS_H, dry_run=False, enforce_retention_duration=False)
    table.create_checkpoint()
    table.cleanup_metadata()


def newest_of_each(files: Sequence[DataFile], key: str, *, before: date) -> pa.Table | None:
    """The newest row of each value of the column `key`, if its day is before `before`; None if there are none."""
    seen: set[str] = set()
    kept: list[pa.Table] = []
    for file in sorted(files, key=lambda f: (f.day or FOR_GOOD, f.last), reverse=True):
        here = set(file.read(columns=[key])[key].unique().to_pylist())
        if file.day is not None and file.day < before and here - seen:
            rows = file.read(filters=pc.field(key).isin(sorted(here - seen)))
            order = rows.sort_by([("generation", "ascending"), ("batch_id", "ascending")])
            last = {value: at for at, value in enumerate(order[key].to_pylist())}
            kept.append(order.take(sorted(last.values())))
        seen |= here
    return pa.concat_tables(kept) if kept else None


def cutoff(keep: timedelta, now: datetime | None = None) -> date:
    """The first day that is kept."""
    return day_of((now or datetime.now(UTC)) - keep)


def _last(row: Mapping[str, object]) -> Place:
    generation, batch = row.get("max.generation"), row.get("max.batch_id")
    return (generation, batch) if isinstance(generation, int) and isinstance(batch, int) else UNKNOWN


def _batches(row: Mapping[str, object]) -> range:
    first, last = row.get("min.batch_id"), row.get("max.batch_id")
    return range(first, last + 1) if isinstance(first, int) and isinstance(last, int) else range(1 << 62)


def _row_groups(file: pq.ParquetFile) -> list[tuple[Place, int]]:
    """The row groups of a file by number, each with an upper bound of its places, the greatest first."""
    names = file.schema_arrow.names
    columns = [names.index("generation"), names.index("batch_id")]
    found = []
    for number in range(file.num_row_groups):
        stats = [file.metadata.row_group(number).column(column).statistics for column in columns]
        known = all(stat is not None and stat.has_min_max for stat in stats)
        found.append(((stats[0].max, stats[1].max) if known else UNKNOWN, number))
    return sorted(found, reverse=True)


def _newest(rows: pa.Table, batches: int) -> tuple[pa.Table, Place | None]:
    """The rows of the newest `batches` batches, and the place of the oldest of these if there are that many."""
    places = rows.group_by(["generation", "batch_id"]).aggregate([])
    places = (
        places.sort_by([("generation", "descending"), ("batch_id", "descending")]).slice(batches - 1, 1).to_pylist()
    )
    if not places:
        return rows, None
    least = places[0]["generation"], places[0]["batch_id"]
    return rows.filter(_from(least)), least


def _from(place: Place) -> pc.Expression:
    generation, batch = pc.field("generation"), pc.field("batch_id")
    return (generation > place[0]) | ((generation == place[0]) & (batch >= place[1]))

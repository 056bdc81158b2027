"""The catalog: the history of every pipeline, as Delta tables that anyone can query.

Spark's own log is authoritative; the catalog is written after it, and completed from it at each start.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from rs_assets.catalog.compaction import compact_table
from rs_assets.catalog.layout import (
    CONFIGURATION,
    DAY,
    READERS_H,
    data_files,
    day_of,
    join_files,
    newest_rows,
    partitioned,
    rows_of_batches,
)
from rs_assets.common.folder import Folder, make_folder
from rs_assets.common.storage import storage_options
from rs_assets.connectors.delta.joining import joining
from rs_assets.connectors.delta.log.store import delta_table, is_table
from rs_assets.connectors.delta.rows import rows_of
from rs_assets.errors import CheckpointError

# Incremented when the columns of a table change; tables of a newer release are not written to.
SCHEMA_VERSION = 1
VERSION_KEY = "rs.schema_version"
_TIME = pa.timestamp("us", tz="UTC")
_WHO = [("pipeline", pa.string()), ("generation", pa.int64()), ("run_id", pa.string()), ("at", _TIME)]

# One entry per table. `checkpoints` and `leases` have modules of their own, dead letters are written by their sink.
TABLES: Mapping[str, pa.Schema] = MappingProxyType(
    {
        # A row when a pipeline begins a generation or changes: its id, its topology and what its state depends on.
        "pipelines": pa.schema(
            [
                *_WHO,
                ("pipeline_id", pa.string()),
                ("fingerprint", pa.string()),
                ("reason", pa.string()),
                ("topology", pa.string()),
                ("state_shape", pa.list_(pa.string())),
            ]
        ),
        # A row when a split is added or removed, with its offset at that time.
        "splits": pa.schema(
            [
                *_WHO,
                ("query", pa.string()),
                ("source", pa.string()),
                ("split", pa.string()),
                ("event", pa.string()),
                ("batch_id", pa.int64()),
                ("offset", pa.string()),
            ]
        ),
        # Every system message in order: by batch, `number` within it.
        "system_messages": pa.schema(
            [
                *_WHO,
                ("query", pa.string()),
                ("batch_id", pa.int64()),
                ("number", pa.int64()),
                ("kind", pa.string()),
                ("source", pa.string()),
                ("split", pa.string()),
                ("offset", pa.string()),
                ("reconciled", pa.bool_()),
                (DAY, pa.date32()),
            ]
        ),
        # A row when a query begins to use a version of a dimension, with the first batch that uses it.
        "dimensions": pa.schema(
            [
                *_WHO,
                ("query", pa.string()),
                ("step", pa.string()),
                ("batch_id", pa.int64()),
                ("version", pa.string()),
                ("digest", pa.string()),
                ("rows", pa.int64()),
                ("bytes", pa.int64()),
                ("loaded_at", pa.string()),
                ("origin", pa.string()),
            ]
        ),
        # The rows of a batch that an expectation judged by its condition, and those that failed. Spark's log does not
        # have them: those of the batches right before a kill may be missing.
        "expectations": pa.schema(
            [
                *_WHO,
                ("query", pa.string()),
                ("batch_id", pa.int64()),
                ("step", pa.string()),
                ("rows", pa.int64()),
                ("failed", pa.int64()),
                ("condition", pa.string()),
                (DAY, pa.date32()),
            ]
        ),
        # The rows of a batch at a gate, their least and greatest event time (null without rows), when it was planned,
        # and by which code. Control rows, which move the watermark, count too. Spark's log does not have them: a batch
        # may be missing.
        "batch_times": pa.schema(
            [
                *_WHO,
                ("query", pa.string()),
                ("batch_id", pa.int64()),
                ("gate", pa.string()),
                ("rows", pa.int64()),
                ("least", _TIME),
                ("greatest", _TIME),
                ("planned", _TIME),
                ("code", pa.string()),
                (DAY, pa.date32()),
            ]
        ),
        # The plan of a batch, for when Spark's log has dropped it: its clock and that of the batch before it, its
        # watermark, and the end of each source as JSON, by the name in the log.
        "batch_offsets": pa.schema(
            [
                *_WHO,
                ("query", pa.string()),
                ("batch_id", pa.int64()),
                ("planned", _TIME),
                ("planned_before", _TIME),
                ("watermark", _TIME),
                ("sources", pa.string()),
                (DAY, pa.date32()),
            ]
        ),
        # The records of a batch, and the rows of them that were refused before any state, or late; when it was planned,
        # and by which code. Spark's log does not have them: a batch may be missing.
        "batch_counts": pa.schema(
            [
                *_WHO,
                ("query", pa.string()),
                ("batch_id", pa.int64()),
                ("rows_in", pa.int64()),
                ("rows_dead", pa.int64()),
                ("rows_late", pa.int64()),
                ("planned", _TIME),
                ("code", pa.string()),
                (DAY, pa.date32()),
            ]
        ),
        # The rows of a batch that came too late for a window in the partition of an output that begins at `start`.
        "late_partitions": pa.schema(
            [
                *_WHO,
                ("query", pa.string()),
                ("batch_id", pa.int64()),
                ("sink", pa.string()),
                ("start", _TIME),
                ("rows", pa.int64()),
                (DAY, pa.date32()),
            ]
        ),
        # Savepoints and state exports.
        "snapshots": pa.schema(
            [
                *_WHO,
                ("snapshot_id", pa.string()),
                ("kind", pa.string()),
                ("query", pa.string()),
                ("step", pa.string()),
                ("batch_id", pa.int64()),
                ("rows", pa.int64()),
                ("bytes", pa.int64()),
                ("uri", pa.string()),
                ("digest", pa.string()),
            ]
        ),
        # Events of each deployed version: tried, committed, refused, failed, stopped and so on.
        "deployment_events": pa.schema(
            [
                *_WHO,
                ("version", pa.int64()),
                ("event", pa.string()),
                ("summary", pa.string()),
                ("details", pa.string()),
            ]
        ),
        # Operations on a pipeline besides running it: recovered, restored, rewound, rescaled, a step reset.
        "operations": pa.schema([*_WHO, ("kind", pa.string()), ("summary", pa.string()), ("details", pa.string())]),
    }
)

# The tables of other modules.
OTHERS = ("checkpoints", "dead_letters", "deployments", "leases")
# Tables that grow with every batch.
GROWING = ("system_messages", "expectations", "batch_times", "batch_offsets", "batch_counts", "late_partitions")
PARTITIONS: Mapping[str, Sequence[str]] = MappingProxyType(dict.fromkeys(GROWING, ("pipeline", DAY)))
# Tables with more files than this are compacted at the end of a run, or once an hour.
CROWD = 300

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Catalog:
    """The catalog in the folder `root`, on a disk or in an object store."""

    root: Folder

    def path(self, table: str) -> Folder:
        """The folder of a table."""
        return self.root / table

    def append(self, table: str, rows: Sequence[Row]) -> None:
        """Add `rows` in one transaction; columns that a row lacks are null.

        CheckpointError if a newer release wrote the table, or it cannot be written.
        """
        if rows:
            with _errors(self.path(table), "written"):
                self._append(table, rows)

    @retry(
        retry=retry_if_exception_type(CommitFailedError),
        stop=stop_after_attempt(5),
        wait=wait_random_exponential(multiplier=0.01, max=0.5),
        reraise=True,
    )
    def _append(self, table: str, rows: Sequence[Row]) -> None:
        schema, path = TABLES[table], self.path(table)
        plain = [{**{name: row.get(name) for name in schema.names}, **_day(row, schema)} for row in rows]
        data = pa.Table.from_pylist(plain, schema=schema)
        opened = self._open(table)
        if opened is None:
            make_folder(self.root)
            grows = table in PARTITIONS
            # If another process creates it at this moment, this appends.
            write_deltalake(
                str(path),
                data,
                mode="append",
                partition_by=list(PARTITIONS[table]) if grows else None,
                configuration=dict(CONFIGURATION) if grows else None,
                description=f"{VERSION_KEY}={SCHEMA_VERSION}",
                storage_options=storage_options(str(path)),
            )
            return
        _check_version(opened, path)
        # Tables of earlier releases have no day column.
        there = {field.name for field in opened.schema().fields}
        write_deltalake(opened, data.select([name for name in data.column_names if name in there]), mode="append")

    def rows(
        self,
        table: str,
        *,
        at_least: Mapping[str, object] = MappingProxyType({}),
        **equal: object,
    ) -> list[dict[str, Any]]:
        """The rows whose columns equal the given values, ordered by time; [] if there is no table.

        Columns in `at_least` are compared by >=. Files without such rows are not opened.
        """
        filters = [(name, "=", value) for name, value in equal.items()]
        filters += [(name, ">=", value) for name, value in at_least.items()]
        rows: list[dict[str, Any]] = self._found(table, filters).to_pylist()
        return rows

    def last(self, table: str, **equal: object) -> dict[str, Any] | None:
        """The newest row whose columns equal the given values."""
        found = self._found(table, [(name, "=", value) for name, value in equal.items()])
        rows: list[dict[str, Any]] = found.slice(max(found.num_rows - 1, 0)).to_pylist()
        return rows[0] if rows else None

    def newest_batch(self, pipeline: str, query: str) -> int:
        """The newest batch of a query that the catalog has messages of, in its newest generation; -1 for none."""
        opened = self._open("system_messages")
        if opened is None:
            return -1
        with _errors(self.path("system_messages"), "read"):
            files = data_files(opened, {"pipeline": pipeline})
            found = newest_rows(files, only=pc.field("query") == query, batches=1)
        return -1 if found is None else int(found["batch_id"][0].as_py())

    def there(self, table: str, columns: Sequence[str], *, pipeline: str, from_batch: int) -> set[tuple[object, ...]]:
        """The values of these columns in rows of a pipeline, from a batch on; opens files with such batches only."""
        opened = self._open(table)
        if opened is None:
            return set()
        with _errors(self.path(table), "read"):
            files, batches = data_files(opened, {"pipeline": pipeline}), range(from_batch, 1 << 62)
            mine = None if partitioned(opened) else pc.field("pipeline") == pipeline
            found = rows_of_batches(files, only=mine, batches=batches)
        return set() if found is None else {tuple(row[name] for name in columns) for row in found.to_pylist()}

    def _found(self, table: str, filters: Sequence[tuple[str, str, object]]) -> pa.Table:
        """The rows that pass `filters`, ordered by time."""
        opened = self._open(table)
        if opened is None:
            # Not by `empty_table`, which loads pandas.
            return pa.Table.from_batches([], TABLES[table])
        _check_version(opened, self.path(table))
        with _errors(self.path(table), "read"):
            found = rows_of(opened, str(self.path(table)), only=list(filters) or None)
        return found.take(pc.sort_indices(found, sort_keys=[("at", "ascending")]))

    def tidy(self, pipeline: str | None, *, keep: timedelta, now: datetime | None = None) -> None:
        """Remove rows that are older than `keep`, and join small files; for all pipelines if `pipeline` is None.

        Current splits, and the newest snapshot or dimension version of each step, are kept whatever their age. Other
        processes may write at the same time. CheckpointError if a table cannot be read or written.
        """
        since = (now or datetime.now(UTC)) - keep
        for table in PARTITIONS:
            with _errors(self.path(table), "tidied"):
                self._drop_days(table, pipeline, day_of(since))
        for table, stay in STAY.items():
            with _errors(self.path(table), "tidied"):
                self._drop_rows(table, since, stay)

    def _drop_days(self, table: str, pipeline: str | None, first: date) -> None:
        opened = self._open(table)
        if opened is None or not partitioned(opened):
            return
        names = set(pa.table(opened.get_add_actions(flatten=True))["partition.pipeline"].to_pylist())
        for name in sorted(names if pipeline is None else names & {pipeline}):
            owner = {"pipeline": name}
            if any(file.day is not None and file.day < first for file in data_files(opened, owner)):
                opened.delete(f"pipeline = '{name}' AND {DAY} < '{first.isoformat()}'")
            join_files(opened, owner)

    def _drop_rows(self, table: str, since: datetime, stay: Callable[[Row], tuple[object, ...]]) -> None:
        opened = self._open(table)
        if opened is None:
            return
        with joining(opened):
            rows = rows_of(opened, str(self.path(table))).sort_by("at")
            newest = {stay(row): at for at, row in enumerate(rows.to_pylist())}
            kept = [
                row["at"] >= since or (newest[stay(row)] == at and row.get("event") != "removed")
                for at, row in enumerate(rows.to_pylist())
            ]
            if not all(kept):
                write_deltalake(opened, rows.filter(pa.array(kept)), mode="overwrite")
        if len(opened.file_uris()) > CROWD:
            compact_table(opened, retention=timedelta(hours=READERS_H))

    def compact(self, *, retention: timedelta) -> dict[str, dict[str, int]]:
        """Compact every table of the catalog, and vacuum files that no version within the retention references."""
        done = {}
        for name in sorted({*TABLES, *OTHERS}):
            if is_table(path := str(self.path(name))):
                done[name] = compact_table(delta_table(path), retention=retention)
        return done

    def _open(self, table: str) -> DeltaTable | None:
        try:
            return delta_table(str(self.path(table)))
        except TableNotFoundError:
            return None
        except DeltaError as error:
            raise CheckpointError(
                "a table of the catalog is damaged",
                remedy="move it away: it is rebuilt from the checkpoints, as far back as they reach",
                file=self.path(table),
            ) from error


# An older row is removed when a newer one has the same key.
STAY: Mapping[str, Callable[[Row], tuple[object, ...]]] = MappingProxyType(
    {
        "splits": lambda row: tuple(row[n] for n in ("pipeline", "query", "generation", "source", "split")),
        "snapshots": lambda row: tuple(row[n] for n in ("pipeline", "kind", "query", "step")),
        "dimensions": lambda row: tuple(row[n] for n in ("pipeline", "query", "step")),
    }
)


def as_json(values: Mapping[str, object]) -> str:
    """Details as text for a column."""
    return json.dumps(values, default=str, sort_keys=True)


def row_of(pipeline: str, *, generation: int, run_id: str, at: datetime | None = None, **columns: object) -> Row:
    """A row of the catalog: the common columns, then its own. `at` defaults to now.

    >>> row_of("shop.logs", generation=1, run_id="r1", kind="fork")["kind"]
    'fork'
    """
    return {"pipeline": pipeline, "generation": generation, "run_id": run_id, "at": at or datetime.now(UTC), **columns}


def operation(pipeline: str, *, generation: int, run_id: str, kind: str, summary: str, **details: object) -> Row:
    """A row of the table `operations`: an operation on a pipeline, besides running it."""
    return row_of(pipeline, generation=generation, run_id=run_id, kind=kind, summary=summary, details=as_json(details))


def _day(row: Row, schema: pa.Schema) -> Row:
    return {DAY: day_of(row["at"])} if DAY in schema.names else {}


@contextmanager
def _errors(path: Folder, what: str) -> Iterator[None]:
    try:
        yield
    except (DeltaError, pa.ArrowException, OSError) as error:
        raise CheckpointError(
            f"a table of the catalog cannot be {what}",
            remedy="check that the disk has room and the table is intact; a run retries failed writes",
            file=path,
            cause=str(error)[:200],
        ) from error


def _check_version(table: DeltaTable, path: Folder) -> None:
    text = table.metadata().description or ""
    _, _, version = text.partition(f"{VERSION_KEY}=")
    if version.isdigit() and int(version) > SCHEMA_VERSION:
        raise CheckpointError(
            f"this table of the catalog has version {version}, this release knows {SCHEMA_VERSION}",
            remedy="use the release that wrote it, or a newer one",
            file=path,
        )

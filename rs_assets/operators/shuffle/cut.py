"""Truncates the table of a durable shuffle to the end of a batch of the query that writes it.

Readers count in versions of the table, its writer in batches; the log maps versions to batches. A truncated table has
the versions up to the end of a batch, under their numbers, so its readers continue with their offsets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

import orjson
import pyarrow as pa
from deltalake import DeltaTable

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.connectors.delta.log.versions import next_version
from rs_assets.connectors.delta.rewind import act, is_rewound
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import CheckpointError

LOG = "_delta_log"
# A file of the log, or a checkpoint of it, by its version; the pointer to the newest checkpoint is left out.
_ENTRY = re.compile(r"([0-9]{20})\.(json|checkpoint(?:\.[0-9.]+)?\.parquet)")
_CHECKPOINT = "checkpoint"
# The entries of a history to read at first; more, if they do not reach back far enough.
ENTRIES = 64


def end_of(table: Path, batch: int) -> int:
    """The version after the batches of the writer up to `batch`: the first one of a later batch.

    Without a later batch it is the next version. CheckpointError if there is no table.
    """
    opened = _opened(table)
    return min((v for v, known in _batches(opened, batch).items() if known > batch), default=opened.version() + 1)


def newest_within(log: CheckpointLog, source: str, end: int, *, last: int) -> int:
    """The newest batch of a reader, up to `last`, that has read no version from `end` on; -1 if there is none.

    `source` is the name of the reading step in `log`.
    """
    for batch in range(last, -1, -1):
        planned = log.offsets(batch)
        if planned is None:
            raise CheckpointError(
                f"it is unknown what {log.stored_name} had read at the end of its batch {batch}",
                remedy="restore a savepoint",
                file=log.folder / "offsets",
            )
        if _next(planned.sources.get(source)) <= end:
            return batch
    return -1


def needed_files(table: Path, log: CheckpointLog, source: str, *, batch: int, end: int) -> list[Path]:
    """The files that a reader at the end of `batch` needs to continue, and a writer of version `end`.

    CheckpointError, which names the first missing file: a vacuum removes those that all readers have read, and a
    savepoint has none that its readers had read.
    """
    entries = _kept_log(table, first=min(_read(log, source, batch - 1), end - 1), end=end)
    waiting = (name for version in range(_read(log, source, batch), end) for name in _added(table, version))
    files = {table / name for name in (*waiting, *_live(table, end - 1))}
    gone = sorted(path for path in files if not path.exists())
    if gone:
        raise CheckpointError(
            f"rows that {log.stored_name} has not read at the end of its batch {batch} are gone from the shuffle",
            remedy="go back to a later batch, or restore a savepoint",
            file=gone[0],
        )
    return sorted({*entries, *files})


def written_before(table: Path, writer: CheckpointLog, log: CheckpointLog, source: str, batch: int) -> int | None:
    """The newest batch of the writer that has written nothing beyond a reader's position at the end of `batch`.

    After it the writer writes everything again that the reader needs. None if its log does not reach back that far.
    """
    read = _read(log, source, batch)
    opened = _opened(table)
    return next((number for number in reversed(writer.committed_batches()) if _written(opened, number) <= read), None)


def cut(table: Path, end: int) -> None:
    """Remove the versions from `end` on from a copy of a table; files with rows stay where they are."""
    for path in (table / LOG).iterdir():
        match = _ENTRY.fullmatch(path.name)
        if match is None or int(match[1]) >= end:
            path.unlink()


def go_on(table: Path, kept: BatchMark, begun: BatchMark) -> None:
    """Let the writer continue in the generation of `begun`, in a table that ends with the batch of `kept`."""
    opened = _opened(table)
    if not is_rewound(opened, begun):
        act(opened, None, kept, begun)


def _batches(opened: DeltaTable, batch: int) -> Mapping[int, int]:
    """The writer's batch of each version, back to the newest one up to `batch`."""
    limit = ENTRIES
    while True:
        entries = opened.history(limit)
        found = {int(entry["version"]): int(entry["rs.batch_id"]) for entry in entries if "rs.batch_id" in entry}
        if len(entries) < limit or any(known <= batch for known in found.values()):
            return found
        limit *= 4


def _written(opened: DeltaTable, batch: int) -> int:
    """The version after the last one that the writer's batches up to `batch` have made."""
    return max((version for version, known in _batches(opened, batch).items() if known <= batch), default=-1) + 1


def _opened(table: Path) -> DeltaTable:
    if not DeltaTable.is_deltatable(str(table)):
        raise CheckpointError(
            "the table of a durable shuffle is gone",
            remedy="put it back, or restore a savepoint (rs-assets restore)",
            file=table,
        )
    return DeltaTable(str(table))


def _read(log: CheckpointLog, source: str, batch: int) -> int:
    """The next version of a reader at the end of a batch."""
    planned = log.offsets(batch) if batch >= 0 else None
    return 0 if planned is None else _next(planned.sources.get(source))


def _next(offset: str | None) -> int:
    return 0 if offset in (None, "-") else next_version(str(offset))


def _kept_log(table: Path, *, first: int, end: int) -> Iterator[Path]:
    """The files of the log from the newest checkpoint up to `first`, to the version before `end`."""
    found = ((path, _ENTRY.fullmatch(path.name)) for path in (table / LOG).iterdir())
    entries = [(int(match[1]), match[2], path) for path, match in found if match]
    base = max((v for v, kind, _ in entries if kind.startswith(_CHECKPOINT) and v <= first), default=0)
    for version, _, path in entries:
        if base <= version < end:
            yield path


def _added(table: Path, version: int) -> list[str]:
    """The paths of the files that a version adds for readers, relative to the table: a purge adds none."""
    lines = (table / LOG / f"{version:020d}.json").read_bytes().splitlines()
    actions = [orjson.loads(line) for line in lines if line.strip()]
    if any("remove" in action for action in actions):
        return []
    return [unquote(action["add"]["path"]) for action in actions if "add" in action]


def _live(table: Path, version: int) -> list[str]:
    """The paths of the files in a version of the table, relative to it."""
    return [unquote(p) for p in pa.table(DeltaTable(str(table), version=version).get_add_actions())["path"].to_pylist()]

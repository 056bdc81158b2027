"""The versions of a Delta table that a batch reads, and the files that a version added."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import orjson
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from rs_assets.checkpoint.source_log import SourceBatch, SourceLog
from rs_assets.connectors.delta.log.store import delta_table, log_bytes, log_names
from rs_assets.connectors.source import BEGIN_ANEW
from rs_assets.errors import CheckpointError, DataLossError

# More files than a batch can have: each batch then ends with a whole version, and can be read again.
ALL_FILES = 2_147_483_647
# The name of a log entry.
ENTRY = re.compile(r"(\d{20})\.json")


def next_version(offset: str) -> int:
    """The next version that Delta's source reads; a version that was read in part counts as not read."""
    try:
        return int(orjson.loads(offset)["reservoirVersion"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{offset[:100]!r} is not an offset of a Delta table") from error


def check_same(log: SourceLog, table: DeltaTable, path: str) -> None:
    """DataLossError if `table` is not the one that was read, but a new one or an older copy of it.

    A table is identified by its id. The next versions of an older copy would wrongly count as read.
    """
    offset = log.offset(log.log.last_committed() + 1) or log.committed
    if offset is None:
        return
    read, known = next_version(offset), orjson.loads(offset).get("reservoirId")
    if known in (None, table.metadata().id) and read <= table.version() + 1:
        return
    older = known in (None, table.metadata().id)
    raise DataLossError(
        f"the table is an older copy: it ends with version {table.version()}, and {read - 1} was read"
        if older
        else "the table was replaced by a new one since it was read, and the rows of both would be mixed",
        remedy=f"put the table back as it was; or {BEGIN_ANEW}, which reads all rows of the existing table",
        source=log.source,
        table=path,
    )


def check_read(batch: SourceBatch, table: DeltaTable, path: str) -> None:
    """DataLossError if `table` is not the one that a batch has read: its versions have other rows."""
    known = None if batch.end is None else orjson.loads(batch.end).get("reservoirId")
    if known not in (None, table.metadata().id):
        raise DataLossError(
            f"the table was replaced by a new one since batch {batch.id} read it, so the batch cannot be read again",
            remedy="put the former table back, or choose later batches or partitions",
            source=batch.log.source,
            table=path,
        )


@dataclass(frozen=True, slots=True)
class Needed:
    """What a start needs of the log of a table: all versions from `first` on, and `whole` with all its rows."""

    first: int
    whole: int | None = None


def needed_of(log: SourceLog, first: int | None, *, changes: bool) -> Needed | None:
    """What Delta's source needs to start: it reads the last batch again that Spark has committed; None for nothing.

    `first` is the version that its first batch begins with; None if that reads all rows that are there.
    """
    if log.committed is not None:
        start = log.batch(log.log.last_committed()).start
        if start is None and first is None:
            following = next_version(log.committed)
            return Needed(following, following - 1)
        first = next_version(start) if start is not None else first
    return Needed(first, first if changes else None) if first is not None else None


def check_kept(path: str, needed: Needed, newest: int, *, otherwise: str, source: str) -> None:
    """DataLossError if the log of a table has lost entries of the versions up to `newest` that are `needed`.

    Logs are cleaned up, by default after 30 days. `otherwise` is how to go on without the lost versions; in it
    `{oldest}` is the first version that can be begun with.
    """
    kept = kept_versions(path)
    lost = [version for version in range(needed.first, newest + 1) if version not in kept]
    # The last batch may have read none: then the next version is still to come.
    if not lost and needed.whole is not None and needed.whole <= newest and not _opens(path, needed.whole):
        lost = [needed.whole]
    if not lost:
        return
    later = range(lost[-1] + 1, newest)
    oldest = next((each for each in later if needed.whole is None or _opens(path, each)), newest)
    which = f"version {lost[0]}" if len(lost) == 1 else f"versions {lost[0]} to {lost[-1]}"
    raise DataLossError(
        f"the log of the table has lost {which}, which a start reads",
        remedy=f"put the missing files of its _delta_log back; or {otherwise.format(oldest=oldest)}",
        source=source,
        table=path,
    )


def _opens(path: str, version: int) -> bool:
    """Whether the log still says which rows a version has."""
    try:
        delta_table(path, version)
    except DeltaError:
        return False
    return True


def kept_versions(path: str) -> set[int]:
    """The versions of which the log of a table has an entry."""
    found = map(ENTRY.fullmatch, log_names(path))
    return {int(match[1]) for match in found if match is not None}


def versions_of(batch: SourceBatch, first: int) -> range:
    """The versions that a batch reads; the first batch begins with version `first`."""
    begin = first if batch.start is None else next_version(batch.start)
    return range(begin, begin if batch.end is None else next_version(batch.end))


def files_added(table: str, version: int) -> list[str]:
    """The names of the files whose rows a version added; none if it only rewrote rows, as a compaction does.

    DataLossError if the log has been cleaned up to there.
    """
    return _changed(table, version, "add")


def files_removed(table: str, version: int) -> list[str]:
    """The names of the files whose rows a version removed or replaced; none if it only rewrote rows.

    DataLossError if the log has been cleaned up to there.
    """
    return _changed(table, version, "remove")


def only_adds(table: str, version: int) -> bool:
    """Whether a version added rows and deleted or changed none; DataLossError as `files_added`."""
    changing = {
        kind for action in _actions(table, version) for kind, of in action.items() if of and of.get("dataChange")
    }
    return changing == {"add"}


def _changed(table: str, version: int, kind: str) -> list[str]:
    """The names of the files in the actions of a `kind` that change the data of a table."""
    files = (action[kind] for action in _actions(table, version) if kind in action)
    return [unquote(file["path"]).rpartition("/")[2] for file in files if file.get("dataChange")]


def _actions(table: str, version: int) -> list[dict[str, Any]]:
    try:
        return [orjson.loads(line) for line in log_bytes(table, version).splitlines() if line.strip()]
    except FileNotFoundError as error:
        raise DataLossError(
            f"version {version} of the table is gone from its log, so a batch cannot be read again",
            remedy="keep the log for longer: delta.logRetentionDuration",
            table=table,
        ) from error

"""The versions of a Delta table that a batch reads, and the files that a version added."""

from __future__ import annotations

from urllib.parse import unquote

import orjson
from deltalake import DeltaTable

from rs_assets.checkpoint.source_log import SourceBatch, SourceLog
from rs_assets.connectors.delta.store import log_bytes
from rs_assets.connectors.source import BEGIN_ANEW
from rs_assets.errors import CheckpointError, DataLossError

# More files than a batch can have: each batch then ends with a whole version, and can be read again.
ALL_FILES = 2_147_483_647


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


def versions_of(batch: SourceBatch, first: int) -> range:
    """The versions that a batch reads; the first batch begins with version `first`."""
    begin = first if batch.start is None else next_version(batch.start)
    return range(begin, begin if batch.end is None else next_version(batch.end))


def files_added(table: str, version: int) -> list[str]:
    """The names of the files whose rows a version added; none if it only rewrote rows, as a compaction does.

    DataLossError if the log has been cleaned up to there.
    """
    try:
        actions = [orjson.loads(line) for line in log_bytes(table, version).splitlines() if line.strip()]
    except FileNotFoundError as error:
        raise DataLossError(
            f"version {version} of the table is gone from its log, so a batch cannot be read again",
            remedy="keep the log for longer: delta.logRetentionDuration",
            table=table,
        ) from error
    added = (action["add"] for action in actions if "add" in action)
    return [unquote(add["path"]).rpartition("/")[2] for add in added if add.get("dataChange")]

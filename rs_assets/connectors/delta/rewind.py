"""Rewinds the rows of a Delta table, back or forward, to the end of a batch: planned first, then done atomically."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError

from rs_assets.common.plural import count_of
from rs_assets.connectors.delta.joining import only_next
from rs_assets.connectors.delta.log.commit_info import REWOUND, claimed_by, fence_of, written_by
from rs_assets.connectors.delta.log.history import NO_ROWS, CannotReturn, Change, History, strange_changes
from rs_assets.connectors.delta.log.store import delta_table
from rs_assets.connectors.delta.table import commit_no_rows
from rs_assets.connectors.generations import Point
from rs_assets.connectors.sink import BatchMark, SinkChange
from rs_assets.errors import SinkError

# How many entries of a history are read at first; more if they do not suffice.
FIRST_ENTRIES = 1_000
# How many are read to find our last commit.
LAST_ENTRIES = 16
CONSTRAINT = "delta.constraints."
AFRESH = "begin a new generation (--new-generation)"


def plan_rewind(table: DeltaTable, kept: BatchMark, begun: BatchMark, *, had: int, path: str) -> int | None:
    """The version that has exactly the rows of `kept`, NO_ROWS for none, None if the newest one already has them.

    Changes nothing. SinkError if no version has them, or if rows of other writers, or missing files, prevent it.
    """
    try:
        history, version = _resolved(table, kept, begun, path)
    except CannotReturn as refused:
        raise SinkError(refused.what, remedy=refused.remedy, step=kept.sink, table=path) from refused
    marker = table.transaction_version(kept.writer)
    known = max(-1 if marker is None else marker, history.last_batch(kept.generation))
    if known < min(kept.batch_id, had):
        raise lacking(kept, known=known, had=had, path=path)
    if history.same(version):
        return None
    return version if version == NO_ROWS else _whole_version(table, history.alike(version), step=kept.sink, path=path)


def lacking(kept: BatchMark, *, known: int, had: int, path: str) -> SinkError:
    """The error for a table that has fewer batches than it once had."""
    back = f"go back to batch {known} or before, " if known >= 0 else ""
    return SinkError(
        f"the table ends at {f'batch {known}' if known >= 0 else 'no batch'} and had batch {had}:"
        f" it cannot be brought to batch {kept.batch_id}",
        remedy=f"{back}restore the table as it was, or {AFRESH}",
        step=kept.sink,
        table=path,
    )


def is_rewound(table: DeltaTable, begun: BatchMark) -> bool:
    """Whether nothing was written since the return to `begun`."""
    if table.transaction_version(begun.writer) != begun.batch_id:
        return False
    last = _last_entries(table, begun).last_own
    return last is not None and (last.kind, last.point) == ("return", Point(begun.generation, begun.batch_id))


def act(table: DeltaTable, version: int | None, kept: BatchMark, begun: BatchMark) -> str:
    """Do what `plan_rewind` returned, in one transaction with the marker; describes what was done."""
    properties = CommitProperties(
        app_transactions=[Transaction(begun.writer, begun.batch_id), *fence_of(begun)],
        custom_metadata={
            REWOUND: begun.writer,
            "rs.rewound_to": str(begun.batch_id),
            "rs.rewound_from": kept.writer,
            **claimed_by(begun),
        },
    )
    if version is not None and version != NO_ROWS:
        settings = dict(table.metadata().configuration)
        table.restore(version, commit_properties=properties)
        _keep_settings(table, settings)
        return f"restored to version {version}"
    if version is None:
        commit_no_rows(table, properties)
    else:
        commit_no_rows(table, only_next(properties), mode="overwrite")
    return "had nothing to undo" if version is None else "emptied: it had no batch before"


def _keep_settings(table: DeltaTable, settings: Mapping[str, str]) -> None:
    """Set the properties and constraints again that a RESTORE reverted together with the rows."""
    table.update_incremental()
    now = table.metadata().configuration
    lost = {name: value for name, value in settings.items() if now.get(name) != value}
    constraints = {n.removeprefix(CONSTRAINT): value for n, value in lost.items() if n.startswith(CONSTRAINT)}
    others = {name: value for name, value in lost.items() if not name.startswith(CONSTRAINT)}
    if others:
        table.alter.set_table_properties(others, raise_if_not_exists=False)
    for name, condition in constraints.items():
        table.alter.add_constraint({name: condition})


def changes_by_others(table: DeltaTable, mark: BatchMark, path: str) -> Sequence[SinkChange]:
    """Changes that a start should know of: see `rs_assets.connectors.sink.Watched`."""
    history = _last_entries(table, mark)
    own = history.last_own
    if own is None or own.point is None:
        return ()
    if own.point.generation > mark.generation:
        return (
            SinkChange(
                f"version {own.version} of {path} is of generation {own.point.generation}, this checkpoint is of"
                f" generation {mark.generation}: a return was interrupted, or the checkpoint is an old copy",
                remedy=f"go back once more (rs-assets rewind or restore), or {AFRESH}",
            ),
        )
    last = history.last_change or own
    return tuple(_described(change, last, path) for change in strange_changes(history))


def newest_generation(table: DeltaTable, mark: BatchMark) -> int:
    """The generation of the newest batch or return of the mark's sink in the table, 0 if it has none.

    A removal of forgotten keys may be all that the log has of the batches before it.
    """
    history = _last_entries(table, mark)
    own = history.last_own or history.last_change
    at = own.point or own.kept if own is not None else None
    return at.generation if at is not None else 0


def refuse_changes(table: DeltaTable, mark: BatchMark, *, own: int, path: str) -> None:
    """SinkError if others removed rows of this sink from the table since `own`, a commit of ours (-1: the last one)."""
    history = _history(table, mark, table.version() - own + 1, path) if own >= 0 else _last_entries(table, mark)
    last = history.last_change
    if last is None:
        return
    for change in strange_changes(history):
        found = _described(change, last, path)
        if found.severity == "error":
            raise SinkError(found.what, remedy=found.remedy, step=mark.sink, table=path)


def _described(change: Change, own: Change, path: str) -> SinkChange:
    what = f"{change.what} by another writer in version {change.version} of {path}, after our last commit {own.version}"
    if change.kind in {"removed", "edited"}:
        return SinkChange(f"{what}, changed rows", remedy="", severity="warning")
    back = f"restore the table to version {own.version} (DeltaTable.restore, RESTORE TABLE)"
    return SinkChange(
        f"{what}: rows that we wrote are missing",
        remedy=f"{back}; or rewind the pipeline to a batch that the table still has (rs-assets rewind); or {AFRESH};"
        " or, if the change was intended, accept the table as it is",
        acceptable=True,
    )


def accept(table: DeltaTable, mark: BatchMark) -> None:
    """Commit, without rows, that the table is as intended after our newest batch."""
    own = _last_entries(table, mark).last_own
    if own is None or own.point is None:
        return
    now = replace(mark, generation=own.point.generation, batch_id=own.point.batch)
    commit_no_rows(table, CommitProperties(custom_metadata={**written_by(now), "rs.accepted": "true"}))


def _resolved(table: DeltaTable, kept: BatchMark, begun: BatchMark, path: str) -> tuple[History, int]:
    """As much of the history as is needed, and the version with the rows of `kept`; CannotReturn if there is none."""
    limit = FIRST_ENTRIES
    while True:
        history = _history(table, kept, limit, path)
        try:
            return history, history.version_for(Point(kept.generation, kept.batch_id))
        except CannotReturn as refused:
            whole = history.oldest == 0 or len(history.changes) < limit
            if refused.older and whole and history.last_own is None and not _was_written(table, kept, begun):
                return history, history.newest
            if whole or not refused.older:
                raise
        limit *= 4


def _was_written(table: DeltaTable, kept: BatchMark, begun: BatchMark) -> bool:
    """Whether the table has a marker of any generation; markers outlive the history."""
    writers = (kept.of_generation(g).writer for g in range(1, begun.generation + 1))
    return any(table.transaction_version(writer) is not None for writer in writers)


def _last_entries(table: DeltaTable, mark: BatchMark) -> History:
    """The newest entries, back to our last commit; all entries if there is none."""
    limit = LAST_ENTRIES
    while True:
        history = _history(table, mark, limit, table.table_uri)
        if history.last_own is not None or history.oldest == 0 or len(history.changes) < limit:
            return history
        limit *= 4


def _history(table: DeltaTable, mark: BatchMark, limit: int, path: str) -> History:
    try:
        return History(table.history(limit), mark)
    except (ValueError, DeltaError) as error:
        # delta-rs finds no log at a path with `#` or `?`.
        raise SinkError(
            "the history of the table cannot be read, so its content is unknown",
            remedy="a table's path must not hold # or ?: move the table, and name its new path",
            step=mark.sink,
            table=path,
        ) from error


def _whole_version(table: DeltaTable, alike: Sequence[int], *, step: str, path: str) -> int:
    """The first of the versions `alike`, which have the same rows, whose files all exist.

    A compaction makes such a version, and a later vacuum removes the files of the previous one. SinkError, about the
    first of them, if files of each have been vacuumed, or its log is gone.
    """
    refused: SinkError | None = None
    for version in alike:
        try:
            _check_files(table, version, step=step, path=path)
        except SinkError as error:
            refused = refused or error
        else:
            return version
    assert refused is not None  # `alike` is never empty
    raise refused


def _check_files(table: DeltaTable, version: int, *, step: str, path: str) -> None:
    """SinkError if a file of `version` has been vacuumed, or its log is gone."""
    try:
        then = _files(delta_table(path, version))
    except DeltaError as error:
        raise SinkError(
            f"version {version} of the table can no longer be read", remedy=AFRESH, step=step, table=path
        ) from error
    if "://" in path:
        return
    root = Path(path)
    gone = [name for name in then - _files(table) if not any((root / n).exists() for n in (name, unquote(name)))]
    if gone:
        raise SinkError(
            f"a vacuum has removed {count_of(len(gone), 'file')} of version {version} of the table",
            remedy=f"go back to a later batch, or {AFRESH}",
            step=step,
            table=path,
            file=gone[0],
        )


def _files(table: DeltaTable) -> set[str]:
    return set(pa.table(table.get_add_actions()).column("path").to_pylist())

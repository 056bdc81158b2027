"""Lands the rows of a table, then its changes: rows come to disk with the place in the log that follows them."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rs_assets.common.files import write_atomically
from rs_assets.connectors.changes.landed import Landed, Line, Owner, add
from rs_assets.connectors.changes.nodes import OnAdded, OnTruncate
from rs_assets.connectors.database.mysql import quoted
from rs_assets.connectors.mariadb.changes import Changes
from rs_assets.connectors.mariadb.server import (
    Client,
    Server,
    check_logging,
    lost,
    lsn_of,
    lsn_text,
)
from rs_assets.connectors.mariadb.table import Column, Table, table_from, table_of
from rs_assets.errors import SourceReadError

# The place in a log without changes of the table is noted once it has grown so far, or has another file.
QUIET: Final = 1 << 20
# How often a snapshot is begun while XA transactions are prepared, and the pauses between.
LOOKS, PAUSE_S = 20, 0.1
LOG: Final = "binlog.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """Brings one table's rows and changes into folders of `Landed`; it holds no connection.

    `fields` are those that are read, with their types; `declared`: all that are wanted.
    """

    server: Server
    table: str
    step: str
    fields: Mapping[str, str]
    declared: bool
    snapshot: bool
    on_truncate: OnTruncate
    on_added: OnAdded
    rows: int | None

    def flushed(self) -> int:
        """The end of the server's log."""
        with self.server.connected() as client:
            return client.end()

    def land(self, landed: Landed, split: str, until: int | None) -> None:
        """Land the table as it is if nothing has landed, else changes up to the place `until` (None: now)."""
        with self.server.connected() as client:
            if landed.reached() is None:
                self._begin(client, landed, split)
            else:
                self._go_on(client, landed, split, until)

    def pending(self, landed: Landed) -> bool:
        """Whether there are changes that have not landed."""
        with self.server.connected() as client:
            changes = self._changes(landed)
            return next(self._lines(client, changes, landed, client.end()), None) is not None

    def _begin(self, client: Client, landed: Landed, split: str) -> None:
        """Land the table as it is at a place in the log, or note the place."""
        table = table_of(client.ask, self.table, step=self.step)
        table.check(self.fields, step=self.step)
        check_logging(client, table.schema, step=self.step)
        client.ask("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        self._look(client)
        status = dict(client.ask("SHOW STATUS LIKE 'binlog_snapshot_%'"))
        file, position = status["Binlog_snapshot_file"], int(status["Binlog_snapshot_position"])
        if position >> 32:
            raise self._unplaced()
        if table_of(client.ask, self.table, step=self.step) != table:
            raise SourceReadError(
                f"the table {table.quoted} was altered in this moment", remedy="start again", step=self.step
            )
        landed.own(Owner("", client.ask("SELECT @@server_id")[0][0], 0, table.facts()))
        at = client.ask("SELECT date_format(utc_timestamp(), '%Y-%m-%dT%H:%i:%sZ')")[0][0]
        lsn = lsn_of(file, position)
        _note(landed.folder, {lsn: client.mark(file, position)}, at)
        if self.snapshot:
            self._copy(client, table, landed, split, lsn=lsn, at=at)
        if landed.reached() is None:
            landed.note_reached(lsn)

    def _look(self, client: Client) -> None:
        """Begin a consistent snapshot while no XA transaction is prepared; SourceReadError if one stays so.

        Its rows are in the log before the snapshot, and count when it is committed after that.
        """
        for left in reversed(range(LOOKS)):
            client.ask("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            prepared = client.ask("XA RECOVER")
            if not prepared:
                return
            client.ask("ROLLBACK")
            if not left:
                name = prepared[0][3].decode(errors="replace")
                raise SourceReadError(
                    f"the XA transaction {name!r} is prepared: its rows are logged, and not yet in the table",
                    remedy="end it by XA COMMIT or XA ROLLBACK, then start again",
                    step=self.step,
                )
            time.sleep(PAUSE_S)

    def _copy(self, client: Client, table: Table, landed: Landed, split: str, *, lsn: int, at: str) -> None:
        known = {column.name: column for column in table.columns}
        columns = ", ".join(_selected(known[name]) for name in self.fields)
        changes = self._changes(landed)
        with landed.landing() as part:
            found = client.each(f"SELECT {columns} FROM {table.quoted}")  # noqa: S608  quoted names
            add(part, split, changes.snapshot(found, lsn, at))
            part.publish(lsn, snapshot=True)

    def _go_on(self, client: Client, landed: Landed, split: str, until: int | None) -> None:
        """Land what was committed after the last landed transaction."""
        reached, now = landed.reached() or 0, client.end()
        if now < reached:
            check_place(client, landed, until=now)
        until = now if until is None else min(now, until)
        if until <= reached:
            return
        changes = self._changes(landed)
        with landed.landing() as part:
            add(part, split, self._lines(client, changes, landed, until))
            added, far = part.end > part.first, changes.end - reached >= QUIET or changes.end >> 32 > reached >> 32
            if added or far:
                self._mark(landed, changes)
            if added:
                part.publish(changes.end)
            elif far:
                landed.note_reached(changes.end)

    def _mark(self, landed: Landed, changes: Changes) -> None:
        """Note by what the place is known again, before it is noted itself."""
        with self.server.connected() as client:
            name, _ = client.files()[changes.end >> 32]
            marks = {**_noted(landed.folder)[0], changes.end: client.mark(name, changes.end & 0xFFFFFFFF)}
        _note(landed.folder, marks, changes.latest)

    def _lines(self, client: Client, changes: Changes, landed: Landed, until: int) -> Iterator[Line]:
        """The rows of whole transactions, up to the place `until`, or until there are as many as one look takes."""
        reached, count = landed.reached() or 0, 0
        file = check_place(client, landed, until=until)
        for event in client.events(file, reached & 0xFFFFFFFF, self.server.server_id):
            lines = changes.lines(event)
            count += len(lines)
            yield from lines
            if not changes.beyond and (
                changes.end >= until or (self.rows is not None and lines and count >= self.rows)
            ):
                return
        if changes.beyond:
            raise self._unplaced()

    def _unplaced(self) -> SourceReadError:
        return SourceReadError(
            "the last file of the log has more than 4 GiB, by a large transaction: places after that have no number",
            remedy="FLUSH BINARY LOGS begins another file; then start again",
            step=self.step,
        )

    def _changes(self, landed: Landed) -> Changes:
        owner, (_, latest) = landed.owner(), _noted(landed.folder)
        if owner is None or owner.facts is None:
            raise lost("what was noted of the table is not on disk any more")
        reached, table = landed.reached() or 0, table_from(owner.facts)
        table.check_texts(self.fields, step=self.step)
        return Changes(
            table=table,
            fields=self.fields,
            step=self.step,
            file=reached >> 32,
            end=reached,
            declared=self.declared,
            on_truncate=self.on_truncate,
            on_added=self.on_added,
            latest=latest,
        )


def check_place(client: Client, landed: Landed, *, until: int | None = None) -> str:
    """The file from which changes are read next; DataLossError if the server does not have it any more."""
    reached, files = landed.reached() or 0, client.files()
    number, position = reached >> 32, reached & 0xFFFFFFFF
    if number not in files:
        raise lost(
            f"changes have landed up to {lsn_text(reached)}, and the server has removed that file"
            " (binlog_expire_logs_seconds, PURGE BINARY LOGS), or is another one"
        )
    name, size = files[number]
    if position > size or (until is not None and until < reached):
        raise lost(f"changes have landed up to {lsn_text(reached)}, and the log ends before: it was reset or restored")
    known = _noted(landed.folder)[0].get(reached)
    if known is not None and client.mark(name, position) != known:
        raise lost(f"the log has other changes before {lsn_text(reached)} than those that have landed: it was reset")
    return name


def _selected(column: Column) -> str:
    # A float is written with six digits, unless it is a double.
    name = quoted(column.name)
    return f"CAST({name} AS DOUBLE)" if column.type == "float" else name


def _note(folder: Path, marks: Mapping[int, str], latest: str) -> None:
    """Note the marks of places, the newest two, and the greatest time of a row."""
    made = {"marks": dict(sorted(marks.items())[-2:]), "latest": latest}
    write_atomically(folder / LOG, json.dumps(made).encode())


def _noted(folder: Path) -> tuple[dict[int, str], str]:
    with contextlib.suppress(FileNotFoundError):
        found: dict[str, Any] = json.loads((folder / LOG).read_bytes())
        return {int(lsn): mark for lsn, mark in found["marks"].items()}, found["latest"]
    return {}, ""

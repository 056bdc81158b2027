"""The sink of a store: the changes of a batch, its mark and what they replace are one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from rs_assets.common.plural import count_of
from rs_assets.connectors.generations import Point
from rs_assets.connectors.progress_guard import ProgressGuard
from rs_assets.connectors.sink import BatchMark, Staged
from rs_assets.connectors.sqlite import ledger
from rs_assets.connectors.sqlite.database import connected
from rs_assets.connectors.sqlite.marked import MarkedWriter
from rs_assets.connectors.store import file
from rs_assets.connectors.store.file import Head
from rs_assets.connectors.store.keys import encoded, ordered
from rs_assets.connectors.store.rows import Layout, layout_of
from rs_assets.errors import SinkError
from rs_assets.records.columns import visible
from rs_assets.records.newest import winners

BEGIN_AGAIN = "begin a new generation, which writes all rows again: rs-assets run NAME --new-generation"
Changes = list[tuple[bytes, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreWriter(MarkedWriter):
    """Exactly once: rows and mark of a batch are one transaction, fenced by the token.

    The changes of a batch pass through the driver. The last `file.KEPT_BATCHES` batches can be undone; a new generation
    replaces all rows with its first batch.
    """

    name: str
    store: str
    path: Path
    keys: tuple[str, ...]
    deletes: str | None = None
    progress: ProgressGuard = field(default_factory=ProgressGuard, compare=False, repr=False)

    def location(self) -> str:
        """The file of the store."""
        return str(self.path)

    def raise_fence(self, mark: BatchMark) -> None:
        """Write the token, without a batch."""
        with self._writing(mark) as database:
            ledger.note(database, mark, batch=-1)

    def check_begin(self, begun: BatchMark) -> str:
        """A warning: the first batch of a new generation replaces all rows."""
        with self._looking() as database:
            if any(
                point.generation < begun.generation and point.batch >= 0 for point in ledger.points(database, begun)
            ):
                return f"the store {self.store!r} has rows of an earlier generation until a batch replaces them"
        return ""

    def check_rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> None:
        """SinkError if the batches after `kept` cannot be undone."""
        with self._looking() as database:
            begun.check(ledger.last_writer(database, begun), where=self.location())
            if file.exists(database) or min(kept.batch_id, had) >= 0:
                self._step_of(database, kept, had)

    def rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> str:
        """Undo the batches after `kept`, newest first, in one transaction."""
        with self._looking() as database:
            if not file.exists(database) and min(kept.batch_id, had) < 0:
                return f"the store {self.store!r} had no rows"
        with self._writing(begun) as database:
            number, head = self._step_of(database, kept, had)
            undone = file.steps(database)[0][0] - number
            file.undo(database, number)
            now = head.with_point(Point(kept.generation, kept.batch_id))
            now = now.with_point(Point(begun.generation, begun.batch_id))
            database.execute("UPDATE steps SET head = ? WHERE number = ?", [now.text(), number])
            ledger.note(database, begun, batch=begun.batch_id)
        return f"the store {self.store!r} undid {count_of(undone, 'batch')}" if undone else "had nothing to undo"

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:
        """Compute the changes and hold them in memory; SinkError for a key without an order."""
        rows = batch.toArrow()
        fields = [each for each in rows.schema if each.name in visible(rows.column_names) and each.name != self.deletes]
        layout = Layout(pa.schema(fields), self.keys)
        self._check_keys(layout)
        rows = winners(rows, keys=self.keys, order_by=(), deletes=self.deletes)
        changes = _changes(rows, layout, self.deletes)
        return Staged(lambda: self._commit(changes, layout, mark))

    def _commit(self, changes: Changes, layout: Layout, mark: BatchMark) -> int:
        with self._writing(mark) as database:
            if self._hold(mark, ledger.last_batch(database, mark)) >= mark.batch_id:
                return 0
            self._prepare(database, layout, mark)
            file.apply(database, changes, self._head(layout, mark, mark.batch_id))
            ledger.note(database, mark, batch=mark.batch_id)
        self._hold(mark, mark.batch_id)
        return len(changes)

    def _prepare(self, database: sqlite3.Connection, layout: Layout, mark: BatchMark) -> None:
        """Empty the store for a generation that begins; SinkError if it lacks batches before this one."""
        self._check_owner(database, mark)
        text = file.newest(database)
        head = file.head_of(text) if text is not None else None
        if head is not None and any(point.generation == mark.generation for point in head.points):
            self._check_layout(layout_of(head.layout), layout)
            return
        if mark.batch_id > 0:
            raise SinkError(
                f"the store {self.store!r} lacks the batches before {mark.batch_id}: it was added to a pipeline that"
                " had run, or was removed",
                remedy=BEGIN_AGAIN,
                step=self.name,
                place=self.location(),
            )
        file.clear(database, self._head(layout, mark, -1))

    def _head(self, layout: Layout, mark: BatchMark, batch: int) -> Head:
        points = (Point(mark.generation, batch),)
        return Head(layout=layout.text(), points=points, watermark=mark.watermark, at=datetime.now(UTC))

    def _step_of(self, database: sqlite3.Connection, kept: BatchMark, had: int) -> tuple[int, Head]:
        """The newest step with the rows up to `kept`; SinkError without one."""
        steps = file.steps(database)
        path = file.lineage(head for _, head in steps).path(Point(kept.generation, kept.batch_id))
        for number, head in steps:
            if any(min(kept.batch_id, had) <= batch <= path.get(known, -2) for known, batch in head.points):
                return number, head
        raise SinkError(
            f"the store {self.store!r} cannot go to batch {kept.batch_id} of generation {kept.generation}: it can undo"
            f" its last {file.KEPT_BATCHES} batches, and has no later ones",
            remedy=BEGIN_AGAIN,
            step=self.name,
            place=self.location(),
        )

    def _check_keys(self, layout: Layout) -> None:
        wrong = next((each for each in layout.key_fields if not ordered(each.type)), None)
        if wrong is not None:
            raise SinkError(
                f"step {self.name!r}: the key {wrong.name!r} is {wrong.type}, which has no order",
                remedy="name fields of plain values: text, numbers, times",
                step=self.name,
            )

    def _check_layout(self, before: Layout, now: Layout) -> None:
        """SinkError if the keys of the store's rows are others than those of the batch."""
        if before.key_fields != now.key_fields:
            raise SinkError(
                f"the store {self.store!r} has the keys {_typed(before)}, and the batch has {_typed(now)}",
                remedy=f"serve under another name; or {BEGIN_AGAIN}",
                step=self.name,
                place=self.location(),
            )

    def _check_owner(self, database: sqlite3.Connection, mark: BatchMark) -> None:
        others = "SELECT sink FROM _rs_marks WHERE (pipeline_id, sink) <> (?, ?) AND batch >= 0 LIMIT 1"
        found = database.execute(others, [mark.pipeline_id, mark.sink]).fetchone()
        if found is not None:
            raise SinkError(
                f"the store {self.store!r} has the rows of another sink, {found[0]!r}",
                remedy="serve under another name",
                step=self.name,
                place=self.location(),
            )

    @contextmanager
    def _writing(self, mark: BatchMark) -> Iterator[sqlite3.Connection]:
        """A transaction that ends with the block; LeaseLostError if another driver has won."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
        with connected(str(self.path), SinkError, write=True) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            database.execute("PRAGMA temp_store = MEMORY")
            ledger.begin(database)
            file.make(database)
            mark.check(ledger.last_writer(database, mark), where=self.location())
            yield database
            database.execute("COMMIT")


def _changes(rows: pa.Table, layout: Layout, deletes: str | None) -> Changes:
    """Keys with their new row; None for one that goes."""
    keys = encoded([rows[name] for name in layout.keys])
    stored: Sequence[bytes | None] = layout.stored(rows)
    if deletes is None:
        return list(zip(keys, stored, strict=True))
    gone = pc.fill_null(rows[deletes], fill_value=False).to_pylist()
    return [(key, None if away else row) for key, row, away in zip(keys, stored, gone, strict=True)]


def _typed(layout: Layout) -> str:
    return ", ".join(f"{each.name} {each.type}" for each in layout.key_fields)

"""What happened, into the catalog: written by a thread of its own, behind Spark's log, never in a batch's way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from queue import Empty, SimpleQueue
from typing import Any

from resources.checkpoint.catalog import Catalog, Row, row_of
from resources.checkpoint.log import CheckpointLog
from resources.checkpoint.merge import source_key
from resources.checkpoint.messages import CheckPoint, CheckPointState, NewSplit, RemoveSplit, SystemMessage
from resources.checkpoint.storage import CheckPointMessage, CheckpointStorage
from resources.errors import RsError

# A commit of a table costs about what a small batch does, so batches share one.
FLUSH_BATCHES = 50
FLUSH_AFTER = timedelta(seconds=10)
# How often it is looked whether Spark has committed the last batch, in seconds.
LOOK_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One batch of one query: its messages in order, and what sinks answered to each CheckPoint."""

    namespace: str
    job: str
    generation: int
    query: str
    folder: str
    batch_id: int
    run_id: str
    at: datetime
    watermark: datetime | None
    messages: Sequence[SystemMessage]
    replies: Mapping[int, tuple[CheckPointState, ...]] = field(default_factory=dict)
    first_number: int = 0
    reconciled: bool = False
    log: CheckpointLog | None = None

    @property
    def committed(self) -> bool:
        """Whether Spark has committed the batch: only then it has happened."""
        return self.log is None or (self.log.folder / "commits" / str(self.batch_id)).exists()


class Journal:
    """Takes entries from batches and writes them when Spark's log has them too; one a run.

    Entries of a batch that Spark never commits are dropped: the batch will be computed again.
    """

    def __init__(self, catalog: Catalog, storage: CheckpointStorage) -> None:
        self.catalog = catalog
        self.storage = storage
        self.written: dict[str, int] = {}
        self.failure: RsError | None = None
        self.followers: list[Callable[[Sequence[JournalEntry]], None]] = []
        self._queue: SimpleQueue[JournalEntry | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="rs-journal", daemon=True)
        self._thread.start()

    def put(self, entry: JournalEntry) -> None:
        """Take a batch; returns at once."""
        self._queue.put(entry)

    def close(self) -> None:
        """Write what Spark has committed by now, and end; may be called twice."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()
            self.storage.finish()

    def _work(self) -> None:
        waiting: list[JournalEntry] = []
        since = time.monotonic()
        ending = False
        while not ending:
            with suppress(Empty):
                entry = self._queue.get(timeout=LOOK_S if waiting else None)
                ending = entry is None
                if entry is not None:
                    since = since if waiting else time.monotonic()
                    waiting.append(entry)
            late = time.monotonic() - since >= FLUSH_AFTER.total_seconds()
            if ending or len(waiting) >= FLUSH_BATCHES or (waiting and late):
                waiting = self._flush(waiting)
                since = time.monotonic()

    def _flush(self, entries: list[JournalEntry]) -> list[JournalEntry]:
        """Write the committed ones; the others go on waiting."""
        ready = [entry for entry in entries if entry.committed]
        if ready:
            try:
                write_entries(self.catalog, self.storage, ready)
                for entry in ready:
                    self.written[entry.folder] = max(self.written.get(entry.folder, -1), entry.batch_id)
                for follower in self.followers:
                    follower(ready)
            except (RsError, OSError) as error:
                # The run goes on: the next start finds in Spark's log what is missing here.
                self.failure = error if isinstance(error, RsError) else None
        return [entry for entry in entries if entry not in ready]


def write_entries(catalog: Catalog, storage: CheckpointStorage, entries: Sequence[JournalEntry]) -> None:
    """Write `entries` to the storage of checkpoints and to the tables of splits and messages."""
    messages: list[Row] = []
    splits: list[Row] = []
    for entry in entries:
        for number, message in enumerate(entry.messages, entry.first_number):
            messages.append(_message_row(entry, number, message))
            if isinstance(message, NewSplit | RemoveSplit):
                splits.append(_split_row(entry, message))
    catalog.append("splits", splits)
    catalog.append("system_messages", messages)
    # Last: what is here counts as written, and the storage itself knows a batch that comes twice.
    storage.save([row for entry in entries for row in checkpoint_rows(entry)])


def checkpoint_rows(entry: JournalEntry) -> list[Any]:
    """A row for each split that the sinks agree on, for each CheckPoint of the batch; none for one that was refused."""
    return [
        row
        for number, message in enumerate(entry.messages)
        if isinstance(message, CheckPoint)
        for row in CheckPointMessage(
            source_key=checkpoint_key(entry, message.source),
            checkpoint=CheckPoint(
                source=message.source,
                query=message.query,
                batch_id=message.batch_id,
                offsets={queue_of(split): offset for split, offset in message.offsets.items()},
            ),
            replies=entry.replies.get(number, ()),
            generation=entry.generation,
            run_id=entry.run_id,
            watermark=entry.watermark,
            at=entry.at,
            reconciled=entry.reconciled,
        ).rows()
    ]


def checkpoint_key(entry: JournalEntry, source: str) -> str:
    """The key of a source: namespace;job;source;query."""
    return source_key(entry.namespace, entry.job, source, entry.query)


def queue_of(split: str) -> str:
    """A split's name as part of a key, which must not hold the separator `^^^`.

    >>> queue_of("logs/a^^^b.log")
    'logs/a%5E%5E%5Eb.log'
    """
    return split.replace("^", "%5E")


def _row(entry: JournalEntry, **columns: object) -> Row:
    return row_of(
        f"{entry.namespace}.{entry.job}",
        generation=entry.generation,
        run_id=entry.run_id,
        at=entry.at,
        query=entry.query,
        batch_id=entry.batch_id,
        **columns,
    )


def _message_row(entry: JournalEntry, number: int, message: SystemMessage) -> Row:
    return _row(
        entry,
        number=number,
        kind=message.kind,
        source=message.source,
        split=getattr(message, "split", None),
        offset=getattr(message, "offset", None),
        reconciled=entry.reconciled,
    )


def _split_row(entry: JournalEntry, message: NewSplit | RemoveSplit) -> Row:
    return _row(
        entry,
        source=message.source,
        split=message.split,
        event="added" if isinstance(message, NewSplit) else "removed",
        offset=getattr(message, "offset", None),
    )

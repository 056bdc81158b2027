"""Writes batches to the catalog on a background thread, after Spark has committed them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from rs_assets.catalog.batch_counts import BatchCounts
from rs_assets.catalog.batch_offsets import offsets_row
from rs_assets.catalog.batch_times import EventTimes
from rs_assets.catalog.catalog import Catalog, Row, operation, row_of
from rs_assets.catalog.offsets import CheckPointMessage, CheckpointStorage
from rs_assets.catalog.offsets.merge import source_key
from rs_assets.catalog.offsets.messages import CheckPoint, CheckPointState, NewSplit, RemoveSplit, SystemMessage
from rs_assets.checkpoint.log import BatchOffsets, CheckpointLog
from rs_assets.common.background import BackgroundFailures, PeriodicTask

# How often the thread checks for batches to write.
LOOK = timedelta(seconds=0.2)
# The most batches in one commit: after a failure there may be many.
MOST_AT_ONCE = 500
# The most batches that wait for an unavailable catalog; further ones are only in Spark's log.
MOST_WAITING = 10_000
BEHIND = "the catalog lags behind"

# The columns that identify a row of the catalog within its pipeline.
IDENTITIES: Mapping[str, tuple[str, ...]] = {
    "splits": ("query", "generation", "batch_id", "source", "split", "event"),
    "system_messages": ("query", "generation", "batch_id", "number"),
    "dimensions": ("query", "generation", "batch_id", "step"),
    "expectations": ("query", "generation", "batch_id", "step"),
    "batch_times": ("query", "generation", "batch_id", "gate"),
    "batch_offsets": ("query", "generation", "batch_id", "planned"),
    "batch_counts": ("query", "generation", "batch_id", "planned"),
    "late_partitions": ("query", "generation", "batch_id", "sink", "start"),
}
Follower = Callable[[Sequence["JournalEntry"]], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One batch of one query: its messages in order, and the answers of sinks to each CheckPoint.

    `versions` are the dimension versions first used by it, as columns of the catalog; `expectations` the rows that each
    judged, and those that failed; `conditions` what they expect; `times` the event times at each gate, None without
    rows; `late` its late rows by output and start of the partition; `counts` its records, if it was computed. `plan`
    is its entry in Spark's log, by stored names, `before` that of the batch before it. The steps have the digest
    `code`. `replayed`: an earlier run may have written it.
    """

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
    replayed: bool = False
    versions: Sequence[Row] = ()
    expectations: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=dict)
    times: Mapping[str, EventTimes | None] = field(default_factory=dict)
    late: Mapping[str, Mapping[datetime, int]] = field(default_factory=dict)
    counts: BatchCounts | None = None
    plan: BatchOffsets | None = None
    before: BatchOffsets | None = None
    code: str = ""
    log: CheckpointLog | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """When batches are written: a commit of a table costs about as much as a small batch, so several share one.

    At least `batches` wait, or the first one has waited `after`.
    """

    batches: int = 50
    after: timedelta = timedelta(seconds=10)


class Journal:
    """Takes entries from batches and writes them when Spark has committed them; one per run.

    A failed write is reported in `failures` and retried, with pauses that grow up to a minute; the batches wait for it
    in order. Entries of a batch that Spark never commits are dropped: the batch will be computed again. `written` maps
    each query's folder to the batch up to which the catalog is complete: the next start writes later ones again, from
    Spark's log.
    """

    def __init__(
        self,
        catalog: Catalog,
        storage: CheckpointStorage,
        failures: BackgroundFailures | None = None,
        *,
        flush: Flush = Flush(),
    ) -> None:
        self._flush = flush
        self.catalog = catalog
        self.storage = storage
        self.failures = failures or BackgroundFailures()
        self.written: dict[str, int] = {}
        self._guard = threading.Lock()
        self._waiting: list[JournalEntry] = []
        self._since = time.monotonic()
        # By folder: the first and the last dropped batch.
        self._dropped: dict[str, tuple[int, JournalEntry]] = {}
        self._uncertain = False
        self._closed = False
        self._followers: dict[str, Follower] = {}
        self._loop = PeriodicTask(self._look, name="rs-journal", every=LOOK, failures=self.failures, effect=BEHIND)
        self._loop.start()

    def follow(self, effect: str, follower: Follower) -> None:
        """Call `follower` with written entries; its errors are reported under `effect`."""
        self._followers[effect] = follower

    def put(self, entry: JournalEntry) -> None:
        """Take a batch; returns at once."""
        with self._guard:
            if not self._waiting:
                self._since = time.monotonic()
            if len(self._waiting) < MOST_WAITING:
                self._waiting.append(entry)
                return
            first, _ = self._dropped.get(entry.folder, (entry.batch_id, entry))
            self._dropped[entry.folder] = first, entry
        self.failures.lost(f"journal {entry.folder}", _gap(first, entry))

    def flush(self) -> None:
        """Write the batches that Spark has committed. Errors are raised; unwritten entries stay queued."""
        while ready := self._ready():
            again, self._uncertain = self._uncertain, True
            write_entries(self.catalog, self.storage, ready, again=again)
            self._uncertain = False
            self._note(ready)
            for effect, follower in self._followers.items():
                with self.failures.guarding(effect):
                    follower(ready)

    def close(self) -> None:
        """Write the batches that Spark has committed, and end; may be called twice. Errors go to `failures`."""
        self._loop.stop()
        if not self._closed:
            self._closed = True
            self._loop.once()
            with self.failures.guarding("gaps of the catalog were not recorded in it"):
                self.catalog.append("operations", self._gaps())
            with self.failures.guarding("the storage of checkpoints was not closed"):
                self.storage.finish()

    def _look(self) -> None:
        with self._guard:
            waited = time.monotonic() - self._since
            due = len(self._waiting) >= self._flush.batches or (
                bool(self._waiting) and waited >= self._flush.after.total_seconds()
            )
        if due or self._uncertain or self._loop.stopping:
            self.flush()

    def _ready(self) -> list[JournalEntry]:
        """The first committed entries in the queue; the last entry of a batch that was computed twice."""
        with self._guard:
            latest = {(e.folder, e.batch_id, e.first_number): e for e in self._waiting}
        folders = {entry.folder: entry.log for entry in latest.values()}
        last = {folder: log.last_committed() for folder, log in folders.items() if log is not None}
        return [e for e in latest.values() if e.batch_id <= last.get(e.folder, e.batch_id)][:MOST_AT_ONCE]

    def _note(self, ready: Sequence[JournalEntry]) -> None:
        """Remove written entries; `written` never moves past a dropped batch."""
        done = {(entry.folder, entry.batch_id, entry.first_number) for entry in ready}
        with self._guard:
            self._waiting = [e for e in self._waiting if (e.folder, e.batch_id, e.first_number) not in done]
            self._since = time.monotonic()
            for entry in ready:
                gap, _ = self._dropped.get(entry.folder, (entry.batch_id + 1, entry))
                reached = min(entry.batch_id, gap - 1)
                self.written[entry.folder] = max(self.written.get(entry.folder, -1), reached)

    def _gaps(self) -> list[Row]:
        """The dropped batches, as rows of the table of operations."""
        return [
            operation(
                f"{last.namespace}.{last.job}",
                generation=last.generation,
                run_id=last.run_id,
                kind="catalog_gap",
                summary=_gap(first, last),
                query=last.query,
                first_batch=first,
                last_batch=last.batch_id,
            )
            for first, last in self._dropped.values()
        ]


def _gap(first: int, last: JournalEntry) -> str:
    return (
        f"the catalog lacks batches {first} to {last.batch_id} of query {last.query!r}: too many waited for it;"
        " the next start fills in those that Spark's log still has"
    )


def write_entries(
    catalog: Catalog, storage: CheckpointStorage, entries: Sequence[JournalEntry], *, again: bool = False
) -> None:
    """Write `entries` to the storage of checkpoints and to the tables of splits, versions and messages.

    `again`: some of it may exist already, from an interrupted write; that is not written twice. So it is of replayed
    batches.
    """
    known = [entry for entry in entries if again or entry.replayed]
    fresh = _new_rows([entry for entry in entries if not (again or entry.replayed)])
    for table, rows in _new_rows(known).items():
        catalog.append(table, [*_absent(catalog, table, rows), *fresh[table]])
    # Last: a batch in this storage counts as written, and the storage itself detects repeated batches.
    storage.save([row for entry in entries for row in checkpoint_rows(entry)])


def _new_rows(entries: Sequence[JournalEntry]) -> dict[str, list[Row]]:
    """The rows of `entries` by table."""
    messages: list[Row] = []
    splits: list[Row] = []
    for entry in entries:
        for number, message in enumerate(entry.messages, entry.first_number):
            messages.append(_message_row(entry, number, message))
            if isinstance(message, NewSplit | RemoveSplit):
                splits.append(_split_row(entry, message))
    return {
        "splits": splits,
        "dimensions": [_row(entry, **version) for entry in entries for version in entry.versions],
        "expectations": [row for entry in entries for row in _judged_rows(entry)],
        "batch_times": [row for entry in entries for row in _time_rows(entry)],
        "batch_offsets": [row for entry in entries for row in _offset_rows(entry)],
        "batch_counts": [row for entry in entries for row in _count_rows(entry)],
        "late_partitions": [row for entry in entries for row in _late_rows(entry)],
        "system_messages": messages,
    }


def _absent(catalog: Catalog, table: str, rows: Sequence[Row]) -> list[Row]:
    """Those of `rows`, all of one pipeline, that the table lacks."""
    if not rows:
        return []
    identity = IDENTITIES[table]
    first = min(row["batch_id"] for row in rows)
    there = catalog.there(table, identity, pipeline=rows[0]["pipeline"], from_batch=first)
    return [row for row in rows if tuple(row[name] for name in identity) not in there]


def checkpoint_rows(entry: JournalEntry) -> list[Any]:
    """A row for each split that the sinks agree on, for each CheckPoint of the batch; none if one was refused."""
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
    """A split's name as part of a key, which must not contain the separator `^^^`.

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


def _judged_rows(entry: JournalEntry) -> list[Row]:
    """The counts of expectations that had rows."""
    return [
        _row(entry, step=step, rows=rows, failed=failed, condition=entry.conditions.get(step))
        for step, (rows, failed) in entry.expectations.items()
        if rows
    ]


def _time_rows(entry: JournalEntry) -> list[Row]:
    """The event times at each gate."""
    return [
        _row(
            entry,
            gate=gate,
            rows=times.rows if times else 0,
            least=times.least if times else None,
            greatest=times.greatest if times else None,
            planned=entry.plan.started if entry.plan else None,
            code=entry.code,
        )
        for gate, times in entry.times.items()
    ]


def _offset_rows(entry: JournalEntry) -> list[Row]:
    """The plan of the batch, once."""
    if entry.plan is None or entry.log is None or entry.first_number:
        return []
    return [{**_row(entry, **offsets_row(entry.plan, entry.before)), "query": entry.log.stored_name}]


def _count_rows(entry: JournalEntry) -> list[Row]:
    """The counts of a batch that was computed."""
    if entry.counts is None or entry.plan is None or entry.log is None:
        return []
    read = {"rows_in": entry.counts.rows_in, "rows_dead": entry.counts.dead, "rows_late": entry.counts.late}
    row = _row(entry, **read, planned=entry.plan.started, code=entry.code)
    return [{**row, "query": entry.log.stored_name}]


def _late_rows(entry: JournalEntry) -> list[Row]:
    """The late rows by partition."""
    return [
        _row(entry, sink=sink, start=start, rows=rows)
        for sink, late in entry.late.items()
        for start, rows in late.items()
    ]


def _split_row(entry: JournalEntry, message: NewSplit | RemoveSplit) -> Row:
    return _row(
        entry,
        source=message.source,
        split=message.split,
        event="added" if isinstance(message, NewSplit) else "removed",
        offset=getattr(message, "offset", None),
    )

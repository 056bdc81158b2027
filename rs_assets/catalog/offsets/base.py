"""What every checkpoint storage does: it gathers messages, merges them and keeps the newest offset of each queue."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, TypeAlias

from rs_assets.catalog.offsets.merge import (
    RowKey,
    main_offset,
    merge_across,
    merge_within,
    parse_row_key,
    row_key,
    source_key,
)
from rs_assets.catalog.offsets.messages import CheckPoint, CheckPointState
from rs_assets.errors import CheckpointError, ConfigurationError

# Messages wait for one another: a commit a batch would cost more than many batches do.
FLUSH_MESSAGES = 50
FLUSH_AFTER = timedelta(seconds=10)

# A generation and a batch of it.
Place: TypeAlias = tuple[int, int]
# A batch of a queue: its row's key, the query, the generation, the batch.
Identity: TypeAlias = tuple[str, str, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow:
    """Up to where one queue (split) of a source was processed at the end of a batch.

    `offset` is JSON text. `watermark` is the query's, None without one; `at` the time of the batch, both with a zone.
    `reconciled` rows were not reported by the run but found in the engine's own log at the next start. Empty parts of
    the key get their defaults. ConfigurationError for parts that cannot be in a key, for text that is none, for counts
    below 0 and for times without a zone.
    """

    namespace: str
    group: str
    topic: str
    name: str
    pipeline: str | None = None
    queue: str
    offset: str
    query: str
    generation: int
    batch_id: int
    run_id: str
    watermark: datetime | None = None
    at: datetime
    reconciled: bool = False

    def __post_init__(self) -> None:
        parts = parse_row_key(row_key(source_key(*self._source), self.queue))
        for part in ("namespace", "group", "topic", "name", "pipeline"):
            object.__setattr__(self, part, getattr(parts, part))
        _check_text(offset=self.offset, query=self.query, run_id=self.run_id)
        _check_counts(generation=self.generation, batch_id=self.batch_id)
        if self.at.tzinfo is None or (self.watermark is not None and self.watermark.tzinfo is None):
            raise ConfigurationError("a time of a checkpoint has no zone", remedy="use UTC", key=self.key)

    @property
    def source_key(self) -> str:
        """The key of the source that the queue is of."""
        return source_key(*self._source)

    @property
    def key(self) -> str:
        """The key of the row: source and queue."""
        return row_key(self.source_key, self.queue)

    @property
    def place(self) -> tuple[int, int]:
        """Generation and batch: of one key's rows the one with the greatest counts."""
        return self.generation, self.batch_id

    @property
    def identity(self) -> Identity:
        """What no two stored rows share."""
        return self.key, self.query, self.generation, self.batch_id

    @property
    def _source(self) -> tuple[str, str, str, str, str | None]:
        return self.namespace, self.group, self.topic, self.name, self.pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPointMessage:
    """A CheckPoint of one source, the replies to it, and what is to be stored with its offsets (see CheckpointRow)."""

    source_key: str
    checkpoint: CheckPoint
    replies: tuple[CheckPointState, ...] = ()
    generation: int
    run_id: str
    watermark: datetime | None = None
    at: datetime
    reconciled: bool = False

    def rows(self) -> tuple[CheckpointRow, ...]:
        """A row for each queue that the replies agree on; none if one of them refuses."""
        agreed = merge_within(self.replies, proposed=self.checkpoint.offsets) or {}
        return tuple(self._row(parse_row_key(row_key(self.source_key, queue)), agreed[queue]) for queue in agreed)

    def _row(self, key: RowKey, offset: str) -> CheckpointRow:
        return CheckpointRow(
            namespace=key.namespace,
            group=key.group,
            topic=key.topic,
            name=key.name,
            pipeline=key.pipeline,
            queue=key.queue,
            offset=offset,
            query=self.checkpoint.query,
            generation=self.generation,
            batch_id=self.checkpoint.batch_id,
            run_id=self.run_id,
            watermark=self.watermark,
            at=self.at,
            reconciled=self.reconciled,
        )


class CheckpointStorage(ABC):
    """Keeps checkpoints. A row that is older than what is there for its key never takes its place.

    May be used from several threads. `finish` must be called at the end: it stores what waits and closes what is open.
    CheckpointError if the storage cannot be read or written; what waited still waits then, and may be flushed again.
    """

    name: ClassVar[str]

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._guard = threading.RLock()
        self._waiting: dict[str, CheckpointRow] = {}
        self._messages = 0
        self._since = 0.0

    def save(self, rows: Sequence[CheckpointRow]) -> None:
        """Store `rows` now, with their main offsets (layers cut off); batches that are there are not stored again."""
        unique: dict[Identity, CheckpointRow] = {}
        for row in rows:
            unique.setdefault(row.identity, replace(row, offset=main_offset(row.offset)))
        if unique:
            with self._guard:
                self._write(tuple(unique.values()))

    def recover(self, source_key: str, queue: str, *, is_recover: bool) -> str | None:
        """The newest stored offset of the queue, None if there is none.

        None as well unless `is_recover`: the source then begins where it would by itself.
        """
        key = row_key(source_key, queue)
        if not is_recover:
            return None
        with self._guard:
            newest = self._newest_of(key)
        return newest.offset if newest else None

    def add_checkpoint_message(self, message: CheckPointMessage) -> None:
        """Take a message to be stored; a refused one is dropped.

        All that waits is flushed when it is 50 messages, or when the first of them came 10 s ago or earlier. Nothing
        watches the clock in between: `flush_if_due` does that for a caller that has no more messages.
        """
        rows = message.rows()
        if not rows:
            return
        with self._guard:
            if not self._messages:
                self._since = self._clock()
            for row in rows:
                waiting = self._waiting.get(row.key)
                self._waiting[row.key] = merged(waiting, row) if waiting else row
            self._messages += 1
            self.flush_if_due()

    def flush_if_due(self) -> None:
        """Flush if 50 messages wait, or one for 10 s."""
        with self._guard:
            late = self._clock() - self._since >= FLUSH_AFTER.total_seconds()
            if self._messages >= FLUSH_MESSAGES or (self._messages and late):
                self.flush()

    def flush(self) -> None:
        """Store all that waits: one row for each queue, the maximum of its offsets."""
        with self._guard:
            if self._waiting:
                self.save(tuple(self._waiting.values()))
            self._waiting, self._messages = {}, 0

    def finish(self) -> None:
        """Flush and close; may be repeated."""
        self.flush()
        self._close()

    def rows(self, source_key: str | None = None) -> tuple[CheckpointRow, ...]:
        """The stored rows (of one source), at least the newest of each key; by key, the newest last."""
        with self._guard:
            return in_order(row for row in self._read(None) if source_key in (None, row.source_key))

    def newest(self, source_key: str, *, batches: int = 1, before: Place | None = None) -> tuple[CheckpointRow, ...]:
        """The rows of the newest `batches` batches of a source, as far as they are stored, in the order of `rows`.

        With `before` (a generation and a batch of it) of those before it. Takes as long after a year as after a day.
        """
        found = [row for row in self.rows(source_key) if before is None or row.place < before]
        places = sorted({row.place for row in found})[-batches:]
        return tuple(row for row in found if row.place in places)

    def of_batches(self, source_key: str, batches: range) -> tuple[CheckpointRow, ...]:
        """The rows of these batches of a source, of every generation, as far as they are stored."""
        return tuple(row for row in self.rows(source_key) if row.batch_id in batches)

    def tidy(  # noqa: B027  nothing to do where only the newest rows are stored
        self, source_keys: Collection[str] | None, *, keep: timedelta, now: datetime | None = None
    ) -> None:
        """Let go of rows that are older than `keep`, but the newest of each queue, and join small files.

        Of the sources with these keys, None: of all. May be done while others write.
        """

    def crowded(self, source_keys: Collection[str]) -> bool:  # noqa: ARG002
        """Whether the rows of one of these sources lie in so many files that reading them takes long."""
        return False

    @abstractmethod
    def _write(self, rows: Sequence[CheckpointRow]) -> None:
        """Store rows of which no two are of one identity; all or none."""

    @abstractmethod
    def _read(self, key: str | None) -> Iterable[CheckpointRow]:
        """The stored rows with this key, or all."""

    def _newest_of(self, key: str) -> CheckpointRow | None:
        """The row with this key that has the greatest generation and batch."""
        return max(self._read(key), key=lambda row: row.place, default=None)

    def _close(self) -> None:
        """Give back what is open. Used once more, the storage opens it again."""
        return


def merged(one: CheckpointRow, other: CheckpointRow) -> CheckpointRow:
    """One row for two of the same key: the newer one, with the greater offset.

    Offsets of an older generation do not count: a new one begins afresh, and may begin earlier.
    """
    older, newer = (one, other) if one.place <= other.place else (other, one)
    if older.generation != newer.generation:
        return newer
    offsets = merge_across({older.queue: older.offset}, {newer.queue: newer.offset})
    return replace(newer, offset=offsets[newer.queue])


def in_order(rows: Iterable[CheckpointRow]) -> tuple[CheckpointRow, ...]:
    """The rows by key, the newest last."""
    return tuple(sorted(rows, key=lambda row: (row.key, row.place)))


def newest_of_each(rows: Iterable[CheckpointRow]) -> dict[str, CheckpointRow]:
    """By key, the row with the greatest generation and batch."""
    newest: dict[str, CheckpointRow] = {}
    for row in rows:
        if row.key not in newest or row.place > newest[row.key].place:
            newest[row.key] = row
    return newest


def row_of(facts: Mapping[str, Any], *, key: str) -> CheckpointRow:
    """The row that a storage kept as `facts` under `key`; CheckpointError if they make none, or one of another key."""
    try:
        row = CheckpointRow(**facts)
        if row.key == key:
            return row
    except (TypeError, AttributeError, ConfigurationError) as error:
        raise _damaged(key) from error
    raise _damaged(key)


def _damaged(key: str) -> CheckpointError:
    return CheckpointError(
        "a stored checkpoint is damaged",
        remedy="remove that row from the storage; the next batch writes another",
        key=key,
    )


def _check_text(**texts: object) -> None:
    """Text that no storage could take is refused here, while it can be told where it came from."""
    for name, text in texts.items():
        try:
            sound = isinstance(text, str) and text.encode() is not None
        except UnicodeEncodeError:
            sound = False
        if not sound:
            raise ConfigurationError(f"the {name} of a checkpoint cannot be {text!r}", remedy="use text (UTF-8)")


def _check_counts(**counts: object) -> None:
    for name, count in counts.items():
        if not isinstance(count, int) or not 0 <= count < 1 << 63:
            raise ConfigurationError(f"the {name} of a checkpoint cannot be {count!r}", remedy="count from 0")

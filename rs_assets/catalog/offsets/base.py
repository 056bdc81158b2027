"""The base of all checkpoint storages, and their rows: the offset of each split after each batch."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, TypeAlias

from rs_assets.catalog.offsets.merge import (
    RowKey,
    main_offset,
    merge_within,
    parse_row_key,
    row_key,
    source_key,
)
from rs_assets.catalog.offsets.messages import CheckPoint, CheckPointState
from rs_assets.errors import CheckpointError, ConfigurationError

# A generation and one of its batches.
Place: TypeAlias = tuple[int, int]
# Identifies a batch of a queue: row key, query, generation, batch.
Identity: TypeAlias = tuple[str, str, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow:
    """The offset up to which one queue (split) of a source was processed at the end of a batch.

    `offset` is JSON text. `watermark` is the query's, None without one; `at` the time of the batch; both have a time
    zone. `reconciled` rows were not reported by the run but found in the engine's own log at the next start. Empty key
    parts get their defaults. ConfigurationError for invalid key parts, values that are not text, counts below 0 and
    times without a time zone.
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
            raise ConfigurationError("a time of a checkpoint has no time zone", remedy="use UTC", key=self.key)

    @property
    def source_key(self) -> str:
        """The key of the source of the queue."""
        return source_key(*self._source)

    @property
    def key(self) -> str:
        """The key of the row: source and queue."""
        return row_key(self.source_key, self.queue)

    @property
    def place(self) -> tuple[int, int]:
        """Generation and batch: of the rows of one key, the greatest counts."""
        return self.generation, self.batch_id

    @property
    def identity(self) -> Identity:
        """Unique for each stored row."""
        return self.key, self.query, self.generation, self.batch_id

    @property
    def _source(self) -> tuple[str, str, str, str, str | None]:
        return self.namespace, self.group, self.topic, self.name, self.pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPointMessage:
    """A CheckPoint of one source, the replies to it, and the other values of its rows (see CheckpointRow)."""

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
    """Stores checkpoints. A row never replaces a newer one of its key.

    A storage of one's own (`checkpoint_storage="package.module:Class"`) is made with the `storage_url` of the run as
    its only argument. It has a `name`, and defines two methods: `_write(rows)` stores CheckpointRows with distinct
    identities, all or none, and may be called with rows that it has; `_read(key)` returns the stored rows with that
    key, or all for None. `_close()` closes what it has opened. One row for each key, the newest, is enough.

    >>> class InADict(CheckpointStorage):
    ...     name = "dict"
    ...
    ...     def __init__(self, url=None):
    ...         super().__init__()
    ...         self.stored = {}
    ...
    ...     def _write(self, rows):
    ...         self.stored.update({row.key: row for row in sorted(rows, key=lambda row: row.place)})
    ...
    ...     def _read(self, key):
    ...         return [row for row in self.stored.values() if key in (None, row.key)]
    >>> list(InADict().rows())
    []

    Thread-safe. `finish` must be called at the end: it closes resources. CheckpointError if the storage cannot be read
    or written.
    """

    name: ClassVar[str]

    def __init__(self) -> None:
        self._guard = threading.RLock()

    def save(self, rows: Sequence[CheckpointRow]) -> None:
        """Store `rows` now, with their main offsets (layers removed); batches that are stored already are skipped."""
        unique: dict[Identity, CheckpointRow] = {}
        for row in rows:
            unique.setdefault(row.identity, replace(row, offset=main_offset(row.offset)))
        if unique:
            with self._guard:
                self._write(tuple(unique.values()))

    def finish(self) -> None:
        """Close resources; may be repeated."""
        self._close()

    def rows(self, source_key: str | None = None) -> tuple[CheckpointRow, ...]:
        """The stored rows (of one source), at least the newest of each key; by key, the newest last."""
        with self._guard:
            return in_order(row for row in self._read(None) if source_key in (None, row.source_key))

    def newest(self, source_key: str, *, batches: int = 1, before: Place | None = None) -> tuple[CheckpointRow, ...]:
        """The rows of the newest `batches` batches of a source, as far as they are stored, in the order of `rows`.

        With `before` (a generation and one of its batches), of those before it. The time does not grow with the
        history.
        """
        found = [row for row in self.rows(source_key) if before is None or row.place < before]
        places = sorted({row.place for row in found})[-batches:]
        return tuple(row for row in found if row.place in places)

    def of_batches(self, source_key: str, batches: range) -> tuple[CheckpointRow, ...]:
        """The rows of these batches of a source, in every generation, as far as they are stored."""
        return tuple(row for row in self.rows(source_key) if row.batch_id in batches)

    def tidy(  # noqa: B027  nothing to do where only the newest rows are stored
        self, source_keys: Collection[str] | None, *, keep: timedelta, now: datetime | None = None
    ) -> None:
        """Remove rows that are older than `keep`, except the newest of each queue, and join small files.

        For the sources with these keys, or for all with None. Other processes may write at the same time.
        """

    def crowded(self, source_keys: Collection[str]) -> bool:  # noqa: ARG002
        """Whether the rows of one of these sources are spread over so many files that reading is slow."""
        return False

    @abstractmethod
    def _write(self, rows: Sequence[CheckpointRow]) -> None:
        """Store rows with distinct identities; all or none."""

    @abstractmethod
    def _read(self, key: str | None) -> Iterable[CheckpointRow]:
        """The stored rows with this key, or all."""

    def _close(self) -> None:
        """Close resources. The storage opens them again if it is used again."""
        return


def in_order(rows: Iterable[CheckpointRow]) -> tuple[CheckpointRow, ...]:
    """The rows by key, the newest last."""
    return tuple(sorted(rows, key=lambda row: (row.key, row.place)))


def newest_of_each(rows: Iterable[CheckpointRow]) -> dict[str, CheckpointRow]:
    """The row with the greatest generation and batch, by key."""
    newest: dict[str, CheckpointRow] = {}
    for row in rows:
        if row.key not in newest or row.place > newest[row.key].place:
            newest[row.key] = row
    return newest


def row_of(facts: Mapping[str, Any], *, key: str) -> CheckpointRow:
    """The row stored as `facts` under `key`; CheckpointError if the facts are invalid or of another key."""
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
        remedy="remove that row from the storage; the next batch writes a new one",
        key=key,
    )


def _check_text(**texts: object) -> None:
    """Text that storages cannot hold is refused here, where its origin is known."""
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

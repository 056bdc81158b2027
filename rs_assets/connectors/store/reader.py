"""Questions to a store, from any process of the host, while its pipeline runs."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.types as kinds

from rs_assets.common.plural import count_of
from rs_assets.connectors.sqlite.database import connect_to_read
from rs_assets.connectors.store import file
from rs_assets.connectors.store.file import Head, head_of
from rs_assets.connectors.store.keys import AFTER, encoded, text_begins
from rs_assets.connectors.store.rows import Layout, Row, layout_of
from rs_assets.errors import ConfigurationError, StoreBehindError
from rs_assets.records.rows import MISFITS, MisfitError, to_arrays

# How often a question with `at_least` looks for a new batch.
POLL = 0.005
# What a limit is below: SQLite counts rows in 64 bits.
MOST_ROWS = 2**63 - 1
Values = Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Rows as of the end of one batch.

    `batch` and `generation` name that batch, `watermark` is its event time (None for tables, which have none), `at` the
    time of its commit. `more` is true if `limit` cut the rows off.
    """

    rows: list[Row]
    batch: int
    generation: int
    watermark: datetime | None
    at: datetime
    more: bool = False

    @property
    def row(self) -> Row | None:
        """The first row, None without one."""
        return self.rows[0] if self.rows else None

    @property
    def age(self) -> timedelta:
        """How long ago the batch was committed."""
        return datetime.now(UTC) - self.at


@dataclass(slots=True)
class Store:
    """The current rows of a table or a keyed stream, by key and in the order of keys; a context manager.

    Each answer is of one batch: never half of one, however long it takes to read. Values of keys are Python's, in the
    order of the store's keys or by name; null sorts first. Threads may share it. All methods take:

    - `at_least` (int, default None: what is there now): wait until this batch is in the store.
    - `timeout` (seconds, default 5): StoreBehindError if it is not there in time.
    """

    name: str
    path: Path
    _connection: sqlite3.Connection | None = field(default=None, repr=False)
    _opened: tuple[int, int] | None = field(default=None, repr=False)
    _made: bool = field(default=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __enter__(self) -> Self:
        """Nothing more to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file; the next question opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def get(self, *values: Any, at_least: int | None = None, timeout: float = 5.0, **named: Any) -> Answer:
        """The row of one key; `answer.row` is None without one.

        - `values`, `named`: the whole key, `get("ann")` or `get(user="ann")`.
        """

        def bounds(layout: Layout) -> tuple[bytes, bytes]:
            key = _key(layout, _in_order(layout, values, named, whole=True))
            return key, key + b"\x00"

        return self._answer(bounds, at_least=at_least, timeout=timeout)

    def range(
        self,
        begin: Any = None,
        end: Any = None,
        *,
        reverse: bool = False,
        limit: int | None = None,
        at_least: int | None = None,
        timeout: float = 5.0,
    ) -> Answer:
        """The rows whose keys are from `begin` to `end`, both inclusive, in the order of keys.

        - `begin`, `end` (a value of the first key, or a sequence of the first ones; default None: no bound). A null
          bound is `(None,)`.
        - `reverse` (bool, default False): the greatest first.
        - `limit` (int, rows, default all).
        """

        def bounds(layout: Layout) -> tuple[bytes, bytes]:
            low = b"" if begin is None else _key(layout, _values(begin))
            return low, AFTER if end is None else _key(layout, _values(end)) + AFTER

        return self._answer(bounds, reverse=reverse, limit=limit, at_least=at_least, timeout=timeout)

    def prefix(
        self,
        *values: Any,
        begins: str | bytes | None = None,
        limit: int | None = None,
        at_least: int | None = None,
        timeout: float = 5.0,
        **named: Any,
    ) -> Answer:
        """The rows whose first keys have these values.

        - `values`, `named`: the first keys, `prefix("ann")` or `prefix(user="ann")`.
        - `begins` (str or bytes, default None): and whose next key, a text, begins with it.
        - `limit` (int, rows, default all).
        """

        def bounds(layout: Layout) -> tuple[bytes, bytes]:
            first = _in_order(layout, values, named, whole=False)
            low = _key(layout, first)
            if begins is not None:
                low += _text_prefix(layout, len(first), begins)
            return low, _beyond(low)

        return self._answer(bounds, limit=limit, at_least=at_least, timeout=timeout)

    def windows(
        self,
        *values: Any,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
        limit: int | None = None,
        at_least: int | None = None,
        timeout: float = 5.0,
    ) -> Answer:
        """The windows of a key that begin from `start` to `end`, both inclusive, in the order of time.

        - `values`: the keys before the time, which is the next key: `keys=["user", "start_time"]`.
        - `start`, `end` (datetime or ISO text, default None: no bound).
        - `limit` (int, rows, default all).
        """

        def bounds(layout: Layout) -> tuple[bytes, bytes]:
            _check_time(layout, len(values))
            low = _key(layout, values if start is None else (*values, start))
            return low, _key(layout, values if end is None else (*values, end)) + AFTER

        return self._answer(bounds, limit=limit, at_least=at_least, timeout=timeout)

    def all(self, *, limit: int | None = None, at_least: int | None = None, timeout: float = 5.0) -> Answer:
        """All rows, in the order of keys.

        - `limit` (int, rows, default all).
        """
        return self._answer(lambda _: (b"", AFTER), limit=limit, at_least=at_least, timeout=timeout)

    def count(self) -> int:
        """How many rows there are."""
        with self._reading() as (database, _):
            return int(database.execute("SELECT count(*) FROM rows").fetchone()[0])

    @property
    def layout(self) -> Layout:
        """The fields of its rows, and its keys."""
        with self._reading() as (_, head):
            return layout_of(head.layout)

    def _answer(
        self,
        bounds: Callable[[Layout], tuple[bytes, bytes]],
        *,
        reverse: bool = False,
        limit: int | None = None,
        at_least: int | None,
        timeout: float,
    ) -> Answer:
        if at_least is not None:
            if type(at_least) is not int:
                raise ConfigurationError(
                    f"at_least= must be the number of a batch, not {at_least!r}", remedy="at_least=answer.batch"
                )
            self._wait(at_least, timeout)
        if limit is not None and not (type(limit) is int and 0 < limit < MOST_ROWS):
            raise ConfigurationError(f"limit= must be a positive whole number, not {limit}", remedy="limit=100")
        order = "DESC" if reverse else "ASC"
        with self._reading() as (database, head):
            layout = layout_of(head.layout)
            found = database.execute(
                f"SELECT row FROM rows WHERE key >= ? AND key < ? ORDER BY key {order} LIMIT ?",  # noqa: S608
                [*bounds(layout), -1 if limit is None else limit + 1],
            ).fetchall()
        cut = found if limit is None else found[:limit]
        return Answer(
            rows=[layout.row(stored) for (stored,) in cut],
            batch=head.batch,
            generation=head.generation,
            watermark=head.watermark,
            at=head.at,
            more=len(cut) < len(found),
        )

    def _wait(self, batch: int, timeout: float) -> None:
        until = time.monotonic() + timeout
        while True:
            try:
                with self._reading() as (_, head):
                    reached = head.batch
            except ConfigurationError:
                # The first batch may come while we wait.
                if time.monotonic() >= until:
                    raise
                reached = -1
            if reached >= batch:
                return
            if time.monotonic() >= until:
                raise StoreBehindError(
                    f"the store {self.name!r} is at batch {reached}, and batch {batch} did not come in {timeout:g} s",
                    remedy="wait longer (timeout=), or check that the pipeline runs: rs-assets status",
                    batch=reached,
                )
            time.sleep(POLL)

    @contextmanager
    def _reading(self) -> Iterator[tuple[sqlite3.Connection, Head]]:
        """A snapshot of the store, and its head."""
        with self._lock:
            try:
                database = self._current()
                database.execute("BEGIN")
                try:
                    # The first statement begins the snapshot.
                    text = file.newest(database) if self._made or file.exists(database) else None
                    if text is None:
                        raise self._missing()
                    self._made = True
                    yield database, head_of(text)
                finally:
                    database.execute("COMMIT")
            except sqlite3.Error as error:
                raise ConfigurationError(
                    f"the store {self.name!r} cannot be read: {error}",
                    remedy="check that its file may be read by this user, and is on a local disk of this host",
                    file=self.path,
                ) from error

    def _current(self) -> sqlite3.Connection:
        """The connection, of the file that is there now."""
        try:
            there = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            raise self._missing() from None
        file_now = (there.st_dev, there.st_ino)
        if self._connection is None or self._opened != file_now:
            if self._connection is not None:
                self._connection.close()
            self._connection, self._opened, self._made = connect_to_read(str(self.path)), file_now, False
        return self._connection

    def _missing(self) -> ConfigurationError:
        return ConfigurationError(
            f"the store {self.name!r} has no batch yet", remedy="run its pipeline: rs-assets run NAME", file=self.path
        )


def _values(value: Any) -> Values:
    return value if isinstance(value, list | tuple) else (value,)


def _in_order(layout: Layout, values: Values, named: Mapping[str, Any], *, whole: bool) -> Values:
    """The values of the first keys; ConfigurationError if they are not, or not all with `whole`."""
    wanted = layout.keys if whole else layout.keys[: len(values) + len(named)]
    rest = wanted[len(values) :]
    if len(values) > len(wanted) or set(named) != set(rest):
        raise ConfigurationError(
            f"the keys of the store are {', '.join(layout.keys)}",
            remedy=f"give {'all of them' if whole else 'the first of them'}, in this order or by name",
        )
    return (*values, *(named[name] for name in rest))


def _key(layout: Layout, values: Values) -> bytes:
    """The bytes of the first keys; ConfigurationError for values that do not fit."""
    if len(values) > len(layout.keys):
        raise ConfigurationError(
            f"the store has {count_of(len(layout.keys), 'key')}: {', '.join(layout.keys)}",
            remedy="give at most one value for each",
        )
    fields = layout.key_fields
    schema = pa.schema([fields.field(place) for place in range(len(values))])
    try:
        columns = to_arrays([dict(zip(schema.names, values, strict=True))], schema)
    except (MisfitError, *MISFITS) as error:
        text = error.text if isinstance(error, MisfitError) else str(error)
        kinds_of = ", ".join(f"{each.name} {each.type}" for each in fields)
        raise ConfigurationError(f"no key of the store: {text}", remedy=f"its keys are {kinds_of}") from error
    return encoded(columns)[0] if columns else b""


def _beyond(begin: bytes) -> bytes:
    r"""The first bytes after all that begin with `begin`.

    >>> _beyond(b"a\xff"), _beyond(b"")
    (b'b', b'\xff')
    """
    head = begin.rstrip(AFTER)
    return head[:-1] + bytes([head[-1] + 1]) if head else AFTER


def _check_time(layout: Layout, place: int) -> None:
    fields = layout.key_fields
    if place >= len(fields) or not kinds.is_timestamp(fields.field(place).type):
        times = [each.name for each in fields if kinds.is_timestamp(each.type)]
        raise ConfigurationError(
            f"windows are found by a time after the values given; the keys are {', '.join(layout.keys)}",
            remedy=f"give the keys before {times[0]!r}" if times else "use .get(), .prefix() or .range()",
        )


def _text_prefix(layout: Layout, place: int, begins: str | bytes) -> bytes:
    fields = layout.key_fields
    kind = fields.field(place).type if place < len(fields) else None
    wanted = str if kind is not None and (kinds.is_string(kind) or kinds.is_large_string(kind)) else bytes
    fits = kind is not None and (wanted is str or kinds.is_binary(kind) or kinds.is_large_binary(kind))
    if not fits or not isinstance(begins, wanted):
        raise ConfigurationError(
            f"begins= needs a text key after the values given; the keys are {', '.join(layout.keys)}",
            remedy="give the keys before the text, or use .range()",
        )
    return text_begins(begins)

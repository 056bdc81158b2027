"""The storage `db`: the table checkpoint_snapshot in any database that SQLAlchemy supports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import orjson
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    DateTime,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    bindparam,
    select,
)
from sqlalchemy.dialects.mysql import VARCHAR
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from rs_assets.catalog.offsets.base import CheckpointRow, CheckpointStorage, newest_of_each, row_of
from rs_assets.catalog.offsets.merge import parse_row_key
from rs_assets.common.chunks import in_chunks
from rs_assets.common.database import cause_of, create_table, engine_of, parsed_url, where
from rs_assets.errors import CheckpointError

# The longest key that MySQL can index; its default collation would treat keys that differ in case as equal.
_KEY = String(700).with_variant(VARCHAR(700, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")
# SQLite generates ids only in a column of exactly this type.
_ID = BigInteger().with_variant(Integer, "sqlite")
SNAPSHOT = Table(
    "checkpoint_snapshot",
    MetaData(),
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("gmt_create", DateTime, nullable=False),
    Column("gmt_modified", DateTime, nullable=False),
    Column("key", _KEY, nullable=False, unique=True),
    Column("value", Text, nullable=False),
)
# Databases limit the number of values in one statement.
KEYS_PER_QUERY = 500
# Parts of the key are not repeated in the value.
KEY_PARTS = frozenset({"namespace", "group", "topic", "name", "pipeline", "queue"})
TIMES = ("watermark", "at")


class DbStorage(CheckpointStorage):
    """Keeps the newest row of each key, its values as a JSON object (`offset`, `batch_id`, ...) in the column `value`.

    The table is created if it is missing; `gmt_create` and `gmt_modified` are UTC. No error and no repr shows the url's
    password or parameters. Keys may be 700 characters long.
    """

    name = "db"

    def __init__(self, url: str | None) -> None:
        super().__init__()
        self._url = parsed_url(url, what="the checkpoint storage 'db'")
        self._engine = engine_of(self._url)
        self._made = False

    def __repr__(self) -> str:
        return f"DbStorage({', '.join(str(fact) for fact in where(self._url).values() if fact)})"

    def _write(self, rows: Sequence[CheckpointRow]) -> None:
        with self._errors("written"):
            self._make()
            self._upsert(tuple(newest_of_each(rows).values()))

    # Another process may insert a key between our query and our insert.
    @retry(
        retry=retry_if_exception_type(IntegrityError),
        stop=stop_after_attempt(5),
        wait=wait_random_exponential(multiplier=0.01, max=0.5),
        reraise=True,
    )
    def _upsert(self, rows: Sequence[CheckpointRow]) -> None:
        now = datetime.now(UTC).replace(tzinfo=None)
        with self._engine.begin() as connection:
            for some in in_chunks(rows, KEYS_PER_QUERY):
                stored = _places(connection, [row.key for row in some])
                new = [row for row in some if row.key not in stored]
                newer = [row for row in some if row.key in stored and row.place > stored[row.key]]
                if new:
                    inserts = [{"gmt_create": now, "gmt_modified": now, "key": r.key, "value": _value(r)} for r in new]
                    connection.execute(SNAPSHOT.insert(), inserts)
                if newer:
                    change = SNAPSHOT.update().where(SNAPSHOT.c.key == bindparam("of_key"))
                    updates = [{"of_key": r.key, "gmt_modified": now, "value": _value(r)} for r in newer]
                    connection.execute(change, updates)

    def _read(self, key: str | None) -> Iterable[CheckpointRow]:
        query = select(SNAPSHOT.c.key, SNAPSHOT.c.value)
        with self._errors("read"):
            self._make()
            with self._engine.connect() as connection:
                found = connection.execute(query if key is None else query.where(SNAPSHOT.c.key == key)).all()
        return [_row(each.key, each.value) for each in found]

    def _make(self) -> None:
        if not self._made:
            create_table(self._engine, SNAPSHOT)
        self._made = True

    def _close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, OSError) as error:
            # Without the error itself, which may hold secrets.
            raise CheckpointError(
                f"the checkpoints cannot be {what}",
                remedy="check that the database can be reached and its table checkpoint_snapshot can be written",
                **where(self._url),
                cause=cause_of(error, self._url),
            ) from None


def _places(connection: Connection, keys: Sequence[str]) -> Mapping[str, tuple[int, int]]:
    """Generation and batch of the stored rows with these keys, locked until the end of the transaction if supported."""
    query = select(SNAPSHOT.c.key, SNAPSHOT.c.value).where(SNAPSHOT.c.key.in_(keys)).with_for_update()
    return {found.key: _row(found.key, found.value).place for found in connection.execute(query)}


def _value(row: CheckpointRow) -> str:
    return orjson.dumps({name: fact for name, fact in asdict(row).items() if name not in KEY_PARTS}).decode()


def _row(key: str, value: str) -> CheckpointRow:
    """The row of a key and its JSON; CheckpointError if it is damaged."""
    facts: dict[str, Any] = {}
    try:
        facts = {**asdict(parse_row_key(key)), **orjson.loads(value)}
        facts.update({name: datetime.fromisoformat(facts[name]) for name in TIMES if facts.get(name) is not None})
    except (orjson.JSONDecodeError, TypeError, ValueError):
        # Missing values are reported as damage.
        facts = {}
    return row_of(facts, key=key)

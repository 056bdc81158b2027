"""Storage of leases in a database, for machines that share no folder: one row a pipeline.

Each change names the row that was read, so that of two drivers the database accepts one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, DateTime, Double, Engine, MetaData, String, Table, select
from sqlalchemy.dialects.mysql import DATETIME, VARCHAR
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from rs_assets.catalog.lease_table import LeaseChanged, Row
from rs_assets.common.database import cause_of, create_table, engine_of, parsed_url, where
from rs_assets.errors import CheckpointError

# MySQL compares texts without their case by default, and cuts times to seconds.
_NAME = String(400).with_variant(VARCHAR(400, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")
_TIME = DateTime().with_variant(DATETIME(fsp=6), "mysql", "mariadb")
TIMES = ("acquired_at", "renewed_at")
# What a holder is recognised by: these are the same for the whole life of a lease, but for its release.
HOLDER = ("token", "host", "pid", "run_id", "released")
LEASES = Table(
    "rs_leases",
    MetaData(),
    Column("pipeline", _NAME, primary_key=True),
    Column("token", BigInteger, nullable=False),
    Column("beat", BigInteger, nullable=False),
    Column("released", Boolean, nullable=False),
    Column("host", String(400), nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("process_started", Double, nullable=False),
    Column("run_id", String(400), nullable=False),
    Column("ttl_ms", BigInteger, nullable=False),
    Column("acquired_at", _TIME, nullable=False),
    Column("renewed_at", _TIME, nullable=False),
)
# How long SQLite waits for another writer, in seconds.
PATIENCE_S = 10


class DatabaseLeases:
    """The table rs_leases in the database at `url`, created if it is missing; times are UTC.

    CheckpointError, which shows no secrets, if the database cannot be reached.
    """

    def __init__(self, url: str) -> None:
        self._url = parsed_url(url, what="the lease")
        self._engine = _engine(url)
        with self._errors("read"):
            _make(self._engine)

    def refresh(self) -> None:
        """Nothing: each read asks the database."""

    def rows(self) -> list[Row]:
        """The rows of all pipelines."""
        with self._errors("read"), self._engine.connect() as connection:
            return [_row(dict(found)) for found in connection.execute(select(LEASES)).mappings()]

    def write(self, row: Row, *, seen: Row | None) -> None:
        """Replace `seen`, None for no row yet, by `row`, in one statement; LeaseChanged if it is no longer there."""
        with self._errors("written"), self._engine.begin() as connection:
            if seen is not None:
                self._change(connection, seen, _plain(row))
                return
            try:
                connection.execute(LEASES.insert(), _plain(row))
            except IntegrityError:
                raise LeaseChanged from None

    def beat(self, row: Row) -> None:
        """Store the heartbeat, if the lease is still that of its holder."""
        with self._errors("written"), self._engine.begin() as connection:
            plain = _plain(row)
            self._change(connection, row, {name: plain[name] for name in ("beat", "renewed_at")})

    def tidy(self) -> None:
        """Nothing is left over."""

    @staticmethod
    def _change(connection: Any, seen: Row, values: Mapping[str, object]) -> None:
        mine = [LEASES.c[name] == seen[name] for name in ("pipeline", *HOLDER)]
        if connection.execute(LEASES.update().where(*mine).values(**values)).rowcount != 1:
            raise LeaseChanged

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, OSError) as error:
            # Without the error itself, which may hold secrets.
            raise CheckpointError(
                f"the leases cannot be {what}",
                remedy="check that the database can be reached and its table rs_leases can be written (RS_LEASES)",
                **where(self._url),
                cause=cause_of(error, self._url),
            ) from None


@lru_cache(maxsize=4)
def _engine(url: str) -> Engine:
    """One engine a process: a lease is read each second, and written from a thread."""
    return engine_of(parsed_url(url, what="the lease"), pooled=False, timeout_s=PATIENCE_S)


@lru_cache(maxsize=4)
def _make(engine: Engine) -> None:
    create_table(engine, LEASES)


def _plain(row: Row) -> Mapping[str, object]:
    """The row with times as the database stores them."""
    return {**row, **{name: row[name].astimezone(UTC).replace(tzinfo=None) for name in TIMES}}


def _row(found: dict[str, Any]) -> Row:
    times: dict[str, datetime] = {name: found[name].replace(tzinfo=UTC) for name in TIMES}
    return {**found, **times}

"""The two databases of a campaign: a server, a table `t` with a journal of its changes, and clients that write."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from rs_assets.testing import MariaDbServer, PostgresServer
from rs_assets.testing.servers.database import DatabaseServer
from tests.changes.replay import Change
from tests.changes.transactions import MARIADB, POSTGRES, Dialect

_NOTED = "(op, id, v, n, at, big)"


def _note(op: str, row: str) -> str:
    values = ", ".join(f"{row}.{name}" for name in ("id", "v", "n", "at"))
    return f"INSERT INTO journal {_NOTED} VALUES ('{op}', {values}, md5({row}.big))"


class Refused(Exception):
    """A transaction failed, such as one of a deadlock, and the connection goes on."""


class Client(Protocol):
    """A connection that writes."""

    def write(self, statements: Sequence[str]) -> None:
        """Execute them in one message; Refused, or an error of the driver if the server is gone."""
        ...


class Database(Protocol):
    """One kind of database; `gone` are the errors of a client whose server was killed."""

    kind: str
    dialect: Dialect
    server: DatabaseServer
    gone: tuple[type[Exception], ...]

    def prepare(self, url: str) -> None:
        """Make the table and its journal."""
        ...

    def client(self, url: str) -> contextlib.AbstractContextManager[Client]:
        """A connection for the block."""
        ...

    def table(self, url: str) -> dict[int, tuple[Any, ...]]:
        """The rows of the table."""
        ...

    def journal(self, url: str) -> list[Change]:
        """What its triggers have noted."""
        ...


class _PostgresClient:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def write(self, statements: Sequence[str]) -> None:
        import psycopg

        try:
            self._connection.execute("; ".join(statements).encode())
        except psycopg.Error as error:
            if self._connection.closed or self._connection.broken:
                raise
            self._connection.execute(b"ROLLBACK")
            raise Refused(str(error)) from error


class Postgres:
    """Postgres: rows are logged whole, and the time of a commit is known."""

    kind, dialect = "postgres", POSTGRES

    def __init__(self) -> None:
        import psycopg

        self.gone = (psycopg.Error,)
        self.server = PostgresServer(settings={"track_commit_timestamp": "on", "deadlock_timeout": "50ms"})

    def prepare(self, url: str) -> None:
        moved = f"IF OLD.id <> NEW.id THEN {_note('delete', 'OLD')}; {_note('insert', 'NEW')};"
        body = (
            f"IF TG_OP = 'TRUNCATE' THEN INSERT INTO journal (op) VALUES ('truncate');"
            f" ELSIF TG_OP = 'INSERT' THEN {_note('insert', 'NEW')};"
            f" ELSIF TG_OP = 'DELETE' THEN {_note('delete', 'OLD')};"
            f" ELSE {moved} ELSE {_note('update', 'NEW')}; END IF; END IF; RETURN NULL;"
        )
        for statement in (
            "CREATE TABLE t (id bigint PRIMARY KEY, v varchar(60), n numeric(9,2), at timestamptz, big text)",
            "ALTER TABLE t ALTER COLUMN big SET STORAGE EXTERNAL, REPLICA IDENTITY FULL",
            "CREATE TABLE journal (place bigserial PRIMARY KEY, xid xid8 DEFAULT pg_current_xact_id(), op text)",
            "ALTER TABLE journal ADD id bigint, ADD v text, ADD n numeric(9,2), ADD at timestamptz, ADD big text",
            f"CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$",
            "CREATE TRIGGER a AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION note()",
            "CREATE TRIGGER b AFTER TRUNCATE ON t FOR EACH STATEMENT EXECUTE FUNCTION note()",
        ):
            self.server.execute(url, statement)

    @contextlib.contextmanager
    def client(self, url: str) -> Iterator[Client]:
        with self.server.connected(url) as connection:
            yield _PostgresClient(connection)

    def table(self, url: str) -> dict[int, tuple[Any, ...]]:
        rows = self.server.execute(url, "SELECT id, v, n, at, md5(big) FROM t")
        return {key: _in_utc(values) for key, *values in rows}

    def journal(self, url: str) -> list[Change]:
        columns = "op, id, v, n, at, big, pg_xact_commit_timestamp(xid::xid)"
        rows = self.server.execute(url, f"SELECT {columns} FROM journal ORDER BY place")
        return [Change(op, key, _in_utc(values), at and at.astimezone(UTC)) for op, key, *values, at in rows]


class _MariaDbClient:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def write(self, statements: Sequence[str]) -> None:
        import pymysql

        with self._connection.cursor() as cursor:
            try:
                cursor.execute("; ".join(statements))
                while cursor.nextset():
                    pass
            except (pymysql.err.OperationalError, pymysql.err.IntegrityError, pymysql.err.InternalError) as error:
                # Deadlocks, waits for locks and keys that are taken; a server that is gone has numbers from 2000 on.
                if error.args[0] >= 2000 or error.args[0] in (0, 1053, 1927):
                    raise
                cursor.execute("ROLLBACK")
                raise Refused(str(error)) from error


class MariaDb:
    """MariaDB: rows are logged whole; the time of a commit is in its log alone."""

    kind, dialect = "mariadb", MARIADB

    def __init__(self) -> None:
        import pymysql

        self.gone = (pymysql.err.Error, OSError)
        self.server = MariaDbServer()

    def prepare(self, url: str) -> None:
        moved = f"IF OLD.id <> NEW.id THEN {_note('delete', 'OLD')}; {_note('insert', 'NEW')};"
        self.server.execute(
            url,
            "CREATE TABLE t (id bigint PRIMARY KEY, v varchar(60), n decimal(9,2), at datetime(6), big longtext)",
            "CREATE TABLE journal (place bigint AUTO_INCREMENT PRIMARY KEY, noted datetime(6) DEFAULT sysdate(6), op"
            " varchar(9), id bigint, v varchar(60), n decimal(9,2), at datetime(6), big varchar(40))",
            f"CREATE TRIGGER a AFTER INSERT ON t FOR EACH ROW {_note('insert', 'NEW')}",
            f"CREATE TRIGGER b AFTER DELETE ON t FOR EACH ROW {_note('delete', 'OLD')}",
            f"CREATE TRIGGER c AFTER UPDATE ON t FOR EACH ROW BEGIN {moved} ELSE {_note('update', 'NEW')}; END IF; END",
        )

    @contextlib.contextmanager
    def client(self, url: str) -> Iterator[Client]:
        import pymysql
        from pymysql.constants import CLIENT

        address = url.rpartition("@")[2]
        connection = pymysql.connect(
            host="127.0.0.1", port=int(address.partition(":")[2].partition("/")[0]), user="root",
            database=address.rpartition("/")[2], autocommit=True, client_flag=CLIENT.MULTI_STATEMENTS,
        )  # fmt: skip
        with contextlib.closing(connection):
            yield _MariaDbClient(connection)

    def table(self, url: str) -> dict[int, tuple[Any, ...]]:
        return {key: tuple(values) for key, *values in self.server.execute(url, "SELECT id, v, n, at, md5(big) FROM t")}

    def journal(self, url: str) -> list[Change]:
        # By its time: a statement takes numbers for some rows that it has not changed yet.
        rows = self.server.execute(url, "SELECT op, id, v, n, at, big FROM journal ORDER BY noted, place")
        return [Change(op, key, tuple(values)) for op, key, *values in rows]


DATABASES = {"postgres": Postgres, "mariadb": MariaDb}


def _in_utc(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(value.astimezone(UTC) if isinstance(value, datetime) else value for value in values)

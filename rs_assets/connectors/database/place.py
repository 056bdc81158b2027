"""A database by its URL: connections for one piece of work, and errors without secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

from sqlalchemy import URL, Connection, Engine, text

from rs_assets.common.database import engine_of, parsed_url, secrets_of, where
from rs_assets.common.extras import check_extra
from rs_assets.common.secrets import Deferred, Hidden, Secret, without
from rs_assets.connectors.database.session import settings_of
from rs_assets.connectors.location import real_place
from rs_assets.errors import RsError

# How long another writer may hold a row, or the database; and how long a paused driver of ours may hold one.
PATIENCE_S, PAUSED_S = 60, 30
SHOWN = 300
# Other names of this machine, and the ports of servers whose URL names none.
LOOPBACK = ("127.0.0.1", "::1", "/tmp", "/var/run/postgresql")  # noqa: S108  folders of sockets
PORTS: Mapping[str, str] = MappingProxyType({"postgresql": "5432", "mysql": "3306"})
# The driver for a URL that names none.
DRIVERS: Mapping[str, str] = MappingProxyType(
    {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg", "mysql": "mysql+pymysql"}
    | {"mariadb": "mariadb+pymysql"}
)
# What brings a driver.
EXTRAS: Mapping[str, str] = MappingProxyType(
    {"postgresql+psycopg": "postgres", "mysql+pymysql": "mariadb", "mariadb+pymysql": "mariadb"}
)
# Of a CHECK that a row of MariaDB or MySQL fails, which their driver calls operational.
CHECKS = frozenset({"4025", "3819"})
# A deadlock and a serialization failure of Postgres; of MySQL a deadlock, a lock that was not had, and a savepoint that
# is gone with the transaction that a deadlock has ended.
DEADLOCKS = frozenset({"40P01", "40001", "1213", "1205", "1305"})
# A full disk, of Postgres, MySQL and SQLite: their drivers call it operational, or internal.
FULL = frozenset({"53100", "1021", "1114", "SQLITE_FULL"})
ROOM = "make room on the disk of the database, then start again: nothing of the batch is in the table"
# The remedy by the kind of error, which has one name in drivers and SQLAlchemy; the first that fits.
REMEDIES: Mapping[str, str] = MappingProxyType(
    {
        "IntegrityError": "a constraint or a unique index of the table forbids a row: drop it, or keep such rows from"
        " the sink (filter), then start again",
        "DataError": "a column of the table cannot hold a value: change its type, or keep such rows from the sink"
        " (filter), then start again",
        "OperationalError": "check that the database answers, and that no other program holds the table; then start"
        " again: nothing of the batch was written",
        "ProgrammingError": "check that the user may read and write the table, and the tables rs_marks, rs_claims and"
        " rs_returns of its schema",
    }
)


def hidden(url: Secret) -> Deferred:
    """A URL that is never shown: Dagster's `EnvVar`, or text."""
    return url if isinstance(url, Deferred) else Hidden(url)


def place_of(url: Secret, table: str, *, step: str) -> str:
    """Where a table is, for people and for comparisons: no credentials; an `EnvVar` by its name.

    >>> place_of("postgresql://me:secret@db:5432/shop", "orders", step="out")
    'postgresql://db:5432/shop orders'
    """
    if isinstance(url, Deferred):
        return f"${getattr(url, 'env_var_name', type(url).__name__)} {table}"
    parsed = _driver(parsed_url(url, what=f"step {step!r}"))
    host = f"{parsed.host or ''}:{parsed.port}" if parsed.port else parsed.host or ""
    return f"{parsed.get_backend_name()}://{host}/{parsed.database or ''} {table}"


def table_at(url: Deferred, table: str) -> tuple[str, ...] | None:
    """What is equal for one table of one server, however its URL is written; None if the URL is not known here.

    >>> table_at(Hidden("postgresql://me:secret@localhost/shop"), "orders")
    ('postgresql', 'localhost', '5432', 'shop', 'public', 'orders')
    """
    try:
        parsed = parsed_url(url.get_value(), what="a step")
    except RsError:
        return None
    kind = {"postgres": "postgresql", "mariadb": "mysql"}.get(parsed.get_backend_name(), parsed.get_backend_name())
    schema, name = split_table(table)
    if kind == "sqlite":
        return (
            kind,
            real_place(f"./{parsed.database}" if "/" not in str(parsed.database) else str(parsed.database)),
            name.lower(),
        )
    given = {key: value if isinstance(value, str) else value[0] for key, value in parsed.query.items()}
    host = (parsed.host or given.get("host") or "localhost").lower()
    return (
        kind,
        "localhost" if host in LOOPBACK else host,
        str(parsed.port or given.get("port") or PORTS.get(kind, "")),
        parsed.database or given.get("dbname") or parsed.username or "",
        schema or ("public" if kind == "postgresql" else parsed.database or ""),
        name,
    )


def split_table(table: str) -> tuple[str | None, str]:
    """The schema and the name of a table.

    >>> split_table("shop.orders"), split_table("orders")
    (('shop', 'orders'), (None, 'orders'))
    """
    schema, _, name = table.rpartition(".")
    return schema or None, name


def quoted_name(name: str) -> str:
    """A name as an identifier of the SQL standard, for statements that go to the driver as they are.

    >>> quoted_name('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def _driver(url: URL) -> URL:
    name = url.drivername
    return url.set(drivername=DRIVERS[name]) if name in DRIVERS else url


@dataclass(frozen=True, slots=True)
class Place:
    """The database of a step. A connection is made for each piece of work: passwords change, and servers restart."""

    url: Deferred = field(repr=False, compare=False)
    step: str = ""

    def parsed(self) -> URL:
        """The URL with its driver; ConfigurationError if it is missing or malformed, or lacks the driver's package."""
        url = _driver(parsed_url(self.url.get_value(), what=f"step {self.step!r}"))
        if url.drivername in EXTRAS:
            check_extra(EXTRAS[url.drivername], f"step {self.step!r}")
        return url

    @contextmanager
    def engine(self, failure: type[RsError]) -> Iterator[Engine]:
        """An engine for the block; errors of the database in it become `failure`, without secrets of the URL."""
        url = self.parsed()
        engine = engine_of(url, pooled=False, timeout_s=PATIENCE_S, connect=settings_of(url))
        try:
            yield engine
        except RsError:
            raise
        except Exception as error:  # noqa: BLE001  drivers raise errors of their own as well
            kinds = {kind.__name__ for kind in type(error).__mro__}
            kinds |= {"IntegrityError"} if _number(error) in CHECKS else set()
            remedy = next((REMEDIES[kind] for kind in REMEDIES if kind in kinds), "see the cause")
            remedy = ROOM if _number(error) in FULL else remedy
            # Without the cause: its text and its arguments are the driver's, and may contain secrets.
            raise failure(
                f"the database of step {self.step!r} has refused: {_said(error, url)}",
                remedy=remedy,
                **where(url),
                code=_number(error) if _number(error) in DEADLOCKS else None,
            ) from None
        finally:
            engine.dispose()

    @contextmanager
    def reading(self, failure: type[RsError]) -> Iterator[Connection]:
        """A connection for the block; what is changed in it is rolled back."""
        with self.engine(failure) as engine, engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self, failure: type[RsError]) -> Iterator[Connection]:
        """A transaction for the block, which does not wait for others, nor keep others waiting, without end."""
        with self.engine(failure) as engine, engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(text(f"SET LOCAL lock_timeout = '{PATIENCE_S}s'"))
                connection.execute(text(f"SET LOCAL idle_in_transaction_session_timeout = '{PAUSED_S}s'"))
                # As in MySQL: a time without a zone that goes into a column with one is UTC, wherever the server is.
                connection.execute(text("SET LOCAL TimeZone = 'UTC'"))
            yield connection


def deadlocked(error: BaseException) -> bool:
    """Whether the database has ended a transaction for another one: it may succeed if it is tried again."""
    return isinstance(error, RsError) and error.facts.get("code") in DEADLOCKS


def _number(error: Exception) -> str:
    own = getattr(error, "orig", None) or error
    first = next(iter(own.args), None)
    return str(first if isinstance(first, int) else getattr(own, "sqlstate", getattr(own, "sqlite_errorname", "")))


def _said(error: Exception, url: URL) -> str:
    said = str(getattr(error, "orig", None) or error)
    return without(secrets_of(url), " ".join(said.split()))[:SHOWN]

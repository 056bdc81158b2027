"""A Postgres server for a source: connections with one form of values, and errors without secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from rs_assets.common.database import secrets_of, where
from rs_assets.common.secrets import Hidden, without
from rs_assets.connectors.database.place import SHOWN, Place
from rs_assets.errors import RsError, SourceReadError

if TYPE_CHECKING:
    from psycopg import Connection

# How the server writes values, whatever its settings and those of the user are.
FORMS: Final = (
    "SET TimeZone = 'UTC'",
    "SET DateStyle = 'ISO, MDY'",
    "SET IntervalStyle = 'iso_8601'",
    "SET bytea_output = 'hex'",
    "SET extra_float_digits = 1",
    # An error, and not fewer rows, if policies hide rows from this user: the log has the changes of all rows.
    "SET row_security = off",
    # How long a paused process may keep the next one waiting, and how long that one waits.
    "SET idle_in_transaction_session_timeout = '60s'",
    "SET lock_timeout = '90s'",
)
CONNECT_S: Final = 15
# The remedy by the name of the driver's error, the first that fits.
REMEDIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "InsufficientPrivilege": "let the user replicate (ALTER ROLE ... REPLICATION), read the table (GRANT SELECT),"
        " and either own it or make the publication for it: CREATE PUBLICATION ... FOR TABLE ...; if the table has"
        " row-level security, let the user see all rows (ALTER ROLE ... BYPASSRLS)",
        "ObjectInUse": "another program reads the replication slot: end it, or name another one: slot='...'",
        "ConfigurationLimitExceeded": "raise max_replication_slots, or drop an unused slot:"
        " SELECT pg_drop_replication_slot('...')",
        "OperationalError": "check that the database answers, then start again: nothing is lost",
    }
)
Row = Sequence[bytes | None]


@dataclass(frozen=True, slots=True)
class Server:
    """The database of a step."""

    place: Place

    def revealed(self) -> Server:
        """The same with the URL of this moment: Spark's processes do not see variables that this one has got since."""
        return Server(replace(self.place, url=Hidden(self.place.url.get_value() or "")))

    @contextmanager
    def connected(self, *, replication: bool = False, patience_s: int = CONNECT_S) -> Iterator[Connection[Any]]:
        """A connection in autocommit for the block; errors of the database in it become SourceReadError."""
        url = self.place.parsed()
        import psycopg

        plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
        # Texts are those of Python, whatever encoding the database has.
        options: dict[str, Any] = {"client_encoding": "UTF8", **({"replication": "database"} if replication else {})}
        try:
            with psycopg.connect(plain, autocommit=True, connect_timeout=patience_s, **options) as connection:
                for form in () if replication else FORMS:
                    connection.execute(form.encode())
                yield connection
        except RsError:
            raise
        except psycopg.Error as error:
            kinds = [kind.__name__ for kind in type(error).__mro__]
            remedy = next((REMEDIES[kind] for kind in REMEDIES if kind in kinds), "see what the database says")
            said = without(secrets_of(url), " ".join(str(error).split()))[:SHOWN]
            # Without the cause: its text is the driver's, and may contain secrets.
            raise SourceReadError(
                f"the database of step {self.place.step!r} has refused: {said}", remedy=remedy, **where(url)
            ) from None


def rows_of(connection: Connection[Any], sql: str, *values: object, size: int) -> Iterator[Row]:
    """The rows of a query as texts of the server, which are asked for `size` at a time; within a transaction."""
    for found in _pages(connection, sql, values, size=size, form=False):
        width = range(found.nfields)
        for row in range(found.ntuples):
            yield [found.get_value(row, column) for column in width]


def pages_of(connection: Connection[Any], sql: str, *values: object, size: int) -> Iterator[list[bytes]]:
    """The only column of a query in the server's binary form, `size` rows at a time; within a transaction."""
    for found in _pages(connection, sql, values, size=size, form=True):
        yield [found.get_value(row, 0) or b"" for row in range(found.ntuples)]


def _pages(connection: Connection[Any], sql: str, values: Sequence[object], *, size: int, form: bool) -> Iterator[Any]:
    connection.execute(f"DECLARE rs_rows CURSOR FOR {sql}".encode(), values or None)
    while True:
        cursor = connection.execute(f"FETCH {size} FROM rs_rows".encode(), binary=form)
        found = cursor.pgresult
        if found is None or found.ntuples == 0:
            return
        yield found

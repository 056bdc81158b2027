"""A MariaDB server for a source: connections, its binary log, and errors without secrets."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import URL

from rs_assets.common.database import secrets_of, where
from rs_assets.common.secrets import Hidden, without
from rs_assets.connectors.database.place import SHOWN, Place
from rs_assets.connectors.mariadb.binlog import ARTIFICIAL, FORMAT, Event, event_of, has_sums, unsummed
from rs_assets.connectors.source import BEGIN_ANEW
from rs_assets.errors import ConfigurationError, DataLossError, RsError, SourceReadError

if TYPE_CHECKING:
    from pymysql.connections import Connection

CONNECT_S: Final = 15
# A server that sends nothing for so long has failed: it is asked for what is there, and not to wait for more.
SILENT_S: Final = 120
# Whatever the settings of server and user are.
SESSION: Final = "SET SESSION sql_mode = '', time_zone = '+00:00', lock_wait_timeout = 60"
# Events of transactions as they are, and with the checksums that they have.
READER: Final = "SET @mariadb_slave_capability = 4, @master_binlog_checksum = @@global.binlog_checksum"
DUMP, NO_WAIT, LOST = 0x12, 1, 1236
ANEW: Final = f"{BEGIN_ANEW}, which begins with the table as it is then"
# What each setting must be, and the statement that helps.
SETTINGS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "log_bin": ("1", "start the server with --log-bin"),
        "binlog_format": ("ROW", "SET GLOBAL binlog_format = 'ROW'; sessions that are open keep the old one"),
        "binlog_row_image": ("FULL", "SET GLOBAL binlog_row_image = 'FULL'; sessions that are open keep the old one"),
        "binlog_row_metadata": ("FULL", "SET GLOBAL binlog_row_metadata = 'FULL'"),
    }
)
REMEDIES: Final[Mapping[int, str]] = MappingProxyType(
    dict.fromkeys(
        (1044, 1045, 1142, 1227),
        "let the user read the log and the table: GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO ...;"
        " GRANT SELECT ON ... TO ...",
    )
    | {1412: "the table was altered in this moment: start again", 2003: "check that the database answers"}
)


def number_of(file: str) -> int:
    """The number of a file of the log."""
    return int(file.rpartition(".")[2])


def lsn_of(file: str, position: int) -> int:
    """A place in the log as one number, which grows: that of the file, then 32 bits of the position.

    >>> lsn_of("binlog.000003", 328) == (3 << 32) + 328
    True
    """
    return (number_of(file) << 32) + position


def lsn_text(lsn: int) -> str:
    """A place in the log for people.

    >>> lsn_text((3 << 32) + 328)
    'file 3, position 328'
    """
    return f"file {lsn >> 32}, position {lsn & 0xFFFFFFFF}"


class Client:
    """A connection in autocommit; values come as the server writes them."""

    def __init__(self, connection: Connection[Any]) -> None:
        self.connection = connection

    def ask(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            return [*cursor.fetchall()]

    def each(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a query, while they arrive."""
        from pymysql.cursors import SSCursor

        with self.connection.cursor(SSCursor) as cursor:
            cursor.execute(sql)
            yield from cursor

    def end(self) -> int:
        """The end of the log."""
        file, position, *_ = self.ask("SHOW MASTER STATUS")[0]
        return lsn_of(file, int(position))

    def mark(self, file: str, position: int) -> str:
        """What distinguishes a place from that of another log with a file of the same name: the last transactions."""
        return str(self.ask("SELECT binlog_gtid_pos(%s, %s)", file, position)[0][0])

    def files(self) -> dict[int, tuple[str, int]]:
        """The files of the log that are there: name and size by number."""
        return {number_of(row[0]): (row[0], int(row[1])) for row in self.ask("SHOW BINARY LOGS")}

    def events(self, file: str, position: int, server_id: int) -> Iterator[Event]:
        """The events from a position on, up to the end that the log has now; DataLossError if they are not there."""
        import pymysql

        self.ask(READER)
        request = struct.pack("<IHI", position, NO_WAIT, server_id) + file.encode()
        try:
            self.connection._execute_command(DUMP, request)  # noqa: SLF001  the driver has no method for it
            yield from self._events()
        except pymysql.err.MySQLError as error:
            if error.args[:1] != (LOST,):
                raise
            raise lost(
                f"the server does not give its log from {lsn_text(lsn_of(file, position))} on: {error.args[1]}"
            ) from None

    def _events(self) -> Iterator[Event]:
        summed = False
        while not (packet := self.connection._read_packet()).is_eof_packet():  # noqa: SLF001
            data = packet.get_all_data()[1:]
            event, bare = event_of(data), unsummed(data)
            if event.kind == FORMAT:
                summed = has_sums(data)
            elif summed and bare is None and not event.flags & ARTIFICIAL:
                raise SourceReadError("an event of the log does not fit its checksum", remedy="start again")
            yield event if bare is None else event_of(bare)


@dataclass(frozen=True, slots=True)
class Server:
    """The database of a step; `server_id` is the number by which the server knows this reader of its log."""

    place: Place
    server_id: int

    def revealed(self) -> Server:
        """The same with the URL of this moment: Spark's processes do not see variables that this one has got since."""
        return replace(self, place=replace(self.place, url=Hidden(self.place.url.get_value() or "")))

    @contextmanager
    def connected(self, *, patience_s: int = CONNECT_S) -> Iterator[Client]:
        """A connection for the block; errors of the database in it become SourceReadError."""
        url = self.place.parsed()
        import pymysql
        from pymysql.converters import conversions

        # Values are not converted, but those of statements are.
        plain = {kind: how for kind, how in conversions.items() if not isinstance(kind, int)}
        try:
            connection = pymysql.connect(
                **_address(url), charset="utf8mb4", autocommit=True, conv=plain, init_command=SESSION,
                connect_timeout=patience_s, read_timeout=SILENT_S,
            )  # fmt: skip
            with closing(connection):
                yield Client(connection)
        except RsError:
            raise
        except (pymysql.err.MySQLError, OSError) as error:
            remedy = REMEDIES.get(error.args[0] if error.args else 0, "see what the database says, then start again")
            said = without(secrets_of(url), " ".join(str(error).split()))[:SHOWN]
            # Without the cause: its text is the driver's, and may contain secrets.
            raise SourceReadError(
                f"the database of step {self.place.step!r} has refused: {said}", remedy=remedy, **where(url)
            ) from None


def _address(url: URL) -> dict[str, Any]:
    """Where the server is, and who asks; with the files of certificates that the URL names."""
    given = {key: value if isinstance(value, str) else value[0] for key, value in url.query.items()}
    encrypted: dict[str, Any] = {name: given[name] for name in ("ssl_ca", "ssl_cert", "ssl_key") if name in given}
    own = {"unix_socket": given["unix_socket"]} if "unix_socket" in given else {}
    return {
        "host": url.host or "localhost", "port": url.port or 3306, "user": url.username, "password": url.password or "",
        "database": url.database or None, **encrypted, **own,
    }  # fmt: skip


def check_logging(client: Client, database: str, *, step: str) -> None:
    """ConfigurationError if the server does not log whole rows of the database."""
    version = client.ask("SELECT version()")[0][0]
    if "mariadb" not in version.lower():
        raise ConfigurationError(
            f"the server of step {step!r} is not MariaDB but {version}, whose log was not tested",
            remedy="poll the table: from_database(..., column='updated_at', lag=timedelta(minutes=5))",
            step=step,
        )
    for name, (wanted, remedy) in SETTINGS.items():
        found = client.ask(f"SELECT @@global.{name}")[0][0]
        if str(found).upper() != wanted:
            raise ConfigurationError(
                f"the server of step {step!r} does not log whole rows: its {name} is {found}", remedy=remedy, step=step
            )
    (_, _, only, ignored), *_ = client.ask("SHOW MASTER STATUS")
    if (only and database not in only.split(",")) or database in (ignored or "").split(","):
        raise ConfigurationError(
            f"the server of step {step!r} does not log changes of the database {database!r}",
            remedy="take binlog_do_db and binlog_ignore_db out of its settings",
            step=step,
        )


def lost(why: str) -> DataLossError:
    """The error for changes that the log does not have any more."""
    return DataLossError(f"changes are lost: {why}", remedy=ANEW)


def listed(names: Sequence[str]) -> str:
    """Names as people read them."""
    return f"({', '.join(names)})"

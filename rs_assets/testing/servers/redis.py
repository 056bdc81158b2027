"""A real Redis server for tests, demonstrations and benchmarks: one on loopback, without a container.

Its binary is the `redis-server` of PATH, else that of Debian's packages, which `python -m
rs_assets.testing.servers.redis fetch` unpacks next to the jars of this Python, without root. Run as a module without
arguments it starts a server, prints its URL, and serves until Ctrl-C.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rs_assets.common.extras import check_extra
from rs_assets.errors import ConfigurationError
from rs_assets.testing.servers.debian import unpack
from rs_assets.testing.servers.process import LocalServer, ServerProcess, free_ports

if TYPE_CHECKING:
    from redis import Redis

# The server, which redis-tools has, and the libraries that a small system lacks.
PACKAGES = ("redis-tools", "libjemalloc2", "liblzf1")
# The check of dumps and the server are one binary, which acts by the name that it is called by.
TOOL = "redis-check-rdb"
FETCH = "python -m rs_assets.testing.servers.redis fetch"
# What is acknowledged is on disk.
SETTINGS: Mapping[str, str] = {
    "bind": "127.0.0.1",
    "protected-mode": "yes",
    "appendonly": "yes",
    "appendfsync": "always",
    "save": "",
    "daemonize": "no",
}


def fetched() -> Path:
    """The folder of the unpacked packages, which may not exist."""
    return Path(sys.prefix) / "share" / "rs_assets" / "servers" / "redis"


def find_binary() -> Path | None:
    """The `redis-server` of PATH, else the fetched one; None if there is none."""
    on_path = shutil.which("redis-server")
    place = Path(on_path) if on_path is not None else fetched() / "usr" / "bin" / TOOL
    return place if place.is_file() else None


def fetch() -> Path:
    """Fetch Debian's packages by apt and unpack them; ConfigurationError where that is impossible."""
    why = unpack(PACKAGES, fetched())
    if why:
        raise ConfigurationError(
            f"Debian's packages of Redis cannot be fetched: {why}",
            remedy="install redis-server 7.0 or later, so that it is in PATH",
        )
    return fetched()


class RedisServer(LocalServer):
    """A Redis server with a password, whose data is on disk before it answers; a context manager.

    `settings` are settings of redis.conf in addition. The data is in a temporary folder, which is removed with the
    server: at `close()`, or when this process ends in any other way. `binary` is by default that of `find_binary()`.

        with RedisServer() as server:
            server.client().xadd("clicks", {"page": "/a"})
            print(server.url)
    """

    called = "the Redis server"
    start_timeout_s = 30

    def __init__(self, *, settings: Mapping[str, str] | None = None, binary: Path | None = None) -> None:
        super().__init__()
        self._settings = {**SETTINGS, **(settings or {})}
        self._binary = binary
        self._password = secrets.token_hex(8)
        self._port = 0
        self._clients: list[Any] = []

    @property
    def url(self) -> str:
        """The URL of database 0, with the password; the same after restarts."""
        self._home()
        return f"redis://:{self._password}@127.0.0.1:{self._port}/0"

    def start(self) -> Self:
        """Start the server and wait until it answers; ConfigurationError with the end of its log if it does not.

        ConfigurationError as well without the extra `redis`, or without a binary. Does nothing if the server runs.
        """
        check_extra("redis", "a Redis server for tests")
        return super().start()

    def close(self) -> None:
        """Stop the server and remove its data; may be called twice."""
        for client in self._clients:
            client.close()
        self._clients.clear()
        super().close()

    def client(self, *, text: bool = True) -> Redis:
        """A client whose answers are text, else bytes; it is closed with the server."""
        from redis import Redis

        made = Redis.from_url(self.url, decode_responses=text, protocol=2)
        self._clients.append(made)
        return made

    def _prepare(self) -> ServerProcess:
        binary = self._binary or find_binary()
        if binary is None:
            raise ConfigurationError("no Redis server is installed", remedy=FETCH)
        self._folder = Path(tempfile.mkdtemp(prefix="rs-redis-"))
        self._port, bus, _ = free_ports()
        # By default the bus of a cluster has a port among those of outgoing connections, which may be taken.
        ports = {"port": str(self._port), "cluster-port": str(bus)}
        settings = {**self._settings, **ports, "dir": str(self._folder), "requirepass": self._password}
        configuration = self._folder / "redis.conf"
        configuration.write_text("".join(f'{name} "{value}"\n' for name, value in settings.items()), encoding="utf-8")
        configuration.chmod(0o600)
        libraries = ":".join(map(str, fetched().glob("usr/lib/*-linux-gnu*")))
        loaded = ["env", f"LD_LIBRARY_PATH={libraries}"] if binary.is_relative_to(fetched()) else []
        named = self._folder / "redis-server"
        named.symlink_to(binary)
        return ServerProcess(
            [*loaded, str(named), str(configuration)], log_file=self._folder / "server.log", scratch=self._folder
        )

    def _answers(self) -> bool:
        from redis import Redis
        from redis.exceptions import RedisError

        with contextlib.closing(Redis.from_url(self.url)) as client, contextlib.suppress(RedisError):
            return bool(client.ping())
        return False


def main() -> None:
    """Fetch the binaries, or serve until Ctrl-C."""
    if sys.argv[1:] == ["fetch"]:
        print(f"Redis for tests: {fetch()}")  # noqa: T201
        return
    with RedisServer() as server:
        print(f"{server.url}\nCtrl-C ends the server and removes its data", flush=True)  # noqa: T201
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()

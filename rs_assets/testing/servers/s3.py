"""An S3 server for tests and demonstrations: moto on loopback, all data in its memory.

It honours conditional puts, as S3 does, so writers exclude each other. Killed it loses everything; `pause()` keeps it.
"""

from __future__ import annotations

import itertools
import signal
import socket
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rs_assets.errors import ConfigurationError
from rs_assets.testing.servers.process import ServerContext, ServerProcess, free_ports

if TYPE_CHECKING:
    from collections.abc import Mapping

INSTALL = "python -m pip install 'moto[s3]' flask flask-cors"
START_TIMEOUT_S = 60
REGION = "us-east-1"


class S3Server(ServerContext):
    """An S3 server without a password check; a context manager that starts and removes it.

    `options` are the options for `use_storage`. ConfigurationError without the package moto.

        with S3Server() as server:
            use_storage(server.options)
            pipeline = ....to_delta(f"{server.create_bucket()}/orders").build()
    """

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._port = 0
        self._server: ServerProcess | None = None
        self._names = itertools.count(1)

    @property
    def endpoint(self) -> str:
        """The URL of the server."""
        self._running()
        return f"http://127.0.0.1:{self._port}"

    @property
    def options(self) -> Mapping[str, str]:
        """The options with which clients reach it; the keys are not checked."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }

    @property
    def pid(self) -> int | None:
        """The process id while the server runs."""
        return self._server.pid if self._server is not None else None

    def start(self) -> Self:
        """Start the server and wait until it answers; does nothing if it runs."""
        if self._server is None:
            self._server = self._prepare()
            try:
                self._server.answering(self._answers, name="the S3 server", within_s=START_TIMEOUT_S)
            except BaseException:
                self.close()
                raise
        return self

    def create_bucket(self, name: str = "") -> str:
        """The URI of a new bucket, by default with a name of its own."""
        bucket = name or f"bucket-{next(self._names)}"
        self.client().create_bucket(Bucket=bucket)
        return f"s3://{bucket}"

    def client(self) -> Any:
        """A client of boto3 for the server."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106  not a password
        )

    def pause(self) -> None:
        """Freeze the server (SIGSTOP): connections stay open and nothing answers."""
        self._running().send(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume a paused server (SIGCONT)."""
        self._running().send(signal.SIGCONT)

    def close(self) -> None:
        """End the server; may be called twice."""
        server, self._server = self._server, None
        if server is not None:
            # It has nothing to save.
            server.kill()
            server.close()
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.cleanup()

    def _prepare(self) -> ServerProcess:
        if find_spec("moto") is None or find_spec("flask_cors") is None:
            raise ConfigurationError("an S3 server for tests needs the package moto", remedy=INSTALL)
        self._folder = tempfile.TemporaryDirectory(prefix="rs-s3-")
        self._port = free_ports()[0]
        command = [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(self._port)]
        folder = Path(self._folder.name)
        return ServerProcess(command, log_file=folder / "server.log", scratch=folder)

    def _running(self) -> ServerProcess:
        if self._server is None:
            raise ConfigurationError("the S3 server was not started", remedy="use it in a with statement")
        return self._server

    def _answers(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

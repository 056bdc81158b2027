"""One connection to a name server or broker: requests in, answers out, several under way at a time."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Mapping

from rs_assets.connectors.rocketmq.client.frames import LARGEST, Credentials, Frame, dumped, loaded

# How long a server may take for an answer, in seconds.
ANSWER_S = 15.0
# How long a connection may take, in seconds.
CONNECT_S = 5.0


class Unreachable(Exception):
    """A server that does not answer, or whose connection broke: whether it did what was asked is unknown."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(f"{address}: {why}")
        self.address = address


class Connection:
    """A connection to `address`; its errors are Unreachable, after which it is useless."""

    def __init__(self, address: str, credentials: Credentials | None = None, *, answer_s: float = ANSWER_S) -> None:
        self.address = address
        self._credentials = credentials
        self._opaque = itertools.count(1)
        self._answers: dict[int, Frame] = {}
        host, _, port = address.rpartition(":")
        try:
            self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S)
            self._socket.settimeout(answer_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise self._lost(error) from error
        self._file = self._socket.makefile("rb", buffering=1 << 16)

    def call(self, code: int, fields: Mapping[str, str], body: bytes = b"") -> Frame:
        """The answer to a request."""
        return self.receive(self.send(code, fields, body))

    def send(self, code: int, fields: Mapping[str, str], body: bytes = b"") -> int:
        """Send a request; the number by which `receive` returns its answer."""
        opaque = next(self._opaque)
        signed = self._credentials.signed(fields, body) if self._credentials is not None else fields
        try:
            self._socket.sendall(dumped(code, opaque, signed, body))
        except OSError as error:
            raise self._lost(error) from error
        return opaque

    def receive(self, opaque: int) -> Frame:
        """The answer to a request; answers may come in another order."""
        while opaque not in self._answers:
            frame = self._next()
            # Brokers also send requests to clients, which may be ignored.
            if frame.is_answer:
                self._answers[frame.opaque] = frame
        return self._answers.pop(opaque)

    def close(self) -> None:
        """Close the connection; may be called twice."""
        self._file.close()
        self._socket.close()

    def _next(self) -> Frame:
        try:
            size = int.from_bytes(self._exactly(4), "big")
            if not 4 <= size <= LARGEST:
                raise ConnectionError(f"a frame of {size} bytes")
            return loaded(self._exactly(size))
        except (OSError, ValueError, KeyError, IndexError) as error:
            raise self._lost(error) from error

    def _exactly(self, size: int) -> bytes:
        content: bytes = self._file.read(size)
        if len(content) < size:
            raise ConnectionError("the server has closed the connection")
        return content

    def _lost(self, error: Exception) -> Unreachable:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return Unreachable(self.address, "no answer in time" if isinstance(error, TimeoutError) else reason)

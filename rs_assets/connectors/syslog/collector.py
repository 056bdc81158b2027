"""Collects syslog over TCP and UDP. No message is acknowledged: the protocol has no way to."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from rs_assets.common.background import LOG
from rs_assets.common.plural import count_of
from rs_assets.connectors.collector.messages import Message
from rs_assets.connectors.collector.writing import LogWriter, NotStored
from rs_assets.connectors.syslog.frames import Frames, TooLong

BLOCK_BYTES: Final = 1 << 16
# What the system holds of datagrams that were not read yet, if it allows that much.
BUFFER_BYTES: Final = 8 << 20
MOST: Final = 10_000
LOOK_S: Final = 0.2
PAUSE_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SyslogCollector:
    """Takes messages on a port of `host`, with `protocol` "tcp" or "udp"."""

    host: str
    port: int
    protocol: str
    max_bytes: int

    def collect(self, log: LogWriter, ready: Callable[[], None], stop: threading.Event) -> None:
        """Serve until `stop` is set; OSError if the port is taken."""
        (self._datagrams if self.protocol == "udp" else self._connections)(log, ready, stop)

    def _datagrams(self, log: LogWriter, ready: Callable[[], None], stop: threading.Event) -> None:
        with socket.socket(_family(self.host), socket.SOCK_DGRAM) as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
            server.bind((self.host, self.port))
            ready()
            while not stop.is_set():
                found = _received(server)
                if found:
                    store(log, found, stop)

    def _connections(self, log: LogWriter, ready: Callable[[], None], stop: threading.Event) -> None:
        bound = {"collector": self, "log": log, "stop": stop}
        with _Server((self.host, self.port), type("Handler", (_Handler,), bound)) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True, name="rs-syslog")
            thread.start()
            ready()
            stop.wait()
            server.shutdown()
            thread.join()


def store(log: LogWriter, messages: Sequence[Message], stop: threading.Event) -> None:
    """Write messages that cannot be asked for again: while the disk is full they are held, and no more are taken."""
    while True:
        try:
            log.append(messages)
        except NotStored as error:
            LOG.warning("%s of syslog not stored yet: %s", count_of(len(messages), "message"), error)
            if stop.wait(PAUSE_S):
                lost = count_of(len(messages), "message")
                LOG.error("%s of syslog lost: the collector was stopped while %s", lost, error)
                return
        else:
            return


def _received(server: socket.socket) -> list[Message]:
    """The datagrams that are there; none after a while without one."""
    found: list[Message] = []
    server.settimeout(LOOK_S)
    with contextlib.suppress(TimeoutError, BlockingIOError):
        while len(found) < MOST:
            payload, address = server.recvfrom(BLOCK_BYTES)
            if payload.strip():
                found.append(Message(payload.rstrip(b"\n\0\r"), {"address": address[0]}))
            server.settimeout(0)
    return found


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[socketserver.BaseRequestHandler]) -> None:
        self.address_family = _family(address[0])
        super().__init__(address, handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A sender that is gone connects again."""


class _Handler(socketserver.BaseRequestHandler):
    collector: ClassVar[SyslogCollector]
    log: ClassVar[LogWriter]
    stop: ClassVar[threading.Event]

    def handle(self) -> None:
        """Store what comes over one connection."""
        frames = Frames(self.collector.max_bytes)
        self.request.settimeout(LOOK_S)
        try:
            while not self.stop.is_set():
                try:
                    block = self.request.recv(BLOCK_BYTES)
                except TimeoutError:
                    continue
                if not block:
                    self._store(frames.rest())
                    return
                self._store(frames.feed(block))
        except TooLong as error:
            self._store(error.before)
            LOG.warning(
                "a syslog connection of %s is closed: a message has more than %d bytes",
                self.client_address[0],
                self.collector.max_bytes,
            )

    def _store(self, found: Sequence[bytes]) -> None:
        if found:
            facts = {"address": self.client_address[0]}
            store(self.log, [Message(payload, facts) for payload in found], self.stop)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET

"""Collects requests of HTTP: their records are on the disk before the answer."""

from __future__ import annotations

import contextlib
import hmac
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET6, socket
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

import orjson

from rs_assets.common.secrets import Secret, revealed
from rs_assets.connectors.collector.messages import Message
from rs_assets.connectors.collector.writing import LogWriter, NotStored
from rs_assets.connectors.webhook.bodies import json_records, lines_of

# How many requests are served at once, how long one more waits for its turn, and when a silent client is left, in s.
PLACES: Final = 128
TURN_S: Final = 5.0
IDLE_S: Final = 20
RETRY_AFTER_S: Final = 5
# A length of more is too large, however many of its digits are zero.
MAX_DIGITS: Final = 18
# How much of a refused body is read, and how long for the next part of it.
DRAIN_BYTES: Final = 16 << 20
DRAIN_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookCollector:
    """Takes POST requests to `path`; `form` is the format of the records in their bodies."""

    host: str
    port: int
    path: str
    token: Secret | None = field(repr=False)
    max_bytes: int
    form: str

    def collect(self, log: LogWriter, ready: Callable[[], None], stop: threading.Event) -> None:
        """Serve until `stop` is set; OSError if the port is taken."""
        token = b"" if self.token is None else f"Bearer {revealed(self.token, what='token of the webhook')}".encode()
        bound = {"collector": self, "log": log, "token": token}
        with _Server((self.host, self.port), type("Handler", (_Handler,), bound)) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True, name="rs-webhook")
            thread.start()
            ready()
            stop.wait()
            server.shutdown()
            thread.join()

    def records(self, body: bytes) -> list[bytes]:
        """The records of a body."""
        if self.form == "json":
            return json_records(body)
        return [body] if self.form == "raw" else lines_of(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = PLACES

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = AF_INET6 if ":" in address[0] else self.address_family
        self._places = threading.BoundedSemaphore(PLACES)
        super().__init__(address, handler)

    def process_request(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:
        """Serve a request when one of the places is free."""
        if self._places.acquire(timeout=TURN_S):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:
        """Serve it and leave the place."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:
        """A client that is gone in the middle of its request has no answer, and sends it again."""


class _Handler(BaseHTTPRequestHandler):
    collector: ClassVar[WebhookCollector]
    log: ClassVar[LogWriter]
    token: ClassVar[bytes]

    protocol_version = "HTTP/1.1"
    timeout = IDLE_S

    def do_POST(self) -> None:
        """Store the records of a request, then answer."""
        refused = self._refused()
        if refused is not None:
            # What was not read would be taken for the next request.
            self.close_connection = True
            self._answer(*refused)
            self._drain()
            return
        size = int(self.headers["Content-Length"])
        body = self.rfile.read(size)
        if len(body) < size:
            self.close_connection = True
            return
        facts = {"address": self.client_address[0]}
        try:
            records = self.collector.records(body)
            if records:
                self.log.append([Message(record, facts) for record in records])
        except NotStored as error:
            self._answer(503, {"error": f"not stored: {error}"}, {"Retry-After": str(RETRY_AFTER_S)})
        else:
            self._answer(200, {"stored": len(records)})

    def _drain(self) -> None:
        """Read what a refused client still sends, within limits: a reset would take the answer from it."""
        self.connection.settimeout(DRAIN_S)
        left = DRAIN_BYTES
        with contextlib.suppress(OSError):
            while left > 0 and (block := self.connection.recv(min(left, 1 << 16))):
                left -= len(block)

    def _refused(self) -> tuple[int, dict[str, Any]] | None:
        """The answer to a request that is not read; None if it may be."""
        lengths = self.headers.get_all("Content-Length", [])
        size = lengths[0] if len(lengths) == 1 and "Transfer-Encoding" not in self.headers else ""
        if not hmac.compare_digest(self.headers.get("Authorization", "").encode(), self.token) and self.token:
            return 401, {"error": "Authorization: Bearer TOKEN is missing or wrong"}
        if urlsplit(self.path).path != self.collector.path:
            return 404, {"error": f"records are taken at {self.collector.path}"}
        if self.headers.get("Content-Encoding", "identity") != "identity":
            return 415, {"error": "send the body without Content-Encoding"}
        if not (size.isascii() and size.isdigit()):
            return 411, {"error": "send the body with one Content-Length, and not in chunks"}
        if len(size) > MAX_DIGITS or int(size) > self.collector.max_bytes:
            return 413, {"error": f"a body has at most {self.collector.max_bytes} bytes"}
        return None

    def _answer(self, code: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        text = orjson.dumps(body)
        self.send_response(code)
        usual = {"Content-Type": "application/json", "Content-Length": str(len(text))}
        for name, value in {**usual, **(headers or {})}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's name
        """Not on the standard error."""

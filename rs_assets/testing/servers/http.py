"""An HTTP service for tests: on loopback, in this process, in memory, with the faults of services."""

from __future__ import annotations

import json
import random
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import parse_qs, urlsplit

# A status; "lost": the request is taken and its answer is not sent; "cut": nothing is taken; "slow": an answer that
# comes too late for a client with a short timeout.
Fault = int | Literal["lost", "cut", "slow"]
SLOW_S = 1.0
RETRY_AFTER = {"Retry-After": "0"}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request as it came; the names of its headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class HttpReply:
    """What is answered."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpStub(ABC):
    """A service on loopback; a context manager. Requests are answered one at a time.

    `fail(...)` gives the next requests a fault each; `disturb(seed, share)` gives a share of all further ones a fault,
    chosen by chance. `requests` are all requests so far. With `headers` it answers a request that lacks them by 401.
    """

    def __init__(self, *, headers: Mapping[str, str] | None = None) -> None:
        self.requests: list[HttpRequest] = []
        self._required = {name.lower(): value for name, value in (headers or {}).items()}
        self._faults: deque[Fault] = deque()
        self._chance: Callable[[], Fault | None] = lambda: None
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None

    @abstractmethod
    def answer(self, request: HttpRequest) -> HttpReply:
        """What the service does with a request."""

    @property
    def url(self) -> str:
        """The address."""
        assert self._server is not None, "it is started as a context manager"
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def fail(self, *faults: Fault) -> None:
        """The faults of the next requests, one each."""
        self._faults.extend(faults)

    def disturb(self, seed: int, share: float, faults: tuple[Fault, ...] = (503, 429, "lost", "cut")) -> None:
        """A fault for `share` of all further requests; 0 ends that."""
        chance = random.Random(seed)  # noqa: S311  the same for each run of a test
        self._chance = lambda: chance.choice(faults) if chance.random() < share else None

    def __enter__(self) -> Self:
        """Listen on a free port."""
        stub = self

        class Handler(_Handler):
            def reply(self, request: HttpRequest) -> HttpReply | None:
                return stub._reply(request)

        self._server = _Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, name=type(self).__name__, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _reply(self, request: HttpRequest) -> HttpReply | None:
        """The answer; None closes the connection without one."""
        with self._lock:
            self.requests.append(request)
            fault = self._faults.popleft() if self._faults else self._chance()
            if isinstance(fault, int):
                return HttpReply(fault, b"a fault of the test", RETRY_AFTER)
            if fault == "cut":
                return None
            if any(request.headers.get(name) != value for name, value in self._required.items()):
                return HttpReply(401, b"who are you?")
            found = self.answer(request)
        if fault == "slow":
            time.sleep(SLOW_S)
        return None if fault == "lost" else found


class HttpServer(HttpStub):
    """A service that takes rows as JSON lines, an array or an object; `rows` are those that it has, in order.

    It takes all rows of a request or, if `refuse(row)` gives a reason for one of them, none, and answers 422. With
    `keys` it honours `Idempotency-Key`: a request whose key was taken gets the same answer, and no row is taken again.

    `append(*rows)` puts rows into it, and `GET /rows?after=3&limit=100` returns those after the third, as
    `{"items": [...], "next": 5}`.

    >>> import urllib.request
    >>> with HttpServer() as server:
    ...     server.append({"n": 1}, {"n": 2})
    ...     urllib.request.urlopen(f"{server.url}/rows?after=1").read()
    b'{"items": [{"n": 2}], "next": 2}'
    """

    def __init__(
        self,
        *,
        keys: bool = True,
        refuse: Callable[[Mapping[str, Any]], str | None] = lambda _: None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(headers=headers)
        self.rows: list[Mapping[str, Any]] = []
        self._keys = keys
        self._refuse = refuse
        self._answers: dict[str, HttpReply] = {}

    def append(self, *rows: Mapping[str, Any]) -> None:
        """Put rows into the service."""
        with self._lock:
            self.rows.extend(rows)

    def answer(self, request: HttpRequest) -> HttpReply:
        """Take the rows of a request, or return a page of them."""
        if request.method == "GET":
            return self._page(request.path)
        key = request.headers.get("idempotency-key") if self._keys else None
        if key is not None and key in self._answers:
            return self._answers[key]
        rows = [*_rows(request)]
        reasons = [reason for row in rows if (reason := self._refuse(row))]
        if reasons:
            return HttpReply(422, reasons[0].encode())
        self.rows += rows
        if key is not None:
            self._answers[key] = HttpReply(201)
        return HttpReply(201)

    def _page(self, path: str) -> HttpReply:
        query = {name: int(values[-1]) for name, values in parse_qs(urlsplit(path).query).items()}
        start = query.get("after", 0)
        found = self.rows[start : start + query.get("limit", 100)]
        return HttpReply(body=json.dumps({"items": found, "next": start + len(found)}).encode())


def _rows(request: HttpRequest) -> Iterator[Mapping[str, Any]]:
    if request.headers.get("content-type") == "application/x-ndjson":
        yield from map(json.loads, request.body.splitlines())
        return
    found = json.loads(request.body)
    yield from found if isinstance(found, list) else [found]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Clients come back at once after a fault.
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a client that was killed is what the test wants."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body are sent by two calls: without it the second waits for the client's acknowledgement.
    disable_nagle_algorithm = True

    def reply(self, request: HttpRequest) -> HttpReply | None:
        """The answer to a request."""
        raise NotImplementedError

    def handle_one(self) -> None:
        """Read a request and answer it."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        found = self.reply(HttpRequest(self.command, self.path, headers, body))
        if found is None:
            self.close_connection = True
            return
        self.send_response(found.status)
        for name, value in {"Content-Length": str(len(found.body)), **found.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(found.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name of http.server
        """Nothing: standard error belongs to the test."""


for _method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
    setattr(_Handler, f"do_{_method}", _Handler.handle_one)

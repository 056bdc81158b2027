"""A small schema registry for tests: Confluent's HTTP interface on loopback, in this process, in memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

from rs_assets.connectors.kafka.registry.address import SchemaRegistry

CONTENT = "application/vnd.schemaregistry.v1+json"
Answer = tuple[int, object]
NO_SUBJECT, NO_VERSION, NO_SCHEMA = 40401, 40402, 40403


@dataclass(slots=True)
class _Schemas:
    """All schemas by id, and the ids of each subject's versions."""

    bodies: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)

    def add(self, subject: str, body: dict[str, Any]) -> int:
        """The id of a schema, which equal ones share."""
        known = next((number for number, other in self.bodies.items() if other == body), None)
        number = len(self.bodies) + 1 if known is None else known
        self.bodies[number] = body
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def version(self, subject: str, which: str) -> int | None:
        """The id of a version, counted from 1 or "latest"."""
        versions = self.subjects.get(subject, [])
        at = len(versions) if which == "latest" else int(which)
        return versions[at - 1] if 1 <= at <= len(versions) else None


class SchemaRegistryServer:
    """A schema registry; a context manager. Ids count from 1, and equal schemas have one id, as in Confluent's.

    It keeps schemas of any kind as text, and does not compare the versions of a subject: `refused` (a reason) makes it
    refuse all new ones. It does not parse `.proto` files: Protobuf is registered as a descriptor in base64, the form
    that clients get by `?format=serialized`. With `down` it answers HTTP 503. With a `login` (user name, password) it
    requires basic authentication. `requests` are method and path of all requests so far, without repeated headers.

    >>> with SchemaRegistryServer() as server:
    ...     server.register("orders-value", '"string"')
    1
    """

    def __init__(self, *, login: tuple[str, str] | None = None) -> None:
        self.down = False
        self.refused: str | None = None
        self.requests: list[str] = []
        self._login = login
        self._schemas = _Schemas()
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None

    def __enter__(self) -> Self:
        """Listen on a free port."""
        registry = self

        class Handler(_Handler):
            def answer(self, method: str, body: Mapping[str, Any]) -> Answer:
                return registry._answer(method, self.path, self.headers.get("Authorization"), body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, name="schema registry", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening."""
        self.stop()

    @property
    def url(self) -> str:
        """The address."""
        assert self._server is not None, "it is started as a context manager"
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def registry(self) -> SchemaRegistry:
        """The address with the login."""
        user, password = self._login or (None, None)
        return SchemaRegistry(url=self.url, username=user, password=password)

    def stop(self) -> None:
        """Refuse connections from now on; may be called twice."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def register(
        self, subject: str, schema: str, *, kind: str = "AVRO", references: Sequence[Mapping[str, Any]] = ()
    ) -> int:
        """The id of `schema` as the newest version of `subject`."""
        body: dict[str, Any] = {"schema": schema}
        if kind != "AVRO":
            body["schemaType"] = kind
        if references:
            body["references"] = [dict(each) for each in references]
        with self._lock:
            return self._schemas.add(subject, body)

    def schema(self, number: int) -> str:
        """The text of a schema."""
        return str(self._schemas.bodies[number]["schema"])

    def latest(self, subject: str) -> int | None:
        """The id of the newest version of a subject, None without one."""
        return self._schemas.version(subject, "latest")

    def _answer(self, method: str, path: str, authorization: str | None, body: Mapping[str, Any]) -> Answer:
        with self._lock:
            self.requests.append(f"{method} {path}")
            if self.down:
                return _error(503, 50302, "the registry has no leader")
            if self._login is not None and authorization != self.registry.authorization():
                return _error(401, 401, "Unauthorized")
            place = path.partition("?")[0]
            return self._routed(method, [unquote(part) for part in place.strip("/").split("/")], body)

    def _routed(self, method: str, path: list[str], body: Mapping[str, Any]) -> Answer:
        match method, path:
            case "GET", ["subjects"]:
                return 200, list(self._schemas.subjects)
            case "GET", ["schemas", "ids", number]:
                found = self._schemas.bodies.get(int(number))
                return (200, found) if found is not None else _error(404, NO_SCHEMA, "Schema not found")
            case "GET", ["subjects", subject, "versions", which]:
                return self._version(subject, which)
            case "POST", ["subjects", subject, "versions"]:
                refusal = _error(409, 409, str(self.refused))
                return refusal if self.refused else (200, {"id": self._schemas.add(subject, dict(body))})
        return 404, "not found"

    def _version(self, subject: str, which: str) -> Answer:
        if subject not in self._schemas.subjects:
            return _error(404, NO_SUBJECT, f"Subject '{subject}' not found.")
        number = self._schemas.version(subject, which)
        if number is None:
            return _error(404, NO_VERSION, f"Version {which} not found.")
        version = self._schemas.subjects[subject].index(number) + 1
        return 200, {"subject": subject, "version": version, "id": number, **self._schemas.bodies[number]}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, method: str, body: Mapping[str, Any]) -> Answer:
        """Status and body for a request."""
        raise NotImplementedError

    def do_GET(self) -> None:
        self._send(*self.answer("GET", {}))

    def do_POST(self) -> None:
        self._send(*self.answer("POST", json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name of http.server
        """Nothing: standard error belongs to the test."""

    def _send(self, status: int, body: object) -> None:
        sent = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", CONTENT)
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)


def _error(status: int, code: int, message: str) -> Answer:
    return status, {"error_code": code, "message": message}

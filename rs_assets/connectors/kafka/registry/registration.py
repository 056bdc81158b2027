"""Registers schemas under a subject of a schema registry, and asks for their ids."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from rs_assets.connectors.kafka.registry.address import SchemaRegistry
from rs_assets.connectors.kafka.registry.subject import AvroSubject, ProtobufSubject
from rs_assets.errors import SinkError

CONTENT = "application/vnd.schemaregistry.v1+json"
TIMEOUT_S = 10.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 3.0
# Not an answer, but a reason to ask again.
BUSY = frozenset((429, *range(500, 600)))
LOGIN = frozenset((401, 403))
REFUSED = frozenset((409, 422))
NOT_FOUND = 404
# The codes of an unknown subject and an unknown version.
UNKNOWN = (40401, 40402)


@dataclass(slots=True)
class SchemaIds:
    """The ids of schemas in a subject, each registered at its first use; the registry has one id for equal schemas."""

    subject: AvroSubject | ProtobufSubject
    step: str
    _known: dict[str, int] = field(default_factory=dict)
    _newest: list[str | None] = field(default_factory=list)

    def of(self, schema: str) -> int:
        """The id of `schema`; SinkError if the registry refuses it, or does not answer in its `patience`."""
        if schema not in self._known:
            self._known[schema] = register(
                self.subject.registry, self.subject.subject, schema, kind=self.subject.kind, step=self.step
            )
        return self._known[schema]

    def newest(self) -> str | None:
        """The newest schema of the subject when it was first asked for, of Protobuf in base64; None without one."""
        if not self._newest:
            self._newest.append(newest(self.subject.registry, self.subject.subject, step=self.step))
        return self._newest[0]


def newest(registry: SchemaRegistry, subject: str, *, step: str) -> str | None:
    """The newest schema of `subject`, of Protobuf in base64; None without one. SinkError as for `register`."""
    path = f"/subjects/{quote(subject, safe='')}/versions/latest?format=serialized"
    status, answer = _answered(registry, path, None, step=step)
    found = _json(answer)
    if status == NOT_FOUND and found.get("error_code") in UNKNOWN:
        return None
    _check(registry, path, status, isinstance(found.get("schema"), str), step=step)
    return str(found["schema"])


def register(registry: SchemaRegistry, subject: str, schema: str, *, kind: str = "AVRO", step: str) -> int:
    """The id of `schema` in `subject`, whose newest version it becomes unless it has it; errors as for SchemaIds."""
    path = f"/subjects/{quote(subject, safe='')}/versions"
    body = {"schema": schema} if kind == "AVRO" else {"schemaType": kind, "schema": schema}
    status, answer = _answered(registry, path, body, step=step)
    if status in REFUSED:
        raise SinkError(
            f"the schema registry refuses the schema for {subject!r}: {_message(answer)}",
            remedy="change the fields as the subject's compatibility allows, or name another subject=",
            step=step,
        )
    found = _json(answer).get("id")
    _check(registry, path, status, isinstance(found, int), step=step)
    return int(found or 0)


def _check(registry: SchemaRegistry, path: str, status: int, answered: bool, *, step: str) -> None:  # noqa: FBT001
    """SinkError for a refused login, and for an answer that no registry gives."""
    if status in LOGIN:
        raise SinkError(
            f"the schema registry {registry.url} refuses the login (HTTP {status})",
            remedy="check the credentials of SchemaRegistry, and what they may write, then start again",
            step=step,
        )
    if status != 200 or not answered:
        raise SinkError(
            f"the schema registry {registry.url} answers {path} with HTTP {status}",
            remedy="name the address of Confluent's interface in url=; for Apicurio it ends in /apis/ccompat/v7",
            step=step,
        )


def _answered(registry: SchemaRegistry, path: str, body: object, *, step: str) -> tuple[int, bytes]:
    """Status and body of the answer, after as many tries as the patience of the registry allows."""
    send, until, pause = (
        _sender(registry, path, body),
        time.monotonic() + registry.patience.total_seconds(),
        FIRST_PAUSE_S,
    )
    while True:
        try:
            status, answer = send()
            why = f"HTTP {status}"
        except (OSError, HTTPException) as error:
            status, answer, why = 0, b"", str(error)
        if status and status not in BUSY:
            return status, answer
        if time.monotonic() > until:
            raise SinkError(
                f"the schema registry {registry.url} does not answer: {why}",
                remedy="start again when it runs: nothing was sent",
                step=step,
            )
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_S)


def _sender(registry: SchemaRegistry, path: str, body: object) -> Callable[[], tuple[int, bytes]]:
    authorities = registry.authorities()
    context = ssl.create_default_context(cadata=authorities or None)
    opener = build_opener(HTTPSHandler(context=context), _NoRedirects())
    headers = {"Content-Type": CONTENT, "Accept": f"{CONTENT}, application/json"}
    if login := registry.authorization():
        headers["Authorization"] = login

    def send() -> tuple[int, bytes]:
        content = json.dumps(body).encode() if body is not None else None
        request = Request(f"{registry.url}{path}", content, headers)  # noqa: S310  http or https
        try:
            with opener.open(request, timeout=TIMEOUT_S) as answer:
                return int(answer.status), answer.read()
        except HTTPError as error:
            with error:
                return error.code, error.read()

    return send


class _NoRedirects(HTTPRedirectHandler):
    """The header with the login must not reach another host."""

    def redirect_request(self, *_: object) -> None:
        """None: a redirect is an answer."""


def _json(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _message(body: bytes) -> str:
    return str(_json(body).get("message") or body[:200].decode(errors="replace"))

"""A stub of OpenSearch and Elasticsearch for tests: `_bulk` with versions and conflicts, on loopback, in memory."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rs_assets.testing.servers.http import HttpReply, HttpRequest, HttpStub

CONFLICT, BUSY = "version_conflict_engine_exception", "es_rejected_execution_exception"
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class _Stored:
    """What is known of an id; `source` None is the tombstone of a deleted document, which keeps its version."""

    version: int
    source: Mapping[str, Any] | None


class SearchServer(HttpStub):
    """An index server; a context manager. It has the protocol of `_bulk`, not the search: it proves what is sent.

    Each document of a request succeeds or fails by itself: one that `refuse(document)` gives a reason for is answered
    by 400, and with `busy(seed, share)` a share of them by 429. `most_bytes` is the limit of a request (413). With
    `indexes` no others exist (404). `fail`, `disturb`, `requests` and `headers` are those of `HttpServer`.

    >>> with SearchServer() as server:
    ...     server.documents("orders")
    {}
    """

    def __init__(
        self,
        flavour: Literal["opensearch", "elasticsearch"] = "opensearch",
        number: str = "",
        *,
        refuse: Callable[[Mapping[str, Any]], str | None] = lambda _: None,
        most_bytes: int = 100 << 20,
        indexes: Collection[str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(headers=headers)
        self._info = _info(flavour, number)
        self._refuse, self._most_bytes, self._indexes = refuse, most_bytes, indexes
        self._stored: dict[str, dict[str, _Stored]] = {}
        self._busy: Callable[[], bool] = lambda: False

    def documents(self, index: str) -> dict[str, Mapping[str, Any]]:
        """The documents of an index by id."""
        with self._lock:
            stored = self._stored.get(index, {})
            return {key: each.source for key, each in stored.items() if each.source is not None}

    @property
    def indexes(self) -> list[str]:
        """The indexes that have, or had, documents."""
        return sorted(self._stored)

    def busy(self, seed: int, share: float) -> None:
        """Answer a share of the documents by 429, chosen by chance; 0 ends that."""
        chance = random.Random(seed)  # noqa: S311  the same for each run of a test
        self._busy = lambda: chance.random() < share

    def answer(self, request: HttpRequest) -> HttpReply:
        """Information about the server, or the outcome of each action of a request."""
        path = request.path.partition("?")[0]
        if (request.method, path) == ("GET", "/"):
            return HttpReply(200, json.dumps(self._info).encode(), JSON)
        if (request.method, path) != ("POST", "/_bulk"):
            return HttpReply(405, b"only _bulk is here")
        if len(request.body) > self._most_bytes:
            return HttpReply(413)
        if not request.body.endswith(b"\n"):
            return _error(400, "illegal_argument_exception", "The bulk request must be terminated by a newline [\\n]")
        try:
            actions = [*_actions(request.body.splitlines())]
        except (ValueError, StopIteration):
            return _error(400, "x_content_parse_exception", "Malformed action/metadata line")
        items = [{name: self._done(name, about, source)} for name, about, source in actions]
        errors = any("error" in each for item in items for each in item.values())
        return HttpReply(200, json.dumps({"errors": errors, "items": items}).encode(), JSON)

    def _done(self, action: str, about: Mapping[str, Any], source: Mapping[str, Any] | None) -> dict[str, Any]:
        """The outcome of an action."""
        index, key, version = about["_index"], about["_id"], about.get("version")
        known = self._stored.get(index, {}).get(key)
        refusal = self._refusal(index, source) or _conflict(action, key, version, known)
        if refusal is not None:
            return refusal
        there = known is not None and known.source is not None
        self._stored.setdefault(index, {})[key] = _Stored(version or 1, source)
        if action == "delete":
            return {"status": 200 if there else 404, "result": "deleted" if there else "not_found"}
        return {"status": 200 if there else 201, "result": "updated" if there else "created"}

    def _refusal(self, index: str, source: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Why nothing can be written into an index, or not this document."""
        if self._busy():
            return _failed(429, BUSY, "rejected execution of coordinating operation")
        if self._indexes is not None and index not in self._indexes:
            return _failed(404, "index_not_found_exception", f"no such index [{index}]")
        if index != index.lower():
            return _failed(400, "invalid_index_name_exception", f"Invalid index name [{index}], must be lowercase")
        reason = self._refuse(source) if source is not None else None
        return _failed(400, "mapper_parsing_exception", reason) if reason else None


def _conflict(action: str, key: str, version: int | None, known: _Stored | None) -> dict[str, Any] | None:
    """The conflict of an action with what is stored."""
    what = ""
    if action == "create" and known is not None and known.source is not None:
        what = f"document already exists (current version [{known.version}])"
    elif version is not None and known is not None and known.version >= version:
        what = f"current version [{known.version}] is higher or equal to the one provided [{version}]"
    return _failed(409, CONFLICT, f"[{key}]: version conflict, {what}") if what else None


def _actions(lines: Sequence[bytes]) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any] | None]]:
    """Action, metadata and document of each part of a request."""
    rest = iter(lines)
    for line in rest:
        ((action, about),) = json.loads(line).items()
        if action not in ("create", "index", "delete") or (about.get("version_type") or "external") != "external":
            raise ValueError(action)
        yield action, about, None if action == "delete" else json.loads(next(rest, b""))


def _info(flavour: str, number: str) -> Mapping[str, Any]:
    if flavour == "opensearch":
        return {"version": {"distribution": "opensearch", "number": number or "2.19.1"}}
    return {"version": {"number": number or "8.17.0"}, "tagline": "You Know, for Search"}


def _failed(status: int, kind: str, reason: str) -> dict[str, Any]:
    return {"status": status, "error": {"type": kind, "reason": reason}}


def _error(status: int, kind: str, reason: str) -> HttpReply:
    return HttpReply(status, json.dumps({"error": {"type": kind, "reason": reason}, "status": status}).encode(), JSON)

"""Stores by HTTP, for programs of this host: loopback only, with a token, and only to read."""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
from collections import Counter
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import orjson

from rs_assets.connectors.store.question import Question
from rs_assets.connectors.store.reader import Answer, Store
from rs_assets.connectors.store.rows import shown
from rs_assets.errors import ConfigurationError, RsError, StoreBehindError

LOOPBACK = "127.0.0.1"
# Rows of an answer without `limit`, and how long a request may wait.
DEFAULT_ROWS, LONGEST_WAIT = 1_000, 60.0
# The most digits of a number: Python does not read thousands.
DIGITS = 100
# A request that is not complete by then is closed, in seconds.
IDLE = 120
Body = dict[str, Any]


def server_of(stores: Mapping[str, Store], token: str, *, port: int = 0) -> ThreadingHTTPServer:
    """A server of `stores` on 127.0.0.1; port 0 takes a free one. The caller runs and closes it."""
    bound = {"stores": dict(stores), "token": f"Bearer {token}".encode()}
    server = ThreadingHTTPServer((LOOPBACK, port), type("Handler", (_Handler,), bound))
    server.daemon_threads = True
    return server


def token_of(path: Path) -> str:
    """The token in a file, which is made if it does not exist; ConfigurationError if others may read it."""
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        pass
    else:
        with os.fdopen(number, "w") as file:
            file.write(secrets.token_urlsafe(32))
    if path.stat().st_mode & 0o077:
        raise ConfigurationError("the file of the token may be read by others", remedy=f"chmod 600 {path}")
    token = path.read_text(encoding="utf-8").strip()
    if not token:
        raise ConfigurationError("the file of the token is empty", remedy=f"remove it: rm {path}")
    return token


class _Handler(BaseHTTPRequestHandler):
    stores: ClassVar[Mapping[str, Store]]
    token: ClassVar[bytes]

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "rs-assets", ""
    # Head and body leave as one packet: as two, each answer would wait for an acknowledgement.
    wbufsize = 65_536
    disable_nagle_algorithm = True
    timeout = IDLE

    def do_GET(self) -> None:
        """Answer a question."""
        given = self.headers.get("Authorization", "").encode("latin-1", "replace")
        if not hmac.compare_digest(given, self.token):
            self._send(401, _error("the token is missing or wrong", "send Authorization: Bearer TOKEN"))
            return
        try:
            url = _url(self.path)
            options = _once(parse_qsl(url.query, keep_blank_values=True))
            self._answer([unquote(part) for part in url.path.strip("/").split("/")], options)
        except StoreBehindError as error:
            self._send(409, _error(error.what, error.remedy))
        except RsError as error:
            self._send(400, _error(error.what, error.remedy))

    def handle(self) -> None:
        """Answer the requests of a connection until the client is gone."""
        with contextlib.suppress(ConnectionError):
            super().handle()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the library's name
        """Nothing: requests are not logged."""

    def _answer(self, path: list[str], options: dict[str, str]) -> None:
        if path == ["v1", "stores"]:
            self._send(200, {"stores": [facts(store) for store in self.stores.values()]})
            return
        if path[:2] != ["v1", "stores"] or len(path) not in (3, 4):
            self._send(404, _error("there is no such page", "begin at /v1/stores"))
            return
        store = self.stores.get(path[2])
        if store is None:
            known = ", ".join(self.stores)
            self._send(404, _error(f"there is no store {path[2]!r}", f"use one of: {known or 'none'}"))
            return
        if len(path) == 3:
            self._send(200, facts(store))
            return
        answer = _question(path[3], options).answer(store)
        self._send(
            404 if path[3] == "key" and answer.row is None else 200, body_of(answer, one=path[3] == "key"), answer
        )

    def _send(self, status: int, body: Body, answer: Answer | None = None) -> None:
        content = orjson.dumps(body)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        if answer is not None:
            self.send_header("Rs-Batch", str(answer.batch))
            self.send_header("Rs-Watermark", answer.watermark.isoformat() if answer.watermark else "")
            self.send_header("Rs-Age-Ms", str(_age(answer)))
        self.end_headers()
        self.wfile.write(content)


def body_of(answer: Answer, *, one: bool = False) -> Body:
    """An answer as JSON: its rows (or with `one` its row), and what batch they are of."""
    rows: Body = {"row": shown(answer.row)} if one else {"rows": shown(answer.rows), "more": answer.more}
    watermark = answer.watermark.isoformat() if answer.watermark else None
    of = {"batch": answer.batch, "generation": answer.generation, "watermark": watermark}
    return {**rows, **of, "age_ms": _age(answer)}


def facts(store: Store) -> Body:
    """What a store is: its keys, how many rows it has, and of what batch."""
    try:
        layout, rows = store.layout, store.count()
        answer = store.all(limit=1)
        size = store.path.stat().st_size
    except (ConfigurationError, FileNotFoundError):
        return {"store": store.name, "rows": 0, "batch": None}
    keys = {key.name: str(key.type) for key in layout.key_fields}
    watermark = answer.watermark.isoformat() if answer.watermark else None
    of = {"batch": answer.batch, "watermark": watermark, "age_ms": _age(answer)}
    return {"store": store.name, "keys": keys, "rows": rows, "bytes": size, **of}


def _age(answer: Answer) -> int:
    return int(answer.age.total_seconds() * 1000)


def _error(what: str, remedy: str | None) -> Body:
    return {"error": what, "remedy": remedy}


def _question(what: str, options: dict[str, str]) -> Question:
    known = {*WAITS, *OPTIONS.get(what, ())}
    keys = {name: text for name, text in options.items() if name not in known}
    options = {name: text for name, text in options.items() if name in known}
    wait = _number(options, "timeout_ms", 5_000) / 1000
    return Question(
        what=what,
        keys=keys,
        begin=options.get("from", options.get("begins")),
        end=options.get("to"),
        reverse=_whether(options, "reverse"),
        limit=_number(options, "limit", DEFAULT_ROWS),
        at_least=_number(options, "at_least", -1) if "at_least" in options else None,
        timeout=min(wait, LONGEST_WAIT),
    )


# The options of all questions, and of each kind. Other names are keys.
WAITS = ("at_least", "timeout_ms")
OPTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "range": ("from", "to", "reverse", "limit"),
        "prefix": ("begins", "limit"),
        "windows": ("from", "to", "limit"),
        "all": ("limit",),
    }
)


def _url(path: str) -> SplitResult:
    """The parts of an address; ConfigurationError if it has none, as `//[`."""
    try:
        return urlsplit(path)
    except ValueError as error:
        raise ConfigurationError(f"this is not an address: {error}", remedy="begin at /v1/stores") from error


def _once(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """The options by name; ConfigurationError for one that is given twice."""
    twice = next((name for name, times in Counter(name for name, _ in pairs).items() if times > 1), None)
    if twice is not None:
        raise ConfigurationError(f"{twice!r} is given twice", remedy="give it once")
    return dict(pairs)


def _whether(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "false")
    if text not in ("true", "false"):
        raise ConfigurationError(f"{name} must be true or false, not {text!r}", remedy=f"{name}=true")
    return text == "true"


def _number(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= DIGITS):
        raise ConfigurationError(f"{name} must be a whole number, not {text[:DIGITS]!r}", remedy=f"{name}=100")
    return int(text)

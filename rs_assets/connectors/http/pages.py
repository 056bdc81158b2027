"""Pages of an HTTP service that are asked for by a cursor: where rows and the next cursor are in an answer."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, NoReturn
from urllib.parse import quote, urljoin, urlsplit

import orjson

from rs_assets.connectors.http.client import Answer, HttpClient
from rs_assets.connectors.http.endpoint import HttpEndpoint
from rs_assets.connectors.own.lines import OwnRow
from rs_assets.connectors.own.polling import PollingSource, PollReader
from rs_assets.connectors.source import Known, Reading, Start
from rs_assets.errors import SourceReadError

PAGE_BYTES: Final = 64 << 20
NOT_THERE: Final = object()
SHOWN = 200
# A whole number of fewer digits fits into 64 bits.
MOST_DIGITS = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class PageForm:
    """How pages are asked for, and what is where in an answer; see `from_http`."""

    cursor: str
    items: str
    next: str | None
    last: str | None

    def address(self, base: str, cursor: Any) -> str:
        """The address of the page after `cursor`, None for the first one.

        Only what the answer names as `next` may be an address. A path is one if it asks for something, or begins as
        that of `base`: other services have cursors that begin with a slash by chance.

        >>> form = PageForm(cursor="after", items="items", next="next", last=None)
        >>> form.address("https://host/rows?limit=9", 7), form.address("https://host/rows", "/rows?page=2")
        ('https://host/rows?limit=9&after=7', 'https://host/rows?page=2')
        >>> form.address("https://host/rows", "/9j+Q==")
        'https://host/rows?after=%2F9j%2BQ%3D%3D'
        """
        if cursor is None:
            return base
        if self.last is None and _is_address(base, str(cursor)):
            return urljoin(base, str(cursor))
        return f"{base}{'&' if '?' in base else '?'}{quote(self.cursor)}={quote(str(cursor), safe='')}"

    def rows(self, page: Any) -> list[Any] | None:
        """The rows of a page; None if there is no list where they should be."""
        found = within(page, self.items)
        return found if isinstance(found, list) else None

    def following(self, page: Any, rows: list[Any], cursor: Any) -> Any:
        """The cursor after a page: NOT_THERE if the answer has none, as where it is empty or false."""
        if self.last is not None:
            found = within(rows[-1], self.last) if rows else cursor
        else:
            found = within(page, str(self.next))
        found = None if found == "" or found is False else found
        return NOT_THERE if found is None and rows else str(found) if isinstance(found, Digits) else found


def _is_address(base: str, cursor: str) -> bool:
    first = urlsplit(base).path.split("/")[1:2]
    return cursor.startswith(("http://", "https://")) or (
        cursor.startswith("/") and ("?" in cursor or first in ([], [""]) or cursor.split("/")[1:2] == first)
    )


def within(value: Any, path: str) -> Any:
    """The value at a path of names with dots, None if it is not there; the whole value for an empty path.

    >>> within({"data": {"rows": [1]}}, "data.rows"), within({}, "data.rows"), within([1], "")
    ([1], None, [1])
    """
    for name in filter(None, path.split(".")):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


class Digits(str):
    """A number as the service wrote it."""

    __slots__ = ()


class Doubled(dict[str, Any]):
    """An object in which a key is there twice: the last value of each, and the text with all of them."""

    __slots__ = ("text",)
    text: str

    def __str__(self) -> str:
        """The text."""
        return self.text


def parsed(body: bytes) -> Any:
    """An answer whose fractions and long numbers keep all their digits; ValueError if it is not JSON."""
    return json.loads(body, parse_float=Digits, parse_int=_whole, parse_constant=_no_number, object_pairs_hook=_object)


def line_of(row: Any) -> bytes:
    r"""A row as the service wrote it, without white space between its parts.

    >>> line_of(parsed(b'{"n": 1.10, "s": "\\ud800"}')), line_of(parsed(b'[{"n": 1.10, "n": 2}]')[0])
    (b'{"n":1.10,"s":"\\ud800"}', b'{"n":1.10,"n":2}')
    """
    try:
        return orjson.dumps(row, default=_raw, option=orjson.OPT_PASSTHROUGH_SUBCLASS)
    except orjson.JSONEncodeError:
        # Half of a surrogate pair is not Unicode.
        return _text(row).encode()


def _whole(text: str) -> int | Digits:
    return int(text) if len(text) < MOST_DIGITS else Digits(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    doubled = Doubled(found)
    doubled.text = _members(pairs)
    return doubled


def _raw(value: object) -> orjson.Fragment:
    return orjson.Fragment(str(value))


def _text(value: Any) -> str:
    """The JSON of a value, in ASCII, with the digits of its numbers."""
    if isinstance(value, Digits | Doubled):
        return str(value)
    if isinstance(value, dict):
        return _members(value.items())
    return f"[{','.join(map(_text, value))}]" if isinstance(value, list) else json.dumps(value)


def _members(pairs: Iterable[tuple[str, Any]]) -> str:
    return f"{{{','.join(f'{json.dumps(name)}:{_text(value)}' for name, value in pairs)}}}"


@dataclass(slots=True, kw_only=True)
class HttpPages(PollingSource):
    """Rows after a cursor, several pages a poll; a poll ends at `rows` rows or at a page without any."""

    endpoint: HttpEndpoint
    form: PageForm
    step: str
    first: Any
    rows: int
    pause: float
    every: timedelta
    keep: int
    # Each query that asks with the same cursor gets the same rows.
    shared: bool = True

    def poll(self, cursor: Any) -> tuple[Iterable[OwnRow], Any]:
        """The rows of the next pages, and the cursor after them."""
        found: list[OwnRow] = []
        at = self.first if cursor is None else cursor
        with HttpClient(
            endpoint=self.endpoint, step=self.step, failure=SourceReadError, most_bytes=PAGE_BYTES
        ) as client:
            while len(found) < self.rows:
                rows, at, more = self._page(client, at)
                found += rows
                if not more:
                    break
                time.sleep(self.pause)
        return found, at

    def location(self) -> str:
        """The address, without credentials."""
        return self.endpoint.where

    def _page(self, client: HttpClient, cursor: Any) -> tuple[list[bytes], Any, bool]:
        """The rows of a page, the cursor after it, and whether another page may have rows."""
        base = self.endpoint.address()
        url = self.form.address(base, cursor)
        if urlsplit(url)[:2] != urlsplit(base)[:2]:
            self._fail(f"points to another host: {url[:SHOWN]}", "ask the host that has the pages: url=")
        answer = client.ask("GET", url=url)
        page = self._content(client, answer)
        rows = self.form.rows(page)
        if rows is None:
            self._fail(
                f"has no list at {self.form.items!r}: {client.said(answer)}",
                "name its place by names with dots: items='data.rows'; '' if the answer itself is the list",
            )
        after = self.form.following(page, rows, cursor)
        if rows and (after is NOT_THERE or after == cursor):
            place = f"last={self.form.last!r}" if self.form.last is not None else f"next={self.form.next!r}"
            self._fail(
                f"has rows and no further cursor by {place}, so they would be read again",
                "name the field of the rows that the service takes as a cursor: last='id'",
            )
        return [*map(line_of, rows)], cursor if after in (None, NOT_THERE) else after, bool(rows)

    def _content(self, client: HttpClient, answer: Answer) -> Any:
        if not answer.good:
            self._fail(
                f"was: {client.said(answer)}", "check the address, the login and the cursor (HttpEndpoint, cursor=)"
            )
        if not answer.whole:
            self._fail(
                f"has more than {PAGE_BYTES >> 20} MiB",
                "ask for smaller pages, by the parameter of the service: url='https://host/rows?limit=1000'",
            )
        try:
            return parsed(answer.body)
        except ValueError:
            self._fail(f"is not JSON: {client.said(answer)}", "ask for an address that answers by JSON")

    def _fail(self, what: str, remedy: str) -> NoReturn:
        raise SourceReadError(f"the answer of {self.endpoint.where} {what}", remedy=remedy, step=self.step)


@dataclass(frozen=True, slots=True, kw_only=True)
class PagesReader(PollReader):
    """The reader of a service that is polled."""

    source: HttpPages

    def check(self, start: Start) -> Known:
        """The address and the login must be there; nothing is asked."""
        self.source.endpoint.address()
        self.source.endpoint.sent_headers()
        return PollReader.check(self, start)

    def _registered(self, reading: Reading) -> str:
        # Spark's processes do not see variables that this one has got since.
        ready = replace(self, source=replace(self.source, endpoint=self.source.endpoint.resolved()))
        return PollReader._registered(ready, reading)  # noqa: SLF001  the base class's

"""An HTTP client of one service: a kept connection, answers of bounded size, tries for a bounded time."""

from __future__ import annotations

import random
import ssl
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import Final, Self
from urllib.parse import urlsplit

from rs_assets.common.secrets import revealed, without
from rs_assets.connectors.http.endpoint import HttpEndpoint
from rs_assets.errors import RsError

# The service asks to come back: busy, or still at work on the same request (409 and 425).
BUSY: Final = frozenset((408, 409, 425, 429, *range(500, 600)))
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 10.0
BLOCK_BYTES = 1 << 16
SHOWN = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a request; `body` ends at the limit of the client, and is not `whole` then."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    whole: bool = True

    @property
    def good(self) -> bool:
        """Whether the service accepted the request."""
        return 200 <= self.status < 300


class Tries:
    """The pauses between tries, which grow as long as `patience` lasts."""

    def __init__(self, patience: timedelta) -> None:
        self._until = time.monotonic() + patience.total_seconds()
        self._limit = FIRST_PAUSE_S

    def wait(self, wanted: float = 0.0) -> bool:
        """Pause for at least `wanted` seconds; False, at once, if the patience ends before."""
        pause = max(wanted, random.uniform(self._limit / 2, self._limit))  # noqa: S311  no secret
        if time.monotonic() + pause > self._until:
            return False
        time.sleep(pause)
        self._limit = min(2 * self._limit, LONGEST_PAUSE_S)
        return True


@dataclass(slots=True, kw_only=True)
class HttpClient:
    """Sends requests to an endpoint, one at a time, over a connection that is kept until `close`.

    `failure` is the class of errors. The login is read when the client is made. Redirects are answers: the login must
    not reach another host.
    """

    endpoint: HttpEndpoint
    step: str
    failure: type[RsError]
    most_bytes: int = 1 << 20
    _headers: dict[str, str] = field(default_factory=dict, repr=False)
    _connection: HTTPConnection | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Read the login."""
        self._headers = self.endpoint.sent_headers()

    def __enter__(self) -> Self:
        """Itself; the connection is made by the first request."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection; another request makes another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def ask(
        self,
        method: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        url: str | None = None,
        busy: frozenset[int] = BUSY,
    ) -> Answer:
        """The answer of the service, whatever it says; `failure` if it is away, or `busy`, for the whole patience.

        A request may have been received even if its answer is not, so it may be received several times.
        """
        tries = Tries(self.endpoint.patience)
        while True:
            answer, why = self._once(method, url or self.endpoint.address(), body, headers or {})
            if answer is not None and answer.status not in busy:
                return answer
            wanted = retry_after(answer.headers) if answer is not None else 0.0
            if not tries.wait(wanted):
                raise self.away(why, wanted)

    def said(self, answer: Answer) -> str:
        """Status and beginning of an answer, without secrets."""
        text = " ".join(answer.body[: 4 * SHOWN].decode(errors="replace").split())
        return self._shown(f"HTTP {answer.status} {text[:SHOWN]}".strip())

    def away(self, why: str, wanted: float = 0.0) -> RsError:
        """The error for a service that has not accepted a request for the whole patience."""
        later = f"; it asks to come back after {wanted:.0f} s" if wanted else ""
        return self.failure(
            f"{self.endpoint.where} accepts no request within {self.endpoint.patience.total_seconds():g} s:"
            f" {why}{later}",
            remedy="see that the service answers, then start again: the batch is repeated; or give it more time"
            " (patience= of HttpEndpoint)",
            step=self.step,
        )

    def _once(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[Answer | None, str]:
        """The answer if there is one, and a description of what came."""
        try:
            answer = self._exchanged(method, url, body, headers)
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise self.failure(
                f"the certificate of {self.endpoint.where} is not trusted: {error}",
                remedy="name the file with its authority in the environment variable SSL_CERT_FILE",
                step=self.step,
            ) from error
        except (OSError, HTTPException) as error:
            self.close()
            return None, self._shown(f"{type(error).__name__}: {error}")
        return answer, self.said(answer)

    def _exchanged(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        until = time.monotonic() + self.endpoint.timeout.total_seconds()
        parts = urlsplit(url)
        target = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        connection = self._connected(parts.scheme, parts.netloc)
        # A service that refuses a large request may answer, and close the connection, before it has read it.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request(method, target, body, {**self._headers, **headers})
        response = connection.getresponse()
        content, whole = _content(response, self.most_bytes, until)
        if response.will_close or not whole:
            self.close()
        return Answer(status=response.status, headers=_lowered(response.getheaders()), body=content, whole=whole)

    def _connected(self, scheme: str, netloc: str) -> HTTPConnection:
        if self._connection is None:
            timeout = self.endpoint.timeout.total_seconds()
            self._connection = (
                HTTPSConnection(netloc, timeout=timeout, context=ssl.create_default_context())
                if scheme == "https"
                else HTTPConnection(netloc, timeout=timeout)
            )
        return self._connection

    def _shown(self, text: str) -> str:
        secrets = [part for value in self._headers.values() for part in (value, value.partition(" ")[2])]
        if self.endpoint.password is not None:
            secrets.append(revealed(self.endpoint.password, what="password of an HTTP service"))
        return without([*filter(None, secrets), *filter(None, [urlsplit(self.endpoint.address()).query])], text)


def retry_after(headers: Mapping[str, str]) -> float:
    """The seconds to wait that an answer asks for, by names in lower case; 0 for none.

    >>> [retry_after({"retry-after": text}) for text in ("7", "Thu, 01 Jan 1970 00:00:00 GMT", "soon")]
    [7.0, 0.0, 0.0]
    """
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    return max(0.0, (moment.astimezone(UTC) - datetime.now(UTC)).total_seconds())


def _content(response: HTTPResponse, most: int, until: float) -> tuple[bytes, bool]:
    """The body up to `most` bytes, and whether that is all; an error for one that comes slowly or breaks off."""
    blocks, left = list[bytes](), most
    while left and (block := response.read(min(BLOCK_BYTES, left))):
        if time.monotonic() > until:
            raise TimeoutError("the answer comes too slowly")
        blocks.append(block)
        left -= len(block)
    if left and response.length:
        raise IncompleteRead(b"", response.length)
    return b"".join(blocks), left > 0


def _lowered(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers}

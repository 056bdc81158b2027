"""The address of an HTTP service, with its credentials."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

from rs_assets.common.node import NO_EFFECT, positive_time
from rs_assets.common.secrets import Deferred, Hidden, Secret, revealed
from rs_assets.errors import ConfigurationError

URL: Final = re.compile(r"https?://[^\s/?#@]+([/?][^\s#]*)?", re.ASCII)
# What RFC 9110 calls a token, and what may follow it.
HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")
TIMEOUT: Final = timedelta(seconds=30)
PATIENCE: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpEndpoint:
    """An address of an HTTP service, and its login. Secrets are never shown, compared or stored.

    - `url`: `https://host/path`, or Dagster's `EnvVar`, whose value is read when a connection is made.
    - `headers`: their values are text or, better, `EnvVar`; they are secrets, too.
    - `username` and `password` are sent as basic authentication, `token` as a bearer token.
    - `timeout` (default 30 s): how long a request may take. `patience` (default 5 min): how long a request without an
      answer, or with one that asks to come back later, is repeated.

    >>> HttpEndpoint(url="https://example.org/in?key=1", token="secret", headers={"X-Shop": "7"})
    HttpEndpoint(url='https://example.org/in', headers=['X-Shop'], token='***')
    """

    url: str | Deferred = field(repr=False, compare=False, metadata=NO_EFFECT)
    headers: Mapping[str, Secret] = field(default_factory=dict, repr=False, compare=False, metadata=NO_EFFECT)
    username: str | None = field(default=None, metadata=NO_EFFECT)
    password: Secret | None = field(default=None, repr=False, compare=False, metadata=NO_EFFECT)
    token: Secret | None = field(default=None, repr=False, compare=False, metadata=NO_EFFECT)
    timeout: timedelta = field(default=TIMEOUT, compare=False, metadata=NO_EFFECT)
    patience: timedelta = field(default=PATIENCE, compare=False, metadata=NO_EFFECT)
    where: str = field(default="", init=False)

    def __post_init__(self) -> None:
        """Hide secrets; ConfigurationError for a malformed address, header or time, and incompatible credentials."""
        for name in ("password", "token"):
            object.__setattr__(self, name, _hidden(getattr(self, name)))
        object.__setattr__(self, "headers", {name: _hidden(value) for name, value in self.headers.items()})
        object.__setattr__(self, "where", _where(self.url))
        object.__setattr__(self, "url", _hidden(self.url))
        self._check()

    def _check(self) -> None:
        login = {name.lower() for name in self.headers} & {"authorization"}
        ways = [self.username is not None, self.token is not None, bool(login)]
        odd = next((name for name in self.headers if not HEADER_NAME.fullmatch(name)), None)
        checks = (
            (odd is None, f"{odd!r} is not the name of a header", "headers={'X-Api-Key': EnvVar('SHOP_KEY')}"),
            ((self.username is None) == (self.password is None) and sum(ways) <= 1,
             "an HTTP service has one login: username and password, a token, or the header Authorization",
             "HttpEndpoint(url='https://host', token=EnvVar('...'))"),
            (all(map(positive_time, (self.timeout, self.patience))),
             "timeout and patience must be times above 0", "timeout=timedelta(seconds=30)"),
        )  # fmt: skip
        for holds, what, remedy in checks:
            if not holds:
                raise ConfigurationError(what, remedy=remedy)

    def __repr__(self) -> str:
        """The place, the names of headers, and how it logs in."""
        shown = {"url": self.where, "headers": sorted(self.headers), "username": self.username}
        login = ", token='***'" if self.token is not None else ""
        return f"HttpEndpoint({', '.join(f'{name}={value!r}' for name, value in shown.items() if value)}{login})"

    @classmethod
    def of(
        cls,
        url: str | Deferred | HttpEndpoint,
        headers: Mapping[str, Secret] | None = None,
        timeout: timedelta | None = None,
    ) -> HttpEndpoint:
        """The endpoint of text or an `EnvVar`; an endpoint is returned unchanged, and has its headers by itself.

        >>> HttpEndpoint.of("https://example.org/in").where
        'https://example.org/in'
        """
        if not isinstance(url, HttpEndpoint):
            return cls(url=url, headers=headers or {}, timeout=TIMEOUT if timeout is None else timeout)
        if headers is not None or timeout is not None:
            raise ConfigurationError(
                "an HttpEndpoint has its own headers and timeout",
                remedy="write them into it: HttpEndpoint(url=..., headers=..., timeout=...)",
            )
        return url

    def resolved(self) -> HttpEndpoint:
        """The endpoint with the values that its secrets have now, for processes that cannot read them."""
        made = HttpEndpoint(
            url=Hidden(self.address()),
            headers={name: Hidden(value) for name, value in self.sent_headers().items()},
            timeout=self.timeout,
            patience=self.patience,
        )
        object.__setattr__(made, "where", self.where)
        return made

    def address(self) -> str:
        """The URL as it is now; ConfigurationError if it is missing or malformed."""
        url = revealed(self.url, what="url of an HTTP service")
        if not URL.fullmatch(url):
            raise _no_url(self.where)
        return url

    def sent_headers(self) -> dict[str, str]:
        """The headers with the login; ConfigurationError names one that cannot be sent."""
        found = {name: revealed(value, what=f"header {name}") for name, value in self.headers.items()}
        if self.token is not None:
            found["Authorization"] = f"Bearer {revealed(self.token, what='token of an HTTP service')}"
        if self.username is not None:
            login = f"{self.username}:{revealed(self.password, what='password of an HTTP service')}"
            found["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        odd = next((name for name, value in found.items() if not HEADER_VALUE.fullmatch(value)), None)
        if odd is not None:
            raise ConfigurationError(
                f"the value of the header {odd} has a line break or another character that cannot be sent",
                remedy="remove it from the value, such as the line break at the end of a file",
            )
        return found


def _hidden(secret: Secret | None) -> Deferred | None:
    return secret if secret is None or isinstance(secret, Deferred) else Hidden(secret)


def _where(url: object) -> str:
    """The address for people, without what follows a question mark, where many services have keys."""
    if isinstance(url, Deferred):
        return f"${getattr(url, 'env_var_name', type(url).__name__)}"
    if not isinstance(url, str) or not URL.fullmatch(url):
        parts = urlsplit(url) if isinstance(url, str) else None
        raise _no_url(f"{parts.scheme}://***" if parts is not None and "@" in parts.netloc else str(url))
    return url.partition("?")[0]


def _no_url(shown: str) -> ConfigurationError:
    return ConfigurationError(
        f"{shown!r} is not the address of an HTTP service",
        remedy="write it as 'https://host/path', and credentials into HttpEndpoint(url=, username=, password=)",
    )

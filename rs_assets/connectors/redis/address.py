"""The URL of a Redis server: where it is, and the login, which is never shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from rs_assets.common.secrets import Deferred, Hidden, Secret
from rs_assets.errors import ConfigurationError

PORT: Final = 6379
EXAMPLE: Final = "redis://user:password@host:6379/0, or with TLS rediss://...?ca_file=ca.pem; a password's @ is %40"
# The parameters of a URL with TLS, by their names in the client.
TLS: Final[Mapping[str, str]] = MappingProxyType(
    {"ca_file": "ssl_ca_certs", "cert_file": "ssl_certfile", "key_file": "ssl_keyfile"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisAddress:
    """A database of a server. `tls` has the files of certificates; None without TLS."""

    host: str
    port: int = PORT
    database: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: Mapping[str, str] | None = None

    @property
    def place(self) -> str:
        """Where it is, for people: without the login.

        >>> parsed("redis://me:secret@cache/2", what="a step").place
        'redis://cache:6379/2'
        """
        return f"redis://{self.host}:{self.port}/{self.database}"

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the client."""
        login = {"username": self.username, "password": self.password}
        files = {TLS[name]: path for name, path in (self.tls or {}).items()}
        return {
            "host": self.host,
            "port": self.port,
            "db": self.database,
            "ssl": self.tls is not None,
            **login,
            **files,
        }


def parsed(url: str | None, *, what: str) -> RedisAddress:
    """The address in a URL; ConfigurationError, which does not show it, if it is missing or malformed.

    >>> parsed("rediss://:secret@cache:6380/1?ca_file=ca.pem", what="a step")
    RedisAddress(host='cache', port=6380, database=1, username=None, tls={'ca_file': 'ca.pem'})
    """
    try:
        parts = urlsplit(url or "")
        files = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
        secure = parts.scheme == "rediss"
        # A second @ belongs to a password that was not quoted; the rest of that password would be shown.
        good = parts.scheme in ("redis", "rediss") and parts.netloc.count("@") < 2 and not {*files} - {*TLS}
        if good and parts.hostname and (secure or not files):
            return RedisAddress(
                host=parts.hostname,
                port=parts.port or PORT,
                database=int(parts.path.strip("/") or 0),
                username=unquote(parts.username) if parts.username else None,
                password=unquote(parts.password) if parts.password else None,
                tls=files if secure else None,
            )
    # The port, the database or a parameter cannot be read; its text may be part of the password.
    except ValueError:
        pass
    raise ConfigurationError(f"{what} has no valid URL of Redis", remedy=f"give one like {EXAMPLE}") from None


def hidden(url: Secret) -> Deferred:
    """A URL that is never shown: Dagster's `EnvVar`, or text."""
    return url if isinstance(url, Deferred) else Hidden(url)


def place_of(url: Secret, *, step: str) -> str:
    """Where the server is, for people: without the login; an `EnvVar` by its name."""
    if isinstance(url, Deferred):
        return f"${getattr(url, 'env_var_name', type(url).__name__)}"
    return parsed(url, what=f"step {step!r}").place


@dataclass(frozen=True, slots=True)
class RedisPlace:
    """The server of a step, whose URL is read when a connection is made."""

    url: Deferred = field(repr=False, compare=False)
    step: str = ""

    def address(self) -> RedisAddress:
        """The address with the login: for this process and Spark's Python workers only."""
        return parsed(self.url.get_value(), what=f"step {self.step!r}")

"""The address of a schema registry, with its credentials."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from rs_assets.common.node import NO_EFFECT
from rs_assets.common.secrets import Deferred, Hidden, Secret, revealed
from rs_assets.errors import ConfigurationError

URL = re.compile(r"https?://[^\s/?#@]+(/[^\s?#@]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRegistry:
    """A schema registry with Confluent's HTTP interface: Confluent's own, Karapace, or Apicurio at /apis/ccompat/v7.

    Credentials are never shown, compared or stored. `password` and `token` are text or, better, Dagster's
    `EnvVar("NAME")`, which is read when a connection is made. `username` and `password` are sent as basic
    authentication, `token` as a bearer token. `ca_file` has the authorities of an https:// address in PEM form.
    `patience` (default 30 s) is the time in which a registry that does not answer is asked again.

    >>> SchemaRegistry(url="http://localhost:8081/", username="me", password="p")
    SchemaRegistry(url='http://localhost:8081', username='me')
    """

    url: str | Deferred
    username: str | None = field(default=None, metadata=NO_EFFECT)
    password: Secret | None = field(default=None, repr=False, compare=False, metadata=NO_EFFECT)
    token: Secret | None = field(default=None, repr=False, compare=False, metadata=NO_EFFECT)
    ca_file: str | None = field(default=None, metadata=NO_EFFECT)
    patience: timedelta = field(default=timedelta(seconds=30), compare=False, metadata=NO_EFFECT)

    def __post_init__(self) -> None:
        """Hide secrets given as text; ConfigurationError for a malformed address and incompatible credentials."""
        for name in ("password", "token"):
            secret = getattr(self, name)
            if isinstance(secret, str) and not isinstance(secret, Deferred):
                object.__setattr__(self, name, Hidden(secret))
        url = revealed(self.url, what="url of the schema registry")
        object.__setattr__(self, "url", url.rstrip("/"))
        if not URL.fullmatch(url):
            raise ConfigurationError(
                f"{_without_login(url)!r} is not the address of a schema registry",
                remedy="write it as 'http://host:8081', and credentials into username= and password=",
            )
        if (self.username is None) != (self.password is None) or (self.username is not None and self.token is not None):
            raise ConfigurationError(
                "a schema registry has either username and password, or a token, or neither",
                remedy="SchemaRegistry(url='https://host', username='...', password=EnvVar('...'))",
            )

    def __repr__(self) -> str:
        """The settings without secrets and without defaults."""
        shown = {"url": self.url, "username": self.username, "ca_file": self.ca_file}
        return f"SchemaRegistry({', '.join(f'{name}={value!r}' for name, value in shown.items() if value)})"

    @classmethod
    def of(cls, registry: str | SchemaRegistry | Deferred) -> SchemaRegistry:
        """A registry without credentials for text or an `EnvVar`; a registry is returned unchanged.

        >>> SchemaRegistry.of("http://localhost:8081").url
        'http://localhost:8081'
        """
        if isinstance(registry, SchemaRegistry):
            return registry
        if not isinstance(registry, str | Deferred):
            raise ConfigurationError(
                f"a registry must be 'http://host:8081' or a SchemaRegistry, not {registry!r}",
                remedy="registry='http://host:8081'",
            )
        return cls(url=registry)

    def authorization(self) -> str:
        """The value of the header `Authorization`, which holds the secret; empty without credentials."""
        if self.token is not None:
            return f"Bearer {revealed(self.token, what='token of the schema registry')}"
        if self.username is None:
            return ""
        password = revealed(self.password, what="password of the schema registry")
        return f"Basic {base64.b64encode(f'{self.username}:{password}'.encode()).decode()}"

    def authorities(self) -> str:
        """The certificates of `ca_file`, empty without one; ConfigurationError if it cannot be read."""
        if self.ca_file is None:
            return ""
        try:
            return Path(self.ca_file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"ca_file of the schema registry cannot be read: {error}",
                remedy="name a file with certificates in PEM form",
                file=self.ca_file,
            ) from error


def _without_login(url: str) -> str:
    """`url` without the part before an `@`, where people write passwords."""
    parts = urlsplit(url)
    return url.replace(parts.netloc, f"***@{parts.netloc.rsplit('@', 1)[1]}") if "@" in parts.netloc else url

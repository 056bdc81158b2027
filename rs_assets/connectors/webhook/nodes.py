"""Requests of HTTP as a source."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from rs_assets.common.node import NO_EFFECT, positive
from rs_assets.common.secrets import Deferred, Hidden, Secret
from rs_assets.connectors.collector.nodes import CollectedSource
from rs_assets.errors import TopologyError


def is_loopback(host: object) -> bool:
    """Whether only this host reaches it.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(str(host)).is_loopback
    except ValueError:
        return False


def is_port(port: object) -> bool:
    """Whether a server can have that port."""
    return isinstance(port, int) and not isinstance(port, bool) and 0 < port < 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSource(CollectedSource):
    """Records of POST requests, from the log of their collector. Unbounded."""

    icon: ClassVar[str] = "http"
    prefix: ClassVar[str] = "webhook"
    facts: ClassVar[tuple[str, ...]] = ("received_at", "address")

    path: str
    port: int = field(compare=False, metadata=NO_EFFECT)
    host: str = field(default="127.0.0.1", compare=False, metadata=NO_EFFECT)
    token: Secret | None = field(default=None, repr=False, compare=False, metadata=NO_EFFECT)
    max_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        """Hide the token; refuse invalid combinations of options."""
        CollectedSource.__post_init__(self)
        if isinstance(self.token, str) and not isinstance(self.token, Deferred):
            object.__setattr__(self, "token", Hidden(self.token))
        is_path = isinstance(self.path, str) and self.path.startswith("/") and not set("?# ") & set(self.path)
        checks: Sequence[tuple[bool, str, str]] = (
            (is_path, f"{self.path!r} is not the path of a URL", "path='/orders'"),
            (is_port(self.port), f"{self.port!r} is not a port", "port=8080"),
            (is_loopback(self.host) or self.token is not None,
             f"a webhook on {self.host} takes records of everyone", "pass token=EnvVar('WEBHOOK_TOKEN')"),
            (positive(self.max_bytes), "max_bytes must be a positive number", ""),
        )  # fmt: skip
        for holds, what, remedy in checks:
            if not holds:
                raise TopologyError(f"step {self.name!r}: {what}", remedy=remedy)

    @property
    def origin(self) -> tuple[str, ...]:
        """The path."""
        return ("webhook", self.path)

    def detail(self) -> str:
        """Format and path."""
        return f"{self.format} {self.path}"

    def identity(self) -> tuple[str, ...]:
        """The server may move; what a record is read as may not change."""
        return self.shape()

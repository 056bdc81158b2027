"""Syslog as a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rs_assets.common.node import NO_EFFECT, positive
from rs_assets.connectors.collector.nodes import CollectedSource
from rs_assets.connectors.webhook.nodes import is_port
from rs_assets.errors import TopologyError

SyslogProtocol = Literal["tcp", "udp"]
SYSLOG_SCHEMA: Final = (
    "facility int, severity int, sent_at timestamp, host string, app string, process string, message_id string,"
    " structured_data map<string, map<string, string>>, message string"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyslogSource(CollectedSource):
    """Messages of syslog, from the log of their collector. Unbounded."""

    icon: ClassVar[str] = "syslog"
    prefix: ClassVar[str] = "syslog"
    facts: ClassVar[tuple[str, ...]] = ("received_at", "address")

    port: int = field(compare=False, metadata=NO_EFFECT)
    protocol: SyslogProtocol = "tcp"
    host: str = field(default="127.0.0.1", compare=False, metadata=NO_EFFECT)
    time_zone: str = "UTC"
    max_bytes: int = 1 << 16

    def __post_init__(self) -> None:
        """Refuse invalid options."""
        CollectedSource.__post_init__(self)
        checks: Sequence[tuple[bool, str, str]] = (
            (is_port(self.port), f"{self.port!r} is not a port", "port=5514"),
            (self.protocol in get_args(SyslogProtocol), f"the protocol must be one of tcp, udp, not {self.protocol!r}",
             "protocol='tcp'"),
            (_is_zone(self.time_zone), f"{self.time_zone!r} is not a time zone", "time_zone='Europe/Berlin'"),
            (positive(self.max_bytes), "max_bytes must be a positive number", ""),
        )  # fmt: skip
        for holds, what, remedy in checks:
            if not holds:
                raise TopologyError(f"step {self.name!r}: {what}", remedy=remedy)

    @property
    def origin(self) -> tuple[str, ...]:
        """The protocol and the port."""
        return ("syslog", self.protocol, str(self.port))

    def detail(self) -> str:
        """Protocol and port."""
        return f"{self.protocol} {self.port}"

    def identity(self) -> tuple[str, ...]:
        """The server may move, and change its protocol."""
        return (self.time_zone, *self.metadata)


def _is_zone(name: object) -> bool:
    try:
        ZoneInfo(str(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True

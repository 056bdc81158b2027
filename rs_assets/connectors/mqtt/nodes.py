"""MQTT topics as a source and as a sink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from rs_assets.connectors.collector.nodes import CollectedSource
from rs_assets.connectors.mqtt.broker import MqttBroker
from rs_assets.connectors.mqtt.topics import is_filter
from rs_assets.errors import TopologyError

QOS = (0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttSource(CollectedSource):
    """Messages of the topics that `topics` select, from the log of their collector. Unbounded."""

    icon: ClassVar[str] = "mqtt"
    prefix: ClassVar[str] = "mqtt"
    facts: ClassVar[tuple[str, ...]] = ("topic", "received_at", "qos", "retain")

    broker: MqttBroker
    topics: tuple[str, ...]
    qos: int = 1
    client_id: str = field(default="", compare=False)
    clean_session: bool = False
    reconnect: bool = True

    def __post_init__(self) -> None:
        """Refuse invalid combinations of options."""
        CollectedSource.__post_init__(self)
        checks: Sequence[tuple[bool, str, str]] = (
            (bool(self.topics), "there is no topic to subscribe to", "topics='plant/+/temperature'"),
            (all(map(is_filter, self.topics)), "a topic is not one that clients can subscribe to",
             "write levels between slashes: '+' is any level, '#' at the end all below"),
            (len(set(self.topics)) == len(self.topics), "a topic is named twice", ""),
            (self.qos in QOS, f"the qos of a collector must be one of 0, 1, not {self.qos!r}",
             "use qos=1: what was published with QoS 2 comes at least once"),
            (self.qos == 0 or not self.clean_session, "clean_session=True loses what comes while no collector runs",
             "leave it out, or say so with qos=0"),
        )  # fmt: skip
        for holds, what, remedy in checks:
            if not holds:
                raise TopologyError(f"step {self.name!r}: {what}", remedy=remedy)

    @property
    def origin(self) -> tuple[str, ...]:
        """The broker and the topics."""
        return ("mqtt", self.broker.url, *self.topics)

    @property
    def reserves(self) -> str:
        """The session, for which the broker keeps messages."""
        return "" if self.clean_session else f"the session {self.client_id!r} of the MQTT broker"

    def detail(self) -> str:
        """Format and topics."""
        return f"{self.format} {', '.join(self.topics)}"

    def identity(self) -> tuple[str, ...]:
        """The broker may move; the topics and what a message is read as may not change."""
        return (*self.topics, *self.shape())

"""MQTT topics as a source and as a sink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from rs_assets.common.node import NO_EFFECT
from rs_assets.connectors.collector.nodes import CollectedSource
from rs_assets.connectors.mqtt.broker import MqttBroker
from rs_assets.connectors.mqtt.topics import is_filter, is_topic
from rs_assets.connectors.nodes import Sink
from rs_assets.errors import TopologyError

QOS, SENT_QOS = (0, 1), (0, 1, 2)
# What happens to rows that cannot be published.
Refused = Literal["fail", "dead_letter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttSource(CollectedSource):
    """Messages of the topics that `topics` select, from the log of their collector. Unbounded."""

    icon: ClassVar[str] = "mqtt"
    prefix: ClassVar[str] = "mqtt"
    facts: ClassVar[tuple[str, ...]] = ("topic", "received_at", "qos", "retain")

    broker: MqttBroker
    topics: tuple[str, ...]
    qos: int = 1
    client_id: str = field(default="", compare=False, metadata=NO_EFFECT)
    clean_session: bool = False
    reconnect: bool = field(default=True, metadata=NO_EFFECT)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttSink(Sink):
    """Messages to `topic`, or to that in `topic_field`; without `value` the payload is a JSON object of the row."""

    at_once: ClassVar[bool] = True
    icon: ClassVar[str] = "mqtt"

    broker: MqttBroker
    topic: str | None = None
    topic_field: str | None = None
    value: str | None = None
    qos: int = 1
    retain: bool = False
    rows_per_second: float | None = field(default=None, metadata=NO_EFFECT)
    refused: Refused = "fail"

    def __post_init__(self) -> None:
        """Refuse invalid options."""
        Sink.__post_init__(self)
        rate = self.rows_per_second
        checks: Sequence[tuple[bool, str, str]] = (
            ((self.topic is None) != (self.topic_field is None), "there must be a topic, or a field that has it",
             "topic='plant/alarms', or topic_field='topic'"),
            (self.topic is None or is_topic(self.topic), f"{self.topic!r} is not a topic", "topic='plant/alarms'"),
            (self.qos in SENT_QOS, f"the qos must be one of 0, 1, 2, not {self.qos!r}", "qos=1"),
            (rate is None or (isinstance(rate, int | float) and rate > 0), "rows_per_second must be a number above 0",
             "leave it out for no limit"),
            (self.refused in get_args(Refused), f"refused must be one of fail, dead_letter, not {self.refused!r}",
             "refused='dead_letter'"),
        )  # fmt: skip
        for holds, what, remedy in checks:
            if not holds:
                raise TopologyError(f"step {self.name!r}: {what}", remedy=remedy)

    @property
    def read_order(self) -> bool:
        """Whether the message that the broker retains depends on the positions at which rows were read."""
        return self.retain

    @property
    def named(self) -> tuple[str, ...]:
        """The fields of a row that its settings name."""
        return tuple(name for name in (self.topic_field, self.value) if name is not None)

    def detail(self) -> str:
        """The topic."""
        return self.topic if self.topic is not None else f"topic of {self.topic_field}"

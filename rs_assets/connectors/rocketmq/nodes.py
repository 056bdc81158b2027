"""RocketMQ topics as sources and as sinks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ClassVar, Literal, Self, get_args

from rs_assets.common.node import NO_EFFECT, positive
from rs_assets.connectors.nodes import Sink, Source
from rs_assets.connectors.rocketmq.client.cluster import RocketMQCluster
from rs_assets.connectors.rocketmq.client.names import checked_group, checked_topic, tags_in, writable_topic
from rs_assets.errors import TopologyError
from rs_assets.records.policy import BadRecords

Delivery = Literal["at_least_once", "exactly_once"]
RocketmqFormat = Literal["json", "text", "raw"]
# The position of a source at its first start, or a moment.
RocketmqStart = Literal["earliest", "latest", "committed"] | datetime
# The other parts of a message; each may become a field `rocketmq_key`, `rocketmq_tags`...
ROCKETMQ_METADATA: Mapping[str, str] = {
    "key": "string",
    "tags": "string",
    "topic": "string",
    "broker": "string",
    "queue": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "properties": "map<string, string>",
}
RAW_SCHEMA = "value binary, " + ", ".join(
    f"{name} {ROCKETMQ_METADATA[name]}"
    for name in ("key", "tags", "properties", "topic", "broker", "queue", "offset", "timestamp")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RocketmqSource(Source):
    """Messages of one topic; each queue is a split. Unbounded.

    `tags` ("a || b", "*" for all) or `sql` (a condition of SQL92 over properties) are evaluated by the brokers. `group`
    is the consumer group in which the committed offsets are shown; nothing is read from it, unless `starting` is
    "committed". `metadata` names other parts of a message that become fields, `rocketmq_key` and the like.
    """

    icon: ClassVar[str] = "rocketmq"

    cluster: RocketMQCluster
    topic: str
    group: str | None = field(default=None, metadata=NO_EFFECT)
    tags: str = "*"
    sql: str | None = None
    format: RocketmqFormat = "json"
    starting: RocketmqStart = field(default="earliest", metadata=NO_EFFECT)
    metadata: tuple[str, ...] = ()
    policy: BadRecords = BadRecords.FAIL
    max_rows_per_batch: int | None = field(default=1_000_000, metadata=NO_EFFECT)

    def apart(self) -> Self:
        """Without the group, and from the beginning where a pipeline would begin at the offsets of the group."""
        starting = "earliest" if self.starting == "committed" else self.starting
        return replace(self, group=None, starting=starting)

    def __post_init__(self) -> None:
        """Refuse invalid combinations of options."""
        Source.__post_init__(self)
        checked_topic(self.topic, step=self.name)
        if self.group is not None:
            checked_group(self.group, step=self.name)
        moment = isinstance(self.starting, datetime)
        limit = self.max_rows_per_batch
        checks: Sequence[tuple[bool, str, str]] = (
            (_text(self.tags) and bool(tags_in(self.tags)), f"{self.tags!r} does not select tags",
             "use 'a', 'a || b', or '*' for all"),
            (self.sql is None or (_text(self.sql) and self.tags.strip() == "*"),
             "sql and tags select messages in two ways", "write the tags in sql=: TAGS = 'a' AND ..."),
            (self.format in get_args(RocketmqFormat), f"{self.format!r} is not a format",
             f"use one of: {', '.join(get_args(RocketmqFormat))}"),
            (self.format == "json" or self.schema is None, f"format {self.format!r} has fixed fields",
             "leave schema out"),
            (all(name in tuple(ROCKETMQ_METADATA) for name in self.metadata), "no such metadata",
             f"there are: {', '.join(ROCKETMQ_METADATA)}"),
            (len(set(map(str, self.metadata))) == len(self.metadata), "metadata are named twice", ""),
            (self.format != "raw" or not self.metadata, "format 'raw' has all metadata", "leave metadata out"),
            (limit is None or positive(limit), "a limit must be a positive number", ""),
            (self.starting != "committed" or self.group is not None, "starting_offsets='committed' needs a group", ""),
            (not isinstance(self.starting, datetime) or self.starting.tzinfo is not None,
             "the moment to start from has no time zone", "datetime(..., tzinfo=UTC)"),
            (moment or self.starting in ("earliest", "latest", "committed"),
             f"{self.starting!r} is not a starting position", "use 'earliest', 'latest', 'committed' or a datetime"),
        )  # fmt: skip
        for holds, what, remedy in checks:
            if not holds:
                raise TopologyError(f"step {self.name!r}: {what}", remedy=remedy)

    def unlimited(self) -> Self:
        """Without the limit of rows."""
        return replace(self, max_rows_per_batch=None)

    @property
    def origin(self) -> tuple[str, ...]:
        """The name servers and the topic."""
        return ("rocketmq", *self.cluster.servers, self.topic)

    @property
    def bad_records(self) -> BadRecords:
        """The configured policy."""
        return self.policy

    @property
    def row_schema(self) -> str | None:
        """The schema, followed by the configured metadata."""
        fields = {"text": "value string", "raw": RAW_SCHEMA}.get(self.format, self.schema)
        extra = [f"rocketmq_{name} {ROCKETMQ_METADATA[name]}" for name in self.metadata]
        return ", ".join([fields, *extra]) if fields else None

    @property
    def selected(self) -> str:
        """The filter of the brokers as text, empty if all messages are selected."""
        return f"where {self.sql}" if self.sql is not None else "" if self.tags.strip() == "*" else f"tags {self.tags}"

    def detail(self) -> str:
        """Format, topic and filter."""
        return " ".join(filter(None, (self.format, self.topic, self.selected)))

    def identity(self) -> tuple[str, ...]:
        """The cluster may move; topic, filter and schema may not change."""
        return (self.format, self.topic, self.selected, self.schema or "inferred", *self.metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class RocketmqSink(Sink):
    """A RocketMQ topic. `key`, `tags` and `value` are fields; without `value` the body is a JSON object of the row."""

    at_once: ClassVar[bool] = True
    icon: ClassVar[str] = "rocketmq"

    cluster: RocketMQCluster
    topic: str
    key: str | None = None
    tags: str | None = None
    value: str | None = None
    delivery: Delivery = "at_least_once"

    def __post_init__(self) -> None:
        """Refuse invalid options."""
        Sink.__post_init__(self)
        writable_topic(self.topic, step=self.name)
        if self.delivery not in get_args(Delivery):
            raise TopologyError(
                f"the delivery of step {self.name!r} must be one of {', '.join(get_args(Delivery))},"
                f" not {self.delivery!r}",
                remedy=f"use one of: {', '.join(get_args(Delivery))}",
            )

    @property
    def named(self) -> tuple[str, ...]:
        """The fields of a row that its settings name."""
        return tuple(name for name in (self.key, self.tags, self.value) if name is not None)

    def detail(self) -> str:
        """Delivery and topic."""
        return f"{self.delivery.replace('_', ' ')} to {self.topic}"


def _text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())

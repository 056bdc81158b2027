"""Sinks: targets of results, and how each makes a repeated batch harmless."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from rs_assets.common.names import checked_path
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.client.names import writable_topic
from rs_assets.connectors.kafka.sink.settings import check_java_settings, python_settings
from rs_assets.connectors.kafka.sink.shape import RecordShape
from rs_assets.errors import TopologyError
from rs_assets.topology.nodes.base import Family, Node, positive

if TYPE_CHECKING:
    from rs_assets.connectors.memory import MemoryChannel
    from rs_assets.connectors.sink import SinkWriter

DeltaMode = Literal["append", "upsert", "complete"]
Connector = Literal["native", "jvm"]
Delivery = Literal["at_least_once", "exactly_once"]
# Settings of Kafka's producer that are derived from others here.
OWN_SETTINGS = ("bootstrap", "security", "sasl", "ssl", "acks", "enable.idempotence", "transactional", "key.", "value.")

# The methods of a user-defined sink, and those with which it can go back to an earlier batch.
WRITER = ("name", "committed", "last_committed", "stage", "location")
REWINDING = ("check_rewind", "rewind")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink(Node):
    """A node whose rows leave the pipeline."""

    family: ClassVar[Family] = "sink"

    def identity(self) -> tuple[str, ...]:
        """No state depends on where rows go."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintSink(Sink):
    """Prints at most `max_rows` of each batch as a table to standard output."""

    max_rows: int = 20

    def __post_init__(self) -> None:
        """Refuse an invalid limit."""
        Sink.__post_init__(self)
        if not positive(self.max_rows):
            raise TopologyError(f"step {self.name!r}: max_rows must be a positive number")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSink(Sink):
    """JSON lines: one folder a batch below `path`, made visible by one rename."""

    path: str

    def __post_init__(self) -> None:
        """Refuse an empty path."""
        Sink.__post_init__(self)
        if not isinstance(self.path, str) or not self.path or "\0" in self.path:
            raise TopologyError(f"step {self.name!r}: the path must be text")

    def detail(self) -> str:
        """The folder."""
        return self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySink(Sink):
    """Rows collected into a channel of this process."""

    channel: MemoryChannel = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse anything but a channel."""
        Sink.__post_init__(self)
        # Only pipelines with a channel have loaded the module.
        from rs_assets.connectors.memory import checked_kind

        checked_kind(self.channel, step=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSink(Sink):
    """A Delta table; `table` is a name below RS_HOME or a path.

    `append` adds the rows (of a window that emits updates: each update), `upsert` replaces the rows of the same `keys`,
    `complete` holds all windows as they are after each batch. `connector` is the writer: `native` (Spark writes
    Parquet, delta-rs commits) or `jvm`. Of rows of the same keys the greatest by `order_by` wins, whenever it comes;
    without it the one that was read last. If the field `deletes` of that row is true, the keys have no row in the table
    any more. `partition_by` sets the partitions of a new table.

    With `late` it gets, instead of the rows of the step before it, the late rows of that step: as that step got them,
    with the watermark that they came after.
    """

    icon: ClassVar[str] = "deltalake"

    table: str
    mode: DeltaMode = "append"
    keys: tuple[str, ...] = ()
    connector: Connector = "native"
    order_by: tuple[str, ...] = ()
    deletes: str | None = None
    partition_by: tuple[str, ...] = ()
    late: bool = False

    @property
    def read_order(self) -> bool:
        """Whether the winning row depends on the positions at which rows were read."""
        return self.mode == "upsert" and not self.order_by

    def __post_init__(self) -> None:
        """Refuse invalid combinations of options."""
        Sink.__post_init__(self)
        if not isinstance(self.table, str) or not self.table or "\0" in self.table or ".." in self.table.split("/"):
            raise TopologyError(f"step {self.name!r}: {self.table!r} is not a table name or path")
        if "://" not in self.table:
            checked_path(self.table, what=f"step {self.name!r}: the table")
        if self.mode not in get_args(DeltaMode):
            raise TopologyError(
                f"the mode of step {self.name!r} must be one of {', '.join(get_args(DeltaMode))}, not {self.mode!r}",
                remedy=f"use one of: {', '.join(get_args(DeltaMode))}",
            )
        if self.connector not in get_args(Connector):
            raise TopologyError(
                f"the connector of step {self.name!r} must be 'native' or 'jvm', not {self.connector!r}",
                remedy="connector='native' or connector='jvm'",
            )
        if (self.mode == "upsert") != bool(self.keys):
            raise TopologyError(
                f"step {self.name!r}: keys belong to mode='upsert' and it needs them", remedy="keys=['page']"
            )
        for option in ("order_by", "deletes"):
            if getattr(self, option) and self.mode != "upsert":
                raise TopologyError(f"step {self.name!r}: {option} belongs to mode='upsert'", remedy="leave it out")
        if self.deletes in self.keys:
            raise TopologyError(f"step {self.name!r}: {self.deletes!r} is a key, so it cannot mark deleted rows")

    @property
    def named(self) -> tuple[str, ...]:
        """The fields of a row that its settings name."""
        return (*self.keys, *self.order_by, *self.partition_by, *((self.deletes,) if self.deletes else ()))

    def detail(self) -> str:
        """Mode, table and partitions."""
        parts = f" partitioned by {', '.join(self.partition_by)}" if self.partition_by else ""
        gone = f" but {self.deletes}" if self.deletes else ""
        return f"{'late rows into' if self.late else self.mode} {self.table}{parts}{gone}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSink(Sink):
    """A Kafka topic, or the topics that `topic_field` names in each row.

    `key`, `value`, `partition` and `headers` are fields; without `value` it is a JSON object of the row. `options` are
    settings of Kafka's producer by their Java names. `timestamp` is the field with the time of a record; without it it
    is the first non-null field of `times`, which follow from the steps before.
    """

    at_once: ClassVar[bool] = True
    icon: ClassVar[str] = "kafka"

    cluster: KafkaCluster
    topic: str | None = None
    topic_field: str | None = None
    key: str | None = None
    value: str | None = None
    partition: str | None = None
    headers: str | None = None
    timestamp: str | None = None
    times: tuple[str, ...] = ()
    delivery: Delivery = "at_least_once"
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse invalid combinations of options."""
        Sink.__post_init__(self)
        if (self.topic is None) == (self.topic_field is None):
            raise TopologyError(f"step {self.name!r} needs either a topic or a topic_field")
        if self.topic is not None:
            writable_topic(self.topic, step=self.name)
        if self.delivery not in get_args(Delivery):
            raise TopologyError(
                f"the delivery of step {self.name!r} must be one of {', '.join(get_args(Delivery))},"
                f" not {self.delivery!r}",
                remedy=f"use one of: {', '.join(get_args(Delivery))}",
            )
        wrong = [n for n, v in self.options.items() if not isinstance(v, str) or n.startswith(OWN_SETTINGS)]
        if wrong:
            raise TopologyError(
                f"step {self.name!r}: the option {wrong[0]!r} cannot be set here",
                remedy="options are texts; addresses and credentials go into KafkaCluster, delivery into delivery=",
            )
        if self.delivery == "exactly_once":
            python_settings(self.options, step=self.name)
        else:
            check_java_settings(self.options, step=self.name)

    @property
    def shape(self) -> RecordShape:
        """How a row becomes a record."""
        return RecordShape(
            topic=self.topic,
            topic_field=self.topic_field,
            key=self.key,
            value=self.value,
            partition=self.partition,
            headers=self.headers,
            timestamp=self.timestamp,
            times=() if self.timestamp else self.times,
        )

    def detail(self) -> str:
        """Delivery and topic, and the source of the record's time."""
        time = ", else ".join((*((self.timestamp,) if self.timestamp else self.times), "the clock"))
        where = self.topic or f"the topic in {self.topic_field}"
        return f"{self.delivery.replace('_', ' ')} to {where}, time: {time}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterSink(Sink):
    """A user-defined sink: any object with the methods of `rs_assets.sinks.SinkWriter`."""

    at_once: ClassVar[bool] = True

    writer: SinkWriter = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse an object that lacks a method of the protocol, or has only one half of `Rewinding`."""
        Sink.__post_init__(self)
        lacking = [part for part in WRITER if not hasattr(self.writer, part)]
        halves = [method for method in REWINDING if hasattr(self.writer, method)]
        if halves and len(halves) < len(REWINDING):
            lacking += [method for method in REWINDING if method not in halves]
        if lacking:
            raise TopologyError(
                f"step {self.name!r}: the sink has no {', '.join(lacking)}",
                remedy="write it as rs_assets.sinks.SinkWriter (and Rewinding) describe",
                step=self.name,
            )

    def detail(self) -> str:
        """The class of the writer."""
        return type(self.writer).__name__

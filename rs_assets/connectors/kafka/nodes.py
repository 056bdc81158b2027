"""Kafka topics as a source and as a sink."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from os import PathLike
from typing import TYPE_CHECKING, ClassVar, Literal, Self, get_args

from rs_assets.common.node import NO_EFFECT, positive
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.client.names import checked_group, checked_topic, writable_topic
from rs_assets.connectors.kafka.registry.address import SchemaRegistry
from rs_assets.connectors.kafka.registry.schemas import is_avro, reader_schema
from rs_assets.connectors.kafka.registry.subject import AvroSubject, ProtobufSubject
from rs_assets.connectors.kafka.sink.settings import check_java_settings, python_settings
from rs_assets.connectors.kafka.sink.shape import RecordShape
from rs_assets.connectors.kafka.source.settings import check_consumer_settings
from rs_assets.connectors.nodes import Sink, Source
from rs_assets.errors import TopologyError
from rs_assets.records.columns import RETRACTED
from rs_assets.records.fields import Types, declared
from rs_assets.records.policy import BadRecords
from rs_assets.records.schema import quoted, schema_text

if TYPE_CHECKING:
    from rs_assets.connectors.kafka.registry.protobuf import ProtobufMessage

KafkaFormat = Literal["json", "text", "avro", "confluent_avro", "protobuf", "raw"]
# A FileDescriptorSet of protoc, or the file that has it.
Descriptor = bytes | str | PathLike[str]
DataLoss = Literal["fail", "continue"]
Tombstones = Literal["skip", "keep", "bad"]
# The position of a source at its first start; a moment; or an offset for each partition of each topic.
StartingOffsets = Literal["earliest", "latest", "committed"] | datetime | Mapping[str, Mapping[int, int]]
# The key of a record: the text of one field, or a JSON object of fields.
KeyFormat = Literal["text", "json"]
Delivery = Literal["at_least_once", "exactly_once"]
WrittenRecords = Literal["json", "avro", "protobuf"]
# The other parts of a Kafka record; each may become a field `kafka_key`, `kafka_topic`...
AVRO = ("avro", "confluent_avro")
PROTOBUF = "protobuf"
HEADERS = "array<struct<key: string, value: binary>>"
KAFKA_METADATA: Mapping[str, str] = {
    "key": "string",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "headers": HEADERS,
    "tombstone": "boolean",
}
# Groups, comments and flags that Java's regular expressions lack: (?P<name>...), (?(1)...), (?#...), (?a), (?L).
PYTHON_ONLY = re.compile(r"\(\?(?:P|\(|#|[a-zA-Z]*[aL][a-zA-Z]*[:)])")
RAW_SCHEMA = (
    f"key binary, value binary, headers {HEADERS}, topic string, partition int, offset bigint, timestamp timestamp"
)
# Whether an option is right, and the error and its remedy otherwise.
Check = tuple[bool, str, str]
# Settings of Kafka's producer that are derived from others here.
OWN_SETTINGS = ("bootstrap", "security", "sasl", "ssl", "acks", "enable.idempotence", "transactional", "key.", "value.")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSource(Source):
    """Records of Kafka topics; each partition is a split. Unbounded.

    `topics` are names, or `pattern` is a Java regular expression, which new topics are matched with too. `group` is
    the consumer group in which the committed offsets are shown; nothing is read from it, unless `starting` is
    "committed". `metadata` names other parts of a record that become fields, `kafka_offset` and the like. Avro records
    have the header of a schema registry if `registry` has their schemas, or all of them have the schema `schema_id`.
    So have those of format "protobuf", which are read as the message `protobuf`, or by the names of their fields.
    `key_schema` are fields of the record's key, which become `kafka_key_NAME`; the key has the format `key_format`.
    `options` are settings of Kafka's consumer by their Java names.
    """

    icon: ClassVar[str] = "kafka"
    real_time: ClassVar[bool] = True

    cluster: KafkaCluster
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    group: str | None = field(default=None, metadata=NO_EFFECT)
    format: KafkaFormat = "json"
    starting: StartingOffsets = field(default="earliest", metadata=NO_EFFECT)
    metadata: tuple[str, ...] = ()
    policy: BadRecords = BadRecords.FAIL
    dead_letter_topic: str | None = None
    on_data_loss: DataLoss = "fail"
    tombstones: Tombstones = "skip"
    read_committed: bool = True
    max_rows_per_batch: int | None = field(default=1_000_000, metadata=NO_EFFECT)
    min_partitions: int | None = field(default=None, metadata=NO_EFFECT)
    registry: SchemaRegistry | None = None
    schema_id: int | None = None
    protobuf: ProtobufMessage | None = None
    key_schema: str | None = None
    key_format: KeyFormat = "text"
    options: Mapping[str, str] = field(default_factory=dict)

    def apart(self) -> Self:
        """Without the group, and from the beginning where a pipeline would begin at the offsets of the group."""
        starting = "earliest" if self.starting == "committed" else self.starting
        return replace(self, group=None, starting=starting, dead_letter_topic=None)

    def __post_init__(self) -> None:
        """Refuse invalid combinations of options."""
        Source.__post_init__(self)
        object.__setattr__(self, "key_schema", schema_text(self.key_schema, step=self.name))
        for topic in self.topics:
            checked_topic(topic, step=self.name)
        if self.dead_letter_topic:
            writable_topic(self.dead_letter_topic, step=self.name)
        if self.group is not None:
            checked_group(self.group, step=self.name)
        checks = (self._of_topics, self._of_form, self._of_fields, self._of_policies, self._of_ends)
        for holds, what, remedy in (check for of in checks for check in of()):
            if not holds:
                raise TopologyError(f"step {self.name!r}: {what}", remedy=remedy)
        check_consumer_settings(self.options, step=self.name)
        if self.format in AVRO:
            _ = self.avro_schema
        if self.format == PROTOBUF:
            # Its library is loaded where it is used.
            from rs_assets.connectors.kafka.registry.protobuf import check_types

            check_types(declared(self.schema, step=self.name).types, step=self.name)

    def _of_topics(self) -> Sequence[Check]:
        """The checks of what is read."""
        return (
            (bool(self.topics) != bool(self.pattern), "it needs either topics or a pattern", ""),
            (len(set(self.topics)) == len(self.topics), "a topic is named twice", ""),
            (self.pattern is None or _compiles(self.pattern), "the pattern is not a regular expression", ""),
            (self.pattern is None or not PYTHON_ONLY.search(str(self.pattern)),
             "the pattern is a Python regular expression: Kafka's client takes those of Java",
             "group by (?:...), and leave out names and comments"),
        )  # fmt: skip

    def _of_form(self) -> Sequence[Check]:
        """The checks of what a record is."""
        return (
            (self.format in get_args(KafkaFormat), f"{self.format!r} is not a format",
             f"use one of: {', '.join(get_args(KafkaFormat))}"),
            (self.format in ("json", *AVRO, PROTOBUF) or self.schema is None,
             f"format {self.format!r} has fixed fields", "leave schema out"),
            (self.registry is None or self.format in (*AVRO, PROTOBUF),
             "a schema registry has schemas of Avro and Protobuf records", "format='avro'"),
            (self.schema_id is None or (type(self.schema_id) is int and self.schema_id >= 0),
             "schema_id is not the number of a schema", "schema_id=7"),
            (self.format != "confluent_avro" or (self.registry is None) != (self.schema_id is None),
             "records of format 'confluent_avro' have the id of a schema: it needs either a registry or a schema_id",
             "registry='http://host:8081', or schema_id=7 if all records have that id"),
            (self.schema_id is None or self.format in ("confluent_avro", PROTOBUF),
             "schema_id is the id in the header of Avro records", "format='confluent_avro'"),
            *(self._of_protobuf() if self.format == PROTOBUF else ()),
        )  # fmt: skip

    def _of_protobuf(self) -> Sequence[Check]:
        """The checks of Protobuf records."""
        files = self.protobuf.files if self.protobuf is not None else ""
        return (
            (self.registry is not None or bool(files), "Protobuf records need a registry, or the declared message",
             "registry='http://host:8081', or descriptor='orders.desc', message='shop.Order'"),
            (self.schema is not None, "it needs the fields of its Protobuf records",
             "schema='id bigint, name string', or descriptor='orders.desc', message='shop.Order'"),
            (self.registry is None or self.schema_id is None, "it has a registry, which has the schema of each id",
             "leave schema_id out"),
        )  # fmt: skip

    def _of_fields(self) -> Sequence[Check]:
        """The checks of the fields besides those of the value."""
        return (
            (all(name in tuple(KAFKA_METADATA) for name in self.metadata), "no such metadata",
             f"there are: {', '.join(KAFKA_METADATA)}"),
            ("tombstone" not in self.metadata or self.tombstones == "keep",
             "records without a value are not kept, so none would be a tombstone", "tombstones='keep'"),
            (len(set(map(str, self.metadata))) == len(self.metadata), "metadata are named twice", ""),
            (self.format != "raw" or not self.metadata, "format 'raw' has all metadata", "leave metadata out"),
            (self.key_schema is None or self.format != "raw", "format 'raw' has the key as it is",
             "leave key_schema out"),
            (self.key_format in get_args(KeyFormat), f"{self.key_format!r} is not a format of keys",
             f"use one of: {', '.join(get_args(KeyFormat))}"),
            (self.key_schema is None or (len(self._key_fields) > 0 and all(self._key_fields.values())),
             f"key_schema is not a list of fields with types: {self.key_schema}", "key_schema='id bigint'"),
            (self.key_schema is not None or self.key_format == "text", "key_format is the format of fields of the key",
             "key_schema='id bigint'"),
            (self.key_format != "text" or self._one_key, "the text of a key is one field, and no list, map or struct",
             "key_format='json'"),
        )  # fmt: skip

    def _of_policies(self) -> Sequence[Check]:
        """The checks of what is left out, and of limits."""
        numbers = (self.max_rows_per_batch, self.min_partitions)
        return (
            (self.on_data_loss in get_args(DataLoss), f"{self.on_data_loss!r} is not a policy for lost records",
             f"use one of: {', '.join(get_args(DataLoss))}"),
            (self.tombstones in get_args(Tombstones), f"{self.tombstones!r} is not a policy for empty values",
             f"use one of: {', '.join(get_args(Tombstones))}"),
            (all(positive(n) for n in numbers if n is not None), "a limit must be a positive number", ""),
        )  # fmt: skip

    def _of_ends(self) -> Sequence[Check]:
        """The checks of where it starts, and of where bad records go."""
        return (
            (self.starting != "committed" or self.group is not None, "starting_offsets='committed' needs a group", ""),
            (not isinstance(self.starting, datetime) or self.starting.tzinfo is not None,
             "the moment to start from has no time zone", "datetime(..., tzinfo=UTC)"),
            (_are_offsets(self.starting), f"{self.starting!r} is not a starting position",
             "use 'earliest', 'latest', 'committed', a datetime or {'topic': {0: 17}}"),
            (self.dead_letter_topic is None or self.policy.keeps_dead_letters,
             "the dead-letter topic would get nothing", "bad_records='dead_letter'"),
            (not self.reads(self.dead_letter_topic), "it would read its own dead letters", "use another topic"),
        )  # fmt: skip

    def unlimited(self) -> Self:
        """Without the limits of rows and partitions."""
        return replace(self, max_rows_per_batch=None, min_partitions=None)

    def reads(self, topic: str | None) -> bool:
        """Whether `topic` is one of its topics, or matches its pattern."""
        if self.pattern is not None and topic is not None:
            return _compiles(self.pattern) and re.fullmatch(self.pattern, topic) is not None
        return topic in self.topics

    @property
    def origin(self) -> tuple[str, ...]:
        """The brokers and the topics."""
        return ("kafka", *self.cluster.servers, *(self.topics or (self.pattern or "",)))

    @property
    def bad_records(self) -> BadRecords:
        """The configured policy."""
        return self.policy

    @property
    def avro_schema(self) -> str:
        """The schema of Avro records, in Avro's JSON; TopologyError if it cannot be made of the declared fields."""
        return str(self.schema) if is_avro(self.schema) else reader_schema(self.schema, step=self.name)

    @property
    def row_schema(self) -> str | None:
        """The schema, followed by the configured metadata; None if it is Avro's, which only Spark translates."""
        fixed = {"text": "value string", "raw": RAW_SCHEMA}
        fields = fixed.get(self.format, None if is_avro(self.schema) else self.schema)
        extra = [f"kafka_{name} {KAFKA_METADATA[name]}" for name in self.metadata]
        keys = [f"{quoted(f'kafka_key_{name}')} {kind.text}" for name, kind in self._key_fields.items() if kind]
        return ", ".join([fields, *extra, *keys]) if fields else None

    @property
    def _key_fields(self) -> Types:
        return declared(self.key_schema, step=self.name).types

    @property
    def _one_key(self) -> bool:
        """Whether the text of a key can be the fields of a key."""
        kinds = tuple(self._key_fields.values())
        return self.key_schema is None or (len(kinds) == 1 and not (kinds[0] and kinds[0].nested))

    def detail(self) -> str:
        """Format and topics."""
        return f"{self.format} {', '.join(self.topics) or self.pattern}"

    def identity(self) -> tuple[str, ...]:
        """The cluster may move; the topics and the schema may not change."""
        form = "confluent_avro" if self.registry is not None else self.format
        keys = (f"key {self.key_format} {self.key_schema}",) if self.key_schema is not None else ()
        return (form, *(self.topics or (f"/{self.pattern}/",)), self.schema or "inferred", *self.metadata, *keys)

    @property
    def reading(self) -> tuple[str, ...]:
        """Which records are rows: with tombstones, and those of transactions that were aborted."""
        more = {"tombstones": self.tombstones == "keep", "uncommitted": not self.read_committed}
        return tuple(name for name, holds in more.items() if holds)

    @property
    def further(self) -> tuple[str, ...]:
        """Which schema its records were written with, if a message or a number says so."""
        message = self.protobuf.name + self.protobuf.files if self.protobuf is not None else ""
        told = {"message": message and hashlib.sha256(message.encode()).hexdigest()[:16], "schema": self.schema_id}
        return tuple(f"{name} {value}" for name, value in told.items() if value not in ("", None))


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSink(Sink):
    """A Kafka topic, or the topics that `topic_field` names in each row.

    `key`, `value`, `partition` and `headers` are fields, `header_fields` names of headers with their fields; without
    `value` it is a JSON object of the row, or of its fields `values`. The key may also be a JSON object of the fields
    `keys`. With `changes` the rows are those of a table, and a row that goes without another one of its key is a
    tombstone. `options` are settings of Kafka's producer by their Java names. `timestamp` is the field with the time of
    a record; without it it is the first non-null field of `times`, which follow from the steps before. With `avro` the
    value is an Avro record, with `protobuf` a Protobuf message, whose schema is registered.
    """

    at_once: ClassVar[bool] = True
    icon: ClassVar[str] = "kafka"

    cluster: KafkaCluster
    topic: str | None = None
    topic_field: str | None = None
    key: str | None = None
    keys: tuple[str, ...] = ()
    changes: bool = False
    value: str | None = None
    values: tuple[str, ...] = ()
    partition: str | None = None
    headers: str | None = None
    header_fields: tuple[tuple[str, str], ...] = ()
    timestamp: str | None = None
    times: tuple[str, ...] = ()
    delivery: Delivery = "at_least_once"
    avro: AvroSubject | None = None
    protobuf: ProtobufSubject | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse invalid combinations of options."""
        Sink.__post_init__(self)
        if (self.topic is None) == (self.topic_field is None):
            raise TopologyError(f"step {self.name!r} needs either a topic or a topic_field")
        if self.key is not None and self.keys:
            raise TopologyError(
                f"step {self.name!r} has a key and keys, and a record has one key",
                remedy="name the field of the key, or the fields whose JSON object it is",
                step=self.name,
            )
        if self.shape.subject is not None and self.value is not None:
            raise TopologyError(
                f"step {self.name!r}: the field {self.value!r} is the value of a record, which an Avro record or a"
                " Protobuf message is too",
                remedy="leave value out: the schema names the fields of the record",
                step=self.name,
            )
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
    def flag(self) -> str | None:
        """RETRACTED, for the rows of a table."""
        return RETRACTED if self.changes else None

    @property
    def shape(self) -> RecordShape:
        """How a row becomes a record."""
        return RecordShape(
            topic=self.topic,
            topic_field=self.topic_field,
            key=self.key,
            keys=self.keys,
            changes=self.changes,
            value=self.value,
            values=self.values,
            partition=self.partition,
            headers=self.headers,
            header_fields=self.header_fields,
            timestamp=self.timestamp,
            times=() if self.timestamp else self.times,
            avro=self.avro,
            protobuf=self.protobuf,
        )

    def detail(self) -> str:
        """Delivery and topic, and the source of the record's time."""
        time = ", else ".join((*((self.timestamp,) if self.timestamp else self.times), "the clock"))
        where = self.topic or f"the topic in {self.topic_field}"
        form = f"Avro as {self.avro.subject}, " if self.avro is not None else ""
        form = f"Protobuf as {self.protobuf.subject}, " if self.protobuf is not None else form
        return f"{form}{self.delivery.replace('_', ' ')} to {where}, time: {time}"


def avro_subject(
    format: str,  # noqa: A002  the name is fixed by the public surface
    registry: str | SchemaRegistry | None,
    subject: str | None,
    schema: str | None,
    *,
    topic: str | None,
    step: str,
) -> AvroSubject | None:
    """The subject of a sink of Avro records, by default that of the topic's values; None for others. TopologyError."""
    if format == PROTOBUF:
        return None
    checks: Sequence[Check] = (
        (format in ("json", "avro"), f"{format!r} is not a format of records",
         f"format= is one of: {', '.join(get_args(WrittenRecords))}"),
        (format == "avro" or (registry, subject, schema) == (None, None, None),
         "registry, subject and schema describe Avro records", "format='avro', or for a registry format='protobuf'"),
        (format != "avro" or registry is not None, "the schema of Avro records is in a registry",
         "registry='http://host:8081'"),
        (format != "avro" or topic is not None or subject is not None,
         "the topic is a field, so it does not name the subject of the schema", "subject='orders-value'"),
        (schema is None or is_avro(schema), "the schema is not a record in Avro's JSON",
         "leave schema out to send all fields"),
    )  # fmt: skip
    for holds, what, remedy in checks:
        if not holds:
            raise TopologyError(f"step {step!r}: {what}", remedy=remedy, step=step)
    if registry is None:
        return None
    return AvroSubject(registry=SchemaRegistry.of(registry), subject=subject or f"{topic}-value", schema=schema)


def protobuf_subject(
    format: str,  # noqa: A002  the name is fixed by the public surface
    registry: str | SchemaRegistry | None,
    subject: str | None,
    schema: str | None,
    descriptor: Descriptor | None,
    message: str | None,
    *,
    topic: str | None,
    step: str,
) -> ProtobufSubject | None:
    """The subject of a sink of Protobuf records, by default that of the topic's values; None for others."""
    if format != PROTOBUF:
        check_undescribed(descriptor, message, step=step)
        return None
    from rs_assets.connectors.kafka.registry.protobuf import ProtobufMessage

    made = ProtobufMessage.of(descriptor, message or ("Row" if descriptor is None else None), step=step)
    imports = made.file.dependency if made.files else ()
    others = [name for name in imports if not name.startswith("google/protobuf/")]
    checks: Sequence[Check] = (
        (registry is not None, "the message of Protobuf records is in a registry", "registry='http://host:8081'"),
        (schema is None, "the schema of Protobuf records is a descriptor",
         "leave schema out to send all fields, or descriptor='orders.desc', message='shop.Order'"),
        (topic is not None or subject is not None,
         "the topic is a field, so it does not name the subject of the schema", "subject='orders-value'"),
        (not others, f"the file of the message imports {', '.join(others)}, and one file is registered",
         "declare the messages in one file"),
    )  # fmt: skip
    for holds, what, remedy in checks:
        if not holds:
            raise TopologyError(f"step {step!r}: {what}", remedy=remedy, step=step)
    assert registry is not None  # checked
    return ProtobufSubject(registry=SchemaRegistry.of(registry), subject=subject or f"{topic}-value", message=made)


def message_read(
    format: str,  # noqa: A002  the name is fixed by the public surface
    descriptor: Descriptor | None,
    message: str | None,
    *,
    step: str,
) -> ProtobufMessage | None:
    """The declared message of a source of Protobuf records, None for other formats; TopologyError as for sinks."""
    if format != PROTOBUF:
        check_undescribed(descriptor, message, step=step)
        return None
    from rs_assets.connectors.kafka.registry.protobuf import ProtobufMessage

    return ProtobufMessage.of(descriptor, message, step=step)


def check_undescribed(descriptor: Descriptor | None, message: str | None, *, step: str) -> None:
    """TopologyError for a message of records of another format than Protobuf."""
    if (descriptor, message) != (None, None):
        raise TopologyError(
            f"step {step!r}: descriptor and message describe Protobuf records", remedy="format='protobuf'", step=step
        )


def _compiles(pattern: object) -> bool:
    try:
        re.compile(pattern)  # type: ignore[call-overload]
    except (re.error, TypeError):
        return False
    return True


def _are_offsets(value: object) -> bool:
    if isinstance(value, Mapping):
        return bool(value) and all(
            isinstance(partitions, Mapping)
            and all(type(p) is int and type(o) is int and p >= 0 and o >= 0 for p, o in partitions.items())
            for partitions in value.values()
        )
    return isinstance(value, datetime) or value in ("earliest", "latest", "committed")

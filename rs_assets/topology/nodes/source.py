"""Sources: origins of rows, their splits, and the policy for records that do not parse."""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

from rs_assets.common.project import anchored
from rs_assets.connectors.files.codecs import CODECS
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.client.names import checked_group, checked_topic, writable_topic
from rs_assets.errors import SchemaError, TopologyError
from rs_assets.records.policy import BadRecords
from rs_assets.records.schema import schema_text
from rs_assets.topology.nodes.base import Family, Node, positive

if TYPE_CHECKING:
    from rs_assets.connectors.memory import MemoryChannel

Format = Literal["json", "text", "csv", "parquet"]
# The formats that a file's ending determines; JSON lines may be in files of any name.
FORMATS_BY_NAME: Mapping[str, Format] = {".csv": "csv", ".parquet": "parquet"}
KafkaFormat = Literal["json", "text", "avro", "confluent_avro", "raw"]
DataLoss = Literal["fail", "continue"]
Tombstones = Literal["skip", "keep", "bad"]
# The position of a source at its first start; a moment; or an offset for each partition of each topic.
StartingOffsets = Literal["earliest", "latest", "committed"] | datetime | Mapping[str, Mapping[int, int]]
# The other parts of a Kafka record; each may become a field `kafka_key`, `kafka_topic`...
AVRO = ("avro", "confluent_avro")
HEADERS = "array<struct<key: string, value: binary>>"
KAFKA_METADATA: Mapping[str, str] = {
    "key": "string",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "headers": HEADERS,
}
# The scheme of local files, and any other.
SCHEME, REMOTE = re.compile(r"^file:(//)?(?=/)"), re.compile(r"^(?!file:)[A-Za-z][A-Za-z0-9+.-]*://")
# Groups, comments and flags that Java's regular expressions lack: (?P<name>...), (?(1)...), (?#...), (?a), (?L).
PYTHON_ONLY = re.compile(r"\(\?(?:P|\(|#|[a-zA-Z]*[aL][a-zA-Z]*[:)])")
RAW_SCHEMA = (
    f"key binary, value binary, headers {HEADERS}, topic string, partition int, offset bigint, timestamp timestamp"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(Node):
    """A node without inputs. `schema` is DDL text; None means: inferred once, then pinned with the checkpoint."""

    family: ClassVar[Family] = "source"
    # Whether Spark's real-time mode can read it.
    real_time: ClassVar[bool] = False

    schema: str | None = None

    def __post_init__(self) -> None:
        """Convert the schema to DDL text."""
        Node.__post_init__(self)
        object.__setattr__(self, "schema", schema_text(self.schema, step=self.name))

    @property
    def bounded(self) -> bool:
        """Whether the input has an end, at which all windows fire and the generation is sealed."""
        return False

    @property
    def bad_records(self) -> BadRecords:
        """The policy for records that do not parse."""
        return BadRecords.FAIL

    @property
    def row_schema(self) -> str | None:
        """The fields of its rows as DDL text, None if they are inferred at the first start."""
        return self.schema

    @property
    def origin(self) -> tuple[str, ...]:
        """The input, whatever the step is called; () if it cannot be distinguished from others of its kind."""
        return ()

    def unlimited(self) -> Self:
        """The same source without batch limits, which real-time mode does not support."""
        return self

    @property
    def in_parser(self) -> bool:
        """Whether Spark's own reader parses its files, so that their lines are checked separately."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySource(Source):
    """Rows given in the program; bounded."""

    rows: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    policy: BadRecords = BadRecords.FAIL

    def __post_init__(self) -> None:
        """Refuse rows that are not mappings."""
        Source.__post_init__(self)
        wrong = [row for row in self.rows if not isinstance(row, Mapping)]
        if wrong:
            raise SchemaError(f"step {self.name!r}: a row must be a dict, not {wrong[0]!r}", step=self.name)
        if not self.rows and self.schema is None:
            raise SchemaError(f"step {self.name!r} has no rows to infer a schema from", remedy="pass schema='...'")

    @property
    def bounded(self) -> bool:
        """An array always ends."""
        return True

    @property
    def bad_records(self) -> BadRecords:
        """The configured policy; rows are checked when they are given, so only steps can fail on them."""
        return self.policy

    def detail(self) -> str:
        """The number of rows."""
        return f"{len(self.rows)} rows"

    def identity(self) -> tuple[str, ...]:
        """The rows may change from run to run; the state depends on the schema."""
        return (self.schema or "inferred",)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySource(Source):
    """Rows that the program puts into a channel while the pipeline runs; bounded once the channel is closed."""

    channel: MemoryChannel = field(repr=False, compare=False)
    policy: BadRecords = BadRecords.FAIL

    def __post_init__(self) -> None:
        """Refuse anything but a channel, and take its schema."""
        # Only pipelines with a channel have loaded the module.
        from rs_assets.connectors.memory import checked_kind

        checked_kind(self.channel, step=self.name)
        object.__setattr__(self, "schema", self.channel.schema)
        Source.__post_init__(self)

    @property
    def bounded(self) -> bool:
        """A closed channel ends."""
        return self.channel.closed

    @property
    def bad_records(self) -> BadRecords:
        """The configured policy; rows are checked when they are put, so only steps can fail on them."""
        return self.policy

    def detail(self) -> str:
        """The name of its only split."""
        return "memory channel"


def format_by_name(path: str) -> Format:
    """The format by a path's ending, compressed or not: csv or parquet, else json.

    >>> format_by_name("orders/*.csv.gz"), format_by_name("clicks.jsonl"), format_by_name("landing/")
    ('csv', 'json', 'json')
    """
    endings = [ending for ending in PurePath(path.lower()).suffixes if ending not in CODECS]
    return FORMATS_BY_NAME.get(endings[-1], "json") if endings else "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource(Source):
    """Rows from files: a single file (bounded unless `tail`), a directory or a glob (unbounded).

    `tail=False` reads files that no longer change, with Spark's own reader; `tail=True` follows growing files line by
    line. `pattern` (text only) is a regular expression with named groups: one field a group, cast to `schema`.
    `path` becomes absolute, in the form in which Spark lists files; `written` is the given path.
    """

    icon: ClassVar[str] = "file"

    path: str
    format: Format = "json"
    tail: bool = False
    header: bool = True
    pattern: str | None = None
    time_format: str | None = None
    policy: BadRecords = BadRecords.FAIL
    max_files_per_batch: int | None = None
    max_rows_per_batch: int | None = None
    written: str = field(default="", repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse invalid combinations of options, and make the path absolute."""
        Source.__post_init__(self)
        is_text = isinstance(self.path, str) and bool(self.path) and "\0" not in self.path
        checks: Sequence[tuple[bool, str, str]] = (
            (is_text, "the path must be text", ""),
            (not is_text or REMOTE.match(self.path) is None, f"files cannot be read from {self.path}",
             "use a path of a local or mounted file system"),
            (self.format in get_args(Format), f"{self.format!r} is not a format",
             f"use one of: {', '.join(get_args(Format))}"),
            (not (self.tail and self.format == "parquet"), "Parquet files cannot be followed", "leave tail out"),
            (self.pattern is None or self.format == "text", "a pattern needs format='text'",
             "it is a regular expression for lines; the path selects the files: 'logs/*.json'"),
            (self.pattern is None or self.schema is not None, "a pattern needs a schema", "pass schema='...'"),
            (self.format != "text" or self.pattern is not None or self.schema is None,
             "plain text has the one field 'value'", "leave schema out, or pass pattern="),
            (all(positive(n) for n in (self.max_files_per_batch, self.max_rows_per_batch) if n is not None),
             "the limit of a batch must be a positive number", ""),
            (self.max_rows_per_batch is None or self.tail, "max_rows_per_batch needs tail=True",
             "whole files are read without tail: use max_files_per_batch"),
            (self.max_files_per_batch is None or not self.tail, "max_files_per_batch does not go with tail=True",
             "use max_rows_per_batch"),
        )  # fmt: skip
        for holds, what, remedy in checks:
            if not holds:
                raise TopologyError(f"step {self.name!r}: {what}", remedy=remedy)
        object.__setattr__(self, "written", self.written or self.path)
        object.__setattr__(self, "path", anchored(SCHEME.sub("", self.path)))

    @property
    def origin(self) -> tuple[str, ...]:
        """The path."""
        return ("file", self.path)

    @property
    def bounded(self) -> bool:
        """A single file without `tail` ends; a directory, a glob and a growing file do not."""
        place = Path(self.path)
        return not self.tail and (place.is_file() or not (glob.has_magic(self.path) or place.is_dir()))

    @property
    def bad_records(self) -> BadRecords:
        """The configured policy."""
        return self.policy

    @property
    def in_parser(self) -> bool:
        """Whole files under FAIL; under other policies each line is parsed separately, and counted."""
        return not self.tail and self.policy is BadRecords.FAIL and self.format != "parquet"

    @property
    def row_schema(self) -> str | None:
        """Plain text has the one field `value`."""
        return "value string" if self.format == "text" and self.pattern is None else self.schema

    def detail(self) -> str:
        """Format and path, as given."""
        return f"{self.format}{', tail' if self.tail else ''} {self.written}"

    def identity(self) -> tuple[str, ...]:
        """The path may move; the format and the schema may not change."""
        return (self.format, str(self.tail), self.pattern or "", self.schema or "inferred")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSource(Source):
    """Records of Kafka topics; each partition is a split. Unbounded.

    `topics` are names, or `pattern` is a Java regular expression, which new topics are matched with too. `group` is
    the consumer group in which the committed offsets are shown; nothing is read from it, unless `starting` is
    "committed". `metadata` names other parts of a record that become fields, `kafka_offset` and the like.
    """

    icon: ClassVar[str] = "kafka"
    real_time: ClassVar[bool] = True

    cluster: KafkaCluster
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    group: str | None = None
    format: KafkaFormat = "json"
    starting: StartingOffsets = "earliest"
    metadata: tuple[str, ...] = ()
    policy: BadRecords = BadRecords.FAIL
    dead_letter_topic: str | None = None
    on_data_loss: DataLoss = "fail"
    tombstones: Tombstones = "skip"
    read_committed: bool = True
    max_rows_per_batch: int | None = 1_000_000
    min_partitions: int | None = None

    def __post_init__(self) -> None:
        """Refuse invalid combinations of options."""
        Source.__post_init__(self)
        for topic in self.topics:
            checked_topic(topic, step=self.name)
        if self.dead_letter_topic:
            writable_topic(self.dead_letter_topic, step=self.name)
        if self.group is not None:
            checked_group(self.group, step=self.name)
        numbers = (self.max_rows_per_batch, self.min_partitions)
        checks: Sequence[tuple[bool, str, str]] = (
            (bool(self.topics) != bool(self.pattern), "it needs either topics or a pattern", ""),
            (len(set(self.topics)) == len(self.topics), "a topic is named twice", ""),
            (self.pattern is None or _compiles(self.pattern), "the pattern is not a regular expression", ""),
            (self.pattern is None or not PYTHON_ONLY.search(str(self.pattern)),
             "the pattern is a Python regular expression: Kafka's client takes those of Java",
             "group by (?:...), and leave out names and comments"),
            (self.format in get_args(KafkaFormat), f"{self.format!r} is not a format",
             f"use one of: {', '.join(get_args(KafkaFormat))}"),
            (self.format in ("json", *AVRO) or self.schema is None, f"format {self.format!r} has fixed fields",
             "leave schema out"),
            (self.format not in AVRO or _is_record(self.schema), f"format {self.format!r} needs an Avro record",
             """schema='{"type": "record", "name": "order", "fields": [...]}'"""),
            (all(name in tuple(KAFKA_METADATA) for name in self.metadata), "no such metadata",
             f"there are: {', '.join(KAFKA_METADATA)}"),
            (len(set(map(str, self.metadata))) == len(self.metadata), "metadata are named twice", ""),
            (self.format != "raw" or not self.metadata, "format 'raw' has all metadata", "leave metadata out"),
            (self.on_data_loss in get_args(DataLoss), f"{self.on_data_loss!r} is not a policy for lost records",
             f"use one of: {', '.join(get_args(DataLoss))}"),
            (self.tombstones in get_args(Tombstones), f"{self.tombstones!r} is not a policy for empty values",
             f"use one of: {', '.join(get_args(Tombstones))}"),
            (all(positive(n) for n in numbers if n is not None), "a limit must be a positive number", ""),
            (self.starting != "committed" or self.group is not None, "starting_offsets='committed' needs a group", ""),
            (not isinstance(self.starting, datetime) or self.starting.tzinfo is not None,
             "the moment to start from has no time zone", "datetime(..., tzinfo=UTC)"),
            (_are_offsets(self.starting), f"{self.starting!r} is not a starting position",
             "use 'earliest', 'latest', 'committed', a datetime or {'topic': {0: 17}}"),
            (self.dead_letter_topic is None or self.policy.keeps_dead_letters,
             "the dead-letter topic would get nothing", "bad_records='dead_letter'"),
            (not self.reads(self.dead_letter_topic), "it would read its own dead letters", "use another topic"),
        )  # fmt: skip
        for holds, what, remedy in checks:
            if not holds:
                raise TopologyError(f"step {self.name!r}: {what}", remedy=remedy)

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
    def row_schema(self) -> str | None:
        """The schema, followed by the configured metadata."""
        fixed = {"text": "value string", "raw": RAW_SCHEMA, **dict.fromkeys(AVRO)}
        fields = fixed.get(self.format, self.schema)
        extra = [f"kafka_{name} {KAFKA_METADATA[name]}" for name in self.metadata]
        return ", ".join([fields, *extra]) if fields else None

    def detail(self) -> str:
        """Format and topics."""
        return f"{self.format} {', '.join(self.topics) or self.pattern}"

    def identity(self) -> tuple[str, ...]:
        """The cluster may move; the topics and the schema may not change."""
        return (self.format, *(self.topics or (f"/{self.pattern}/",)), self.schema or "inferred", *self.metadata)


def _is_record(schema: str | None) -> bool:
    try:
        made = json.loads(schema or "")
    except ValueError:
        return False
    return isinstance(made, dict) and made.get("type") == "record" and bool(made.get("fields"))


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

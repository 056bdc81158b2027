"""Streams of Redis as sources; hashes, strings and streams of Redis as sinks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import ClassVar, Final, Literal, Self, get_args

from rs_assets.common.node import NO_EFFECT, positive
from rs_assets.common.secrets import Deferred
from rs_assets.connectors.nodes import Sink, Source
from rs_assets.errors import TopologyError
from rs_assets.records.policy import BadRecords

RedisFormat = Literal["fields", "json", "raw"]
RedisStart = Literal["earliest", "latest"]
# What else is known of an entry; each may become a field `redis_id`...
REDIS_METADATA: Final[Mapping[str, str]] = {"id": "string", "stream": "string", "timestamp": "timestamp"}
RAW_SCHEMA: Final = "id string, stream string, timestamp timestamp, fields map<string, binary>"
RedisStructure = Literal["hash", "string", "stream"]
RedisMode = Literal["append", "upsert"]
# What begins the keys that sinks keep for themselves.
RESERVED: Final = "rs:"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisSource(Source):
    """Entries of streams; each stream is a split. Unbounded.

    `value` is the field that has the JSON object, for the format json. `where` is the server for people, without the
    login. `metadata` names what else becomes fields, `redis_id` and the like.
    """

    icon: ClassVar[str] = "redis"

    url: Deferred = field(repr=False, compare=False, metadata=NO_EFFECT)
    where: str = ""
    streams: tuple[str, ...]
    format: RedisFormat = "fields"
    value: str = "value"
    starting: RedisStart = field(default="earliest", metadata=NO_EFFECT)
    metadata: tuple[str, ...] = ()
    policy: BadRecords = BadRecords.FAIL
    max_rows_per_batch: int | None = field(default=100_000, metadata=NO_EFFECT)

    def __post_init__(self) -> None:
        """Refuse invalid combinations of options."""
        Source.__post_init__(self)
        limit = self.max_rows_per_batch
        checks: Sequence[tuple[bool, str, str]] = (
            (bool(self.streams) and all(map(_text, self.streams)), "a stream must be text", "streams=['clicks']"),
            (len({*self.streams}) == len(self.streams), "a stream is named twice", "leave one out"),
            (self.format in get_args(RedisFormat), f"the format must be one of {', '.join(get_args(RedisFormat))}",
             "format='fields'"),
            (self.format != "raw" or self.schema is None, "format 'raw' has fixed fields", "leave schema out"),
            (_text(self.value), "value must be the name of a field", "value='body'"),
            (self.starting in get_args(RedisStart), "starting_ids must be one of earliest, latest",
             "starting_ids='earliest'"),
            (all(name in tuple(REDIS_METADATA) for name in self.metadata), "no such metadata",
             f"there are: {', '.join(REDIS_METADATA)}"),
            (len({*self.metadata}) == len(self.metadata), "metadata are named twice", "leave one out"),
            (self.format != "raw" or not self.metadata, "format 'raw' has all metadata", "leave metadata out"),
            (limit is None or positive(limit), "max_rows_per_batch must be a positive number",
             "max_rows_per_batch=100_000"),
        )  # fmt: skip
        _check(self.name, checks)

    def unlimited(self) -> Self:
        """Without the limit of rows."""
        return replace(self, max_rows_per_batch=None)

    @property
    def origin(self) -> tuple[str, ...]:
        """The server and the streams."""
        return ("redis", self.where, *self.streams)

    @property
    def bad_records(self) -> BadRecords:
        """The configured policy."""
        return self.policy

    @property
    def row_schema(self) -> str | None:
        """The schema, followed by the configured metadata."""
        fields = RAW_SCHEMA if self.format == "raw" else self.schema
        extra = [f"redis_{name} {REDIS_METADATA[name]}" for name in self.metadata]
        return ", ".join([fields, *extra]) if fields else None

    def detail(self) -> str:
        """Format, streams and server."""
        return f"{self.format} {', '.join(self.streams)} of {self.where}"

    def identity(self) -> tuple[str, ...]:
        """The server may move; streams, form and schema may not change."""
        return (self.format, *self.streams, self.value, self.schema or "inferred", *self.metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisSink(Sink):
    """Rows as hashes or strings, one for each value of `keys`, or as entries of streams.

    The key of a row is `prefix` and its values of `keys`; a stream may have none. `upsert` replaces what the key had;
    if the boolean field `deletes` is true, the key is removed. `append` adds entries to a stream. `value` is the field
    whose text a string has, by default a JSON object of the row. `ttl` is how long a key lives after it was written.
    `where` is the server for people, without the login.
    """

    icon: ClassVar[str] = "redis"
    order_by: ClassVar[tuple[str, ...]] = ()

    url: Deferred = field(repr=False, compare=False, metadata=NO_EFFECT)
    where: str = ""
    structure: RedisStructure = "hash"
    mode: RedisMode = "upsert"
    prefix: str
    keys: tuple[str, ...] = ()
    value: str | None = None
    deletes: str | None = None
    ttl: timedelta | None = None

    def __post_init__(self) -> None:
        """Refuse invalid combinations of options."""
        Sink.__post_init__(self)
        stream = self.structure == "stream"
        prefix = self.prefix if isinstance(self.prefix, str) else ""
        checks: Sequence[tuple[bool, str, str]] = (
            (self.structure in get_args(RedisStructure),
             f"the structure must be one of {', '.join(get_args(RedisStructure))}", "structure='hash'"),
            (self.mode in get_args(RedisMode), f"the mode must be one of {', '.join(get_args(RedisMode))}",
             "leave it out"),
            ((self.mode == "append") == stream, "entries of streams are appended, hashes and strings are upserted",
             "leave mode= out"),
            (bool(prefix), "the prefix must be text", "prefix='page:'"),
            (not prefix.startswith(RESERVED) and not RESERVED.startswith(prefix),
             f"keys that begin with {RESERVED!r} are the ledger's", "prefix='page:'"),
            (stream or bool(self.keys), "a hash or a string needs a key", "key='page'"),
            (self.value is None or self.structure == "string", "value belongs to structure='string'", "leave it out"),
            (self.deletes is None or not stream, "deletes belongs to hashes and strings", "leave it out"),
            (self.deletes not in self.keys, f"{self.deletes!r} is a key, so it cannot mark deleted rows",
             "name another field"),
            (self.ttl is None or not stream, "ttl belongs to hashes and strings", "leave it out"),
            (self.ttl is None or (isinstance(self.ttl, timedelta) and self.ttl >= timedelta(milliseconds=1)),
             "ttl must be a time from one millisecond", "ttl=timedelta(hours=1)"),
        )  # fmt: skip
        _check(self.name, checks)

    @property
    def read_order(self) -> bool:
        """Whether the winning row depends on the positions at which rows were read."""
        return self.mode == "upsert"

    @property
    def flag(self) -> str | None:
        """The boolean column of the rows that delete the row of their keys; None if none does."""
        return self.deletes

    @property
    def named(self) -> tuple[str, ...]:
        """The fields of a row that its settings name."""
        return tuple(dict.fromkeys([*self.keys, *filter(None, (self.value, self.deletes))]))

    @property
    def place(self) -> str:
        """The keys and the server, without the login."""
        return f"{self.where} {self.prefix}{':'.join(f'{{{key}}}' for key in self.keys)}"

    def detail(self) -> str:
        """Structure and place."""
        return f"{self.structure} {self.place}"


def _check(step: str, checks: Sequence[tuple[bool, str, str]]) -> None:
    """TopologyError for the first of (holds, what, remedy) that does not hold."""
    for holds, what, remedy in checks:
        if not holds:
            raise TopologyError(f"step {step!r}: {what}", remedy=remedy, step=step)


def _text(value: object) -> bool:
    return isinstance(value, str) and bool(value)

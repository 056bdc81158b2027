"""Streams of Redis as sources; hashes, strings and streams of Redis as sinks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Literal, Self, get_args

from rs_assets.common.node import positive
from rs_assets.common.secrets import Deferred
from rs_assets.connectors.nodes import Source
from rs_assets.errors import TopologyError
from rs_assets.records.policy import BadRecords

RedisFormat = Literal["fields", "json", "raw"]
RedisStart = Literal["earliest", "latest"]
# What else is known of an entry; each may become a field `redis_id`...
REDIS_METADATA: Final[Mapping[str, str]] = {"id": "string", "stream": "string", "timestamp": "timestamp"}
RAW_SCHEMA: Final = "id string, stream string, timestamp timestamp, fields map<string, binary>"
# What begins the keys that sinks keep for themselves.
RESERVED: Final = "rs:"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisSource(Source):
    """Entries of streams; each stream is a split. Unbounded.

    `value` is the field that has the JSON object, for the format json. `where` is the server for people, without the
    login. `metadata` names what else becomes fields, `redis_id` and the like.
    """

    icon: ClassVar[str] = "redis"

    url: Deferred = field(repr=False, compare=False)
    where: str = ""
    streams: tuple[str, ...]
    format: RedisFormat = "fields"
    value: str = "value"
    starting: RedisStart = "earliest"
    metadata: tuple[str, ...] = ()
    policy: BadRecords = BadRecords.FAIL
    max_rows_per_batch: int | None = 100_000

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
        for holds, what, remedy in checks:
            if not holds:
                raise TopologyError(f"step {self.name!r}: {what}", remedy=remedy, step=self.name)

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


def _text(value: object) -> bool:
    return isinstance(value, str) and bool(value)

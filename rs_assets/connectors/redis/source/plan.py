"""What Spark asks of a source of streams: where the next batch ends, and the entries of a range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import pyarrow as pa

from rs_assets.connectors.files.lines.spark_source import SCHEMA_DDL
from rs_assets.connectors.own.lines import EMPTY, SCHEMA
from rs_assets.connectors.redis.address import RedisAddress
from rs_assets.connectors.redis.client import connected
from rs_assets.connectors.redis.source.streams import (
    Entry,
    Facts,
    Offset,
    Offsets,
    entries_between,
    facts_of,
    next_offset,
)
from rs_assets.errors import SourceReadError

Starting = Literal["earliest", "latest"]
# The column of all fields of an entry.
ENTRY: Final = "entry"
ENTRY_TYPE: Final = pa.map_(pa.string(), pa.binary())


@dataclass(slots=True, kw_only=True)
class StreamsPlan:
    """One use of the streams in one process; it is pickled, so it holds no connection.

    With `value` an entry is the text in this field, else all of its fields.
    """

    step: str
    address: RedisAddress = field(repr=False)
    streams: tuple[str, ...]
    starting: Starting = "earliest"
    value: str | None = None
    _until: Mapping[str, Facts] | None = None

    @property
    def ddl(self) -> str:
        """The columns of `read`."""
        return SCHEMA_DDL if self.value is not None else f"{SCHEMA_DDL}, {ENTRY} map<string, binary>"

    def freeze(self) -> None:
        """Leave entries that are added from now on to the next run."""
        self._until = self.facts()

    def facts(self) -> dict[str, Facts]:
        """The streams as they are."""
        with connected(self.address, SourceReadError, step=self.step) as client:
            return {stream: facts_of(client, stream) for stream in self.streams}

    def next(self, start: Offsets, rows: int | None) -> Offsets:
        """Up to the ends, or `rows` entries shared by the streams that have new ones, small ones first."""
        with connected(self.address, SourceReadError, step=self.step) as client:
            facts = self._until or {stream: facts_of(client, stream) for stream in self.streams}
            since = {stream: start[stream] if stream in start else self._first(facts[stream]) for stream in facts}
            after, left = dict(since), rows
            waiting = sorted(facts, key=lambda stream: facts[stream].added - since[stream].added)
            for place, stream in enumerate(waiting):
                share = None if left is None else max(1, left // (len(waiting) - place))
                after[stream] = next_offset(client, stream, since[stream], facts[stream], share)
                left = None if left is None else max(0, left - (after[stream].added - since[stream].added))
            # Without a new entry there is no batch, unless it has to note that the first one begins at the end.
            noted = start or self.starting == "latest" or any(at != since[stream] for stream, at in after.items())
            return after if noted else start

    def read(self, stream: str, start: Offset, end: Offset) -> Iterator[pa.RecordBatch]:
        """The entries of a range."""
        with connected(self.address, SourceReadError, step=self.step) as client:
            for chunk in entries_between(client, stream, start, end):
                yield self._columns(stream, chunk)

    def committed(self, ends: Offsets) -> None:
        """Nothing: a stream is trimmed by those who write it."""

    def _first(self, facts: Facts) -> Offset:
        return facts.end if self.starting == "latest" else facts.begin

    def _columns(self, stream: str, chunk: Sequence[Entry]) -> pa.RecordBatch:
        numbers = pa.array([number for number, _ in chunk], pa.int64())
        name = (self.value or "").encode()
        values = [entry.get(name) or EMPTY if self.value is not None else b"" for _, entry in chunk]
        lengths = pa.array(map(len, values), pa.int64())
        columns = [pa.array([stream] * len(chunk)), numbers, numbers, lengths, pa.array(values, pa.binary())]
        if self.value is not None:
            return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
        names: dict[bytes, str] = {}
        fields = [[(_name(key, names), value) for key, value in entry.items()] for _, entry in chunk]
        return pa.RecordBatch.from_arrays(
            [*columns, pa.array(fields, ENTRY_TYPE)], schema=SCHEMA.append(pa.field(ENTRY, ENTRY_TYPE))
        )


def _name(key: bytes, known: dict[bytes, str]) -> str:
    """The name of a field as text; each is decoded once."""
    if key not in known:
        known[key] = key.decode(errors="replace")
    return known[key]

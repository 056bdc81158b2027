"""What Spark asks of a collector's log: where the next batch ends, and the messages of a range."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from rs_assets.connectors.collector.log import CollectedLog, records_lost
from rs_assets.connectors.collector.messages import ARROW, TEXT, facts_of
from rs_assets.connectors.collector.nodes import METADATA_TYPES
from rs_assets.connectors.files.lines.spark_source import SCHEMA_DDL
from rs_assets.connectors.own.lines import CHUNK, SCHEMA
from rs_assets.connectors.own.plan import Offsets, Position

# The value that Spark parses, made of a message.
Value = Callable[[dict[str, Any]], bytes]


def payload_of(message: dict[str, Any]) -> bytes:
    """The payload itself."""
    payload: bytes = message[TEXT]
    return payload


@dataclass(slots=True)
class CollectedPlan:
    """The plan of a collector's log. Its only split has the name of the log; offsets are numbers of records."""

    log: CollectedLog
    metadata: tuple[str, ...] = ()
    value: Value = payload_of
    _until: int | None = field(default=None)

    @property
    def ddl(self) -> str:
        """The columns: those of lines, and the metadata."""
        return ", ".join([SCHEMA_DDL, *(f"{name} {METADATA_TYPES[name]}" for name in self.metadata)])

    def freeze(self) -> None:
        """What is collected from now on is left for the next run."""
        self._until = self.log.end()

    def next(self, start: Offsets, rows: int | None) -> Offsets:
        """Up to the end of the log, or `rows` records."""
        name = check_there(self.log, start)
        if name is None:
            return start
        begin = self.log.begin()
        at = start.get(name, Position(begin, begin))
        end = self.log.end() if self._until is None else self._until
        if end <= at.next:
            return start
        return {name: Position(at.first, end if rows is None else min(end, at.next + rows))}

    def read(self, split: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The messages of a range, checked against the plan."""
        if self.log.name() != split:
            raise records_lost(self.log.folder, start)
        found: list[dict[str, Any]] = []
        for number, line in self.log.records(start, end):
            found.append(facts_of(line, number=number))
            if len(found) == CHUNK:
                yield self._columns(split, number + 1 - len(found), found)
                found = []
        if found:
            yield self._columns(split, end - len(found), found)

    def committed(self, ends: Offsets) -> None:
        """The log is purged by its follower, which knows what has to stay."""

    def _columns(self, split: str, first: int, found: Sequence[dict[str, Any]]) -> pa.RecordBatch:
        numbers = pa.array(range(first, first + len(found)), pa.int64())
        values = [self.value(message) for message in found]
        lengths = pa.array(map(len, values), pa.int64())
        columns = [pa.array([split] * len(found)), numbers, numbers, lengths, pa.array(values, pa.binary())]
        kinds = [pa.field(name, ARROW[name]) for name in self.metadata]
        columns += [pa.array([message.get(kind.name) for message in found], kind.type) for kind in kinds]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema([*SCHEMA, *kinds]))


def check_there(log: CollectedLog, read: Offsets) -> str | None:
    """The name of the log, None if it has not begun; DataLossError if it lacks records that were not read."""
    name = log.name()
    if read and name not in read:
        raise records_lost(log.folder, next(iter(read.values())).next)
    for at in read.values():
        if not log.begin() <= at.next <= log.end():
            raise records_lost(log.folder, at.next)
    return name

"""The Spark sources `rs_redis_...`: entries of streams with their stream and the number of their id.

Each source has a format of its own, whose class carries the plan with its login to Spark's Python processes. Options:
`max_rows_per_batch`, and for batches `start` and `end`, two offsets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from rs_assets.common.errors_wire import wired
from rs_assets.connectors.redis.source.plan import StreamsPlan
from rs_assets.connectors.redis.source.streams import Offset, Offsets, dumped, loaded


def registered(spark: SparkSession, plan: StreamsPlan, *, key: str) -> str:
    """The format by which the session reads `plan`, made known to it; the same `key` gives the same format."""
    form = f"rs_redis_{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    spark.dataSource.register(type("RedisDataSource", (StreamsDataSource,), {"plan": plan, "form": form}))
    return form


class StreamsDataSource(DataSource):
    """The format of one source; see the module for its options."""

    plan: ClassVar[Any] = None
    form: ClassVar[str] = "rs_redis"

    @classmethod
    def name(cls) -> str:
        """The name that `format` takes."""
        return cls.form

    def schema(self) -> str:
        """That of lines: `line` and `offset` are the number of the id; and the fields of the entry."""
        return str(self.plan.ddl)

    def streamReader(self, schema: StructType) -> StreamsStreamReader:  # noqa: ARG002  Spark's signature
        """Follows the streams."""
        return StreamsStreamReader(self.plan, self.options)

    def reader(self, schema: StructType) -> StreamsReader:  # noqa: ARG002  Spark's signature
        """Reads between two offsets."""
        return StreamsReader(self.plan, self.options)


class EntriesPartition(InputPartition):
    """The entries of one stream between two offsets, for one task."""

    def __init__(self, stream: str, start: Offset, end: Offset) -> None:
        super().__init__((stream, start, end))
        self.stream, self.start, self.end = stream, start, end


class StreamsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans on the driver, reads on the workers; all that lasts is in the offsets."""

    def __init__(self, plan: StreamsPlan, options: Mapping[str, str]) -> None:
        self._plan = plan
        self._rows = options.get("max_rows_per_batch")

    def initialOffset(self) -> dict[str, object]:
        """No stream at all: where each begins is planned."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of `max_rows_per_batch`."""
        return ReadAllAvailable() if self._rows is None else ReadMaxRows(int(self._rows))

    def prepareForTriggerAvailableNow(self) -> None:
        """Leave entries that are added from now on to the next run."""
        with wired():
            self._plan.freeze()

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:
        """Where the next batch ends; equal to `start` if there is no new entry."""
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        with wired():
            return dumped(self._plan.next(loaded(start), rows))

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        """One for each stream with new entries."""
        return partitions_of(loaded(start), loaded(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The entries; DataLossError, in wire form, if they are not those that were planned."""
        return _read(self._plan, partition)


class StreamsReader(DataSourceReader):
    """Reads a range of entries again."""

    def __init__(self, plan: StreamsPlan, options: Mapping[str, str]) -> None:
        self._plan, self._ends = plan, (options["start"], options["end"])

    def partitions(self) -> Sequence[InputPartition]:
        """One for each stream with entries."""
        return partitions_of(*map(loaded, self._ends))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The entries, as in the stream."""
        return _read(self._plan, partition)


def partitions_of(start: Offsets, end: Offsets) -> list[InputPartition]:
    """The ranges between two offsets, for tasks; a stream that `start` lacks is read from where it began."""
    since = {stream: start.get(stream, at.first) for stream, at in end.items()}
    return [EntriesPartition(s, since[s], at) for s, at in end.items() if at.added > since[s].added]


def _read(plan: StreamsPlan, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    # Spark reads one nameless partition if a batch has none.
    if isinstance(partition, EntriesPartition):
        with wired():
            yield from plan.read(partition.stream, partition.start, partition.end)

"""The Spark sources `rs_own_...`: rows of a source in Python, with their split and offset, by its plan.

Each source has a format of its own, whose class carries the source to Spark's Python processes. Options:
`max_rows_per_batch`, and for batches `start` and `end`, two offsets.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from rs_assets.common.errors_wire import wired
from rs_assets.connectors.files.lines.spark_source import SCHEMA_DDL
from rs_assets.connectors.own.plan import NUMBERED, OffsetForm, SourcePlan, no_copy


def registered(
    spark: SparkSession,
    plan: SourcePlan[Any, Any],
    *,
    key: str,
    ddl: str = SCHEMA_DDL,
    offsets: OffsetForm[Any, Any] = NUMBERED,
) -> str:
    """The format by which the session reads `plan`, made known to it; the same `key` gives the same format.

    `ddl` are the columns of what `plan` reads: those of lines, and possibly more. `offsets` is the form of its offsets.

    ConfigurationError if the source cannot be sent to another process.
    """
    form = f"rs_own_{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    kind = type("OwnDataSource", (PlannedDataSource,), {"plan": plan, "form": form, "ddl": ddl, "offsets": offsets})
    try:
        spark.dataSource.register(kind)
    except Exception as error:
        raise no_copy(error) from error
    return form


class PlannedDataSource(DataSource):
    """The format of one source; see the module for its options."""

    plan: ClassVar[Any] = None
    form: ClassVar[str] = "rs_own"
    ddl: ClassVar[str] = SCHEMA_DDL
    offsets: ClassVar[OffsetForm[Any, Any]] = NUMBERED

    @classmethod
    def name(cls) -> str:
        """The name that `format` takes."""
        return cls.form

    def schema(self) -> str:
        """That of lines: `line` and `offset` are the row's number, `value` is the row."""
        return self.ddl

    def streamReader(self, schema: StructType) -> PlannedStreamReader:  # noqa: ARG002  Spark's signature
        """Follows the source."""
        return PlannedStreamReader(self.plan, self.offsets, self.options)

    def reader(self, schema: StructType) -> PlannedReader:  # noqa: ARG002  Spark's signature
        """Reads between two offsets."""
        return PlannedReader(self.plan, self.offsets, self.options)


class RangePartition(InputPartition):
    """A range of one split, for one task."""

    def __init__(self, split: str, start: Any, end: Any) -> None:
        super().__init__((split, start, end))
        self.split, self.start, self.end = split, start, end


class PlannedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans in one process on the driver, reads on the workers; all that lasts is in the offsets."""

    def __init__(self, plan: SourcePlan[Any, Any], offsets: OffsetForm[Any, Any], options: Mapping[str, str]) -> None:
        self._plan, self._offsets = plan, offsets
        self._rows = options.get("max_rows_per_batch")
        # What user code keeps while it plans, such as a connection, must not go to the workers.
        self._planning: SourcePlan[Any, Any] | None = copy.deepcopy(plan)

    def __getstate__(self) -> dict[str, object]:
        """What a worker gets."""
        return {**self.__dict__, "_planning": None}

    @property
    def _here(self) -> SourcePlan[Any, Any]:
        assert self._planning is not None  # only a worker has none, which does not plan
        return self._planning

    def initialOffset(self) -> dict[str, object]:
        """No split at all: everything there is lies ahead."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of `max_rows_per_batch`."""
        return ReadAllAvailable() if self._rows is None else ReadMaxRows(int(self._rows))

    def prepareForTriggerAvailableNow(self) -> None:
        """What is added from now on is left for the next run."""
        with wired():
            self._here.freeze()

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:
        """Where the next batch ends; equal to `start` if there is no new row."""
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        with wired():
            return self._offsets.dump(self._here.next(self._offsets.load(start), rows))

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        """One for each split with new rows."""
        return _partitions(self._offsets, start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows; DataLossError, on the wire, if they are not those that were planned."""
        return _read(self._plan, partition)

    def commit(self, end: dict[str, object]) -> None:
        """Let the source remove what it kept for these rows."""
        with wired():
            self._here.committed(self._offsets.load(end))


class PlannedReader(DataSourceReader):
    """Reads a range of rows again."""

    def __init__(self, plan: SourcePlan[Any, Any], offsets: OffsetForm[Any, Any], options: Mapping[str, str]) -> None:
        self._plan, self._offsets = plan, offsets
        self._ends = options["start"], options["end"]

    def partitions(self) -> Sequence[InputPartition]:
        """One for each split with rows."""
        return _partitions(self._offsets, *self._ends)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows, as in the stream."""
        return _read(self._plan, partition)


def _partitions(
    offsets: OffsetForm[Any, Any], start: Mapping[str, object] | str, end: Mapping[str, object] | str
) -> list[InputPartition]:
    between = offsets.ranges(offsets.load(start), offsets.load(end))
    return [RangePartition(split, *bounds) for split, bounds in between.items()]


def _read(plan: SourcePlan[Any, Any], partition: InputPartition) -> Iterator[pa.RecordBatch]:
    # Spark reads one partition without a name where a batch has none.
    if isinstance(partition, RangePartition):
        with wired():
            yield from plan.read(partition.split, partition.start, partition.end)

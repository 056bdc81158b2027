"""The Spark source `rs_lines`: lines of growing files with their split, number and byte position.

    register(spark)
    spark.readStream.format("rs_lines").option("path", "/logs").load()
    spark.read.format("rs_lines").option("ranges", json.dumps(ranges_between(start, end))).load()

Options: `path` (file, directory or glob), `max_rows_per_batch`, `max_line_bytes`, `final_line` (wait or deliver), and
for batches `ranges` instead of a path. With `records`, a JSON list of the selected columns of a CSV file with a header
(`null` if it has none), there are two more columns: see `lines.records`. Spark's Python workers import the module
under this name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from rs_assets.common.errors_wire import wired
from rs_assets.connectors.files.lines.offsets import LineRange, dump_offsets, load_offsets, ranges_between
from rs_assets.connectors.files.lines.planner import FinalLine, Planner
from rs_assets.connectors.files.lines.reading import MAX_LINE_BYTES, cut_range, read_range
from rs_assets.connectors.files.lines.records import FAULT, RECORD, read_records
from rs_assets.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = "rs_lines"
SCHEMA_DDL = "split string, line long, offset long, length long, value binary"
RECORDS_DDL = f"{SCHEMA_DDL}, {RECORD} binary, {FAULT} string"


def register(spark: SparkSession) -> None:
    """Register the format `rs_lines` with the session; may be repeated."""
    spark.dataSource.register(LinesDataSource)


class LinesDataSource(DataSource):
    """The format `rs_lines`; see the module for its options."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return FORMAT

    def schema(self) -> str:
        """One row per line; `offset` and `length` address the value's bytes in the (decompressed) file."""
        return RECORDS_DDL if "records" in self.options else SCHEMA_DDL

    def streamReader(self, schema: StructType) -> LinesStreamReader:  # noqa: ARG002  Spark's signature
        """Follows a path; raises ConfigurationError, in wire form, for invalid options."""
        with wired():
            return LinesStreamReader(self.options)

    def reader(self, schema: StructType) -> LinesReader:  # noqa: ARG002  Spark's signature
        """Reads the option `ranges`, or the whole content of a path, including the last line."""
        with wired():
            return LinesReader(self.options)


class LinesPartition(InputPartition):
    """A range of lines for one task."""

    def __init__(self, planned: LineRange) -> None:
        super().__init__(planned)
        self.planned = planned


class LinesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans on the driver, reads on the workers; all state is in the offsets."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._path = _path(options)
        self._max_rows = _positive(options, "max_rows_per_batch")
        self._read = partial(_read, _rows(options))
        self._planner = Planner(self._path, final_line=_final_line(options))
        self._planned: Mapping[str, object] = dump_offsets({})

    def initialOffset(self) -> dict[str, object]:
        """No splits: everything is still to be read."""
        return dump_offsets({})

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of `max_rows_per_batch`, counted in lines."""
        return ReadAllAvailable() if self._max_rows is None else ReadMaxRows(self._max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        """Leave everything that is written from now on to the next run."""
        with wired():
            self._planner.freeze()

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:
        """The end of the next batch; equal to `start` if there is no new complete line."""
        with wired():
            rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            end = dump_offsets(self._planner.plan(load_offsets(start), max_rows=rows))
            self._planned = end
            return end

    def reportLatestOffset(self) -> dict[str, object] | None:
        """The current end of the files, for the lag; see `Planner.reach` for its precision."""
        with wired():
            return dump_offsets(self._planner.reach(load_offsets(self._planned)))

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        """One partition per split with new lines; long ranges of plain files are cut between lines."""
        with wired():
            return _partitions([LineRange.load(planned) for planned in ranges_between(start, end)])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range; DataLossError or SourceReadError, in wire form, instead of fewer rows."""
        return self._read(partition)


class LinesReader(DataSourceReader):
    """Reads given ranges again, or a path once."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._ranges = _ranges(options)
        self._path = None if self._ranges is not None else _path(options)
        self._read = partial(_read, _rows(options))

    def partitions(self) -> Sequence[InputPartition]:
        """One partition per range, long ones cut between lines."""
        with wired():
            if self._path is not None:
                everything = dump_offsets(Planner(self._path, final_line=FinalLine.DELIVER).plan({}))
                return _partitions([LineRange.load(planned) for planned in ranges_between(None, everything)])
            return _partitions(self._ranges or [])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range, as in the stream."""
        return self._read(partition)


def _partitions(ranges: list[LineRange]) -> list[InputPartition]:
    return [LinesPartition(part) for planned in ranges for part in cut_range(planned)]


def _read(rows: Callable[[LineRange], Iterator[pa.RecordBatch]], partition: InputPartition) -> Iterator[pa.RecordBatch]:
    # Spark reads one nameless partition if a batch has none.
    if isinstance(partition, LinesPartition):
        with wired():
            yield from rows(partition.planned)


def _rows(options: Mapping[str, str]) -> Callable[[LineRange], Iterator[pa.RecordBatch]]:
    """The function that turns a range into rows: its lines, or the records of CSV."""
    cap = _positive(options, "max_line_bytes") or MAX_LINE_BYTES
    if "records" not in options:
        return partial(read_range, max_line_bytes=cap)
    between = options.get("delimiter", ",")
    return partial(read_records, names=json.loads(options["records"]), max_line_bytes=cap, delimiter=between)


def _path(options: Mapping[str, str]) -> str:
    path = (options.get("path") or "").removeprefix("file://")
    if not path or "://" in path:
        raise ConfigurationError(
            f"{path!r} is not a path that lines can be read from", remedy="set the option path to a local path"
        )
    return path


def _positive(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise ConfigurationError(f"the option {name} is {text!r}", remedy="use a whole number above 0", option=name)
    return int(text)


def _final_line(options: Mapping[str, str]) -> FinalLine:
    text = options.get("final_line", FinalLine.WAIT.value)
    try:
        return FinalLine(text)
    except ValueError:
        raise ConfigurationError(f"the option final_line is {text!r}", remedy="use 'wait' or 'deliver'") from None


def _ranges(options: Mapping[str, str]) -> list[LineRange] | None:
    text = options.get("ranges")
    if text is None:
        return None
    try:
        items = json.loads(text)
        return [LineRange.load(item) for item in items]
    except (ValueError, TypeError, AttributeError):
        raise ConfigurationError(
            f"the option ranges is not a JSON list of ranges: {text:.200}", remedy="use the output of ranges_between"
        ) from None

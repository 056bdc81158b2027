"""The source of a collector's log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rs_assets.common.home import Home
from rs_assets.connectors.collector.beside import CollectingWatch
from rs_assets.connectors.collector.collecting import Collector
from rs_assets.connectors.collector.log import CollectedLog
from rs_assets.connectors.collector.messages import TEXT, facts_of
from rs_assets.connectors.collector.nodes import FIXED, CollectedSource
from rs_assets.connectors.collector.plan import CollectedPlan, Value, check_there, payload_of
from rs_assets.connectors.collector.purging import LogPurge
from rs_assets.connectors.files.lines.records import FAULT, RECORD
from rs_assets.connectors.files.parse import LineFormat, address_of, parse_lines
from rs_assets.connectors.infer import json_schema
from rs_assets.connectors.own.plan import Plan, loaded
from rs_assets.connectors.own.reader import NumberedReader
from rs_assets.connectors.own.spark_source import registered
from rs_assets.connectors.source import Ends, Follower, Known, Lag, Reading, Start, Watch, Watching, sealed_error
from rs_assets.records.columns import REASON

# How many messages a schema is inferred from.
SAMPLE: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedReader(NumberedReader):
    """Exactly once from the log; how a message comes into the log depends on its system.

    `prefix` begins the fields of `metadata`. `collector` runs in parallel with a query if no other process collects;
    None if that must be another process.
    """

    prefix: str
    folder: Path
    form: LineFormat
    declared: StructType | None = None
    metadata: tuple[str, ...] = ()
    value: Value = payload_of
    keep: timedelta
    collector: Collector | None = None

    def plan(self, folder: Path) -> Plan:  # noqa: ARG002  the log has a place of its own
        """A plan of the log."""
        return self._plan()

    def check(self, start: Start) -> Known:
        """The log must be the one that was read, with all records that were not read."""
        log = CollectedLog(self.folder)
        for each in start.logs:
            read = loaded(each.committed)
            name = check_there(log, read)
            if start.sealed and name is not None and log.end() > (read[name].next if read else log.begin()):
                raise sealed_error(self.name)
        return start.known

    def watch(self, watching: Watching) -> Watch:  # noqa: ARG002  the log guards itself
        """Collects in parallel with the query, if no other process does."""
        return CollectingWatch(self.folder, self.collector)

    def follower(self) -> Follower:
        """Removes segments that were read."""
        return LogPurge(self.folder, self.keep)

    def ends(self, patience: timedelta) -> Ends:  # noqa: ARG002  a look at the disk
        """The number of the next record."""
        log = CollectedLog(self.folder)
        name = log.name()
        return {name: log.end()} if name is not None else {}

    def lag(self, offset: str | None, patience: timedelta) -> Lag:  # noqa: ARG002  a look at the disk
        """The records that were not read."""
        log, read = CollectedLog(self.folder), loaded(offset)
        return Lag(records=max(0, log.end() - next((at.next for at in read.values()), log.begin())))

    def _plan(self) -> CollectedPlan:
        return CollectedPlan(CollectedLog(self.folder), self.metadata, self.value)

    def _registered(self, reading: Reading) -> str:
        plan = self._plan()
        return registered(reading.spark, plan, key=f"{reading.folder}/{reading.name}", ddl=plan.ddl)

    def _schema(self, reading: Reading) -> StructType:
        if self.declared is not None:
            return self.declared
        return reading.schema_of(
            lambda: json_schema(reading.spark, [*self._sample()], step=self.name, where="its log has")
        )

    def _sample(self) -> Iterator[str]:
        log = CollectedLog(self.folder)
        begin = log.begin()
        for number, line in islice(log.records(begin, log.end()), SAMPLE):
            yield facts_of(line, number=number)[TEXT].decode(errors="replace")

    def _parsed(self, lines: DataFrame, schema: StructType, *, addressed: bool) -> DataFrame:
        extra = [F.col(name).alias(f"{self.prefix}_{name}") for name in self.metadata]
        if self.form.format == "raw":
            address = address_of(F.col("value").cast("string")) if addressed else ()
            return lines.select("value", *extra, F.lit(None).cast("string").alias(REASON), *address)
        form = LineFormat(
            self.form.format,
            schema=schema if self.form.format != "text" or self.form.pattern else None,
            pattern=self.form.pattern,
            time_format=self.form.time_format,
            header=False,
            delimiter=self.form.delimiter,
        )
        if form.format == "csv":
            lines = lines.withColumn(RECORD, F.lit(None).cast("binary")).withColumn(FAULT, F.lit(None).cast("string"))
        return parse_lines(lines, form, extra=extra, addressed=addressed)


def reader_of(node: CollectedSource, home: Home, collector: Collector, *, value: Value = payload_of) -> CollectedReader:
    """The reader of a source; `value` makes what is parsed of a message."""
    fixed = node.pattern is None and node.format in FIXED
    return CollectedReader(
        name=node.name,
        max_rows_per_batch=node.max_rows_per_batch,
        prefix=node.prefix,
        folder=node.folder(home),
        form=LineFormat(node.format, pattern=node.pattern, time_format=node.time_format, delimiter=node.delimiter),
        declared=StructType.fromDDL(FIXED[node.format]) if fixed else None,  # type: ignore[arg-type]  # a list of fields
        metadata=node.metadata,
        value=value,
        keep=node.keep,
        collector=collector if node.collect else None,
    )

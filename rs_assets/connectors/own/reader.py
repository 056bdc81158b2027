"""The reader of a user-defined source with splits and numbered rows."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import NoReturn, TypeVar

import orjson
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rs_assets.checkpoint.source_log import SourceBatch
from rs_assets.connectors.files.parse import LineFormat, parse_lines
from rs_assets.connectors.own.plan import Plan, dumped, loaded, no_copy
from rs_assets.connectors.own.spark_source import registered
from rs_assets.connectors.source import Positions, Reading
from rs_assets.errors import SchemaError, SourceReadError
from rs_assets.records.columns import REASON

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedReader:
    """Exactly once, for rows that have a number in their split and can be read again by it.

    Subclasses say what a plan of the source is, and what must be true before a run.
    """

    name: str
    max_rows_per_batch: int | None = None

    def plan(self, folder: Path) -> Plan:
        """A plan of the source; `folder` is one of its own, below that of the query."""
        raise NotImplementedError

    def stream(self, reading: Reading) -> DataFrame:
        """The rows that are there and those that will be added."""
        schema, form = self._schema(reading), self._registered(reading)
        reader = reading.spark.readStream.name(reading.name).format(form)
        if self.max_rows_per_batch is not None:
            reader = reader.option("max_rows_per_batch", self.max_rows_per_batch)
        return self._parsed(reader.load(), schema, addressed=reading.positioned)

    def batch(self, reading: Reading, batch: SourceBatch) -> DataFrame:
        """The rows between the offsets of a batch; the line is the row's number."""
        schema, form = self._schema(reading), self._registered(reading)
        start, end = (orjson.dumps(dumped(loaded(text))).decode() for text in (batch.start, batch.end))
        lines = reading.spark.read.format(form).option("start", start).option("end", end).load()
        return self._parsed(lines, schema, addressed=True)

    @property
    def positioned(self) -> bool:
        """True: a row has its split, and its number is its position."""
        return True

    def splits(self, batch: SourceBatch) -> Positions:
        """The number of the next row of each split."""
        return {split: str(at.next) for split, at in loaded(batch.end).items()}

    def _registered(self, reading: Reading) -> str:
        plan = self.plan(reading.folder / "own" / reading.name)
        return registered(reading.spark, plan, key=f"{reading.folder}/{reading.name}")

    def _schema(self, reading: Reading) -> StructType:
        return reading.schema_of(self._no_schema)

    def _no_schema(self) -> NoReturn:
        raise no_schema(self.name)

    def _parsed(self, lines: DataFrame, schema: StructType, *, addressed: bool) -> DataFrame:
        """The fields of the values that were read, and REASON; with `addressed` their ADDRESS."""
        rows = parse_lines(lines, LineFormat("json", schema=schema), addressed=addressed)
        reason = F.when(F.col(REASON) == "malformed JSON", F.lit("not a JSON object with values of its fields' types"))
        return rows.withColumn(REASON, F.coalesce(reason, F.col(REASON)))


def no_schema(step: str) -> SchemaError:
    """The error for a user-defined source whose fields are not declared."""
    return SchemaError(
        f"step {step!r}: the source does not declare its fields",
        remedy="pass schema='page string, ms bigint', or let the class have an attribute schema",
        step=step,
    )


def fresh(source: T) -> T:
    """The source as it was given: what its methods keep in it does not pass from one use to another.

    ConfigurationError if it cannot be copied.
    """
    try:
        return copy.deepcopy(source)
    except Exception as error:
        raise no_copy(error) from error


def within(patience: timedelta, call: Callable[[], T], *, step: str) -> T:
    """What `call` returns; SourceReadError if that takes longer than `patience`."""
    found: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            found.append(call())
        except BaseException as error:  # noqa: BLE001  raised again by who waits
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True, name=f"rs-ask-{step}")
    thread.start()
    thread.join(patience.total_seconds())
    if failed:
        raise failed[0]
    if not found:
        raise SourceReadError(
            f"the source {step!r} has not answered within {patience.total_seconds():g} s",
            remedy="see that its system answers",
        )
    return found[0]

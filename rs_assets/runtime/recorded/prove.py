"""Proof: the closed partitions of an output equal what one batch over the recorded input computes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, FloatType, MapType, VariantType

from rs_assets.catalog.ledger import SCHEMA, Ledger
from rs_assets.operators.window.durations import EPOCH
from rs_assets.operators.window.spec import HoppingWindow, TumblingWindow
from rs_assets.records.schema import quoted
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.recorded.closed import as_streamed, named_or
from rs_assets.runtime.recorded.equation import TERMS, Accounts, Equation
from rs_assets.runtime.recorded.partitions import Partition, parted, partitions_of
from rs_assets.runtime.recorded.recompute import Recompute, Way, Written
from rs_assets.runtime.recorded.recorded import Recorded
from rs_assets.topology.topology import Topology

# How many differing rows are shown.
SHOWN: Final = 20
# Sums of floating-point numbers depend on the order of rows: they are compared to so many digits after the first.
DIGITS: Final = "%.11e"
NOT_COUNTED: Final = "its records are not accounted for: they have passed a join, or several steps with state"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A partition, whether its rows are those of one batch over its `batches`, and what became of all records there.

    The digests are sums of the rows' hashes. `only_stream` and `only_batch` are the first rows, as JSON, that only the
    table, or only the batch has. `records` is None after a join or several steps with state: a record is in rows of
    several partitions there, or in those that others made.
    """

    partition: str
    equal: bool
    batches: int
    version: int
    rows_stream: int
    rows_batch: int
    digest_stream: str
    digest_batch: str
    records: Equation | None
    only_stream: tuple[str, ...] = ()
    only_batch: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the rows are equal, each record is accounted for, and the stream has counted the same records."""
        return self.equal and (self.records is None or self.records.holds)

    def as_dict(self) -> dict[str, Any]:
        """All of it, as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        """A line, one for each row that differs, and the equation."""
        equation = [f"  {line}" for line in str(self.records or NOT_COUNTED).splitlines()]
        if self.equal:
            head = f"{self.partition}: {self.rows_stream:,} rows equal one batch over {self.batches:,} batches"
            return "\n".join([head, *equation])
        head = f"{self.partition}: {self.rows_stream:,} rows in the table, {self.rows_batch:,} by one batch"
        rows = [f"  only in the table: {row}" for row in self.only_stream]
        return "\n".join([head, *rows, *(f"  only by the batch: {row}" for row in self.only_batch), *equation])


def prove(
    topology: Topology,
    options: RunOptions | None = None,
    *,
    partition: str | None = None,
    to: str | None = None,
    sink: str | None = None,
    newest: int = 24,
) -> tuple[Proof, ...]:
    """Compare closed partitions of an output with one batch over the recorded input, and note each in the ledger.

    Those from `partition` `to` another one; without a name the `newest` that the ledger does not know as equal with as
    many rows as they have now. Errors as of a backfill.
    """
    options = options or RunOptions()
    way, ledger = Way.to(topology, *parted(topology, sink)), Ledger(options.home.catalog, topology.name)
    recorded = Recorded.of(topology, options)
    unproved = partial(_unproved, recorded, options, way, ledger, newest)
    chosen = named_or(unproved, topology, options, way, first=partition, last=to)

    def proved(spark: SparkSession) -> tuple[Proof, ...]:
        computing = as_streamed(spark, recorded, way, chosen)
        values = [each.value for each in computing]
        accounts = Accounts(computing[0].query, way, values) if way.counted else None
        return tuple(_proved(each, accounts, ledger) for each in computing)

    return recorded.on_driver(proved) if chosen else ()


def _unproved(recorded: Recorded, options: RunOptions, way: Way, ledger: Ledger, newest: int) -> Sequence[Partition]:
    """The newest closed partitions without a proof of the rows that they have now."""
    known = {entry["start"]: entry for entry in ledger.entries() if entry["sink"] == way.sink.name}
    # Those of earlier releases have no equation.
    held = {start: entry for start, entry in known.items() if entry["equal"] and entry["accounted"] is not False}
    proved = {start: entry["rows_stream"] for start, entry in held.items()}
    topology, sink = way.topology, way.sink.name
    closed = list(partitions_of(topology, options, sink=sink).closed)
    # Partitions of which all rows are gone, before the first one with rows.
    begun = _begun(recorded, way)
    lost = min((*known, *(() if begun is None else (begun,))), default=None)
    if lost is not None and (not closed or lost < closed[0].start):
        span = way.partitions.value_of(lost), way.partitions.value_of(closed[-1].start if closed else lost)
        closed = list(partitions_of(topology, options, sink=sink, span=span).closed)
    return [each for each in closed if proved.get(each.start) != each.rows][-newest:]


def _begun(recorded: Recorded, way: Way) -> datetime | None:
    """The start of the first partition with windows that were open when records of a batch came into them.

    By the event times in the catalog; None if they do not say it.
    """
    kind = way.window.window if way.window is not None else None
    if way.window is None or not isinstance(kind, TumblingWindow | HoppingWindow):
        return None
    plan = recorded.plan_of(way.sink.name)
    log, known = recorded.log(plan), recorded.times(plan, way.window.name).known
    offsets = filter(None, map(log.offsets, {*log.committed_batches(), *log.older}))
    came = ((known.get((each.batch_id, each.started)), each.watermark) for each in offsets)
    at = min((max(times.least, watermark) for times, watermark in came if times is not None), default=None)
    if at is None:
        return None
    passed = (at - EPOCH - kind.offset) % kind.slide
    start = at - passed - (kind.size - passed - timedelta.resolution) // kind.slide * kind.slide
    edges = {"start_time": start, "end_time": start + kind.size}
    edge = edges.get(way.partitions.field, start + kind.size + way.window.delay)
    return way.partitions.start(way.partitions.value_of(edge))


def _proved(made: Recompute, accounts: Accounts | None, ledger: Ledger) -> Proof:
    written = Written.by(made.query, made.way.sink)
    batches = made.batches(written.mark.batch_id)
    with made.reading(batches) as folder:
        batch = comparable(made.rows(batches, folder))
        stream = comparable(stored_rows(made, written.path, written.table).select(*map(quoted, batch.columns)))
        (rows_stream, digest_stream), (rows_batch, digest_batch) = map(_digest, (stream, batch))
        equal = (rows_stream, digest_stream) == (rows_batch, digest_batch)
        ways = () if equal else ((stream, batch), (batch, stream))
        only = tuple(tuple(row[0] for row in _beyond(one, other)) for one, other in ways) or ((), ())
        records = accounts.equation(made, batches) if accounts is not None else None
    proof = Proof(
        partition=made.partition.key,
        equal=equal,
        batches=len(batches),
        version=written.table.version(),
        rows_stream=rows_stream,
        rows_batch=rows_batch,
        digest_stream=digest_stream,
        digest_batch=digest_batch,
        records=records,
        only_stream=only[0],
        only_batch=only[1],
    )
    ledger.add(_entry(made, proof, written))
    return proof


def _entry(made: Recompute, proof: Proof, written: Written) -> Mapping[str, Any]:
    noted = {name: value for name, value in proof.as_dict().items() if name in SCHEMA.names}
    return {
        **noted,
        **(_terms(proof.records) if proof.records is not None else {}),
        "sink": made.way.sink.name,
        "start": made.partition.start,
        "generation": written.mark.generation,
        "batch_id": written.mark.batch_id,
        "code": made.way.topology.code,
    }


def _terms(records: Equation) -> Mapping[str, Any]:
    """The equation as columns of the ledger."""
    return {
        "rows_in": records.rows_in,
        **{f"rows_{name}": getattr(records, name) for name in (*TERMS, "unaccounted")},
        "filtered_by": json.dumps(dict(records.filtered_by), sort_keys=True),
        "batches_counted": records.counted,
        "miscounted": json.dumps(records.miscounted),
        "accounted": records.holds,
    }


def stored_rows(made: Recompute, path: str, table: DeltaTable) -> DataFrame:
    """The rows of the partition in the version that was read."""
    rows = made.spark.read.format("delta").option("versionAsOf", table.version()).load(path)
    return rows.filter(F.col(quoted(made.way.partitions.column)) == F.lit(made.value))


def comparable(rows: DataFrame) -> DataFrame:
    """The rows with values that are equal, and have equal hashes, where two computations give the same."""
    return rows.select(*(_same(rows[quoted(each.name)], each.dataType).alias(each.name) for each in rows.schema))


def _same(column: Column, kind: DataType) -> Column:
    if isinstance(kind, DoubleType | FloatType):
        return F.format_string(DIGITS, column.cast("double"))
    return F.to_json(column) if isinstance(kind, MapType | VariantType) else column


def _digest(rows: DataFrame) -> tuple[int, str]:
    """The number of rows, and the sum of their hashes."""
    hashes = F.xxhash64(*(F.col(quoted(name)) for name in rows.columns)).cast("decimal(38,0)")
    found = rows.agg(F.count(F.lit(1)), F.sum(hashes)).head()
    assert found is not None  # noqa: S101  without groups there is one row
    return found[0], str(found[1] or 0)


def _beyond(one: DataFrame, other: DataFrame) -> Sequence[Any]:
    """The first rows of one frame that the other does not have, as JSON."""
    return one.exceptAll(other).select(F.to_json(F.struct("*"))).limit(SHOWN).collect()

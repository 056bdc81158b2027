"""Proof: the closed partitions of an output equal what the recorded input gives, in one batch or as a stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, Literal

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rs_assets.catalog.ledger import SCHEMA, Ledger
from rs_assets.common.plural import count_of
from rs_assets.connectors.delta.log.store import rows_at
from rs_assets.errors import TopologyChangedError
from rs_assets.operators.window.durations import EPOCH
from rs_assets.operators.window.spec import HoppingWindow, TumblingWindow
from rs_assets.records.schema import quoted
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.recorded.closed import as_streamed, named_or
from rs_assets.runtime.recorded.digest import comparable, hashed
from rs_assets.runtime.recorded.equation import TERMS, Accounts, Equation
from rs_assets.runtime.recorded.partitions import Partition, filled_by, parted, partitions_of
from rs_assets.runtime.recorded.recompute import Recompute, Way, Written, within
from rs_assets.runtime.recorded.recorded import Recorded
from rs_assets.runtime.recorded.streamed import refuse_streamed, streamed_table
from rs_assets.runtime.upkeep.returns import valid_batches
from rs_assets.topology.topology import Topology

# How many differing rows are shown.
SHOWN: Final = 20
NOT_COUNTED: Final = "its records are not accounted for: they have passed a join, a session, or several states"
CHANGED: Final = "  the code has changed since some of these batches: the table may have the rows of the former code"
Method = Literal["batch", "stream"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A partition, whether its rows are those of its `batches`, and what became of all records there.

    `method`: "batch" if they were computed again as one batch, "stream" if they went through the code as a stream.
    The digests are sums of the rows' hashes. `only_stream` and `only_batch` are the first rows, as JSON, that only the
    table, or only the batch has. `records` is None for a stream, after a join and after several steps with state: a
    record is in rows of several partitions there, or in those that others made. `left_out` are columns of the table
    that the current code does not make. `code_changed`: other code has computed some of the batches.
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
    method: Method = "batch"
    left_out: tuple[str, ...] = ()
    code_changed: bool = False

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
        if self.left_out:
            equation.insert(0, f"  not compared, as the current code does not make it: {', '.join(self.left_out)}")
        if self.code_changed and not self.equal:
            equation.insert(0, CHANGED)
        if self.equal:
            made = "one batch over" if self.method == "batch" else "a stream of"
            proven, batches = count_of(self.rows_stream, "row"), count_of(self.batches, "batch")
            head = f"{self.partition}: {proven}, equal to {made} {batches}"
            return "\n".join([head, *equation])
        made = "one batch" if self.method == "batch" else "a stream"
        head = f"{self.partition}: {count_of(self.rows_stream, 'row')} in the table, {self.rows_batch:,} by {made}"
        rows = [f"  only in the table: {row}" for row in self.only_stream]
        return "\n".join([head, *rows, *(f"  only by the {self.method}: {row}" for row in self.only_batch), *equation])


def prove(
    topology: Topology,
    options: RunOptions | None = None,
    *,
    partition: str | None = None,
    to: str | None = None,
    sink: str | None = None,
    newest: int = 24,
) -> tuple[Proof, ...]:
    """Compare closed partitions of an output with what the recorded input gives, and note each in the ledger.

    Those from `partition` `to` another one; without a name the `newest` that the ledger does not know as equal with as
    many rows as they have now. Rows without a batch form are computed as a stream. Errors as of a try.
    """
    options = RunOptions.of(options)
    node, partitions = parted(topology, sink)
    in_batch = Way.fits(topology, node)
    if not in_batch:
        refuse_streamed(topology, node)
    way = (Way.to if in_batch else Way.as_stream)(topology, node, partitions)
    recorded, ledger = Recorded.of(topology, options), Ledger(options.home.catalog, topology.name)
    unproved = partial(_unproved, recorded, options, way, ledger, newest)
    chosen = named_or(unproved, topology, options, way, first=partition, last=to)
    proving = partial(_in_batches if in_batch else _as_stream, recorded, way, chosen, ledger)
    return recorded.on_driver(proving) if chosen else ()


def _in_batches(
    recorded: Recorded, way: Way, chosen: Sequence[Partition], ledger: Ledger, spark: SparkSession
) -> tuple[Proof, ...]:
    computing = as_streamed(spark, recorded, way, chosen)
    values = [each.value for each in computing]
    accounts = Accounts(computing[0].query, way, values) if way.counted else None
    return tuple(_proved(each, accounts, ledger) for each in computing)


def _as_stream(
    recorded: Recorded, way: Way, chosen: Sequence[Partition], ledger: Ledger, spark: SparkSession
) -> tuple[Proof, ...]:
    with streamed_table(spark, recorded, way.sink, chosen) as tables:
        made, stored, left_out = _alike(way, tables.made, tables.stored)
        changed = _code_changed(recorded, way, tables.batches)
        found = [_facts(*(within(rows, way.partitions, each) for rows in (stored, made))) for each in chosen]
    version, batches = tables.written.table.version(), len(tables.batches)
    proofs = [
        Proof(
            partition=each.key,
            batches=batches,
            version=version,
            records=None,
            method="stream",
            left_out=left_out,
            code_changed=changed,
            **facts,
        )
        for each, facts in zip(chosen, found, strict=True)
    ]
    for each, proof in zip(chosen, proofs, strict=True):
        ledger.add(_entry(way, each, proof, tables.written))
    return tuple(proofs)


def _unproved(recorded: Recorded, options: RunOptions, way: Way, ledger: Ledger, newest: int) -> Sequence[Partition]:
    """The newest closed partitions without a proof of the rows that they have now."""
    topology, sink = way.topology, way.sink.name
    stands = _standing(recorded, way)
    known = {entry["start"]: entry for entry in ledger.entries() if entry["sink"] == way.sink.name}
    # Those of earlier releases have no equation.
    held = {start: entry for start, entry in known.items() if entry["equal"] and entry["accounted"] is not False}
    proved = {start: entry["rows_stream"] for start, entry in held.items() if stands(start, entry)}
    closed = list(partitions_of(topology, options, sink=sink).closed)
    # Partitions of which all rows are gone, before the first one with rows.
    begun = _begun(recorded, way)
    lost = min((*known, *(() if begun is None else (begun,))), default=None)
    if lost is not None and (not closed or lost < closed[0].start):
        span = way.partitions.value_of(lost), way.partitions.value_of(closed[-1].start if closed else lost)
        closed = list(partitions_of(topology, options, sink=sink, span=span).closed)
    return [each for each in closed if proved.get(each.start) != each.rows][-newest:]


def _standing(recorded: Recorded, way: Way) -> Callable[[datetime, Mapping[str, Any]], bool]:
    """Whether the rows that a proof of the partition with a start has seen were not replaced since.

    A backfill has replaced them, and so has what went back to an earlier batch, or began a new generation.
    """
    session, plan, sink = recorded.session, recorded.plan_of(way.sink.name), way.sink.name
    filled = filled_by(plan, sink, session.manifest, session.catalog, pipeline=way.topology.name)
    valid = valid_batches(session.manifest, plan) or {}

    def stands(start: datetime, entry: Mapping[str, Any]) -> bool:
        replaced = filled[start]["version"] if start in filled else -1
        return bool(entry["batch_id"] <= valid.get(entry["generation"], -1) and replaced <= entry["version"])

    return stands


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
        stored = stored_rows(made, written.path, written.table)
        batch, stream, left_out = _alike(made.way, made.rows(batches, folder), stored)
        facts = _facts(stream, batch)
        records = accounts.equation(made, batches) if accounts is not None else None
    version, key = written.table.version(), made.partition.key
    proof = Proof(
        partition=key,
        batches=len(batches),
        version=version,
        records=records,
        left_out=left_out,
        code_changed=_code_changed(made.query.recorded, made.way, batches),
        **facts,
    )
    ledger.add(_entry(made.way, made.partition, proof, written))
    return proof


def _alike(way: Way, made: DataFrame, stored: DataFrame) -> tuple[DataFrame, DataFrame, tuple[str, ...]]:
    """Both sides with the columns of the current code, and the other columns of the table.

    TopologyChangedError if the table lacks some of them, or has them as other types.
    """
    # Not whether they may be null, which the table does not keep.
    there = {each.name: each.dataType.simpleString() for each in stored.schema}
    otherwise = [each.name for each in made.schema if there.get(each.name) != each.dataType.simpleString()]
    if otherwise:
        raise TopologyChangedError(
            f"the current code makes columns that the table lacks, or has as another type: {', '.join(otherwise)}",
            remedy="prove with the code that has written the table; what the current code would change is shown by"
            " rs-assets try",
            step=way.sink.name,
        )
    others = tuple(name for name in there if name not in made.columns)
    return comparable(made), comparable(stored.select(*map(quoted, made.columns))), others


def _code_changed(recorded: Recorded, way: Way, batches: Sequence[int]) -> bool:
    plan = recorded.plan_of(way.sink.name)
    return any(recorded.code_changed(plan, batch) for batch in batches)


def _facts(stream: DataFrame, batch: DataFrame) -> dict[str, Any]:
    """Of the rows in the table and those that the records give: counts, digests, and the first of one side alone."""
    (rows_stream, digest_stream), (rows_batch, digest_batch) = map(_digest, (stream, batch))
    equal = (rows_stream, digest_stream) == (rows_batch, digest_batch)
    ways = () if equal else ((stream, batch), (batch, stream))
    only = tuple(tuple(row[0] for row in _beyond(one, other)) for one, other in ways) or ((), ())
    return {
        "equal": equal,
        "rows_stream": rows_stream,
        "rows_batch": rows_batch,
        "digest_stream": digest_stream,
        "digest_batch": digest_batch,
        "only_stream": only[0],
        "only_batch": only[1],
    }


def _entry(way: Way, partition: Partition, proof: Proof, written: Written) -> Mapping[str, Any]:
    noted = {name: value for name, value in proof.as_dict().items() if name in SCHEMA.names}
    return {
        **noted,
        **(_terms(proof.records) if proof.records is not None else {}),
        "sink": way.sink.name,
        "start": partition.start,
        "generation": written.mark.generation,
        "batch_id": written.mark.batch_id,
        "code": way.topology.code,
        # That of earlier releases, which entries do not have.
        "method": None if proof.method == "batch" else proof.method,
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
    """The rows of the partitions in the version that was read."""
    return within(rows_at(made.spark, path, table.version()), made.way.partitions, *made.partitions)


def _digest(rows: DataFrame) -> tuple[int, str]:
    """The number of rows, and the sum of their hashes."""
    hashes = F.xxhash64(*(part for each in rows.schema for part in hashed(each))).cast("decimal(38,0)")
    found = rows.agg(F.count(F.lit(1)), F.sum(hashes)).head()
    assert found is not None  # without groups there is one row
    return found[0], str(found[1] or 0)


def _beyond(one: DataFrame, other: DataFrame) -> Sequence[Any]:
    """The first rows of one frame that the other does not have, as JSON."""
    return one.exceptAll(other).select(F.to_json(F.struct("*"))).limit(SHOWN).collect()

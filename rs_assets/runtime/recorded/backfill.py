"""Backfill: the recorded batches of a partition are read again, and its rows replaced, while the stream runs on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

from pyspark.sql import SparkSession

from rs_assets.catalog.catalog import Row, operation
from rs_assets.common.plural import count_of
from rs_assets.connectors.delta.backfill import Replacement
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import ConfigurationError
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.recorded.closed import closed_between, late_taken
from rs_assets.runtime.recorded.partitions import BACKFILL, Partition, parted
from rs_assets.runtime.recorded.recompute import Recompute, Way, Written
from rs_assets.runtime.recorded.recorded import Recorded
from rs_assets.topology.topology import Topology

Judge = Literal["all", "as_then", "as_now"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfilled:
    """A partition that was replaced, or would be: its rows before and after, and the batches that were read again.

    `version` of the table has the new rows. With `plan` nothing was read: `rows` and `version` are None.
    """

    partition: str
    rows_before: int
    rows: int | None
    batches: int
    version: int | None

    def as_dict(self) -> dict[str, Any]:
        """All of it, as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        """In one line."""
        before, batches = count_of(self.rows_before, "row"), count_of(self.batches, "batch")
        if self.rows is None:
            return f"{self.partition}: {before}, to be computed from {batches}"
        return f"{self.partition}: {before} before, {self.rows:,} now, from {batches}, in version {self.version}"


def backfill(
    topology: Topology,
    first: str,
    options: RunOptions | None = None,
    *,
    last: str | None = None,
    sink: str | None = None,
    judge: Judge = "all",
    plan: bool = False,
    code: str | None = None,
) -> tuple[Backfilled, ...]:
    """Replace the rows of the partitions `first` to `last` of an output by those of the recorded input.

    ConfigurationError for an unknown or open partition, and if the current code is not that with the digest `code`,
    TopologyError for an output that cannot be computed again, DataLossError if its input is no longer there, SinkError
    if the table has rows of other writers.
    """
    check_judge(judge)
    if code is not None:
        refuse_other(topology, code)
    options = RunOptions.of(options)
    way = Way.to(topology, *parted(topology, sink))
    chosen = closed_between(topology, options, way, first, last or first)
    recorded = Recorded.of(topology, options)
    query_plan = recorded.plan_of(way.sink.name)

    query, taken = recorded.on_driver(lambda spark: recorded.query(spark, query_plan)), late_taken(recorded, way)

    def replaced(spark: SparkSession, partition: Partition) -> Backfilled:
        until = {"all": None, "as_then": -1, "as_now": taken(partition)}[judge]
        made = Recompute(spark, query, way, (partition,), lambda batch: until is None or batch <= until)
        return _replaced(made, judge, until, plan=plan)

    # One call each: a stream of this process has its batches between them.
    return tuple(recorded.on_driver(partial(replaced, partition=each)) for each in chosen)


def check_judge(judge: str) -> None:
    """ConfigurationError if it is none."""
    if judge not in get_args(Judge):
        raise ConfigurationError(
            f"judge must be one of {', '.join(get_args(Judge))}, not {judge!r}", remedy="judge='all'"
        )


def refuse_other(topology: Topology, code: str) -> None:
    """ConfigurationError if the current code is not that with the digest `code`."""
    if code != topology.code:
        raise ConfigurationError(
            f"the code of {topology.name} is {topology.code}, and {code} was tried",
            remedy="try the current code: rs-assets try",
        )


def _replaced(made: Recompute, judge: Judge, until: int | None, *, plan: bool) -> Backfilled:
    """Read the batches of a partition again and replace its rows; with `plan` only say which.

    Late records are taken of batches up to `until`, None for all of them.
    """
    written = Written.by(made.query, made.way.sink)
    late = written.mark.batch_id if until is None else until
    replacement = Replacement(
        read=written.table,
        partitions=made.way.partitions,
        value=made.value,
        mark=written.mark,
        late=late,
        adds=made.way.sink.adds,
    )
    replacement.check()
    batches = made.batches(written.mark.batch_id)
    planned = Backfilled(
        partition=made.partition.key, rows_before=replacement.rows, rows=None, batches=len(batches), version=None
    )
    if plan:
        return planned
    with made.reading(batches) as folder:
        refuse = made.query.refuse_forgotten
        rows, version = replacement.write(made.rows(batches, folder), path=written.path, refuse=refuse)
    done, session = replace(planned, rows=rows, version=version), made.query.recorded.session
    with session.failures.guarding("the backfill is not in the catalog"):
        session.catalog.append("operations", [_operation(made, done, judge, late, written.mark)])
    return done


def _operation(made: Recompute, done: Backfilled, judge: Judge, late_until: int, mark: BatchMark) -> Row:
    return operation(
        made.way.topology.name,
        generation=mark.generation,
        run_id=made.query.recorded.session.options.run_id,
        kind=BACKFILL,
        summary=f"partition {done}",
        sink=mark.sink,
        start=made.partition.start.isoformat(),
        batch=mark.batch_id,
        judge=judge,
        late_until=late_until,
        code=made.way.topology.code,
        **done.as_dict(),
    )

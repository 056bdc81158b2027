"""Rescaling: the state of a pipeline in another number of partitions, with nothing lost and nothing twice.

Spark rewrites the state of a stopped query as a batch of its own that reads no input. The number that is being changed
to stands in the manifest until every query has it, so a rescale that is cut short is finished by the next start.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipelines.compile.plan import QueryPlan
from pipelines.runtime.options import RunOptions
from pipelines.runtime.run import run_wired, wire_all
from pipelines.runtime.session import JobSession
from pipelines.topology.topology import Topology
from resources.checkpoint.log import PARTITIONS, CheckpointLog
from resources.errors import CheckpointError, ConfigurationError

# More partitions than this are no scaling but a mistake: each is a RocksDB with files and memory of its own.
MOST_PARTITIONS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleReport:
    """What a rescale did; `state_rows` are by query, equal before and after."""

    pipeline: str
    before: int
    after: int
    state_rows: dict[str, int]
    seconds: float


@dataclass(frozen=True, slots=True)
class StateSum:
    """What a rescale must not change: how many rows the state has, and a sum over their contents."""

    rows: int
    digest: int


def rescale(topology: Topology, partitions: int, options: RunOptions | None = None) -> RescaleReport:
    """Drain the pipeline, rewrite its state in `partitions` partitions, and leave it stopped.

    ConfigurationError for a number that is none and for steps whose state cannot be spread anew; PipelineBusyError if
    it runs; CheckpointError if rows or sums over the state differ afterwards, which leaves the state as it was.
    """
    options = options or RunOptions()
    began = datetime.now(UTC)
    _check(topology, partitions)
    with JobSession(topology, options) as session:
        options.driver.call(lambda spark: wire_all(session, spark))
        before = session.manifest.partitions
        # What a crash left half done is done first: state moves between two batches only.
        run_wired(session, finish=False, stop=threading.Event())
        session.manifest = replace(session.manifest, rescaling=partitions)
        session.save()
        sums = options.driver.call(lambda spark: finish_rescale(session, spark))
        report = RescaleReport(
            pipeline=topology.name,
            before=before,
            after=partitions,
            state_rows={name: found.rows for name, found in sums.items()},
            seconds=(datetime.now(UTC) - began).total_seconds(),
        )
        session.note("rescale", f"{before} -> {partitions} partitions", state_rows=report.state_rows)
    return report


def finish_rescale(session: JobSession, spark: SparkSession) -> dict[str, StateSum]:
    """Give every stateful query the number of partitions that the manifest is being changed to."""
    wanted = session.manifest.rescaling
    sums: dict[str, StateSum] = {}
    for plan in session.plans:
        log = session.log(plan)
        if plan.stateful is not None and log.last_committed() >= 0:
            sums[plan.name] = _rewritten(session, spark, plan, log, wanted)
    session.manifest = replace(session.manifest, partitions=wanted, rescaling=0)
    session.save()
    return sums


def _check(topology: Topology, partitions: int) -> None:
    if not isinstance(partitions, int) or isinstance(partitions, bool) or not 1 <= partitions <= MOST_PARTITIONS:
        raise ConfigurationError(f"{partitions!r} is no number of partitions", remedy=f"use 1 to {MOST_PARTITIONS}")
    fixed = [node.name for node in topology if node.stateful and not node.rescalable]
    if fixed:
        raise ConfigurationError(
            f"the state of {', '.join(fixed)} cannot be spread over other partitions",
            remedy="begin a new generation with another number (--new-generation)",
            pipeline=topology.name,
        )


def _rewritten(session: JobSession, spark: SparkSession, plan: QueryPlan, log: CheckpointLog, wanted: int) -> StateSum:
    last = log.last_committed()
    if log.partitions(last) == wanted:
        return state_sum(spark, log)
    unfinished = log.offsets(last + 1) is not None
    before = state_sum(spark, log)
    spark.conf.set(PARTITIONS, log.partitions(last))
    # Spark 4.2.0 makes what the repartition needs only with the first look at its streams.
    _ = spark.streams.active
    manager: Any = spark._streamingCheckpointManager  # noqa: SLF001  its only door
    try:
        manager.repartition(str(log.folder), wanted, enforce_exactly_once_sink=True)
    except Exception as error:
        if not unfinished:
            log.withdraw(last + 1)
        raise CheckpointError(
            f"Spark could not rewrite the state of {plan.name}: {str(error).splitlines()[0][:300]}",
            remedy="the state is as it was; see the cause, then rescale again",
            file=log.folder,
        ) from error
    after = state_sum(spark, log)
    if after != before:
        log.take_away(last + 1)
        raise CheckpointError(
            f"the state of {plan.name} has {after.rows} rows behind the rescale, {before.rows} before it",
            remedy="the state was put back as it was: report this with the pipeline's describe()",
            file=log.folder,
        )
    session.held.check()
    return after


def state_sum(spark: SparkSession, log: CheckpointLog) -> StateSum:
    """Rows of the state at the last committed batch, and the sum of a hash of each key with its value."""
    frame = spark.read.format("statestore").option("path", str(log.folder)).load()
    hashed = F.xxhash64(F.to_json("key"), F.to_json("value")).cast("decimal(20,0)")
    row = frame.agg(F.count(F.lit(1)).alias("rows"), F.sum(hashed).alias("digest")).first()
    assert row is not None  # noqa: S101  an aggregation without groups gives one row
    return StateSum(int(row["rows"]), int(row["digest"] or 0))

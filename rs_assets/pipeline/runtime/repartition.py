"""The state of stopped queries, written anew by Spark in another number of partitions.

Spark does it as a batch of its own that reads no input. Rows and a sum over their contents must be the same behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rs_assets.engine.checkpoint.log import PARTITIONS, CheckpointLog
from rs_assets.errors import CheckpointError


@dataclass(frozen=True, slots=True)
class StateSum:
    """What a rescale must not change: how many rows the state has, and a sum over their contents."""

    rows: int
    digest: int


def repartition(
    spark: SparkSession, logs: Mapping[str, CheckpointLog], wanted: int, *, behind: Callable[[], None]
) -> dict[str, StateSum]:
    """Rewrite the state of the queries with these `logs` in `wanted` partitions; what each state holds, by query.

    Those that have this number are left alone, and so are those without a batch. `behind` is called behind each query
    and ends it all by raising. CheckpointError, with the state as it was, if Spark fails or rows differ.
    """
    sums: dict[str, StateSum] = {}
    for query, log in logs.items():
        if log.last_committed() >= 0:
            sums[query] = _rewritten(spark, query, log, wanted)
            behind()
    return sums


def _rewritten(spark: SparkSession, query: str, log: CheckpointLog, wanted: int) -> StateSum:
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
            f"Spark could not rewrite the state of {query}: {str(error).splitlines()[0][:300]}",
            remedy="the state is as it was; see the cause, then rescale again",
            file=log.folder,
        ) from error
    after = state_sum(spark, log)
    if after != before:
        log.take_away(last + 1)
        raise CheckpointError(
            f"the state of {query} has {after.rows} rows behind the rescale, {before.rows} before it",
            remedy="the state was put back as it was: report this with the pipeline's describe()",
            file=log.folder,
        )
    return after


def state_sum(spark: SparkSession, log: CheckpointLog) -> StateSum:
    """Rows of the state at the last committed batch, and the sum of a hash of each key with its value."""
    frame = spark.read.format("statestore").option("path", str(log.folder)).load()
    hashed = F.xxhash64(F.to_json("key"), F.to_json("value")).cast("decimal(20,0)")
    row = frame.agg(F.count(F.lit(1)).alias("rows"), F.sum(hashed).alias("digest")).first()
    assert row is not None  # noqa: S101  an aggregation without groups gives one row
    return StateSum(int(row["rows"]), int(row["digest"] or 0))

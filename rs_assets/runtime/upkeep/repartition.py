"""Rewrites the state of stopped queries, with Spark, in another number of partitions.

Spark does it as a batch that reads no input. Rows and a sum over their contents must be the same afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rs_assets.checkpoint.log import PARTITIONS, CheckpointLog
from rs_assets.common.plural import count_of
from rs_assets.errors import CheckpointError
from rs_assets.operators.state.exchange import name_as_on_disk, readable
from rs_assets.operators.state.reader import STORE
from rs_assets.recovery.preflight.state import DEFAULT_STORE
from rs_assets.recovery.rewinding import rewind
from rs_assets.runtime.translate import first_line

# The column of the partition, which a rescale changes; and the option for the timers of a processor.
PARTITION, TIMERS = "partition_id", "readRegisteredTimers"


@dataclass(frozen=True, slots=True)
class StateSum:
    """The invariants of a rescale: the number of state rows, and a sum over their contents."""

    rows: int
    digest: int


def repartition(
    spark: SparkSession, logs: Mapping[str, CheckpointLog], begun: int, wanted: int, *, after_each: Callable[[], None]
) -> dict[str, StateSum]:
    """Rewrite the state of the queries with these `logs` in `wanted` partitions; the sum of each state, by query.

    `begun` is the number that the states were begun with, which is missing in the log of a query's first run. States
    with the wanted number, and those without a batch, are left alone. `after_each` is called after each query and ends
    the call by raising. CheckpointError, with the state unchanged, if Spark fails or rows differ.
    """
    sums: dict[str, StateSum] = {}
    for query, log in logs.items():
        if log.last_committed() >= 0:
            log.pin_partitions(begun)
            sums[query] = _rewritten(spark, query, log, wanted)
            after_each()
    return sums


def _rewritten(spark: SparkSession, query: str, log: CheckpointLog, wanted: int) -> StateSum:
    """Rewrite the state of one query in `wanted` partitions, if it has another number; its sum.

    CheckpointError, with the state unchanged, if Spark fails or rows differ.
    """
    last = log.last_committed()
    if log.partitions(last) == wanted:
        return state_sum(spark, log)
    before = state_sum(spark, log)
    rewrite(spark, query, log, wanted)
    after = state_sum(spark, log)
    if after != before:
        rewind(log.folder, last)
        raise CheckpointError(
            f"the state of {query} has {count_of(after.rows, 'row')} after the rescale, {before.rows} before it",
            remedy="the state was restored: report this with the pipeline's describe()",
            file=log.folder,
        )
    return after


def rewrite(spark: SparkSession, query: str, log: CheckpointLog, wanted: int) -> None:
    """Let Spark rewrite the state of a query in `wanted` partitions, another number than it has; nothing is compared.

    CheckpointError, with the state unchanged, if Spark fails.
    """
    last = log.last_committed()
    unfinished = log.offsets(last + 1) is not None
    spark.conf.set(PARTITIONS, log.partitions(last))
    # Spark 4.2.0 initializes a prerequisite of the repartition only when its streams are first accessed.
    _ = spark.streams.active
    manager: Any = spark._streamingCheckpointManager  # noqa: SLF001  there is no public way
    place = readable(log.folder)
    try:
        manager.repartition(place, wanted, enforce_exactly_once_sink=True)
        name_as_on_disk(log.folder, place)
    except Exception as error:
        if not unfinished:
            # With its state: Spark would load a snapshot that was left.
            rewind(log.folder, last)
        raise CheckpointError(
            f"Spark could not rewrite the state of {query}: {first_line(str(error))}",
            remedy="the state is unchanged; check the cause, then rescale again",
            file=log.folder,
        ) from error


def state_sum(spark: SparkSession, log: CheckpointLog) -> StateSum:
    """Rows of all states at the last committed batch, and the sum of a hash of each with its key, including timers."""
    # Spark 4.2.0 reports each snapshot that it loads to a part of its own that exists once its streams are accessed.
    _ = spark.streams.active
    rows, digest, place = 0, 0, readable(log.folder)
    for options in _states(spark, log):
        frame = spark.read.format("statestore").options(**options).load(place)
        content = F.to_json(F.struct(*(F.col(name) for name in frame.columns if name != PARTITION)))
        hashed = F.xxhash64(content).cast("decimal(20,0)")
        row = frame.agg(F.count(F.lit(1)).alias("rows"), F.sum(hashed).alias("digest")).first()
        assert row is not None  # an aggregation without groups gives one row
        rows += 0 if TIMERS in options else int(row["rows"])
        digest += int(row["digest"] or 0)
    return StateSum(rows, digest)


def _states(spark: SparkSession, log: CheckpointLog) -> Iterator[dict[str, str]]:
    """Options of Spark's state reader for each state of the query: Spark's own operators have one per store."""
    found = spark.read.format("state-metadata").load(readable(log.folder)).orderBy("operatorId").collect()
    for operator, store, properties in {(r["operatorId"], r["stateStoreName"], r["operatorProperties"]) for r in found}:
        which = {"operatorId": str(operator)}
        variables = json.loads(properties or "{}").get("stateVariables")
        if variables is None:
            yield which if store == DEFAULT_STORE else which | {STORE: store}
            continue
        for name in (variable["stateName"] for variable in variables):
            yield which | ({TIMERS: "true"} if name.startswith("$") else {"stateVarName": name})

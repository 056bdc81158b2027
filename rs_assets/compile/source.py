"""Sources: a frame of good records, after the bad-record filter."""

from __future__ import annotations

from pyspark.sql import DataFrame

from rs_assets.compile.planner.context import CompileContext, Flow
from rs_assets.connectors.nodes import Source
from rs_assets.records.columns import REASON
from rs_assets.records.poison import reason_of
from rs_assets.records.policy import BadRecords

# Appended to the name of a source: the filter of records that were found to fail.
POISON = "/poison"


def compile_source(context: CompileContext, node: Source, _inputs: tuple[Flow, ...]) -> Flow:
    """Read `node` and filter bad records, unless its stream does that by itself."""
    good = context.read(context, node)
    if REASON in good.columns:
        good = context.record_filter.filter_bad_records(good, step=node.name, policy=node.bad_records, counted=True)
    return Flow(_without_poison(context, node, good))


def _without_poison(context: CompileContext, node: Source, good: DataFrame) -> DataFrame:
    """`good` without the records that made a batch fail, and without all equal records.

    A step that computes a record from its fields alone fails on equal fields wherever they are, so the address, which
    Spark's own readers do not provide in a stream, is not needed. Non-deterministic steps may lose good records this
    way.
    """
    poisons = context.poisons.get(context.stored_name(node.name))
    if not poisons:
        return good
    judged = good.withColumn(REASON, reason_of(good, poisons))
    return context.record_filter.filter_bad_records(
        judged, step=f"{node.name}{POISON}", policy=BadRecords.QUARANTINE, counted=True
    )

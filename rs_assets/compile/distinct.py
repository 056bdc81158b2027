"""Deduplication by Spark's own operator."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.compile.planner.context import CompileContext, Flow
from rs_assets.compile.timed import timed
from rs_assets.errors import TopologyError
from rs_assets.operators.shuffle.memory import with_pieces
from rs_assets.records.columns import EVENT_TIME, check_fields, visible
from rs_assets.topology.nodes.distinct import Distinct


def compile_distinct(context: CompileContext, node: Distinct, inputs: tuple[Flow, ...]) -> Flow:
    """Keep the first row of each key. A replay ends at the event-time check."""
    df = inputs[0].df
    check_fields(df, node.fields, step=node.name)
    _check_comparable(df, node)
    rows = timed(context, node, with_pieces(df), visible(df.columns), kept=node.within)
    if not context.streaming:
        return Flow(rows)
    return Flow(rows.dropDuplicatesWithinWatermark(list(node.fields)).drop(EVENT_TIME))


def _check_comparable(df: DataFrame, node: Distinct) -> None:
    """Refuse maps, which Spark compares by the order of their entries here."""
    for name in node.fields:
        kind = df.schema[name].dataType.simpleString()
        if "map<" in kind:
            raise TopologyError(
                f"step {node.name!r} cannot compare {name!r}, which is a {kind}",
                remedy="compare a field of it, or its entries in order:"
                f" .with_fields(entries='sort_array(map_entries({name}))')",
                step=node.name,
            )


def late_for_distinct(_node: Distinct, watermark: Column) -> Column:
    """Whether the watermark had passed the row."""
    return F.col(EVENT_TIME) <= watermark


def probe_distinct(_node: Distinct, rows: DataFrame) -> DataFrame:
    """The rows: they are compared, nothing is computed."""
    return rows

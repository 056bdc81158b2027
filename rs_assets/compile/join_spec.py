"""Converts a join node into the engine's specification."""

from __future__ import annotations

from pyspark.sql import DataFrame

from rs_assets.compile.planner.context import CompileContext
from rs_assets.compile.step import as_column
from rs_assets.operators.join.stream_join import JoinSpec, check_join
from rs_assets.records.columns import check_fields
from rs_assets.topology.chain import link_of
from rs_assets.topology.nodes.join import StreamJoin


def spec_of(context: CompileContext, node: StreamJoin, left: DataFrame, right: DataFrame) -> JoinSpec:
    """The specification of a join, checked against the fields of both sides."""
    for frame, keys in zip((left, right), zip(*node.on, strict=True), strict=True):
        check_fields(frame, keys, step=node.name)
    link = link_of(context.links, node)
    spec = JoinSpec(
        on=node.on,
        how=node.how,
        bound=node.bound,
        prefix=node.prefix,
        times=node.time_fields,
        condition=as_column(node.condition) if node.condition is not None else None,
        lag=link.lag,
        early=node.early,
        longest_delay=link.water_mark,
    )
    check_join(left, right, spec, step=node.name)
    return spec

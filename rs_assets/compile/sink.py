"""Sinks: the frame to write, and its writer."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from rs_assets.common.home import Home
from rs_assets.common.node import Node
from rs_assets.compile.planner.context import CompileContext, Flow
from rs_assets.compile.shuffle import place_of
from rs_assets.connectors.delta.files.partitions import with_event_partition
from rs_assets.connectors.delta.nodes import DeltaConnector, DeltaSink
from rs_assets.connectors.nodes import Sink
from rs_assets.connectors.registry import SINKS
from rs_assets.connectors.sink import SinkWriter
from rs_assets.records.columns import ORDER, hidden
from rs_assets.topology.nodes.shuffle import ShuffleWrite


def compile_sink(_context: CompileContext, node: Sink, inputs: tuple[Flow, ...]) -> Flow:
    """The rows without hidden columns."""
    return Flow(rows_for(node, inputs[0].df))


def rows_for(node: Sink, df: DataFrame) -> DataFrame:
    """The rows of `df` that `node` writes; SchemaError and others for columns that its system does not take."""
    check = SINKS[type(node)].check_rows
    if check is not None:
        check(node, df)
    return shown(df, node)


def shown(df: DataFrame, node: Node) -> DataFrame:
    """`df` without hidden columns, except those by which an upsert finds the newest row and the rows that go.

    A table that is partitioned by event time gets the column of its partitions.
    """
    kept = (*(ORDER if node.read_order else ()), node.flag) if isinstance(node, Sink) else ()
    rows = df.drop(*(name for name in hidden(df.columns) if name not in kept))
    partitions = node.partitions if isinstance(node, DeltaSink) else None
    return rows if partitions is None else with_event_partition(rows, partitions)


def by_connector(node: Sink, connector: DeltaConnector | None) -> Sink:
    """`node` with the writer of all Delta sinks of a run; None: as the step says."""
    return replace(node, connector=connector) if connector and isinstance(node, DeltaSink) else node


def writer_of(node: Sink, home: Home, namespace: str) -> SinkWriter:
    """The writer of a sink node."""
    if isinstance(node, ShuffleWrite):
        return place_of(node, home).writer(node.name)
    return SINKS[type(node)].writer(node, home, namespace)

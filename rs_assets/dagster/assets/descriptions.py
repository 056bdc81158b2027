"""Descriptions of assets: a sentence of Markdown on what a step does, shown below the asset's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from rs_assets.common.node import Node
from rs_assets.connectors.connector import code, listed
from rs_assets.connectors.registry import SINKS, SOURCES
from rs_assets.topology.nodes.dim_join import DimJoin
from rs_assets.topology.nodes.distinct import Distinct
from rs_assets.topology.nodes.join import StreamJoin
from rs_assets.topology.nodes.match import MatchRules
from rs_assets.topology.nodes.process import Process
from rs_assets.topology.nodes.rule_windows import RuleWindows
from rs_assets.topology.nodes.table import StreamTableJoin, TableGroup, TableJoin, TableTop, ToTable
from rs_assets.topology.nodes.table_reduce import TableReduce
from rs_assets.topology.nodes.window import WindowAggregate


def describe_step(node: Node) -> str:
    """What `node` does.

    >>> from rs_assets.connectors.files.nodes import FileSource
    >>> describe_step(FileSource(name="clicks", path="clicks.jsonl"))
    'Reads the JSON of `clicks.jsonl`.'
    """
    return f"{SENTENCES[type(node)](node)}."


# One entry for each kind of step that is an asset.
SENTENCES: Mapping[type[Node], Callable[[Any], str]] = MappingProxyType(
    {
        **{kind: source.describe for kind, source in SOURCES.items()},
        **{kind: sink.describe for kind, sink in SINKS.items()},
        DimJoin: lambda node: f"The dimension of `{node.name}`, from {code(node.dimension.text)}",
        MatchRules: lambda node: f"The rules of `{node.name}`, from {code(node.dimension.text)}",
        WindowAggregate: lambda node: f"Aggregates rows in windows, {node.detail()}",
        RuleWindows: lambda node: f"Fires rules when enough matches come together, {node.detail()}",
        Distinct: lambda node: (
            f"Passes on the first row of each {listed(node.fields)}, and remembers it for {node.within}"
        ),
        StreamJoin: lambda node: f"Joins two streams, {node.detail()}",
        ToTable: lambda node: f"Keeps the newest row of each {listed(node.keys)}",
        TableGroup: lambda node: f"Aggregates the rows of a table, {node.detail()}",
        TableReduce: lambda node: f"Keeps a value of {code(node.function.label)} for each {listed(node.keys)}",
        TableTop: lambda node: f"Keeps rows of a table, {node.detail()}",
        TableJoin: lambda node: f"Joins two tables, {node.detail()}",
        Process: lambda node: f"Keeps the state of {code(node.function.label)} for each {listed(node.keys)}",
        StreamTableJoin: lambda node: (
            f"Joins a stream with the {'current rows' if node.time_fields is None else 'versions'} of a table,"
            f" {node.detail()}"
        ),
    }
)

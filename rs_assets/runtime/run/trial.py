"""A pipeline over given rows: nothing is stored, and neither sources nor sinks are used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from rs_assets.common.home import Home
from rs_assets.common.node import Node
from rs_assets.common.scratch import scratch_folder
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.connectors.memory.channel import Record
from rs_assets.connectors.memory.nodes import ArraySource, MemorySink
from rs_assets.connectors.nodes import Sink
from rs_assets.errors import TopologyError
from rs_assets.runtime.job.analysis import without_brokers
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.run.run import run
from rs_assets.spark.driver import SparkDriver
from rs_assets.topology.nodes.shuffle import ShuffleWrite
from rs_assets.topology.topology import Topology

Rows = Iterable[Mapping[str, Any]]


def try_rows(topology: Topology, rows: Rows | Mapping[str, Rows], driver: SparkDriver) -> Mapping[str, list[Record]]:
    """The rows of each sink for `rows`, to the end of all windows."""
    given = _by_source(topology, rows)
    nodes = tuple(_array(topology, n.name, given[n.name]) if n.name in given else n for n in topology)
    return collected(replace(topology, nodes=nodes), driver)


def collected(topology: Topology, driver: SparkDriver) -> Mapping[str, list[Record]]:
    """Run a topology in a temporary home, to the end of all windows; the rows of each sink."""
    channels: dict[str, MemoryChannel] = {}

    def replaced(node: Node) -> Node:
        if isinstance(node, Sink) and not isinstance(node, ShuffleWrite):
            channels[node.name] = MemoryChannel()
            return MemorySink(name=node.name, inputs=node.inputs, channel=channels[node.name])
        return node

    tried = without_brokers(replace(topology, nodes=tuple(map(replaced, topology)), renamed=()))
    with scratch_folder("rs-try-") as folder:
        run(tried, RunOptions(home=Home(folder), driver=driver).apart(), finish=True)
    return {name: channel.rows() for name, channel in channels.items()}


def _by_source(topology: Topology, rows: Rows | Mapping[str, Rows]) -> Mapping[str, tuple[Mapping[str, Any], ...]]:
    names = [source.name for source in topology.origins]
    if not isinstance(rows, Mapping):
        if len(names) > 1:
            raise TopologyError(
                f"pipeline {topology.name!r} has several sources: {', '.join(names)}",
                remedy=f"give the rows by source: try_({{{names[0]!r}: [...]}})",
            )
        return {names[0]: tuple(rows)}
    unknown = [name for name in rows if name not in names]
    if unknown:
        raise TopologyError(
            f"pipeline {topology.name!r} has no source {unknown[0]!r}", remedy=f"use one of: {', '.join(names)}"
        )
    return {name: tuple(rows.get(name, ())) for name in names}


def _array(topology: Topology, name: str, rows: tuple[Mapping[str, Any], ...]) -> ArraySource:
    source = next(each for each in topology.origins if each.name == name)
    return ArraySource(name=name, rows=rows, schema=source.row_schema, policy=source.bad_records)

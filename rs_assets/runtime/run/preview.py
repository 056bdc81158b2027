"""The rows of one step for the first records of the input; nothing is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rs_assets.common.node import Node
from rs_assets.common.scratch import scratch_folder
from rs_assets.connectors.memory.channel import Record
from rs_assets.connectors.nodes import Source
from rs_assets.connectors.registry import SOURCES
from rs_assets.errors import TopologyError
from rs_assets.runtime.run.trial import collected
from rs_assets.spark.driver import SparkDriver
from rs_assets.topology.topology import Topology


def preview(topology: Topology, records: int, driver: SparkDriver) -> Mapping[str, list[Record]]:
    """The rows of each sink for the first `records` of each source, to the end of all windows."""
    if records < 1:
        raise TopologyError("a preview needs at least one record")
    with scratch_folder("rs-preview-") as folder:
        nodes = tuple(_shortened(node, records, folder) for node in topology)
        return collected(replace(topology, nodes=nodes), driver)


def _shortened(node: Node, records: int, folder: Path) -> Node:
    if not isinstance(node, Source) or node.follows:
        return node
    connector = SOURCES.get(type(node))
    shorten = connector.shortened if connector is not None else None
    made = shorten(node, records, folder) if shorten is not None else None
    if made is None:
        raise _not_alone(node)
    return made


def _not_alone(node: Source) -> TopologyError:
    return TopologyError(
        f"step {node.name!r}: only files, arrays and the rows of tables can be previewed by themselves",
        remedy="give rows: .preview([{...}])",
        step=node.name,
    )

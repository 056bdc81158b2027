"""Formats a topology as lines of text and as a Mermaid graph."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rs_assets.topology.nodes.versioned import VersionedTable
from rs_assets.topology.topology import Topology

# Mermaid node shapes: sources round, state as a cylinder, sinks as a flag.
SHAPES = {
    "source": ("([", "])"),
    "window": ("[(", ")]"),
    "join": ("[(", ")]"),
    "table": ("[(", ")]"),
    "processor": ("[(", ")]"),
    "shuffle": ("{{", "}}"),
    "sink": (">", "]"),
}


def as_text(topology: Topology, notes: Mapping[str, str] = MappingProxyType({})) -> str:
    """One line per node: name, kind, inputs, detail, and its note; stateful nodes have a star."""
    lines = [f"{topology.namespace}.{topology.job}  fingerprint {topology.fingerprint}"]
    width = max(len(n.name) for n in topology)
    for node in topology:
        mark = "*" if node.stateful else " "
        inputs = f" <- {', '.join(node.follows)}" if node.follows else ""
        detail = f"  [{node.detail()}]" if node.detail() else ""
        note = f"  {notes[node.name]}" if node.name in notes else ""
        lines.append(f"{mark} {node.name:<{width}}  {node.kind}{inputs}{detail}{note}")
    return "\n".join(lines)


def in_short(topology: Topology) -> str:
    """One line: sources, stateful steps, sinks.

    >>> from rs_assets import StreamBuilder
    >>> StreamBuilder.data_stream("shop", "slow").from_array([{"ms": 1}]).filter("ms > 0").to_delta("slow").build()
    <Pipeline shop.slow: array -> slow_table>
    """
    stateful = [node.name for node in topology if node.stateful]
    parts = ([node.name for node in topology.origins], stateful, [sink.name for sink in topology.sinks])
    return f"{topology.name}: {' -> '.join(', '.join(names) for names in parts if names)}"


def as_mermaid(topology: Topology) -> str:
    """A Mermaid flow chart, for any Markdown page that renders them."""
    lines = ["flowchart LR"]
    for node in topology:
        left, right = SHAPES.get(node.family, ("[", "]"))
        label = f"{node.name}<br/>{node.detail() or node.kind}".replace('"', "'")
        lines.append(f'    {node.name}{left}"{label}"{right}')
        lines.extend(f"    {source} --> {node.name}" for source in node.follows)
        if isinstance(node, VersionedTable):
            text = node.dimension.text.replace('"', "'")
            lines.append(f'    {node.name}_dimension[("{text}")] -.-> {node.name}')
    return "\n".join(lines)

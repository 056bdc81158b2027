"""A topology for people: as lines of text and as a Mermaid graph."""

from __future__ import annotations

from rs_assets.pipeline.topology.topology import Topology

# Mermaid node shapes: sources round, state as a cylinder, sinks as a flag.
SHAPES = {
    "source": ("([", "])"),
    "window": ("[(", ")]"),
    "join": ("[(", ")]"),
    "shuffle": ("{{", "}}"),
    "sink": (">", "]"),
}


def as_text(topology: Topology) -> str:
    """One line a node: name, kind, inputs, detail; stateful nodes carry a star."""
    lines = [f"{topology.namespace}.{topology.job}  fingerprint {topology.fingerprint}"]
    width = max(len(n.name) for n in topology)
    for node in topology:
        mark = "*" if node.stateful else " "
        inputs = f" <- {', '.join(node.follows)}" if node.follows else ""
        detail = f"  [{node.detail()}]" if node.detail() else ""
        lines.append(f"{mark} {node.name:<{width}}  {node.kind}{inputs}{detail}")
    return "\n".join(lines)


def as_mermaid(topology: Topology) -> str:
    """A Mermaid flow chart; paste it into any Markdown page that draws them."""
    lines = ["flowchart LR"]
    for node in topology:
        left, right = SHAPES.get(node.family, ("[", "]"))
        label = f"{node.name}<br/>{node.detail() or node.kind}".replace('"', "'")
        lines.append(f'    {node.name}{left}"{label}"{right}')
        lines.extend(f"    {source} --> {node.name}" for source in node.follows)
    return "\n".join(lines)

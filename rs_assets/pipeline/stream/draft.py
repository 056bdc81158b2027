"""The growing list of nodes behind the streams of one pipeline."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rs_assets.engine.names import checked_name
from rs_assets.errors import TopologyError
from rs_assets.pipeline.topology.base import Node


@dataclass(slots=True)
class Draft:
    """Nodes in the order in which they were written; `build()` freezes them into a topology."""

    namespace: str
    job: str
    nodes: list[Node] = field(default_factory=list)

    def add(self, node: Node) -> str:
        """Append `node` and return its name; TopologyError if the name is taken."""
        if any(n.name == node.name for n in self.nodes):
            raise TopologyError(
                f"pipeline {self.job!r} has two steps called {node.name!r}",
                remedy="name one of them: name='...'",
                step=node.name,
            )
        self.nodes.append(node)
        return node.name

    def auto_name(self, kind: str, name: str | None) -> str:
        """`name` if given, else `kind` and its place among its like: for stateless steps, whose names key nothing."""
        if name is not None:
            return checked_name(name, what="step")
        taken = {n.name for n in self.nodes}
        place = 1
        while f"{kind}_{place}" in taken:
            place += 1
        return f"{kind}_{place}"


def name_from(text: str, *, suffix: str) -> str:
    """A legal step name made of the last part of a table name or path.

    >>> name_from("/data/Out Dir.jsonl", suffix="files")
    'out_dir_files'
    """
    last = text.rstrip("/").rsplit("/", 1)[-1].rsplit(".", 1)[0].lower()
    stem = re.sub(r"[^a-z0-9]+", "_", last).strip("_")[:50]
    return f"{stem}_{suffix}" if stem[:1].isalpha() else suffix

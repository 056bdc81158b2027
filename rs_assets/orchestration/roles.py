"""What the steps of a pipeline leave behind, and how that hangs together."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from rs_assets.pipeline.topology.base import Node
from rs_assets.pipeline.topology.topology import Topology

Role = Literal["checkpoint", "state", "output"]
# What a family's step leaves behind; families that leave nothing have no asset.
ROLE_OF: Mapping[str, Role] = MappingProxyType(
    {"source": "checkpoint", "window": "state", "join": "state", "sink": "output"}
)


def roles_of(topology: Topology) -> list[tuple[str, Role]]:
    """The steps that are assets, with their roles, inputs first."""
    return [(node.name, ROLE_OF[node.family]) for node in topology if node.family in ROLE_OF]


def output_name(step: str, role: Role) -> str:
    """The name of the op output that reports an asset."""
    return f"{step}__{role}"


def upstream_roles(topology: Topology, node: Node) -> list[tuple[str, Role]]:
    """The nearest steps above `node` that are assets."""
    found: dict[str, Role] = {}
    waiting = list(node.follows)
    while waiting:
        current = topology[waiting.pop()]
        if current.family in ROLE_OF:
            found[current.name] = ROLE_OF[current.family]
        else:
            waiting.extend(current.follows)
    return sorted(found.items())

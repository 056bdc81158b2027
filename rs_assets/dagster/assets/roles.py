"""What the steps of a pipeline leave behind, and how that hangs together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal

from rs_assets.operators.dimension.spec import DeltaOrigin
from rs_assets.topology.nodes.base import Node
from rs_assets.topology.nodes.delta import DeltaSource
from rs_assets.topology.nodes.dim_join import DimJoin
from rs_assets.topology.topology import Topology

Role = Literal["checkpoint", "state", "output", "dimension"]
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
    above = _up_to_assets(topology, node)
    return sorted({each.name: ROLE_OF[each.family] for each in above if each.family in ROLE_OF}.items())


def role_of(node: Node) -> Role:
    """What a step that is an asset leaves behind, or, of a join with a dimension, the dimension itself."""
    return "dimension" if isinstance(node, DimJoin) else ROLE_OF[node.family]


def looking_up(topology: Topology, node: Node) -> list[DimJoin]:
    """The steps that have looked the rows of `node` up in dimensions since the nearest assets above."""
    return [each for each in _up_to_assets(topology, node) if isinstance(each, DimJoin)]


def looked_up(topology: Topology, node: Node) -> frozenset[str]:
    """The Delta tables that `node` reads, or that its rows were looked up in since the nearest assets above."""
    dimensions = (each.dimension.origin for each in looking_up(topology, node))
    own = {node.table} if isinstance(node, DeltaSource) else set()
    return frozenset(origin.table for origin in dimensions if isinstance(origin, DeltaOrigin)) | own


def _up_to_assets(topology: Topology, node: Node) -> Iterator[Node]:
    """The steps above `node`, up to and with the nearest that are assets."""
    waiting = list(node.follows)
    while waiting:
        current = topology[waiting.pop()]
        yield current
        if current.family not in ROLE_OF:
            waiting.extend(current.follows)

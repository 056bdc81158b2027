"""The kinds of data that the steps of a pipeline produce, and their dependencies."""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal

from rs_assets.common.node import Node
from rs_assets.connectors.delta.nodes import DeltaSource
from rs_assets.operators.dimension.spec import DeltaOrigin
from rs_assets.topology.nodes.versioned import VersionedTable
from rs_assets.topology.topology import Topology

Role = Literal["checkpoint", "state", "output", "dimension"]
# The op that processes the batches; the others open the pipeline and have the names of its steps, which are lower case.
PROCESS = "Process"
# Names that Dagster refuses for an op, in addition to Python's keywords.
RESERVED = frozenset(
    (
        *("context", "conf", "config", "meta", "arg_dict", "dict", "input_arg_dict", "output_arg_dict"),
        *("int", "str", "float", "bool", "input", "output", "type"),
    )
)
# What the steps of a family produce; other families have no asset.
ROLE_OF: Mapping[str, Role] = MappingProxyType(
    {
        "source": "checkpoint",
        "window": "state",
        "join": "state",
        "table": "state",
        "processor": "state",
        "sink": "output",
    }
)


def roles_of(topology: Topology) -> list[tuple[str, Role]]:
    """The steps that are assets, with their roles, inputs first."""
    return [(node.name, ROLE_OF[node.family]) for node in topology if node.family in ROLE_OF]


def op_name(step: str) -> str:
    """The name of the op of a step: the step's, unless Dagster refuses it.

    >>> op_name("orders"), op_name("type"), op_name("class")
    ('orders', 'Type', 'Class')
    """
    return step.capitalize() if step in RESERVED or keyword.iskeyword(step) else step


def output_name(step: str, role: Role) -> str:
    """The name of the op output that reports an asset."""
    return f"{step}__{role}"


def upstream_roles(topology: Topology, node: Node) -> list[tuple[str, Role]]:
    """The nearest assets upstream of `node`."""
    above = _up_to_assets(topology, node)
    return sorted({each.name: ROLE_OF[each.family] for each in above if each.family in ROLE_OF}.items())


def role_of(node: Node) -> Role:
    """What a step with an asset produces; for a dimension join, the dimension itself."""
    return "dimension" if isinstance(node, VersionedTable) else ROLE_OF[node.family]


def looking_up(topology: Topology, node: Node) -> list[VersionedTable]:
    """The dimension joins between `node` and the nearest assets upstream."""
    return [each for each in _up_to_assets(topology, node) if isinstance(each, VersionedTable)]


def looked_up(topology: Topology, node: Node) -> frozenset[str]:
    """The Delta tables that `node` reads, or that are dimensions between it and the nearest assets upstream."""
    dimensions = (each.dimension.origin for each in looking_up(topology, node))
    own = {node.table} if isinstance(node, DeltaSource) else set()
    return frozenset(origin.table for origin in dimensions if isinstance(origin, DeltaOrigin)) | own


def _up_to_assets(topology: Topology, node: Node) -> Iterator[Node]:
    """The steps upstream of `node`, up to and including the nearest assets."""
    waiting = list(node.follows)
    while waiting:
        current = topology[waiting.pop()]
        yield current
        if current.family not in ROLE_OF:
            waiting.extend(current.follows)

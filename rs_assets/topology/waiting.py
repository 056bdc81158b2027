"""Joins of a stream that wait for their table: which sources are held until which others have been read."""

from __future__ import annotations

from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet

from rs_assets.common.node import Node
from rs_assets.connectors.nodes import Source
from rs_assets.errors import TopologyError
from rs_assets.topology.nodes.table import StreamTableJoin

Ancestors = Callable[[str], AbstractSet[str]]


def check_waits(nodes: Collection[Node], ancestors: Ancestors) -> None:
    """TopologyError for a join that waits for its table, if its stream and its table share a source.

    `nodes` are those of a topology; `ancestors` gives the names of all steps upstream of a step.
    """
    for node in filter(_waits, nodes):
        stream, table = _sides(nodes, ancestors, node)
        both = sorted(stream & table)
        if both:
            raise TopologyError(
                f"step {node.name!r} waits for its table, but the stream and the table are both read from {both[0]!r}",
                remedy="read it twice: give the table a source of its own, with another name",
                step=node.name,
            )


def held_sources(nodes: Collection[Node], ancestors: Ancestors, names: Collection[str]) -> tuple[frozenset[str], ...]:
    """The sources that are held in each stage of the first start of a query of the nodes `names`; () for none.

    A table may itself need a stream that waits: it is loaded in a later stage, and what waits for it goes on then.
    """
    joins = [_sides(nodes, ancestors, node) for node in nodes if node.name in names and _waits(node)]
    stages = dict.fromkeys((node.name for node in nodes if isinstance(node, Source)), 0)
    for _ in joins:
        for stream, table in joins:
            after = 1 + max((stages[name] for name in table), default=0)
            stages |= {name: max(stages[name], after) for name in stream}
    last = max(stages.values(), default=0)
    return tuple(frozenset(name for name, after in stages.items() if after > stage) for stage in range(last))


def awaited_sources(nodes: Collection[Node], ancestors: Ancestors, names: Collection[str]) -> frozenset[str]:
    """The sources of the tables for which joins among the nodes `names` wait."""
    return frozenset[str]().union(
        *(_sides(nodes, ancestors, node)[1] for node in nodes if node.name in names and _waits(node))
    )


def _sides(nodes: Collection[Node], ancestors: Ancestors, join: Node) -> tuple[frozenset[str], frozenset[str]]:
    """The sources of the stream, and those of the table."""
    stream, table = (_sources(nodes, ancestors, each) for each in join.inputs)
    return stream, table


def _sources(nodes: Collection[Node], ancestors: Ancestors, name: str) -> frozenset[str]:
    above = ancestors(name) | {name}
    return frozenset(node.name for node in nodes if isinstance(node, Source) and node.name in above)


def _waits(node: Node) -> bool:
    return isinstance(node, StreamTableJoin) and node.wait_for_table

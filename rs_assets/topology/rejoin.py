"""Diamond-shaped topologies: branches of one step that meet again in a union or a join, computed in one pass.

Spark reads a source once in a query, so the branches cannot be separate frames there. If their steps map one record at
a time and are written in SQL or Columns, each record can go through all branches in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final

from rs_assets.common.node import Node
from rs_assets.topology.branches import dominators
from rs_assets.topology.nodes.join import StreamJoin
from rs_assets.topology.nodes.shuffle import Shuffle
from rs_assets.topology.nodes.step import Filter, Map, Select, SelectFields, Split, Union, WithFields
from rs_assets.topology.user_code.expression import calls_by_name, calls_python

# Steps that make at most one record of each record, in the JVM.
BY_RECORD: Final = (Filter, Map, Select, SelectFields, Shuffle, Split, Union, WithFields)


@dataclass(frozen=True, slots=True)
class Rejoin:
    """Branches that part at the step `part` and meet in a union or a join: the steps of each, in order.

    `others` are the inputs of a union that do not come from `part`.
    """

    part: str
    branches: tuple[tuple[str, ...], ...]
    others: tuple[str, ...]


def rejoins_of(nodes: Iterable[Node]) -> Mapping[str, Rejoin]:
    """The unions and joins of `nodes`, inputs first, whose branches of one step can be computed record by record."""
    known = {node.name: node for node in nodes}
    passed, above = dominators(known.values()), _above(known)
    found: dict[str, Rejoin] = {}
    for node in known.values():
        meeting = _meeting(node, above) if isinstance(node, Union | StreamJoin) else []
        made = _rejoin(node, meeting, known, passed) if meeting else None
        if made is not None:
            found[node.name] = made
    return found


def _rejoin(
    node: Node, meeting: list[str], known: Mapping[str, Node], passed: Mapping[str, frozenset[str]]
) -> Rejoin | None:
    common = reduce(frozenset.intersection, (passed[name] | {name} for name in meeting))
    part = next((name for name in reversed(list(known)) if name in common), None)
    if part is None:
        return None
    branches = tuple(branch for name in meeting for branch in _branches(name, part, known))
    if isinstance(node, StreamJoin) and len(branches) != len(node.inputs):
        return None
    steps = [known[name] for name in {name for branch in branches for name in branch}]
    if not all(isinstance(step, BY_RECORD) and not calls_python(step) and not calls_by_name(step) for step in steps):
        return None
    return Rejoin(part, branches, tuple(name for name in node.inputs if name not in meeting))


def _meeting(node: Node, above: Mapping[str, frozenset[str]]) -> list[str]:
    """The inputs of `node` that share a step with another one."""
    ways = [above[name] for name in node.inputs]
    return [
        name
        for place, name in enumerate(node.inputs)
        if any(ways[place] & way for other, way in enumerate(ways) if other != place)
    ]


def _above(known: Mapping[str, Node]) -> Mapping[str, frozenset[str]]:
    """Each step and all steps upstream of it, by its name."""
    found: dict[str, frozenset[str]] = {}
    for name, node in known.items():
        found[name] = frozenset({name}).union(*(found[each] for each in node.inputs))
    return found


def _branches(name: str, part: str, known: Mapping[str, Node]) -> Iterator[tuple[str, ...]]:
    """The steps of each path from `part` to `name`, the latter included."""
    if name == part:
        yield ()
        return
    for above in known[name].inputs:
        for branch in _branches(above, part, known):
            yield (*branch, name)

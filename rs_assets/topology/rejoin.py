"""Diamond-shaped topologies: branches of one step that meet again in a union or a join, computed in one pass.

Spark reads a source once in a query, so the branches cannot be separate frames there. If their steps map one record at
a time and are written in SQL or Columns, each record can go through all branches in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from rs_assets.common.node import Node
from rs_assets.topology.branches import dominators
from rs_assets.topology.nodes.join import StreamJoin
from rs_assets.topology.nodes.shuffle import Shuffle
from rs_assets.topology.nodes.step import Filter, Map, Select, SelectFields, Split, Union, WithFields
from rs_assets.topology.nodes.table import TableJoin
from rs_assets.topology.user_code.expression import calls_by_name, calls_python

# Steps that make at most one record of each record, in the JVM.
BY_RECORD: Final = (Filter, Map, Select, SelectFields, Shuffle, Split, Union, WithFields)
# The steps in which branches meet again.
JOINS: Final = (StreamJoin, TableJoin)
BRANCHED: Final = (Union, *JOINS)


@dataclass(frozen=True, slots=True)
class Fork:
    """Branches that part at the step `part`: the steps of each, in order."""

    part: str
    branches: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Rejoin:
    """The branches that meet in a union or a join.

    `others` are the inputs of a union that meet none, with the steps between if they are united with branches before.
    """

    forks: tuple[Fork, ...]
    others: tuple[Fork, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The steps whose frames it is made of."""
        return tuple(fork.part for fork in (*self.forks, *self.others))


@dataclass(frozen=True, slots=True)
class Path:
    """The steps from `start`, exclusive, to an input of a union."""

    start: str
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Graph:
    """The nodes of a topology by name, inputs first, those that lie on every path to each, and all upstream of each."""

    known: Mapping[str, Node]
    passed: Mapping[str, frozenset[str]]
    above: Mapping[str, frozenset[str]]


def rejoins_of(nodes: Iterable[Node]) -> Mapping[str, Rejoin]:
    """The unions and joins of `nodes`, inputs first, whose branches of one step can be computed record by record."""
    known = {node.name: node for node in nodes}
    graph = Graph(known, dominators(known.values()), _above(known))
    found: dict[str, Rejoin] = {}
    for node in known.values():
        meeting = _meeting(node.inputs, graph) if isinstance(node, BRANCHED) else []
        made = _rejoin(node, meeting, graph) if meeting else None
        if made is not None:
            found[node.name] = made
    return found


def _rejoin(node: Node, meeting: list[str], graph: Graph) -> Rejoin | None:
    groups = [[Path(name) for name in meeting]]
    if _part(groups[0], graph) is None and isinstance(node, Union):
        groups = _groups([path for name in meeting for path in _paths(name, graph.known)], graph)
    found = [_fork(group, graph) for group in groups]
    forks = tuple(fork for fork in found if fork is not None)
    steps = [graph.known[name] for name in {name for fork in forks for branch in fork.branches for name in branch}]
    if len(forks) < len(found) or not all(map(_by_record, steps)):
        return None
    if isinstance(node, JOINS) and len(forks[0].branches) != len(node.inputs):
        return None
    apart = (Fork(name, ((),)) for name in node.inputs if name not in meeting)
    return Rejoin(
        tuple(fork for fork in forks if len(fork.branches) > 1),
        (*(fork for fork in forks if len(fork.branches) == 1), *apart),
    )


def _by_record(step: Node) -> bool:
    return isinstance(step, BY_RECORD) and not calls_python(step) and not calls_by_name(step)


def _fork(paths: Sequence[Path], graph: Graph) -> Fork | None:
    """The branches from the last step that all `paths` have in common; None if there is no such step."""
    part = _part(paths, graph)
    if part is None:
        return None
    branches = ((*before, *path.steps) for path in paths for before in _branches(path.start, part, graph.known))
    return Fork(part, tuple(branches))


def _part(paths: Sequence[Path], graph: Graph) -> str | None:
    common = reduce(frozenset.intersection, (graph.passed[path.start] | {path.start} for path in paths))
    return next((name for name in reversed(list(graph.known)) if name in common), None)


def _paths(name: str, known: Mapping[str, Node]) -> Iterator[Path]:
    """The paths to `name` from the inputs of the unions before it, with only steps by record between."""
    steps = [name]
    while isinstance(known[steps[0]], BY_RECORD) and not isinstance(known[steps[0]], Union):
        steps.insert(0, known[steps[0]].inputs[0])
    if not isinstance(known[steps[0]], Union):
        yield Path(name)
        return
    for above in known[steps[0]].inputs:
        for path in _paths(above, known):
            yield Path(path.start, (*path.steps, *steps))


def _groups(paths: Sequence[Path], graph: Graph) -> list[list[Path]]:
    """`paths` in groups: those of one group have a step in common, directly or through others."""
    groups: list[list[Path]] = []
    for path in paths:
        way = graph.above[path.start]
        near = [group for group in groups if any(way & graph.above[other.start] for other in group)]
        groups = [group for group in groups if group not in near]
        groups.append([*(each for group in near for each in group), path])
    return groups


def _meeting(inputs: Sequence[str], graph: Graph) -> list[str]:
    """The `inputs` that share a step with another one."""
    ways = [graph.above[name] for name in inputs]
    return [
        name
        for place, name in enumerate(inputs)
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

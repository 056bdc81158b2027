"""Branches that part and meet again: Spark reads a source once in a query, so only one path may lead to its output.

Branches that map record by record count as one path where they are computed in one frame (`topology/rejoin.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import reduce
from typing import Final

from rs_assets.common.node import Node
from rs_assets.errors import TopologyError

Ancestors = Callable[[str], AbstractSet[str]]
# The inputs of the frame, for a union whose branches are computed in one frame.
Merged = Mapping[str, tuple[str, ...]]
# A batch is read once for each path: branches that part and meet repeatedly multiply them.
MOST_PATHS = 64
NOTHING: Final[Merged] = {}
# What computes both sides of a join from one source, by the family of the join.
TWICE: Final = "write the steps between in SQL, or read the source twice, under two names (name='...')"
SIDES: Final = {"join": f"{TWICE}, or put .shuffle(n, strategy='delta') after one side", "table": TWICE}


def dominators(nodes: Iterable[Node]) -> Mapping[str, frozenset[str]]:
    """For each of `nodes`, inputs first, the others that lie on every path from a source to it."""
    found: dict[str, frozenset[str]] = {}
    for node in nodes:
        paths = [found[name] | {name} for name in node.inputs]
        found[node.name] = reduce(frozenset.intersection, paths) if paths else frozenset()
    return found


def paths_from(nodes: Iterable[Node], start: str, merged: Merged = NOTHING) -> Mapping[str, int]:
    """The number of paths from `start` to each of `nodes`, inputs first; 1 for `start` itself."""
    found: dict[str, int] = {}
    for node in nodes:
        inputs = merged.get(node.name, node.inputs)
        found[node.name] = 1 if node.name == start else sum(found.get(name, 0) for name in inputs)
    return found


def rejoined(nodes: Iterable[Node], merged: Merged = NOTHING) -> frozenset[str]:
    """The steps that several paths lead to from one source: where branches meet, and all steps downstream."""
    nodes = tuple(nodes)
    every = [paths_from(nodes, node.name, merged) for node in nodes if not node.inputs]
    return frozenset(node.name for node in nodes if any(paths[node.name] > 1 for paths in every))


def check_branches(nodes: Iterable[Node], ancestors: Ancestors, merged: Merged = NOTHING) -> None:
    """TopologyError names the first step at which branches meet although one query cannot compute that.

    Branches may meet downstream of a step that all rows of a sink pass: those steps run on each batch. Upstream of a
    stateful step, and where they meet rows of another source, only branches that are `merged` may meet.
    """
    nodes = tuple(nodes)
    if rejoined(nodes):
        _check_number(nodes)
    meeting, passed = rejoined(nodes, merged), dominators(nodes)
    read = {name for node in nodes for name in node.inputs}
    for node in nodes:
        nowhere_one = passed[node.name] <= meeting and node.name not in read
        if node.name in meeting and (node.stateful or nowhere_one):
            raise _refusal(node, nodes, ancestors, meeting)


def _check_number(nodes: tuple[Node, ...]) -> None:
    for source in (node.name for node in nodes if not node.inputs):
        for name, number in paths_from(nodes, source).items():
            if number > MOST_PATHS:
                raise TopologyError(
                    f"{number} paths lead from step {source!r} to {name!r}, more than {MOST_PATHS}",
                    remedy="put .shuffle(n, strategy='delta') between two of the steps where branches meet",
                    step=name,
                )


def _refusal(node: Node, nodes: tuple[Node, ...], ancestors: Ancestors, meeting: frozenset[str]) -> TopologyError:
    """The error for `node`, with the steps upstream at which the branches part and meet."""
    above = [each for each in nodes if each.name == node.name or each.name in ancestors(node.name)]
    meets = next(each for each in above if each.name in meeting)
    branches = [ancestors(name) | {name} for name in meets.inputs]
    parts = [each.name for each in above if sum(each.name in branch for branch in branches) > 1][-1]
    if meets.family in SIDES:
        return TopologyError(
            f"both sides of the join {meets.name!r} come from step {parts!r}, by steps that cannot be computed in one"
            " pass: Spark reads a source once in a query",
            remedy=SIDES[meets.family],
            step=meets.name,
        )
    where = f"upstream of {node.name!r}, which keeps state" if node.stateful else "together with another source"
    return TopologyError(
        f"the branches of step {parts!r} meet in {meets.name!r}, {where}: Spark reads a source once in a query",
        remedy=f"write the steps between in SQL and unite the branches of {parts!r} alone, before others; or put"
        " .shuffle(n, strategy='delta') after that union",
        step=meets.name,
    )

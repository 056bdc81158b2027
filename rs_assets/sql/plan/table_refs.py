"""The tables that a part of FROM reads, before it is planned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rs_assets.sql.plan.lateral import is_lateral
from rs_assets.sql.plan.planner import NamedQuery, Planner, QueryContext, named_queries


def origins_of(planner: Planner, tree: Any, context: QueryContext) -> frozenset[str]:
    """The sources that `tree` would read, as in relations: a table and the number of its reading."""
    return frozenset(origin(name, context.reading) for name in _tables(planner, tree, context.local))


def origin(name: str, reading: int) -> str:
    """A source: a table in one of its readings."""
    return f"{name} {reading}"


def _tables(planner: Planner, tree: Any, local: Mapping[str, NamedQuery]) -> set[str]:
    """The tables that a tree reads, also through views and queries of WITH, each of which sees the previous ones."""
    found, views = set[str](), set[str]()
    waiting = [(tree, local)]
    while waiting:
        node, known = waiting.pop()
        name = _name(node)
        if name in known:
            waiting.append((known[name].tree, known[name].local))
        elif name in planner.catalog.views:
            if name not in views:
                waiting.append((planner.catalog.views[name].tree, {}))
            views.add(name)
        elif name:
            found.add(name)
        queries = node.args.get("with_")
        inside = named_queries(queries.expressions, known) if queries is not None else known
        waiting += [(child, inside) for child in node.iter_expressions() if child is not queries]
    return found


def _name(node: Any) -> str:
    """The name in FROM or JOIN; empty for anything else, and for dimensions, which are not streams."""
    if node.key != "table" or node.args.get("version") is not None or is_lateral(node):
        return ""
    if node.this.key == "anonymous":
        return str(node.this.expressions[0].name) if node.this.expressions else ""
    return str(node.name)

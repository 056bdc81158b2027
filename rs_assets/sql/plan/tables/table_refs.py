"""The tables that a part of FROM reads, before it is planned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rs_assets.sql.plan.lateral import is_lateral
from rs_assets.sql.plan.planner import NamedQuery, Planner, QueryContext, named_queries
from rs_assets.sql.read.options import CONNECTORS, Options

# The connectors of tables that are looked up, and the options with which they are read as they grow.
LOOKED_UP: Final = ("filesystem", "delta", "jdbc", "db")
FOLLOWING: Final = frozenset({"follow", "order-by", "deletes"})


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
        name = _name(planner, node, known)
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


def is_followed(planner: Planner, name: str, local: Mapping[str, NamedQuery]) -> bool:
    """Whether a table FOR SYSTEM_TIME AS OF is a query or a source with a key; else it is looked up."""
    if name in local or name in planner.catalog.views:
        return True
    table = planner.catalog.tables.get(name)
    if table is None or not table.key:
        return False
    options = Options.of(planner.text, table, "source")
    kind = options.take("connector")
    looked_up = CONNECTORS.get(kind or "", kind) in LOOKED_UP and not FOLLOWING & options.found.keys()
    return name in planner.bound or not looked_up


def _name(planner: Planner, node: Any, local: Mapping[str, NamedQuery]) -> str:
    """The name in FROM or JOIN; empty for anything else, and for dimensions, which are not streams."""
    if node.key != "table" or is_lateral(node):
        return ""
    if node.args.get("version") is not None and not is_followed(planner, node.name, local):
        return ""
    if node.this.key == "anonymous":
        return str(node.this.expressions[0].name) if node.this.expressions else ""
    return str(node.name)

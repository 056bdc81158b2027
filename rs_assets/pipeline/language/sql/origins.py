"""Which tables a part of FROM reads, before anything is made of it."""

from __future__ import annotations

from typing import Any

from rs_assets.pipeline.language.sql.lateral import is_lateral
from rs_assets.pipeline.language.sql.planner import Place, Planner


def origins_of(planner: Planner, tree: Any, place: Place) -> frozenset[str]:
    """The sources that `tree` would read, as relations have them: a table, and which reading of it."""
    return frozenset(origin(name, place.reading) for name in _tables(planner, tree, dict(place.local), frozenset()))


def origin(name: str, reading: int) -> str:
    """A source: a table in one of its readings."""
    return f"{name} {reading}"


def _tables(planner: Planner, tree: Any, local: dict[str, Any], seen: frozenset[str]) -> set[str]:
    from sqlglot import exp

    local = {**local, **{each.alias: each.this for each in tree.find_all(exp.CTE)}}
    found: set[str] = set()
    for name in _names(tree):
        inner = local.get(name) or getattr(planner.catalog.views.get(name), "tree", None)
        if inner is None:
            found.add(name)
        elif name not in seen:
            found |= _tables(planner, inner, {k: v for k, v in local.items() if k != name}, seen | {name})
    return found


def _names(tree: Any) -> list[str]:
    """The names in FROM and JOIN; those of dimensions are no streams."""
    from sqlglot import exp

    found = []
    for table in tree.find_all(exp.Table):
        if table.args.get("version") is not None:
            continue
        if is_lateral(table):
            continue
        if table.this.key == "anonymous":
            found += [table.this.expressions[0].name] if table.this.expressions else []
        else:
            found.append(table.name)
    return found

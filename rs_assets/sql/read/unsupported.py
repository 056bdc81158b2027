"""Refuses parts of statements that sqlglot parses and no rule reads: ignoring them would change the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from rs_assets.sql.read.lexer import CALL
from rs_assets.sql.read.source import Text

UNNEST: Final = f"{CALL}UNNEST"
ENDLESS: Final = "streams have no end: rank with ROW_NUMBER() and keep WHERE rn <= n"
_BOTH: Final = frozenset({"this", "expression"})
_THIS: Final = frozenset({"this"})
_NOTHING: Final = frozenset[str]()
# The parts that rules read, by kind of tree: all other parts are refused. Parts that `normal` rewrites are not listed.
READ: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "select": frozenset({"expressions", "from_", "joins", "where", "group", "having", "distinct", "with_", "hint"}),
        "union": frozenset({"this", "expression", "distinct", "with_"}),
        "subquery": frozenset({"this", "alias", "with_"}),
        "with": frozenset({"expressions"}),
        "cte": frozenset({"this", "alias"}),
        "tablealias": frozenset({"this", "columns"}),
        "table": frozenset({"this", "alias", "version", "ordinality"}),
        "join": frozenset({"this", "on", "side", "kind", "using", "method"}),
        "lateral": frozenset({"this", "alias", "ordinality"}),
        "version": frozenset({"this", "expression", "kind"}),
        "group": frozenset({"expressions"}),
        "distinct": frozenset({"expressions"}),
        "star": _NOTHING,
        "column": frozenset({"this", "table", "db", "catalog"}),
        "identifier": frozenset({"this", "quoted"}),
        "alias": frozenset({"this", "alias"}),
        "literal": frozenset({"this", "is_string"}),
        "anonymous": frozenset({"this", "expressions"}),
        "interval": frozenset({"this", "unit"}),
        "in": frozenset({"this", "expressions", "query"}),
        "between": frozenset({"this", "low", "high"}),
        "case": frozenset({"this", "ifs", "default"}),
        "if": frozenset({"this", "true"}),
        "window": frozenset({"this", "partition_by", "order", "spec", "alias", "over"}),
        "windowspec": frozenset({"kind", "start", "start_side", "end", "end_side", "exclude"}),
        "order": frozenset({"expressions"}),
        "ordered": frozenset({"this", "desc", "nulls_first"}),
        "datatype": frozenset({"this", "expressions", "nested", "kind"}),
        "cast": frozenset({"this", "to"}),
        # `safe` marks a TRY_CAST.
        "trycast": frozenset({"this", "to", "safe"}),
        "trim": frozenset({"this", "expression", "position"}),
        "strposition": frozenset({"this", "substr"}),
        "array": frozenset({"expressions", "bracket_notation"}),
        "bracket": frozenset({"this", "expressions"}),
        # sqlglot sets `safe` for all of them.
        "dpipe": frozenset({"this", "expression", "safe"}),
        **dict.fromkeys(("hint", "tuple"), frozenset({"expressions"})),
        **dict.fromkeys(("from", "where", "having", "paren", "neg", "not", "boolean", "var", "exists"), _THIS),
        **dict.fromkeys(("datatypeparam", "ignorenulls", "respectnulls"), _THIS),
        **dict.fromkeys(("add", "sub", "mul", "mod", "div", "and", "or", "eq", "neq", "gt", "gte", "lt", "lte"), _BOTH),
        **dict.fromkeys(("nullsafeeq", "nullsafeneq", "is", "like", "ilike", "escape", "regexplike"), _BOTH),
        **dict.fromkeys(("filter", "extract", "dot", "intervalspan", "kwarg"), _BOTH),
        **dict.fromkeys(("null", "currenttimestamp", "currentdate"), _NOTHING),
    }
)
# Names of parts in statements, and their replacements.
NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "by_name": "BY NAME", "laterals": "LATERAL VIEW", "windows": "WINDOW", "kind": "SELECT AS",
        "joins": "a join in brackets",
        "db": "a table name with a dot", "catalog": "a table name with dots", "format": "FORMAT",
        "recursive": "WITH RECURSIVE", "materialized": "MATERIALIZED", "grouping_sets": "GROUPING SETS",
        "all": "GROUP BY ALL", "first": "KEEP", "from_": "FROM",
    }
)  # fmt: skip
REMEDIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "limit": ENDLESS,
        "order": ENDLESS,
        "offset": ENDLESS,
        "by_name": "select the columns of both sides in the same order",
        "joins": "write the join into a sub-query: FROM (SELECT ... FROM a JOIN b ON ...) AS t",
        "db": "write the table name only",
        "catalog": "write the table name only",
        "recursive": "write WITH",
        "rollup": "write one query for each grouping",
        "cube": "write one query for each grouping",
        "grouping_sets": "write one query for each grouping",
        "all": "name the columns: GROUP BY a, b",
    }
)


def check_read(text: Text, tree: Any) -> Any:
    """The tree of a query or an expression; SqlError, with its position, for an unsupported part.

    Unknown kinds of trees are refused by the rules that read them.

    >>> from rs_assets.sql.read.lexer import parsed, tokens_of
    >>> text = Text("SELECT a FROM t UNION ALL SELECT a FROM u LIMIT 3")
    >>> check_read(text, parsed(text, tokens_of(text)))
    Traceback (most recent call last):
    rs_assets.errors.SqlError: LIMIT is not supported [line=1, column=49]
      remedy: streams have no end: rank with ROW_NUMBER() and keep WHERE rn <= n
    """
    waiting = [tree]
    while waiting:
        node = waiting.pop(0)
        known = READ.get(node.key)
        if known is None:
            continue
        CHECKS.get(node.key, check_parts)(text, node)
        waiting[:0] = [child for name in node.args if name in known for child in _trees(node.args[name])]
    return tree


def _trees(part: Any) -> Iterator[Any]:
    for each in part if isinstance(part, list) else [part]:
        if hasattr(each, "args"):
            yield each


def check_parts(text: Text, node: Any, remedies: Mapping[str, str] = REMEDIES) -> None:
    """SqlError for an unsupported part of `node`."""
    for name, part in node.args.items():
        if part and name not in READ[node.key]:
            shown = NAMES.get(name, name.rstrip("_").upper().replace("_", " "))
            at = next(_trees(part), node.args.get("expression", node))
            raise text.error(
                f"{shown} is not supported",
                at if hasattr(at, "args") else node,
                remedy=remedies.get(name, "remove it"),
            )


def _select(text: Text, node: Any) -> None:
    """The planner checks SELECT, with errors that depend on its context."""


def _distinct(text: Text, node: Any) -> None:
    if node.args.get("on") is not None:
        raise text.error("DISTINCT ON is not supported", node, remedy="rank with ROW_NUMBER() and keep WHERE rn = 1")
    check_parts(text, node)


def _star(text: Text, node: Any) -> None:
    part = next((name for name, value in node.args.items() if value), None)
    if part is not None:
        raise text.error(f"* {part.rstrip('_').upper()} is not supported", node, remedy="name the columns")


def _names(text: Text, node: Any) -> None:
    """Column names after an alias are allowed for sub-queries and for table functions."""
    over = node.parent
    renames = over.key == "cte" or (over.key == "table" and over.this.name != UNNEST)
    if node.columns and renames:
        raise text.error(
            f"column names are not allowed after {node.name!r}", node.columns[0], remedy="name them: SELECT a AS b, ..."
        )
    typed = next((each for each in node.columns if each.key != "identifier"), None)
    if typed is not None:
        raise text.error("a column after an alias has a name only", typed, remedy="AS t (a, b)")
    check_parts(text, node)


def _version(text: Text, node: Any) -> None:
    of_time = str(node.this).upper() == "TIMESTAMP" and str(node.args.get("kind")).upper() == "AS OF"
    if not of_time or node.expression is None:
        raise text.error(
            "a table is read FOR SYSTEM_TIME AS OF a time",
            node,
            remedy="JOIN t FOR SYSTEM_TIME AS OF stream.proctime AS d",
        )
    check_parts(text, node)


CHECKS: Final[Mapping[str, Callable[[Text, Any], None]]] = MappingProxyType(
    {"select": _select, "distinct": _distinct, "star": _star, "tablealias": _names, "version": _version}
)

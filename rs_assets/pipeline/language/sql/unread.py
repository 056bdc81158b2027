"""Parts of a query that sqlglot reads and nobody here does: they are refused, for rows would be others without them."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

from rs_assets.pipeline.language.sql.lexer import CALL
from rs_assets.pipeline.language.sql.source import Text

UNNEST: Final = f"{CALL}UNNEST"
ENDLESS: Final = "streams have no end: rank with ROW_NUMBER() and keep WHERE rn <= n"
UNREAD: Final = MappingProxyType(
    {"limit": ENDLESS, "order": ENDLESS, "by_name": "select the columns of both sides in one order"}
)
# What is read of a union and of a query in brackets.
READ: Final = MappingProxyType(
    {
        "union": frozenset({"this", "expression", "distinct", "with_"}),
        "subquery": frozenset({"this", "alias", "with_", "joins"}),
    }
)


def check_read(text: Text, tree: Any) -> Any:
    """The tree of a query; SqlError, with its place, for a part of it that nobody reads.

    >>> from rs_assets.pipeline.language.sql.lexer import parsed, tokens_of
    >>> text = Text("SELECT a FROM t UNION ALL SELECT a FROM u LIMIT 3")
    >>> check_read(text, parsed(text, tokens_of(text)))
    Traceback (most recent call last):
    rs_assets.errors.SqlError: LIMIT is not supported [line=1, column=49]
      remedy: streams have no end: rank with ROW_NUMBER() and keep WHERE rn <= n
    """
    for node in tree.walk():
        check = CHECKS.get(node.key)
        if check is not None:
            check(text, node)
    return tree


def _parts(text: Text, node: Any) -> None:
    for name, part in node.args.items():
        if part and name not in READ[node.key]:
            shown = name.rstrip("_").upper().replace("BY_NAME", "BY NAME")
            at = part[0] if isinstance(part, list) else part
            raise text.error(
                f"{shown} is not supported",
                at if hasattr(at, "walk") else node.args.get("expression", node),
                remedy=UNREAD.get(name, "leave it out"),
            )


def _distinct(text: Text, node: Any) -> None:
    if node.args.get("on") is not None:
        raise text.error("DISTINCT ON is not supported", node, remedy="rank with ROW_NUMBER() and keep WHERE rn = 1")


def _star(text: Text, node: Any) -> None:
    part = next((name for name, value in node.args.items() if value), None)
    if part is not None:
        raise text.error(f"* {part.rstrip('_').upper()} is not supported", node, remedy="name the columns")


def _names(text: Text, node: Any) -> None:
    """Names of columns behind an alias are those of a sub-query, or of rows that are made of the row before."""
    over = node.parent
    renames = over.key == "cte" or (over.key == "table" and over.this.name != UNNEST)
    if node.columns and renames:
        raise text.error(
            f"columns are not named behind {node.name!r}", node.columns[0], remedy="name them: SELECT a AS b, ..."
        )


CHECKS: Final[MappingProxyType[str, Callable[[Text, Any], None]]] = MappingProxyType(
    {"union": _parts, "subquery": _parts, "distinct": _distinct, "star": _star, "tablealias": _names}
)

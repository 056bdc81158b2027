"""Compiles trees to Spark SQL by rules, one for each kind of tree (`rules.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rs_assets.errors import SqlError
from rs_assets.records.types import Type
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.read.source import Text

if TYPE_CHECKING:
    from sqlglot import exp

# Resolves a tree before its rule is applied; None: use the rule.
Resolve = Callable[["exp.Expression"], "Value | None"]
Calls = Callable[["Expressions", str, "list[Value]", "exp.Expression"], Value]


@dataclass(frozen=True, slots=True)
class Expressions:
    """Compiles trees to Spark SQL: `resolve` handles columns, `calls` functions, `rules` all other kinds of trees.

    A tree without a rule is refused, with the remedy of its kind in `refused`.
    """

    text: Text
    resolve: Resolve
    calls: Calls
    rules: Mapping[str, Callable[[Expressions, Any], Value]] = field(repr=False)
    refused: Mapping[str, str] = field(repr=False)

    def value(self, tree: exp.Expression) -> Value:
        """The text of `tree` and its type; SqlError for an unsupported tree."""
        found = self.resolve(tree)
        if found is not None:
            return found
        rule = self.rules.get(tree.key)
        if rule is None:
            raise self.error(f"{self.shown(tree)} is not supported here", tree, remedy=self.refused.get(tree.key, ""))
        return rule(self, tree)

    def condition(self, tree: exp.Expression) -> Value:
        """The SQL text of a condition; SqlError if it is not true or false."""
        made = self.value(tree)
        if made.type is not None and made.type.name != "boolean":
            raise self.error(
                f"{self.shown(tree)} is {a_type(made.type)}, not true or false",
                tree,
                remedy="compare it with a value",
            )
        return made

    def error(self, what: str, at: object, *, remedy: str = "") -> SqlError:
        """The error at a tree."""
        return self.text.error(what, at, remedy=remedy)

    def shown(self, tree: exp.Expression) -> str:
        """The source text of a tree, as far as it has a position."""
        written = " ".join(self.text.written(tree).split())
        return repr(written) if written else tree.key.upper()


def a_type(kind: Type) -> str:
    """A type with its article: 'a BIGINT'."""
    return f"{'an' if kind.name[0] in 'aeiou' else 'a'} {kind.text.upper()}"

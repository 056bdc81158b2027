"""Expressions: makes Spark SQL of trees by rules, one for each kind of tree (`rules.py`)."""

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

# What a tree is here, before its rule is asked; None: not this one's matter.
Resolve = Callable[["exp.Expression"], "Value | None"]
Calls = Callable[["Expressions", str, "list[Value]", "exp.Expression"], Value]


@dataclass(frozen=True, slots=True)
class Expressions:
    """Makes Spark SQL of trees: `resolve` knows the columns, `calls` the functions, `rules` all other kinds of trees.

    What has no rule is refused, with the remedy that `refused` has for its kind.
    """

    text: Text
    resolve: Resolve
    calls: Calls
    rules: Mapping[str, Callable[[Expressions, Any], Value]] = field(repr=False)
    refused: Mapping[str, str] = field(repr=False)

    def value(self, tree: exp.Expression) -> Value:
        """The text of `tree` and its type; SqlError for what has no meaning here."""
        found = self.resolve(tree)
        if found is not None:
            return found
        rule = self.rules.get(tree.key)
        if rule is None:
            raise self.error(f"{self.shown(tree)} is not supported here", tree, remedy=self.refused.get(tree.key, ""))
        return rule(self, tree)

    def condition(self, tree: exp.Expression) -> Value:
        """The text of what must be true or false."""
        made = self.value(tree)
        if made.type is not None and made.type.name != "boolean":
            raise self.error(
                f"{self.shown(tree)} is {a_type(made.type)}, not true or false",
                tree,
                remedy="compare it with something",
            )
        return made

    def error(self, what: str, at: object, *, remedy: str = "") -> SqlError:
        """The error for what stands at a tree."""
        return self.text.error(what, at, remedy=remedy)

    def shown(self, tree: exp.Expression) -> str:
        """A tree as it was written, as far as it has a place."""
        written = " ".join(self.text.written(tree).split())
        return repr(written) if written else tree.key.upper()


def a_type(kind: Type) -> str:
    """A type with its article: 'a BIGINT'."""
    return f"{'an' if kind.name[0] in 'aeiou' else 'a'} {kind.text.upper()}"

"""A function as a decision tree, with conditions in the order in which the function asks them."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

from rs_assets.compile.python.tracing import expression as parts
from rs_assets.compile.python.tracing.expression import Expression, call

Verdict = Literal["keep", "drop", "ask", "raise", "made"]


@dataclass(frozen=True, slots=True)
class Leaf:
    """The outcome for the records that reach it; "made" are those with `values`, one for each field.

    On those of "raise" the function certainly raises; of "ask" only the function itself knows.
    """

    verdict: Verdict
    values: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Branch:
    """Two paths; `condition` is never null for a record that reaches it."""

    condition: Expression
    yes: Tree
    no: Tree


Tree = Leaf | Branch
ASK, RAISE = Leaf("ask"), Leaf("raise")
# The outcomes of the records that the function itself has to get: it raises on some of them for certain.
UNDECIDED: frozenset[Verdict] = frozenset({"ask", "raise"})


def size_of(tree: Tree) -> int:
    """How many parts all conditions and values have."""
    if isinstance(tree, Leaf):
        return 1 + sum(value.size for value in tree.values)
    return tree.condition.size + size_of(tree.yes) + size_of(tree.no)


def verdicts_of(tree: Tree) -> frozenset[Verdict]:
    """The possible outcomes for a record."""
    if isinstance(tree, Leaf):
        return frozenset({tree.verdict})
    return verdicts_of(tree.yes) | verdicts_of(tree.no)


def leading_to(tree: Tree, verdicts: AbstractSet[Verdict]) -> Expression | bool:
    """The condition of the records with one of `verdicts`; True for all records, False for none.

    Made of and, or and not alone, which can be pushed down to a source. After a decisive condition a part may be null
    that the function would not have reached: it never decides.
    """
    if isinstance(tree, Leaf):
        return tree.verdict in verdicts
    yes, no = leading_to(tree.yes, verdicts), leading_to(tree.no, verdicts)
    if isinstance(yes, bool) and isinstance(no, bool):
        return yes if yes is no else _either(tree.condition, yes)
    if isinstance(yes, bool):
        # The second part is evaluated where the condition is false.
        return call("or", tree.condition, no) if yes else call("and", call("not", tree.condition), no)  # type: ignore[arg-type]
    if isinstance(no, bool):
        return call("or", call("not", tree.condition), yes) if no else call("and", tree.condition, yes)
    return call("or", call("and", tree.condition, yes), call("and", call("not", tree.condition), no))


def _either(condition: Expression, wanted: bool) -> Expression:  # noqa: FBT001  the value of a condition
    return condition if wanted else call("not", condition)


def constant_at(tree: Tree, place: int) -> bool:
    """Whether the value number `place` is a constant, or absent, on each path.

    >>> constant_at(Leaf("made", (parts.whole(1),)), 0)
    True
    """
    if isinstance(tree, Leaf):
        return not tree.values or isinstance(tree.values[place], parts.Literal)
    return constant_at(tree.yes, place) and constant_at(tree.no, place)

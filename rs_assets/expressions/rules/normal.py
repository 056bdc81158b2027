"""Conditions in disjunctive form: a rule holds if all tests of one of its conjunctions do."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from rs_assets.expressions.rules.atoms import Formula, Interval, Joined, Member, Negated, Test

# A rule with more conjunctions is refused.
MOST = 64

# A test, and whether it must hold or must not.
Literal = tuple[Test, bool]
Conjunction = tuple[Literal, ...]


class TooManyError(ValueError):
    """A condition that multiplies out to more than `MOST` conjunctions."""


def conjunctions_of(formula: Formula) -> tuple[Conjunction, ...]:
    """The conjunctions of a formula, without those that can never hold; TooManyError beyond `MOST`.

    >>> from rs_assets.expressions.rules.atoms import formula_of
    >>> found = conjunctions_of(formula_of("((ms,>,1)|(ms,<,0))&!(ms,=,5)", {"ms": "int"}, step="judge"))
    >>> [[(test.low, holds) for test, holds in each] for each in found]
    [[(2, True), (5, False)], [(-9223372036854775808, True), (5, False)]]
    """
    return tuple(dict.fromkeys(made for each in _spread(formula, holds=True) if (made := _merged(each)) is not None))


def _spread(formula: Formula, *, holds: bool) -> list[Conjunction]:
    match formula:
        case Negated(part):
            return _spread(part, holds=not holds)
        case Joined(operator, parts):
            spread = [_spread(part, holds=holds) for part in parts]
            if (operator == "|") == holds:
                return _counted(itertools.chain.from_iterable(spread))
            return _counted(tuple(itertools.chain.from_iterable(each)) for each in itertools.product(*spread))
    return [((formula, holds),)]


def _counted(made: Iterable[Conjunction]) -> list[Conjunction]:
    found = list(itertools.islice(made, MOST + 1))
    if len(found) > MOST:
        raise TooManyError(f"it multiplies out to more than {MOST} alternatives")
    return found


def _merged(conjunction: Conjunction) -> Conjunction | None:
    """One interval a number and one set a text, each literal once; None if it cannot hold."""
    numbers: dict[str, Interval] = {}
    members: dict[object, Member] = {}
    others: dict[Literal, None] = {}
    for test, holds in conjunction:
        if isinstance(test, Interval) and holds:
            known = numbers.get(test.field, test)
            numbers[test.field] = Interval(test.field, max(known.low, test.low), min(known.high, test.high))
        elif isinstance(test, Member) and holds:
            both = members.get(test.view, test)
            members[test.view] = Member(test.view, both.values & test.values)
        else:
            others[test, holds] = None
    empty = any(each.low > each.high for each in numbers.values()) or any(not m.values for m in members.values())
    if empty or any((test, not holds) in others for test, holds in others):
        return None
    return (*((each, True) for each in numbers.values()), *((each, True) for each in members.values()), *others)

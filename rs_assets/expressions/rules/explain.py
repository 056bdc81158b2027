"""Why a rule holds for a row, or does not: each test of each of its alternatives."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rs_assets.expressions.rules.atoms import LEAST, MOST, Check, Interval, Matches, Member, Test
from rs_assets.expressions.rules.batch import Batch
from rs_assets.expressions.rules.compiled import compiled
from rs_assets.expressions.rules.match import matches
from rs_assets.expressions.rules.normal import Conjunction


def explained(rule: Sequence[Conjunction], batch: Batch, wholes: Sequence[str] = ()) -> list[list[tuple[str, bool]]]:
    """For each alternative each test, and whether the first row of the batch meets it.

    >>> import pyarrow as pa
    >>> from rs_assets.expressions.rules.atoms import formula_of
    >>> from rs_assets.expressions.rules.normal import conjunctions_of
    >>> rule = conjunctions_of(formula_of("(ms,>,5)&!(k,in,'a,b')", {"ms": "int", "k": "string"}, step="judge"))
    >>> explained(rule, Batch({"ms": pa.array([9]), "k": pa.array(["b"])}, 1), ["ms"])
    [[('ms is from 6', True), ("k is not one of 'a', 'b'", False)]]
    """
    return [list(_tests(alternative, batch, wholes)) for alternative in rule]


def _tests(alternative: Conjunction, batch: Batch, wholes: Sequence[str]) -> Iterator[tuple[str, bool]]:
    for literal in alternative:
        rows, _ = matches(compiled([((literal,),)], wholes), batch)
        yield said(*literal), 0 in rows.tolist()


def said(test: Test, holds: bool) -> str:  # noqa: FBT001  a literal's parts
    """A test for people."""
    no = "" if holds else "not "
    match test:
        case Interval(field, low, high):
            ends = [f"from {low}"] * (low > max(LEAST, -math.inf)) + [f"to {high}"] * (high < min(MOST, math.inf))
            return f"{field} is {no}{' '.join(ends) or 'a number'}"
        case Member(view, values):
            return f"{view.field} is {no}one of {', '.join(map(repr, sorted(values)[:10]))}"
        case Matches(view, pattern):
            return f"{view.field} has {'' if holds else 'no '}/{pattern.text}/"
        case Check(kind, view, value):
            return f"{view.field} is {no}{kind}{f' {value}' if value != '' else ''}"
    raise TypeError(f"{test!r} is not a test")

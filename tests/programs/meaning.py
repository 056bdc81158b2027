"""What terms and conditions mean, in plain Python: null is None, and a condition may be None."""

from __future__ import annotations

import operator
from functools import singledispatch
from math import fmod

from tests.programs import terms

OPERATORS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    # As in SQL: with the sign of the dividend.
    "%": lambda a, b: int(fmod(a, b)),
}


@singledispatch
def value(term, row):
    """The value of a term or condition for a row."""
    raise TypeError(term)


@value.register
def _(term: terms.Field, row):
    return row[term.name]


@value.register
def _(term: terms.Part, row):
    return (row[term.field] or {}).get(term.part)


@value.register
def _(term: terms.Constant, row):
    return term.value


@value.register
def _(term: terms.Arithmetic, row):
    return None if row[term.field] is None else OPERATORS[term.operator](row[term.field], term.number)


@value.register
def _(term: terms.Quotient, row):
    return None if row[term.field] is None else row[term.field] / term.number


@value.register
def _(term: terms.Coalesce, row):
    return term.value if row[term.field] is None else row[term.field]


@value.register
def _(term: terms.Joined, row):
    return None if row[term.field] is None else row[term.field] + term.text


@value.register
def _(term: terms.Case, row):
    return value(term.then if value(term.condition, row) else term.other, row)


@value.register
def _(term: terms.Compare, row):
    return None if row[term.field] is None else OPERATORS[term.operator](row[term.field], term.value)


@value.register
def _(term: terms.Missing, row):
    return (row[term.field] is None) != term.negated


@value.register
def _(term: terms.OneOf, row):
    return None if row[term.field] is None else row[term.field] in term.values


@value.register
def _(term: terms.Both, row):
    sides = value(term.left, row), value(term.right, row)
    decides = term.operator == "OR"
    if decides in sides:
        return decides
    return None if None in sides else not decides


@value.register
def _(term: terms.Negated, row):
    of = value(term.of, row)
    return None if of is None else not of

"""What a script makes of a record, in plain Python, from docs/scripts.md and docs/functions.md."""

from __future__ import annotations

from tests.programs import scripts as s

ORDER = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def of_value(function):
    """A function that gives null for null."""
    return lambda value, constant: None if value is None else function(value, constant)


FUNCTIONS = {
    "lower": of_value(lambda text, _: text.lower()),
    "upper": of_value(lambda text, _: text.upper()),
    "reverse": of_value(lambda text, _: text[::-1]),
    "length": of_value(lambda text, _: len(text)),
    # Nulls are skipped.
    "concat": lambda text, more: (text or "") + more,
    "coalesce": lambda value, other: other if value is None else value,
    "add": of_value(lambda a, b: a + b),
    "minus": of_value(lambda a, b: a - b),
    "multiply": of_value(lambda a, b: a * b),
}


def value(of, row):
    match of:
        case s.Called(function, field, constant):
            return FUNCTIONS[function](row[field], constant)
        case s.Given(constant):
            return constant
        case s.Copied(field):
            return row[field]


def holds(test, row):
    match test:
        case s.Holds(field, operator, constant):
            known = row[field]
            if operator in ("==", "!="):
                return (known == constant) == (operator == "==")
            return known is not None and ORDER[operator](known, constant)
        case s.Joint(operator, left, right):
            sides = holds(left, row), holds(right, row)
            return all(sides) if operator == "&" else any(sides)
        case s.Not(of):
            return not holds(of, row)


def after(statements, row):
    """The record after the statements; None if it is left out."""
    for each in statements:
        match each:
            case s.Set(name, of, _):
                row = row | {name: value(of, row)}
            case s.If(test, then, other):
                taken = then if holds(test, row) else other
                row = after(taken, dict.fromkeys(assigned((*then, *other))) | row)
            case s.Remove(name):
                row = {field: of for field, of in row.items() if field != name}
            case s.Rename(new, old):
                row = {new if field == old else field: of for field, of in row.items()}
            case s.Drop():
                return None
        if row is None:
            return None
    return row


def assigned(statements):
    """The fields that statements may set; those of the branch that is not taken are null."""
    return [each.name for each in statements if isinstance(each, s.Set)]

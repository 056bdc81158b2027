"""Aggregates and rankings of rows, in plain Python."""

from __future__ import annotations

import operator
import statistics
from functools import reduce

from tests.programs.meaning import value
from tests.programs.values import Items


def there(rows, field):
    """The values of a field, without nulls."""
    return [row[field] for row in rows if row[field] is not None]


def total(values):
    """The sum; null of nothing."""
    return sum(values) if values else None


def xor(values):
    """All bits that are set in an odd number of values; null of nothing."""
    return reduce(operator.xor, values) if values else None


def median(values):
    """The middle of the values, or between the two in the middle; null of nothing."""
    return float(statistics.median(values)) if values else None


def mean(values):
    """The mean as a double; null of nothing."""
    return float(sum(values)) / len(values) if values else None


AGGREGATES = {
    "sum": total,
    "avg": mean,
    "min": lambda values: min(values, default=None),
    "max": lambda values: max(values, default=None),
    "distinct": lambda values: Items(sorted(set(values))),
    "count_distinct": lambda values: len(set(values)),
    "collect": Items,
    "xor": xor,
    "every": lambda values: all(values) if values else None,
    "median": median,
}


def aggregated(aggregates, rows, time=None):
    """The fields of a group. Collected values are in the order of `time`, then of value."""
    made = {}
    for each in aggregates:
        if each.kind == "count":
            made[each.name] = len(rows)
        elif each.kind == "count_if":
            made[each.name] = sum(value(each.term, row) is True for row in rows)
        elif each.kind == "sum_of":
            made[each.name] = total([of for row in rows if (of := value(each.term, row)) is not None])
        else:
            order = [row for row in rows if row[each.field] is not None]
            order.sort(key=lambda row: (row[time], row[each.field]) if time else row[each.field])
            made[each.name] = AGGREGATES[each.kind](there(order, each.field))
    return made


def by_value(row, field):
    """An order in which null is smaller than any value."""
    return row[field] is not None, row[field] if row[field] is not None else 0


def first(top, rows):
    """The rows of a window's ranking, with the fields that it shows."""
    # Null is not compared with a text, because the first part of the key decides.
    order = sorted(rows, key=lambda row: [by_value(row, name) for name in (top.by, top.kept)], reverse=top.descending)
    return [{"rank": n, top.by: row[top.by], top.kept: row[top.kept]} for n, row in enumerate(order[: top.n], 1)]


def summed(rows, field):
    """What the functions of a user keep of the rows of a group."""
    return {"total": sum(there(rows, field)), "rows": len(rows)}


def ranked(step, rows, keys):
    """The rows of a group in a table's ranking: rows that are equal are in the order of their keys."""
    order = sorted(rows, key=lambda row: [by_value(row, key) for key in keys])
    # A reversed sort keeps the order of equal rows, so keys ascend in both directions.
    order = sorted(order, key=lambda row: by_value(row, step.by), reverse=step.descending)
    return [row | ({step.rank: n} if step.rank else {}) for n, row in enumerate(order[: step.n], 1)]

"""Aggregates of windows that a user writes in Python.

`CODE` is what they call, as a user would write it.
"""

from __future__ import annotations

from dataclasses import dataclass

CODE = """class Spread:
    def __init__(self, name, field):
        self.name, self.field = name, field
    def create(self):
        return []
    def accumulate(self, seen, row):
        return seen if row[self.field] is None else [*seen, row[self.field]]
    def value(self, seen):
        return {self.name: max(seen) - min(seen) if seen else None}
class Mean(Spread):
    def create(self):
        return [0, 0]
    def accumulate(self, sums, row):
        return sums if row[self.field] is None else [sums[0] + row[self.field], sums[1] + 1]
    def merge(self, one, other):
        return [one[0] + other[0], one[1] + other[1]]
    def value(self, sums):
        return {self.name: 1000 * sums[0] // sums[1] if sums[1] else None}
def greater(name, field):
    def add(before, row):
        there = [each for each in (before[name] if before else None, row[field]) if each is not None]
        return {name: max(there, default=None)}
    return add
def greatest(name):
    def merge(one, other):
        return {name: max((each for each in (one[name], other[name]) if each is not None), default=None)}
    return merge
def added(field, sign=1):
    def add(value, row):
        value = value or {"total": 0, "rows": 0}
        return {"total": value["total"] + sign * (row[field] or 0), "rows": value["rows"] + sign}
    return add
def added_by_key(field, sign=1):
    add = added(field, sign)
    return lambda key, row, value: add(value, row)"""


@dataclass(frozen=True)
class Own:
    """A field of a window by Python: `spread` keeps the values, `mean` and `most` can be merged."""

    name: str
    kind: str
    field: str

    def code(self, label):
        made = {
            "spread": f'Spread("{self.name}", "{self.field}")',
            "mean": f'Mean("{self.name}", "{self.field}"), accumulator="array<bigint>"',
            "most": f'greater("{self.name}", "{self.field}"), merge=greatest("{self.name}")',
        }[self.kind]
        return f'.reduce({made}, schema="{self.name} bigint", fields=["{self.field}"], name="{label}_{self.name}")'

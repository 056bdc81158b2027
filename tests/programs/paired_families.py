"""Families of programs whose tables are joined by any fields, so that a row has any number of partners."""

from __future__ import annotations

from tests.programs import later_families as later
from tests.programs import program as p
from tests.programs import table_families as tables
from tests.programs.shapes import keys_after

EQUAL = ("string", "bigint", "word", "big", "odd", "boolean", "timestamp", "struct<a:bigint,b:string>", "array<string>")


def side(d, source):
    """A table of rows or of groups."""
    if d.chance(0.7):
        return tables.table_steps(d, tables.table(d, source, lives=True))
    return later.totals(d, source, d.pick("key", "n")) if d.chance(0.5) else later.two_keys(d, source)


def equal(d, left, right):
    """One or two pairs of fields of one type, of which the right ones are not the whole key."""
    lefts, rights = d.fields(left), d.fields(right)
    there = [(own, other) for own in lefts for other in rights if lefts[own] == rights[other] and lefts[own] in EQUAL]
    d.rng.shuffle(there)
    found = []
    for own, other in there[:6]:
        if all(own != mine and other != theirs for mine, theirs in found):
            found.append((own, other))
    for size in (d.pick(1, 1, 2), 1, 2):
        if len(found) >= size and {other for _, other in found[:size]} != set(keys_after(d.steps, right)):
            return tuple(found[:size])
    return None


def joined(d, left, right):
    """The pairs of two tables; of one whose names are in use they begin with a prefix."""
    prefix = d.new("p") if left == right or set(d.fields(left)) & set(d.fields(right)) else None
    on = equal(d, left, right)
    return left if on is None else d.add(p.TablePairs, left, right, on, d.pick("inner", "left", "outer"), prefix)


def pairs(d):
    left = side(d, "a")
    right = left if d.chance(0.15) else side(d, "b")
    if left != right and d.chance(0.5):
        right = tables.renamed(d, right)
    name = tables.table_steps(d, joined(d, left, right))
    draws = d.rng.random()
    if draws < 0.2:
        name = joined(d, name, tables.renamed(d, side(d, "c")))
    elif draws < 0.4:
        name = tables.grouped(d, name)
    elif draws < 0.5:
        name = tables.ranked(d, name)
    elif draws < 0.6:
        name = joined(d, tables.grouped(d, name), tables.renamed(d, side(d, "c")))
    return [p.Sink(d.add(p.Changes, name), "net")]


FAMILIES = {"pairs": pairs}

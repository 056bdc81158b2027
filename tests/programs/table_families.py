"""Families of programs over tables."""

from __future__ import annotations

from tests.programs import program as p
from tests.programs import terms as t
from tests.programs.reductions import Cogroup, Reduced
from tests.programs.shapes import keys_after
from tests.programs.values import AGGREGATED, COMPUTED, ODD_ORDERED, ORDERED


def table(d, source="a", key=None, *, lives=False):
    """A table of a source by one of its fields."""
    name = d.stateless(d.source(source), d.pick(0, 2), sql=True)
    deletes = t.Compare("n", d.pick("=", ">"), d.pick(3, 7)) if d.chance(0.5) else None
    key = key or (*d.odd_keys(name), d.pick("id", "key"))[0]
    if lives and d.chance(0.4):
        return d.add(p.ToTable, name, key, ("ts",), deletes, d.pick(10, 30))
    return d.add(p.ToTable, name, key, d.pick((), (), ("ts",)), deletes)


def table_steps(d, name):
    """Steps that keep a table with one key."""
    for _ in range(d.rng.randrange(3)):
        if d.chance(0.5):
            name = d.add(p.Filter, name, d.condition(name), "sql")
        else:
            name = d.add(p.WithFields, name, ((d.new(), d.term(name)[0]),))
    return name


def grouped(d, name, groups=None):
    groups = groups or (d.rng.choice(d.keys(name, "string", "bigint", "odd", odd=ODD_ORDERED)),)
    made, fields = [p.Aggregate(d.new("c"), "count")], d.fields(name)
    for _ in range(d.rng.randrange(3)):
        kind = d.pick("sum", "avg", "min", "max", "count_distinct", "collect", *["xor", "every", "median"] * d.odder)
        kinds = AGGREGATED.get(kind, ORDERED)
        kinds = (*kinds, *ODD_ORDERED) if d.odder and kind not in COMPUTED else kinds
        there = [field for field, of in fields.items() if of in kinds]
        if there or not d.odder:
            made.append(p.Aggregate(d.new("g"), kind, d.rng.choice(there)))
    return d.add(p.Group, name, groups, tuple(made))


def ranked(d, name):
    """The first rows of groups of a table; or the first groups of it, which change with their rows."""
    n, descending, rank = d.pick(1, 2, 3), d.chance(0.6), d.pick(None, "place")
    if d.chance(0.4):
        group, other = d.rng.sample(d.named(name, "string", "bigint"), 2)
        name = grouped(d, name, (group, other))
        by = d.steps[name].aggregates[0].name
        return d.add(p.TableTop, name, group, n, by, descending, rank)
    group = d.rng.choice(d.keys(name, "string", "bigint", odd=ODD_ORDERED))
    by = d.rng.choice(d.named(name, "bigint", "double", *["big"] * d.odder))
    name = d.add(p.TableTop, name, group, n, by, descending, rank)
    return grouped(d, name) if d.chance(0.3) else name


def reduced(d, name, *, table):
    """Values of groups by functions of the user."""
    group = d.rng.choice(d.named(name, "string", "bigint"))
    return d.add(Reduced, name, group, d.rng.choice(d.named(name, "bigint")), table)


def cogrouped(d):
    """Values of groups of two inputs, each of which may be a table."""
    of = (d.chance(0.5), d.chance(0.5))
    inputs = [
        table(d, source) if is_table else d.stateless(d.source(source), 1, sql=True)
        for source, is_table in zip("ab", of, strict=True)
    ]
    return d.add(Cogroup, *inputs, d.pick("key", "n"), d.pick("n", "id"), of)


def tables(d):
    if d.chance(0.12):
        return [p.Sink(d.add(p.Changes, table_steps(d, cogrouped(d))), "net")]
    name, draws = table_steps(d, table(d, lives=True)), d.rng.random()
    if draws < 0.25:
        name = table_steps(d, grouped(d, name))
        name = grouped(d, name) if d.chance(0.4) else name
    elif draws < 0.5:
        name = ranked(d, name)
    elif draws < 0.6:
        name = table_steps(d, reduced(d, name, table=True))
    elif draws < 0.9:
        name = joined(d, name)
    return [p.Sink(d.add(p.Changes, name), "net")]


def renamed(d, name):
    """A table whose fields no other one has."""
    fields = d.fields(name)
    keys = keys_after(d.steps, name)
    columns = tuple((d.new("r"), t.Field(field)) for field in [*fields][len(keys) : len(keys) + 3])
    return d.add(p.MapValues, name, columns, keys)


def joined(d, name):
    (key, *_) = d.fields(name)
    if d.chance(0.5):
        right = renamed(d, table(d, "b", key))
        name = d.add(p.TableJoin, name, right, None, d.pick("inner", "left", "outer"), keys_after(d.steps, right))
    else:
        own = d.pick("key", "n")
        right = renamed(d, table(d, "b", {"key": "key", "n": "id"}[own]))
        others = keys_after(d.steps, right)
        on = None if own == key else ((own, *others),)
        name = d.add(p.TableJoin, name, right, on, d.pick("inner", "left"), others)
    return grouped(d, name) if d.chance(0.4) else name


def stream_tables(d):
    if d.chance(0.5):
        name = d.stateless(d.source(), 2, sql=True)
        name = reduced(d, name, table=False) if d.chance(0.3) else grouped(d, name)
        return [p.Sink(d.add(p.Changes, table_steps(d, name)), "net")]
    left = d.stateless(d.source(), 2, sql=True)
    if d.chance(0.5):
        key = d.pick("key", "id")
        deletes = t.Compare("n", "=", d.pick(3, 7)) if d.chance(0.5) else None
        right = d.add(p.ToTable, d.stateless(d.source("b"), 1, sql=True), key, ("ts",), deletes, history=True)
        on = ({"key": "key", "id": "n"}[key], key)
        return [p.Sink(d.add(p.StreamTable, left, right, on, d.pick("inner", "left"), timed=True), "append")]
    right = renamed(d, table(d, "b", d.pick("key", "id")))
    key = d.steps[d.steps[right].of].key
    name = d.add(p.StreamTable, left, right, ({"key": "key", "id": "n"}[key], key), d.pick("inner", "left"))
    return [p.Sink(name, "append")]


# Their rows come again with other values.
FAMILIES = {"tables": tables, "stream_tables": stream_tables}

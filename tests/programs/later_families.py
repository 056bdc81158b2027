"""Families of programs of later seeds: early rows of joins and tables of them, other joins, and chains of tables."""

from __future__ import annotations

from tests.programs import families
from tests.programs import program as p
from tests.programs import table_families as tables
from tests.programs import terms as t
from tests.programs.shapes import keys_after
from tests.programs.timers import Other, Timers

REACHES = ((-5, 20), (20, -5), (0, 60), (60, 60))


def early(d):
    """Unmatched rows that are taken back when their partner comes; perhaps as a table of current rows."""
    if d.chance(0.4):
        return [p.Sink(d.add(p.Changes, early_table(d)), "net")]
    left, right = families.sides(d, 1)
    kind, how = d.pick("interval", "interval", "tumbling", "hopping"), d.pick("left", "right", "full", "anti")
    within = (d.pick(0, 5, 60), d.pick(0, 5, 60)) if kind == "interval" else (20, d.pick(5, 10))
    on = d.odd_keys(left, right) or d.pick(("key",), ("n",), ("key", "n"))
    condition = ("n", d.pick("<=", "<>", ">"), "n") if d.chance(0.3) else None
    prefix = "r_" if how != "anti" else None
    delays = (d.pick(0, 5), d.pick(0, 20))
    name = d.add(p.Join, left, right, on, how, kind, within, "ts", delays, prefix, False, condition, early=True)
    return [p.Sink(d.stateless(name, 1, sql=True, kept=("id", "retracted")), "net")]


def early_table(d):
    """The table of the current rows of an early join, each of which has a key of its own."""
    d.unique = True
    left, right = d.stateless(d.source("a"), 1, sql=True), d.stateless(d.source("b"), 1, sql=True)
    how, on, delays = d.pick("left", "anti"), ("id",), (d.pick(0, 5), d.pick(0, 20))
    right = d.add(p.WithFields, right, (("id", t.Arithmetic("id", "-", 1000)),))
    if how == "anti" and d.chance(0.5):
        on = ("key",)
    prefix = "r_" if how == "left" else None
    name = d.add(p.Join, left, right, on, how, "interval", (60, 60), "ts", delays, prefix, False, None, early=True)
    name = tables.table_steps(d, again(d, name, "id"))
    return tables.grouped(d, name) if d.chance(0.6) else tables.ranked(d, name)


def again(d, name, key):
    """A table of changes."""
    return d.add(p.Retable, name, key, tuple(field for field in d.fields(name) if field not in (key, "retracted")))


def other_joins(d):
    """Joins by fields of two names, in intervals that begin later or end earlier, or at any time."""
    left, right = families.sides(d)
    on, others = d.pick((("n",), ("n",)), (("id",), ("n",)), (("n", "key"), ("n", "key")))
    if d.chance(0.3):
        name = d.add(p.Join, left, right, on, "inner", "any", (0, 0), "ts", (0, 0), "r_", False, None, others=others)
        return [p.Sink(d.stateless(name, 2, kept=("id",)), "append")]
    how, delays = d.pick("inner", "left", "right", "full", "semi", "anti"), (d.pick(0, 5), d.pick(0, 20))
    prefix = None if how in ("semi", "anti") else "r_"
    settings = {"others": others}
    if how in ("left", "right", "full", "anti") and d.chance(0.3):
        settings["early"] = True
    within, processor = d.pick(*REACHES), d.chance(0.4)
    name = d.add(p.Join, left, right, on, how, "interval", within, "ts", delays, prefix, processor, None, **settings)
    return [p.Sink(name, "net" if settings.get("early") else "append")]


def two_keys(d, source):
    """A table of two keys: of rows, or of groups."""
    name = d.stateless(d.source(source), 1, sql=True)
    if d.chance(0.5):
        deletes = t.Compare("n", d.pick("=", ">"), d.pick(3, 7)) if d.chance(0.5) else None
        return d.add(p.ToTable, name, "id", d.pick((), ("ts",)), deletes, more=("key",))
    return tables.grouped(d, name, ("id", "key"))


def totals(d, source, key):
    """The groups of a table or stream by one field."""
    of = tables.table(d, source) if d.chance(0.5) else d.stateless(d.source(source), 1, sql=True)
    return tables.grouped(d, of, (key,))


def table_chains(d):
    """Groups that are joined with each other, or with rows that name them; and what is computed of these."""
    key, draws, hows = d.pick("key", "key", "n"), d.rng.random(), ("inner", "left", "outer")
    if draws < 0.3:
        left, right, on = two_keys(d, "a"), two_keys(d, "b"), None
    elif draws < 0.4:
        left, right, on, hows = tables.table(d), two_keys(d, "b"), (("n", "id"), ("key", "key")), hows[:2]
    elif draws < 0.7:
        left, right, on = totals(d, "a", key), totals(d, "b", key), None
    else:
        left, right, on, hows = tables.table(d, key="id"), totals(d, "b", key), ((key, key),), hows[:2]
    right = tables.renamed(d, right)
    name = tables.table_steps(d, d.add(p.TableJoin, left, right, on, d.pick(*hows), keys_after(d.steps, right)))
    keys = keys_after(d.steps, name)
    if len(keys) == 1 and d.chance(0.3):
        name = again(d, d.add(p.Changes, name), keys[0])
    if d.chance(0.5):
        name = d.pick(tables.grouped, tables.ranked)(d, name)
    return [p.Sink(d.add(p.Changes, name), "net")]


def versions(d):
    """Rows of a stream that are an upsert by time, or the versions of a history, if they are stored in Delta."""
    name = d.add(p.Filter, d.stateless(d.source(), 2), t.Missing("ts", True), "sql")
    keys = d.odd_keys(name) or d.pick(("key",), ("n",), ("key", "n"))
    if d.chance(0.3):
        return [p.Sink(name, "upsert", keys)]
    gone = t.Compare("n", "=", d.pick(3, 7)) if d.chance(0.6) else t.Compare("id", "<", 0)
    return [p.Sink(d.add(p.WithFields, name, (("gone", gone),)), "history", keys)]


def timed(d):
    """A processor with timers, and its two outputs."""
    name = d.stateless(d.source(), 2, sql=d.chance(0.5))
    names = d.odd_keys(name) or d.pick(("key",), ("key", "id"), *[("y",)] * ("y" in d.fields(name)))
    name = d.add(Timers, name, tuple((of, d.fields(name)[of]) for of in names), d.pick(0, 5, 20))
    sinks = [p.Sink(d.stateless(name, 1, sql=True, kept=("at", "rows", "last")), "append")]
    return [*sinks, p.Sink(d.add(Other, name), "append")] if d.chance(0.5) else sinks


FAMILIES = {
    "timed": timed,
    "versions": versions,
    "early": early,
    "other_joins": other_joins,
    "table_chains": table_chains,
}

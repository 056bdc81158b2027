"""Families of programs over streams: each decides on the steps with state, and returns the sinks."""

from __future__ import annotations

from tests.programs import program as p
from tests.programs import terms as t
from tests.programs.values import CORE, ZONES


def stateless(d):
    name = d.begun(5)
    sinks = [p.Sink(name, "append")]
    if d.chance(0.3):
        sinks.append(p.Sink(d.stateless(name, 2), "append"))
    if d.chance(0.1):
        sinks.append(p.Sink(d.add(p.Pass, name, "delta"), "append"))
    return sinks


def window(d):
    settings = {"late": d.chance(0.4), "delay": d.pick(0, 0, 5, 20)}
    if d.chance(0.2):
        # Records have an order as long as each row is made of one.
        name = d.with_fields(d.source(), ())
        return [p.Sink(d.window(name, by_record=True, **settings), "append")]
    name = d.begun()
    settings |= d.pick({"path": d.new("r")}, {"own": d.own(name)}, {"ranked": True}, {}, {}, {})
    return [p.Sink(d.after(d.window(name, **settings), sql=False), "append")]


def calendar(d):
    """Days, weeks and months; the rows are hours or days apart."""
    d.scale = d.pick(7200, 43200)
    settings = {"delay": d.scale * d.pick(0, 0, 5, 20), "late": d.chance(0.4), "zone": d.pick(*ZONES)}
    shapes, name = tuple(p.CALENDARS), d.begun(2)
    if d.chance(0.25):
        settings["firing"] = p.Firing(d.pick("emit_before", "on_update_and_close"), 3 * d.scale)
        name = d.window(name, shapes=shapes, **settings)
        return [p.Sink(name, "last", (*d.steps[name].groups, "start_time"), d.steps[name].aggregates[0].name)]
    settings |= d.pick({"own": d.own(name)}, {"ranked": True}, {}, {})
    return [p.Sink(d.after(d.window(name, shapes=shapes, **settings), sql=False), "append")]


def splits(d):
    """Windows of several sources, of which the slowest decides."""
    names = [d.stateless(d.source(source), 1) for source in "abc"[: d.pick(1, 2, 2, 3)]]
    name, *others = [d.add(p.Select, of, tuple(dict(CORE))) for of in names]
    for other in others:
        name = d.add(p.Union, name, other)
    name = d.stateless(name, 1)
    settings = {"delay": d.pick(0, 5, 20), "late": d.chance(0.4), "by_split": True}
    return [p.Sink(d.after(d.window(name, **settings)), "append")]


def two_windows(d):
    """Windows of one stream, each with a sink: their queries share the steps before them."""
    name = d.begun()
    made = [d.window(name, delay=d.pick(0, 5, 20), late=d.chance(0.4)) for _ in range(2)]
    if d.chance(0.3):
        made.append(name)
    return [p.Sink(each, "append") for each in made]


def chain(d):
    name = d.window(d.begun(2), delay=d.pick(0, 5, 20), shapes=("tumbling", "hopping", "session"))
    first = d.steps[name]
    time = "end_time" if first.shape == "session" else d.pick("start_time", "end_time")
    sinks = [p.Sink(name, "append")] if d.chance(0.3) else []
    name = d.after(name, most=1)
    if first.shape == "tumbling" and d.chance(0.2):
        name, time = d.add(p.Pass, name, "delta"), "start_time"
    second = d.window(name, time, shapes=("tumbling", "hopping", "session"))
    return [*sinks, p.Sink(d.after(second), "append")]


def distinct(d):
    name = d.begun(2)
    keys = ("key", "ts") if d.chance(0.6) else ("key", "n", "ts")
    keys = ("y", *keys) if "y" in d.fields(name) else keys
    keys = (*d.odd_keys(name), *keys)
    name = d.add(p.Distinct, name, keys, d.pick(10, 60), "ts", d.pick(0, 5, 30))
    name = d.add(p.Select, name, keys)
    if d.chance(0.5):
        columns = (("id", t.Constant(1)),)
        return [p.Sink(d.add(p.WithFields, name, columns), "append")]
    columns = (("id", t.Constant(1)),) if "n" in keys else (("id", t.Constant(1)), ("n", t.Constant(2)))
    name = d.window(d.add(p.WithFields, name, columns), shapes=("tumbling", "hopping", "session"))
    return [p.Sink(d.after(name), "append")]


def firing(d):
    session = d.chance(0.35)
    how = d.pick(
        "emit_before", "emit_after", "suppress", "totals", "on_update_and_close", "on_record", "on_window_update",
        *["deltas"] * (not session),
    )  # fmt: skip
    rule = p.Firing(how, d.pick(3, 7), d.pick(10, 40))
    shapes = ("session",) if session else ("tumbling", "hopping")
    begun = d.begun(2)
    settings = {} if how == "deltas" else d.pick({"path": d.new("r")}, {"own": d.own(begun)}, {}, {}, {})
    settings |= {"delay": d.pick(0, 5, 20), "late": d.chance(0.3), "plain": how == "deltas"}
    name = d.window(begun, firing=rule, shapes=shapes, **settings)
    step = d.steps[name]
    view = "net" if session else "deltas" if how == "deltas" else "last"
    return [p.Sink(name, view, (*step.groups, "start_time"), step.aggregates[0].name)]


def sides(d, most=2):
    return d.stateless(d.source("a"), most), d.stateless(d.source("b"), most)


def join(d):
    left, right = sides(d)
    kind, how = (
        d.pick("interval", "interval", "tumbling", "hopping"),
        d.pick("inner", "left", "right", "full", "semi", "anti"),
    )
    how = "inner" if kind == "hopping" and not d.odder else how
    within = (d.pick(0, 5, 20), d.pick(0, 5, 20)) if kind == "interval" else (20, d.pick(5, 10))
    followed = kind == "interval" and how in ("inner", "left", "semi", "anti") and d.chance(0.3)
    processor = d.chance(0.3) or (followed and how == "semi")
    condition = ("n", d.pick("<=", "<>", ">"), "n") if d.chance(0.3) else None
    odd = "y" in d.fields(left) and "y" in d.fields(right)
    on = ("y",) if odd and d.chance(0.5) else d.pick(("key",), ("key",), ("n",), ("key", "n"))
    on = d.odd_keys(left, right) or on
    delays, prefix = (
        (d.pick(0, 5), d.pick(0, 20)),
        None if how in ("semi", "anti") or (not followed and d.chance(0.25)) else "r_",
    )
    name = d.add(p.Join, left, right, on, how, kind, within, "ts", delays, prefix, processor, condition)
    if followed:
        name = d.window(name, shapes=("tumbling", "hopping", "session"))
    return [p.Sink(d.stateless(name, 1, sql=True, kept=("id",)), "append")]


def joins(d):
    """Three sources, and two joins of them in one query."""
    left, right = sides(d, 1)
    near, other = (d.pick(0, 5), d.pick(5, 20)), (d.pick(0, 5), d.pick(5, 20))
    how, processor = d.pick("inner", "left"), d.chance(0.3)
    name = d.add(p.Join, left, right, ("key",), how, "interval", near, "ts", (0, d.pick(0, 10)), "r_", processor, None)
    third = d.stateless(d.source("c"), 1)
    delays = (0, d.pick(0, 10))
    name = d.add(
        p.Join, name, third, ("key",), d.pick("inner", "left"), "interval", other, "ts", delays, "q_", processor, None
    )
    return [p.Sink(name, "append")]


def self_join(d):
    """Two branches of one stream."""
    name = d.stateless(d.source(), 2, sql=True)
    left, right = d.add(p.Filter, name, d.condition(name), "sql"), name
    if d.chance(0.6):
        right = d.add(p.Filter, name, d.condition(name), "sql")
    how, within = d.pick("inner", "left", "full", "semi", "anti"), (d.pick(0, 5, 20), d.pick(0, 5, 20))
    prefix = None if how in ("semi", "anti") else "r_"
    on, delay = d.pick(("key",), ("n",)), d.pick(0, 0, 5, 20)
    on = d.odd_keys(left, right) or on
    name = d.add(p.Join, left, right, on, how, "interval", within, "ts", (delay, delay), prefix, False, None)
    return [p.Sink(name, "append")]


def process(d):
    name = d.stateless(d.source(), 2, sql=True)
    key = (*d.odd_keys(name), "key")[0]
    more = {"most": d.pick(3, 10)} if d.odder and d.chance(0.5) else {}
    name = d.add(p.Process, name, key, d.pick("n", "id"), "bigint" if key == "big" else "string", **more)
    return [p.Sink(d.stateless(name, 2, kept=("id",)), "append")]


def asof(d):
    left, right = sides(d)
    delays = (d.pick(0, 5), d.pick(0, 20))
    deletes = t.Compare("n", d.pick("=", ">"), d.pick(3, 7)) if d.chance(0.4) else None
    on = (*d.odd_keys(left, right), "key")[0]
    name = d.add(p.AsOf, left, right, on, "ts", d.pick(None, None, 5, 60), d.pick("left", "inner"), delays, deletes)
    return [p.Sink(name, "append")]


def windows_of_two(d):
    """Windows of two sources: united and windowed again, or joined."""
    left, right = sides(d, 1)
    size, shape = d.pick(10, 20), d.pick("tumbling", "hopping")
    slide = {"tumbling": 0, "hopping": 5}[shape]
    made = []
    for of in (left, right):
        aggregates = (p.Aggregate("c", "count"), p.Aggregate("g", "sum", "n"))
        made.append(d.add(p.Window, of, shape, size, slide, "ts", ("key",), aggregates, delay=d.pick(0, 10)))
    if d.chance(0.5):
        name = d.window(d.add(p.Union, *made), "start_time", shapes=("tumbling", "hopping"))
        return [p.Sink(name, "append")]
    how = d.pick("inner", "left", "full")
    name = d.add(p.Join, *made, ("key",), how, "interval", (0, 0), "start_time", (0, 0), "r_", False, None)
    return [p.Sink(name, "append")]


def other_windows(d):
    if d.chance(0.4):
        return [p.Sink(in_order(d), "append")]
    if d.chance(0.4):
        by_record = d.chance(0.2)
        name = d.with_fields(d.source(), ()) if by_record else d.begun(2)
        settings = {"delay": d.pick(0, 5, 20), "late": d.chance(0.3), "by_record": by_record}
        return [p.Sink(d.window(name, shapes=("sliding",), **settings), "append")]
    there = d.add(p.Filter, d.begun(2), t.Missing("ts", True), "sql")
    lives = d.pick(0, 0, 20, 60)
    settings = {"delay": d.pick(0, 5)} if lives else {}
    return [p.Sink(d.window(there, shapes=("global",), size=lives, ranked=d.chance(0.5), **settings), "net")]


def in_order(d):
    """Windows by the order of the rows of a key."""
    shape = d.pick("count", "over", "over_all", "range", "range_all")
    size = {"count": d.pick(1, 2, 4), "over": d.pick(0, 1, 3), "range": d.pick(0, 5, 20)}.get(shape, 0)
    by_record = shape == "count" and d.chance(0.2)
    name = d.with_fields(d.source(), ()) if by_record else d.begun(2)
    kept = () if shape == "count" else ("id",)
    columns = (p.Aggregate("c", "count"), p.Aggregate("g", "sum", "id"), p.Aggregate("h", d.pick("min", "max"), "n"))
    settings = {"delay": d.pick(0, 20), "late": d.chance(0.3), "kept": kept, "by_record": by_record}
    return d.add(p.Window, name, shape, size, 0, "ts", ("key",), columns, **settings)


FAMILIES = {
    "stateless": stateless,
    "window": window,
    "calendar": calendar,
    "splits": splits,
    "chain": chain,
    "distinct": distinct,
    "firing": firing,
    "join": join,
    "joins": joins,
    "self_join": self_join,
    "asof": asof,
    "process": process,
    "two_windows": two_windows,
    "windows_of_two": windows_of_two,
    "other_windows": other_windows,
}

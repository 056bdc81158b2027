"""Programs drawn from a seed. A family decides on the steps with state; what is before, between and after them is free.

Draws keep to what the pages in docs allow, so that few programs are refused.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from math import inf, nan
from random import Random

from tests.programs import program as p
from tests.programs import terms as t
from tests.programs.shapes import fields_after

BATCHES, GROUP = 4, 8
CORE = (("id", "bigint"), ("key", "string"), ("n", "bigint"), ("ts", "timestamp"))
MORE = (
    ("x", "double"),
    ("ok", "boolean"),
    ("price", "decimal(8,2)"),
    ("tags", "array<string>"),
    ("m", "bigint"),
    ("y", "odd"),
)
VALUES = {
    "string": ["a", "b", "c", "a", "b", "", "é", None],
    "bigint": [None, -3, -1, 0, 1, 2, 3, 4, 7, 9],
    "double": [None, -1.5, 0.0, 0.25, 0.5, 2.75, 4.0],
    "odd": [None, 0.0, -0.0, nan, inf, -inf, 1.5],
    "boolean": [True, False, None],
    "decimal(8,2)": [None, Decimal("0.10"), Decimal("2.50"), Decimal("-1.05"), Decimal("7.00")],
    "array<string>": [None, (), ("u",), ("u", "v"), ("v", None, "u")],
}
NUMBERS = ("bigint", "double", "decimal(8,2)")
ORDERED = (*NUMBERS, "string")
SIZES = (5, 10, 20, 30, 60)


class Draw:
    """The steps of one program as they are drawn."""

    def __init__(self, seed, family):
        self.rng, self.seed, self.family = Random(seed * 1000 + 7), seed, family
        self.steps, self.made, self.number = {}, [], 0
        self.more = tuple(self.rng.sample(MORE, self.rng.choice([1, 2, 3])))

    def chance(self, share):
        return self.rng.random() < share

    def pick(self, *of):
        return self.rng.choice(of)

    def new(self, prefix="f"):
        """A name that no other field has."""
        self.number += 1
        return f"{prefix}{self.number}"

    def add(self, kind, *args, **settings):
        """A step after others; its name."""
        name = f"s{len(self.made) + 1}"
        return self.put(kind(name, *args, **settings))

    def put(self, step):
        self.steps[step.name] = step
        self.made.append(step)
        return step.name

    def source(self, name="a"):
        return self.put(p.Source(name, (*CORE, *self.more)))

    def fields(self, name):
        return fields_after(self.steps, name)

    def named(self, name, *kinds):
        """The fields of some types."""
        return [field for field, kind in self.fields(name).items() if kind in kinds]

    # Conditions and terms.

    def atom(self, name, form="sql"):
        fields = self.fields(name)
        kinds = ("bigint", "string") if form == "text" else ("bigint", "string", "double", "boolean")
        kinds = (*kinds, "decimal(8,2)") if form == "sql" else kinds
        field = self.rng.choice(self.named(name, *kinds))
        kind = fields[field]
        constants = [each for each in VALUES[kind] if each not in (None, "")]
        if form != "text" and self.chance(0.15):
            return t.Missing(field, self.chance(0.5))
        if form != "text" and kind in ("string", "bigint") and self.chance(0.2):
            return t.OneOf(field, tuple(self.rng.sample(sorted(set(constants)), 2)))
        if kind == "boolean" or (kind == "string" and form == "text"):
            return t.Compare(field, "=", self.rng.choice(constants))
        return t.Compare(field, self.pick("<", "<=", ">", ">=", "=", "<>"), self.rng.choice(constants))

    def condition(self, name, form="sql"):
        draws = self.rng.random()
        if draws < 0.6:
            return self.atom(name, form)
        if draws < 0.85 or form != "sql":
            return t.Both(self.pick("AND", "OR", "OR"), self.atom(name, form), self.atom(name, form))
        return t.Negated(self.condition(name))

    def term(self, name, *, python=False, kind=None):
        """A term of a type, or of any."""
        texts, whole = self.named(name, "string"), self.named(name, "bigint")
        number = self.rng.choice(whole)
        terms = [
            (t.Arithmetic(number, self.pick("+", "-", "*"), self.pick(1, 2, 3)), "bigint"),
            (t.Coalesce(number, self.pick(0, 5)), "bigint"),
            (t.Quotient(number, self.pick(2, 4)), "double"),
        ]
        if texts:
            terms += [(t.Joined(text := self.rng.choice(texts), "_z"), "string"), (t.Coalesce(text, "none"), "string")]
        if not python:
            terms += [
                (t.Arithmetic(number, "%", 3), "bigint"),
                (t.Case(self.condition(name), t.Field(number), t.Constant(1)), "bigint"),
            ]
        return self.rng.choice([each for each in terms if kind in (None, each[1])])

    # Steps without state.

    def stateless(self, name, most, *, sql=False, kept=("id", "key", "n", "ts", "y")):
        """Up to so many steps, which keep the fields `kept`."""
        for _ in range(self.rng.randrange(most + 1)):
            steps = [self.filtered, self.with_fields, self.selected, self.mapped]
            if not sql:
                steps += [self.python_filtered, self.python_mapped, self.passed, self.looked_up, self.flattened]
                steps += [self.expected]
            name = self.rng.choice(steps)(name, kept)
        return name

    def filtered(self, name, kept):
        form = self.pick("sql", "sql", "text")
        return self.add(p.Filter, name, self.condition(name, form), form)

    def python_filtered(self, name, kept):
        return self.add(p.Filter, name, self.condition(name, "python"), "python")

    def with_fields(self, name, kept):
        if self.chance(0.3) and "n" in self.fields(name):
            return self.add(p.WithFields, name, (("n", self.term(name, kind="bigint")[0]),))
        columns = tuple((self.new(), self.term(name)[0]) for _ in range(self.pick(1, 2)))
        return self.add(p.WithFields, name, columns)

    def selected(self, name, kept):
        names = [field for field in self.fields(name) if field in kept or self.chance(0.5)]
        self.rng.shuffle(names)
        return self.add(p.Select, name, tuple(names))

    def columns(self, name, kept, *, python):
        fields = self.fields(name)
        columns = [(field, t.Field(field), fields[field]) for field in fields if field in kept]
        made = [self.term(name, python=python) for _ in range(self.pick(1, 2))]
        return tuple(columns + [(self.new(), *each) for each in made])

    def mapped(self, name, kept):
        return self.add(p.Map, name, self.columns(name, kept, python=False), python=False)

    def python_mapped(self, name, kept):
        return self.add(p.Map, name, self.columns(name, kept, python=True), python=True)

    def passed(self, name, kept):
        return self.add(p.Pass, name, self.pick("for_each", "memory", *["warn"] * ("id" in self.fields(name))))

    def expected(self, name, kept):
        return self.add(p.Filter, name, self.condition(name), "expect")

    def looked_up(self, name, kept):
        if "d_key" in self.fields(name) or "key" not in self.fields(name):
            return name
        keys = self.rng.sample(["a", "a", "b", "c", "é", "", None], 4)
        rows = tuple((key, self.pick("gold", "tin"), place) for place, key in enumerate(keys))
        return self.add(p.Lookup, name, "key", self.pick("inner", "left"), rows)

    def flattened(self, name, kept):
        if "tags" not in self.fields(name) or "item" in self.fields(name):
            return name
        return self.add(p.FlatMap, name, "tags", tuple((f, k) for f, k in self.fields(name).items() if f in kept))

    def branches(self, name):
        """Branches of a stream that meet again."""
        one, other = self.condition(name), self.condition(name)
        if self.chance(0.5):
            left, right = self.add(p.Branch, name, one, True), self.add(p.Branch, name, one, False)
            right = self.add(p.WithFields, right, (("n", t.Arithmetic("n", "+", 2)),))
        else:
            left, right = self.add(p.Filter, name, one, "sql"), self.add(p.Filter, name, other, "sql")
        return self.add(p.Union, left, right)

    def begun(self, most=3):
        """A source with steps; perhaps with branches, or united with another source."""
        name = self.stateless(self.source(), most)
        if self.chance(0.2):
            return self.branches(name)
        if self.chance(0.25):
            both = [field for field in self.fields(name) if field in dict(CORE)]
            left, right = self.add(p.Select, name, tuple(both)), self.stateless(self.source("b"), 2)
            return self.add(p.Union, left, self.add(p.Select, right, tuple(both)))
        return name

    # Steps with state.

    def aggregates(self, name, *, plain=False):
        """A count, and others; `plain` ones are sums that can be added up."""
        made, fields = [p.Aggregate(self.new("c"), "count")], self.fields(name)
        for _ in range(self.rng.randrange(4)):
            kind = "sum" if plain else self.pick("sum", "avg", "min", "max", "count_distinct", "distinct", "collect")
            kinds = {"sum": NUMBERS, "avg": ("bigint", "double"), "distinct": ("string", "bigint")}.get(kind, ORDERED)
            kinds = (*kinds, "odd") if kind == "count_distinct" else kinds
            there = [field for field, of in fields.items() if of in (("bigint",) if plain else kinds)]
            if not plain and self.chance(0.1) and self.named(name, "bigint"):
                doubled = t.Arithmetic(self.rng.choice(self.named(name, "bigint")), "*", 2)
                made.append(p.Aggregate(self.new("g"), "sum_of", term=doubled))
            elif not plain and self.chance(0.2):
                made.append(p.Aggregate(self.new("g"), "count_if", term=self.condition(name)))
            elif there:
                made.append(p.Aggregate(self.new("g"), kind, self.rng.choice(there)))
        return tuple(made)

    def groups(self, name):
        there = self.named(name, "string", "bigint", "boolean", "odd")
        return tuple(self.rng.sample(there, min(len(there), self.pick(0, 1, 1, 2))))

    def window(self, name, time="ts", *, shapes=("tumbling", "hopping", "session", "cumulate"), **settings):
        """A window over the rows of a step."""
        shape, size = self.rng.choice(shapes), self.rng.choice(SIZES)
        slide = {"tumbling": self.pick(0, 0, 3), "hopping": self.pick(size, 5, 10), "cumulate": size // 5}.get(shape, 0)
        slide = min(slide, size) if shape == "hopping" else slide
        groups, aggregates = self.groups(name), self.aggregates(name, plain=settings.pop("plain", False))
        if settings.pop("ranked", False) and self.named(name, "bigint"):
            by, kept = self.ranked(name, groups)
            if by:
                settings["top"] = p.Top(self.pick(1, 2, 3), by, kept, descending=self.chance(0.6))
        return self.add(p.Window, name, shape, size, slide, time, groups, aggregates, **settings)

    def ranked(self, name, groups):
        """The order of a ranking, and the field that decides between equal rows."""
        there = [field for field in self.named(name, "bigint") if field not in groups and field != "id"]
        return (
            (self.rng.choice(there), "id") if there and "id" in self.fields(name) and "id" not in groups else ("", "")
        )

    def after(self, name, *, most=2, sql=True):
        """Steps after a window, which keep its times."""
        count = next(field for field, kind in self.fields(name).items() if kind == "bigint")
        return self.stateless(name, most, sql=sql, kept=("start_time", "end_time", count))

    def program(self):
        """The program of the family."""
        sinks = FAMILIES[self.family](self)
        sources = [step for step in self.made if isinstance(step, p.Source)]
        batches = [{} for _ in range(BATCHES)]
        for source in sources:
            for batch, rows in zip(batches, self.cut(self.rows(source)), strict=True):
                batch[source.name] = rows
        restart = (None, 0, 1, 2)[self.seed // GROUP % 4]
        return p.Program(self.seed, tuple(self.made), tuple(sinks), tuple(batches), restart)

    # Rows.

    def rows(self, source):
        """Rows in an order of their own: out of order, doubled, and with nulls."""
        clock, rows = self.rng.randrange(40), []
        repeated = self.family in REPEATED
        first = {"a": 0, "b": 1000, "c": 2000}[source.name]
        for number in range(self.rng.randrange(6, 40)):
            clock += self.pick(0, 1, 2, 3, 5, 11)
            back = self.pick(2, 7, 20, 60, 150) if self.chance(0.25) else 0
            row = {field: self.rng.choice(VALUES[kind]) for field, kind in source.schema if field not in ("id", "ts")}
            row["id"] = self.rng.randrange(9) if repeated else first + number
            row["ts"] = p.at(max(0, clock - back) + self.pick(0, 0, 0, 0.5))
            if not repeated and self.chance(0.03):
                row["ts"] = None
            row = {
                field: list(row[field]) if isinstance(row[field], tuple) else row[field] for field, _ in source.schema
            }
            rows.append(row)
            if self.chance(0.1):
                rows.append(dict(self.rng.choice(rows)))
        return rows

    def cut(self, rows):
        """The rows as batches, of which some may be empty."""
        cuts = sorted(self.rng.randrange(len(rows) + 1) for _ in range(BATCHES - 1))
        return [tuple(rows[a:b]) for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


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
    settings |= {"path": d.new("r")} if d.chance(0.15) else {"ranked": d.chance(0.25)}
    return [p.Sink(d.after(d.window(d.begun(), **settings), sql=False), "append")]


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
    settings = {"path": d.new("r")} if how != "deltas" and d.chance(0.2) else {}
    settings |= {"delay": d.pick(0, 5, 20), "late": d.chance(0.3), "plain": how == "deltas"}
    name = d.window(d.begun(2), firing=rule, shapes=shapes, **settings)
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
    how = "inner" if kind == "hopping" else how
    within = (d.pick(0, 5, 20), d.pick(0, 5, 20)) if kind == "interval" else (20, d.pick(5, 10))
    followed = kind == "interval" and how in ("inner", "left", "semi", "anti") and d.chance(0.3)
    processor = d.chance(0.3) or (followed and how == "semi")
    condition = ("n", d.pick("<=", "<>", ">"), "n") if d.chance(0.3) else None
    odd = "y" in d.fields(left) and "y" in d.fields(right)
    on = ("y",) if odd and d.chance(0.5) else d.pick(("key",), ("key",), ("n",), ("key", "n"))
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
    """Two branches of one stream, of which nothing is late: the pages leave open which watermark a branch has."""
    name = d.stateless(d.source(), 2, sql=True)
    left, right = d.add(p.Filter, name, d.condition(name), "sql"), name
    if d.chance(0.6):
        right = d.add(p.Filter, name, d.condition(name), "sql")
    how, within = d.pick("inner", "left", "full", "semi", "anti"), (d.pick(0, 5, 20), d.pick(0, 5, 20))
    prefix = None if how in ("semi", "anti") else "r_"
    on, hour = d.pick(("key",), ("n",)), 3600
    name = d.add(p.Join, left, right, on, how, "interval", within, "ts", (hour, hour), prefix, False, None)
    return [p.Sink(name, "append")]


def process(d):
    name = d.add(p.Process, d.stateless(d.source(), 2, sql=True), "key", d.pick("n", "id"))
    return [p.Sink(d.stateless(name, 2, kept=("id",)), "append")]


def asof(d):
    left, right = sides(d)
    delays = (d.pick(0, 5), d.pick(0, 20))
    name = d.add(p.AsOf, left, right, "key", "ts", d.pick(None, 5, 60), d.pick("left", "inner"), delays)
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
    name = d.begun(2)
    if d.chance(0.5):
        columns = (p.Aggregate("c", "count"), p.Aggregate("g", "sum", "id"))
        kept = ("id",) if (over := d.chance(0.5)) else ()
        name = d.add(
            p.Window, name, "over" if over else "count", d.pick(1, 2, 4), 0, "ts", ("key",), columns,
            delay=d.pick(0, 20), late=d.chance(0.3), kept=kept,
        )  # fmt: skip
        return [p.Sink(name, "append")]
    name = d.window(d.add(p.Filter, name, t.Missing("ts", True), "sql"), shapes=("global",), ranked=d.chance(0.5))
    return [p.Sink(name, "net")]


def table(d, source="a", key=None, *, lives=False):
    """A table of a source by one of its fields."""
    name = d.stateless(d.source(source), 2, sql=True)
    deletes = t.Compare("n", d.pick("=", ">"), d.pick(3, 7)) if d.chance(0.5) else None
    key = key or d.pick("id", "key")
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


def grouped(d, name):
    group = d.rng.choice(d.named(name, "string", "bigint", "odd"))
    made, fields = [p.Aggregate(d.new("c"), "count")], d.fields(name)
    for _ in range(d.rng.randrange(3)):
        kind = d.pick("sum", "avg", "min", "max", "count_distinct", "collect")
        kinds = {"sum": NUMBERS, "avg": ("bigint", "double")}.get(kind, ORDERED)
        there = [field for field, of in fields.items() if of in kinds]
        made.append(p.Aggregate(d.new("g"), kind, d.rng.choice(there)))
    return d.add(p.Group, name, (group,), tuple(made))


def tables(d):
    name = table_steps(d, table(d, lives=True))
    draws = d.rng.random()
    if draws < 0.3:
        name = table_steps(d, grouped(d, name))
        if d.chance(0.4):
            name = grouped(d, name)
    elif draws < 0.55:
        group = d.rng.choice(d.named(name, "string", "bigint"))
        by = d.rng.choice(d.named(name, "bigint", "double"))
        name = d.add(p.TableTop, name, group, d.pick(1, 2, 3), by, d.chance(0.6), d.pick(None, "place"))
        if d.chance(0.3):
            name = grouped(d, name)
    elif draws < 0.9:
        name = joined(d, name)
    return [p.Sink(d.add(p.Changes, name), "net")]


def renamed(d, name):
    """A table whose fields no other one has."""
    fields = d.fields(name)
    columns = tuple((d.new("r"), t.Field(field)) for field in list(fields)[1:4])
    return d.add(p.MapValues, name, columns)


def joined(d, name):
    (key, *_) = d.fields(name)
    if d.chance(0.5):
        right = renamed(d, table(d, "b", key))
        name = d.add(p.TableJoin, name, right, None, d.pick("inner", "left", "outer"))
    else:
        own = d.pick("key", "n")
        right = renamed(d, table(d, "b", {"key": "key", "n": "id"}[own]))
        on = None if own == key else (own, d.steps[d.steps[right].of].key)
        name = d.add(p.TableJoin, name, right, on, d.pick("inner", "left"))
    return grouped(d, name) if d.chance(0.4) else name


def stream_tables(d):
    if d.chance(0.5):
        name = d.stateless(d.source(), 2, sql=True)
        return [p.Sink(d.add(p.Changes, table_steps(d, grouped(d, name))), "net")]
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


FAMILIES = {
    "stateless": stateless,
    "window": window,
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
    "tables": tables,
    "stream_tables": stream_tables,
}
# Those whose rows come again with other values.
REPEATED = {"tables", "stream_tables"}
WEIGHTS = {"window": 3, "chain": 2, "firing": 3, "join": 3, "tables": 3}


def drawn(seed, families=()):
    """The program of a seed."""
    names = families or [name for name in FAMILIES for _ in range(WEIGHTS.get(name, 1))]
    family = Random(seed).choice([*names])
    return Draw(seed, family).program()


def with_rows(program, batches):
    """The same program over other rows."""
    return replace(program, batches=tuple(batches))

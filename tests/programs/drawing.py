"""Programs drawn from a seed. A family decides on the steps with state; what is before, between and after them is free.

Draws keep to what the pages in docs allow, so that few programs are refused.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from random import Random

from tests.programs import families, later_families, lookups, paired_families, script_drawing, table_families
from tests.programs import program as p
from tests.programs import terms as t
from tests.programs.own import Own
from tests.programs.scripts import Script
from tests.programs.shapes import fields_after
from tests.programs.values import (
    AGGREGATED,
    COMPUTED,
    CORE,
    FINE,
    KEYS,
    LATER,
    LATEST,
    MORE,
    ODD_ORDERED,
    ODDER,
    ORDERED,
    PAIRED,
    SIZES,
    VALUES,
    WIDER,
    Items,
)

BATCHES, GROUP = 4, 8
# Seconds from the first time of a program to near 1970, and to the year 9000, which is too far ahead of the clock.
ERAS = (-1704067200, -1704067200 - 40, 220162147200 - 60)
PARTS = (t.Part("spot", "a", "bigint"), t.Part("spot", "b", "string"), t.Part("bag", "a", "bigint"))
TIMED = p.Window | p.Distinct | p.Join | p.AsOf
EARLIER = {**families.FAMILIES, **table_families.FAMILIES}
LATER_ON = {**EARLIER, **later_families.FAMILIES}
FAMILIES = {**LATER_ON, **paired_families.FAMILIES}
WEIGHTS = {
    "window": 3,
    "chain": 2,
    "firing": 3,
    "join": 3,
    "tables": 4,
    "other_windows": 2,
    "early": 2,
    "table_chains": 3,
    "pairs": 4,
}


class Draw:
    """The steps of one program as they are drawn."""

    def __init__(self, seed, family):
        self.rng, self.seed, self.family = Random(seed * 1000 + 7), seed, family
        self.steps, self.made, self.number = {}, [], 0
        self.wider = seed >= WIDER
        self.odder = seed >= ODDER
        more = MORE + LATER * self.wider + LATEST * 2 * self.odder
        self.more = tuple(dict(self.rng.sample(more, self.rng.choice([1, 2, 3]) + self.odder)).items())
        self.fine = self.odder and self.chance(0.4)
        self.unique = False
        self.era = self.pick(*ERAS) if self.odder and not self.fine and self.chance(0.2) else 0
        # How many seconds one of the rows' times has.
        self.scale = 1

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

    def keys(self, name, *kinds, odd=KEYS):
        """The fields of some types that may be keys; of later seeds those of the types `odd`, too, and rather."""
        odd = self.named(name, *odd) if self.odder else []
        return odd if odd and self.chance(0.5) else [*self.named(name, *kinds), *odd]

    def odd_keys(self, *names):
        """None or one of the texts and numbers at an edge that some steps have; none for earlier seeds."""
        there = [field for field in ("word", "big") if all(field in self.fields(name) for name in names)]
        return tuple(there[:1]) if self.odder and there and self.chance(0.6) else ()

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
        parts = [part for part in PARTS if part.field in self.fields(name)] if self.odder else []
        terms += [(part, part.kind) for part in parts * 2]
        return self.rng.choice([each for each in terms if kind in (None, each[1])])

    # Steps without state.

    def stateless(self, name, most, *, sql=False, kept=("id", "key", "n", "ts", "y", "word", "big", "spot", "bag")):
        """Up to so many steps, which keep the fields `kept`."""
        for _ in range(self.rng.randrange(most + 1)):
            steps = [self.filtered, self.with_fields, self.selected, self.mapped]
            if not sql:
                steps += [self.python_filtered, self.python_mapped, self.passed, self.looked_up, self.flattened]
                steps += [self.expected, self.scripted, self.scripted]
                steps += [self.looked_up] * 2 * self.odder
            if self.wider and not sql:
                steps += [partial(step, self) for step in lookups.STEPS * 2]
            name = self.rng.choice(steps)(name, kept)
        return name

    def filtered(self, name, kept):
        form = self.pick("sql", "sql", "text")
        return self.add(p.Filter, name, self.condition(name, form), form)

    def python_filtered(self, name, kept):
        return self.add(p.Filter, name, self.condition(name, "python"), "python", **self.left_to_python(name))

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
        left = self.left_to_python(name)
        return self.add(p.Map, name, self.columns(name, kept, python=True), python=True, **left)

    def left_to_python(self, name):
        """How much of a function Spark computes: all, nothing, or a part; without a draw, so that others stay."""
        turn = (self.seed + len(self.made)) % 4
        return {1: {"called": True}, 2: {"hashed": self.named(name, "string", "bigint")[0]}}.get(turn, {})

    def passed(self, name, kept):
        return self.add(p.Pass, name, self.pick("for_each", "memory", *["warn"] * ("id" in self.fields(name))))

    def expected(self, name, kept):
        return self.add(p.Filter, name, self.condition(name), "expect")

    def scripted(self, name, kept):
        statements = script_drawing.statements(self, self.fields(name), kept)
        return self.add(Script, name, statements) if statements else name

    def looked_up(self, name, kept):
        if "key" not in self.fields(name) or set(self.fields(name)) & {field for field, _ in p.Lookup.schema}:
            return name
        keys = self.rng.sample(["a", "a", "b", "c", "é", "", None], 4)
        rows = tuple((key, self.pick("gold", "tin"), place) for place, key in enumerate(keys))
        how, more = self.pick("inner", "left"), {}
        if self.odder and not any(isinstance(step, TIMED | p.Process) for step in self.made):
            versions = [tuple(self.rng.sample(rows, self.rng.randrange(5))) for _ in range(BATCHES)]
            more = {"versions": tuple(versions)} if self.chance(0.6) else {}
        if self.odder and "n" in self.fields(name) and self.chance(0.4):
            more["condition"] = self.pick("<=", "<>", ">")
        return self.add(p.Lookup, name, "key", how, rows, **more)

    def flattened(self, name, kept):
        if "tags" not in self.fields(name) or "item" in self.fields(name):
            return name
        more = {"form": self.pick("python", "sql", "none")} if self.odder else {}
        kept = tuple((f, k) for f, k in self.fields(name).items() if f in kept)
        return self.add(p.FlatMap, name, "tags", kept, **more)

    def branches(self, name):
        """Branches of a stream that meet again."""
        one, other = self.condition(name), self.condition(name)
        if self.chance(0.5):
            left, right = self.add(p.Branch, name, one, True), self.add(p.Branch, name, one, False)
            right = self.add(p.WithFields, right, (("n", t.Arithmetic("n", "+", 2)),))
        else:
            left, right = self.add(p.Filter, name, one, "sql"), self.add(p.Filter, name, other, "sql")
        if self.odder and self.chance(0.3):
            left = self.add(p.Union, left, right)
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
            more = ["xor", "every", "median"] * self.odder
            some = "sum", "avg", "min", "max", "count_distinct", "distinct", "collect", *more
            kind = "sum" if plain else self.pick(*some)
            kinds = AGGREGATED.get(kind, ORDERED)
            kinds = (*kinds, "odd") if kind == "count_distinct" else kinds
            kinds = (*kinds, *ODD_ORDERED) if self.odder and kind not in COMPUTED else kinds
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
        there = self.keys(name, "string", "bigint", "boolean", "odd")
        return tuple(self.rng.sample(there, min(len(there), self.pick(0, 1, 1, 2))))

    def window(self, name, time="ts", *, shapes=("tumbling", "hopping", "session", "cumulate"), **settings):
        """A window over the rows of a step."""
        shape, size = self.rng.choice(shapes), settings.pop("size", self.rng.choice(SIZES))
        slide = {"hopping": min(size, self.pick(size, 5, 10)), "cumulate": size // 5}.get(shape, 0)
        if shape in ("tumbling", "hopping", "cumulate"):
            settings["offset"] = self.pick(0, 0, 3)
        if shape in p.CALENDARS:
            size = 0
        groups, aggregates = self.groups(name), self.aggregates(name, plain=settings.pop("plain", False))
        if settings.pop("ranked", False) and self.named(name, "bigint"):
            by, kept = self.ranked(name, groups)
            if by:
                settings["top"] = p.Top(self.pick(1, 2, 3), by, kept, descending=self.chance(0.6))
        return self.add(p.Window, name, shape, size, slide, time, groups, aggregates, **settings)

    def own(self, name):
        """Aggregates in Python."""
        whole = self.named(name, "bigint")
        made = [Own(self.new("o"), self.pick("spread", "mean", "most"), field) for field in whole]
        return tuple(made[: self.pick(1, 1, 2)])

    def ranked(self, name, groups):
        """The order of a ranking, and the field that decides between equal rows."""
        there = self.named(name, "bigint", *["big"] * self.odder)
        there = [field for field in there if field not in groups and field != "id"]
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
        repeated = self.family in (*table_families.FAMILIES, *paired_families.FAMILIES, "table_chains")
        first = {"a": 0, "b": 1000, "c": 2000}[source.name]
        for number in range(self.rng.randrange(6, 40)):
            clock += self.pick(0, 1, 2, 3, 5, 11)
            back = self.pick(2, 7, 20, 60, 150) if self.chance(0.25) else 0
            row = {field: self.rng.choice(VALUES[kind]) for field, kind in source.schema if field not in ("id", "ts")}
            row["id"] = self.rng.randrange(9) if repeated else first + number
            row["ts"] = p.at(self.scale * (max(0, clock - back) + self.pick(0, 0, 0, 0.5)))
            row["ts"] += timedelta(seconds=0 if repeated else self.era)
            if self.fine:
                row["ts"] += timedelta(seconds=self.pick(0, 0, *FINE))
            if not repeated and self.chance(0.03):
                row["ts"] = None
            row = {
                field: Items(row[field]) if isinstance(row[field], tuple) else row[field] for field, _ in source.schema
            }
            rows.append(row)
            if self.chance(0.1) and not self.unique:
                rows.append(dict(self.rng.choice(rows)))
        return rows

    def cut(self, rows):
        """The rows as batches, of which some may be empty."""
        cuts = sorted(self.rng.randrange(len(rows) + 1) for _ in range(BATCHES - 1))
        return [tuple(rows[a:b]) for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


def drawn(seed, families=()):
    """The program of a seed."""
    known = FAMILIES if seed >= PAIRED else LATER_ON if seed >= ODDER else EARLIER
    names = families or [name for name in known for _ in range(WEIGHTS.get(name, 1))]
    family = Random(seed).choice([*names])
    return Draw(seed, family).program()


def with_rows(program, batches):
    """The same program over other rows."""
    return replace(program, batches=tuple(batches))

"""A program as frozen data, and as the code of the fluent API that a user would write.

Steps are in the order of their numbers; a step names its inputs. `code` is the text of one step, `Program.text` that of
all, with rows, cuts and restarts: it can be pasted and run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from tests.programs.own import CODE, Own
from tests.programs.terms import Field

INPUTS = ("of", "left", "right")
# The setting of a step whose function Spark does not compute.
CALLED = "trace=False, "
START = datetime(2024, 1, 1, tzinfo=UTC)
KINDS = {"odd": "double", "ip": "string", "word": "string", "big": "bigint", "flag": "boolean"}


def at(second):
    """An event time so many seconds into a program."""
    return START + timedelta(seconds=second)


def ddl(fields):
    """Fields and their types as a schema; "odd" is a double that may be NaN, infinite or -0.0, "ip" a text."""
    return ", ".join(f"{field} {KINDS.get(kind, kind)}" for field, kind in fields)


@dataclass(frozen=True)
class Step:
    """What all steps have: a name, by which others know it."""

    name: str

    @property
    def inputs(self):
        """The names of the steps whose rows it reads."""
        return tuple(getattr(self, name) for name in INPUTS if hasattr(self, name))

    def reading(self, before, after):
        """The same step that reads `after` wherever it reads `before`."""
        return replace(self, **{side: after for side in INPUTS if getattr(self, side, None) == before})


@dataclass(frozen=True)
class Source(Step):
    """Rows that are pushed batch by batch; `schema` is its fields and their types."""

    schema: tuple[tuple[str, str], ...]

    def code(self, label):
        return f'shop.from_memory(MemoryChannel(schema="{ddl(self.schema)}"), bad_records="skip", name="{label}")'


@dataclass(frozen=True)
class Filter(Step):
    """Rows for which a condition holds, as SQL, a Python function, a condition text or an expectation.

    Spark computes such a function, or it is `called`, or both, if it hashes the field `hashed`.
    """

    of: str
    condition: object
    form: str
    hashed: str = ""
    called: bool = False

    def code(self, label):
        if self.form == "text":
            return f'{self.of}.filter_by_expression({self.condition.text()!r}, name="{label}")'
        if self.form == "expect":
            return f'{self.of}.expect({self.condition.sql()!r}, on_fail="skip", name="{label}")'
        if self.form == "python":
            condition = self.condition.python()
            if self.hashed:
                condition = f'{condition} and (True, hash(r["{self.hashed}"]))[0]'
            return f'{self.of}.filter(lambda r: {condition}, {CALLED * self.called}name="{label}")'
        return f'{self.of}.filter({self.condition.sql()!r}, name="{label}")'


@dataclass(frozen=True)
class WithFields(Step):
    """New or replaced fields."""

    of: str
    columns: tuple[tuple[str, object], ...]

    def code(self, label):
        columns = ", ".join(f"{name}={term.sql()!r}" for name, term in self.columns)
        return f'{self.of}.with_fields({columns}, name="{label}")'


@dataclass(frozen=True)
class Select(Step):
    """Some fields, in an order of its own."""

    of: str
    kept: tuple[str, ...]

    def code(self, label):
        return f'{self.of}.select_fields({", ".join(map(repr, self.kept))}, name="{label}")'


@dataclass(frozen=True)
class Map(Step):
    """A row of a row, in SQL or in Python.

    Spark computes such a function, or it is `called`, or both: for the records whose field `hashed` is not null.
    """

    of: str
    columns: tuple[tuple[str, object, str], ...]
    python: bool
    hashed: str = ""
    called: bool = False

    def code(self, label):
        if self.python:
            items = ", ".join(f'"{name}": {self._item(term)}' for name, term, _ in self.columns)
            schema = ddl((name, kind) for name, _, kind in self.columns)
            return f'{self.of}.map(lambda r: {{{items}}}, schema="{schema}", {CALLED * self.called}name="{label}")'
        # A field as it is: a time that is computed is not an event time.
        texts = [name if term == Field(name) else f"{term.sql()} AS {name}" for name, term, _ in self.columns]
        return f'{self.of}.map({", ".join(map(repr, texts))}, name="{label}")'

    def _item(self, term):
        """A term as Python, with a hash in it that Spark does not know."""
        text = term.python()
        if not self.hashed or isinstance(term, Field):
            return text
        field = f'r["{self.hashed}"]'
        return f"({text}) if {field} is None else (({text}), hash({field}))[0]"


@dataclass(frozen=True)
class FlatMap(Step):
    """A row for each item of the field `items`, called `item`, with the fields `kept`; in Python, or in SQL."""

    of: str
    items: str
    kept: tuple[tuple[str, str], ...]
    form: str = "python"

    def code(self, label):
        if self.form == "sql":
            columns = ", ".join(name for name, _ in self.kept)
            rows = f"transform({self.items}, each -> struct({columns}, each AS item))"
            return f'{self.of}.flat_map("inline({rows})", name="{label}")'
        items = ", ".join(f'"{name}": r["{name}"]' for name, _ in self.kept)
        schema = ddl((*self.kept, ("item", "string")))
        made = f'[{{{items}, "item": each}} for each in r["{self.items}"] or []]'
        made += f' if r["{self.items}"] else None' * (self.form == "none")
        return f'{self.of}.flat_map(lambda r: {made}, schema="{schema}", name="{label}")'


@dataclass(frozen=True)
class Pass(Step):
    """A step that changes no row: `for_each`, an expectation, an exchange in memory or through a table."""

    of: str
    how: str

    def code(self, label):
        if self.how == "for_each":
            return f'{self.of}.for_each(lambda r: r.clear(), name="{label}")'
        if self.how == "warn":
            return f'{self.of}.expect("id > 3", name="{label}")'
        return f'{self.of}.shuffle(2, strategy="{self.how}", name="{label}")'


@dataclass(frozen=True)
class Branch(Step):
    """The rows for which a condition is true, or false: a `split` and one of its labels. Null is in neither."""

    of: str
    condition: object
    taken: bool

    def code(self, label):
        condition = self.condition.sql()
        text = f"CASE WHEN {condition} THEN 'yes' WHEN NOT ({condition}) THEN 'no' END"
        chosen = "yes" if self.taken else "no"
        return f'{self.of}.split("{text}", name="{label}_split").select("{chosen}", name="{label}")'


@dataclass(frozen=True)
class Union(Step):
    """The rows of two streams."""

    left: str
    right: str

    def code(self, label):
        return f'{self.left}.union({self.right}, name="{label}")'


@dataclass(frozen=True)
class Distinct(Step):
    """Rows that are the first ones with their values of some fields."""

    of: str
    keys: tuple[str, ...]
    within: int
    time: str
    delay: int

    def code(self, label):
        keys = ", ".join(map(repr, self.keys))
        times = f'within=Time.seconds({self.within}), time_field="{self.time}", water_mark=Time.seconds({self.delay})'
        return f'{self.of}.distinct({keys}, {times}, name="{label}")'


# Aggregates of Spark by the names that they have in a program.
IN_SQL = {"xor": "bit_xor({})", "every": "every({})", "median": "percentile({}, 0.5)"}


@dataclass(frozen=True)
class Aggregate:
    """One field of a group: `kind` is a method, or `aggregate` with SQL text."""

    name: str
    kind: str
    field: str | None = None
    term: object = None

    def sql(self):
        """One of Spark's as SQL."""
        return IN_SQL[self.kind].format(self.field)

    def code(self):
        if self.kind == "count":
            return f'.count("{self.name}")'
        if self.kind in IN_SQL:
            return f".aggregate({self.name}={self.sql()!r})"
        if self.kind in ("count_if", "sum_of"):
            function = "count_if" if self.kind == "count_if" else "sum"
            return f".aggregate({self.name}={f'{function}({self.term.sql()})'!r})"
        return f'.{self.kind}("{self.field}", "{self.name}")'


@dataclass(frozen=True)
class Top:
    """The first rows of each window and group; by `by`, then by `kept`."""

    n: int
    by: str
    kept: str
    descending: bool

    def code(self):
        return f'.top_n({self.n}, by="{self.by}", fields=["{self.kept}"], descending={self.descending})'


@dataclass(frozen=True)
class Firing:
    """How often a window fires: `how` is a method or a strategy, with seconds where it takes some."""

    how: str = "close"
    every: int = 0
    until: int = 0

    @property
    def hold(self):
        """How much longer than its end a window is open, in seconds."""
        return self.until if self.how == "emit_after" else 0

    def code(self):
        if self.how == "emit_after":
            return f".emit_after(Time.seconds({self.every}), until=Time.seconds({self.until}))"
        if self.how in ("emit_before", "suppress"):
            return f".{self.how}(Time.seconds({self.every}))"
        return f'.late_firings("{self.how}")' if self.how in ("deltas", "totals") else ""

    def emit(self):
        return f', emit="{self.how}"' if self.how.startswith("on_") else ""


# Calendar windows by their method.
CALENDARS = {"day": "days", "week": "weeks", "month": "months"}
# The ids of a window in their order, by a function of the last result and a row.
PATH = 'lambda before, r: {{"{name}": f"{{before[\'{name}\']}} {{r[\'id\']}}" if before else str(r["id"])}}'


@dataclass(frozen=True)
class Window(Step):
    """Groups by time, whose `shape` has a size of seconds or rows.

    `shape` is tumbling, hopping, cumulate, session, day, week, month (of `zone`), count, sliding, over (by rows),
    range, over_all, range_all (of all rows before), or global, whose size is how long a group lives, 0 for ever.
    `path` is a field that a Python function makes of all rows, `own` are other aggregates in Python. `by_record` is how
    late rows are judged, `by_split` whether the slowest source decides.
    """

    of: str
    shape: str
    size: int
    slide: int
    time: str
    groups: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    top: Top | None = None
    delay: int = 0
    firing: Firing = Firing()
    late: bool = False
    kept: tuple[str, ...] = ()
    path: str | None = None
    by_record: bool = False
    zone: str = ""
    offset: int = 0
    by_split: bool = False
    own: tuple[Own, ...] = ()

    def shaped(self):
        if self.shape in CALENDARS:
            return f'CalendarWindow.{CALENDARS[self.shape]}("{self.zone}", "{self.time}")'
        size, time = f"Time.seconds({self.size})", f'"{self.time}"'
        offset, keep = f"offset=Time.seconds({self.offset})", f"keep={list(self.kept)!r}"
        lives = f", time_to_live={size}" if self.size else ""
        return {
            "tumbling": f"TumblingWindow.of({size}, {time}, {offset})",
            "hopping": f"HoppingWindow.of({size}, Time.seconds({self.slide}), {time}, {offset})",
            "cumulate": f"CumulateWindow.of({size}, Time.seconds({self.slide}), {time}, {offset})",
            "session": f"SessionWindow.of({size}, {time})",
            "count": f"CountWindow.of({self.size}, {time})",
            "sliding": f"SlidingWindow.of({size}, {time})",
            "over": f"OverWindow.rows({self.size}, {time}, {keep})",
            "over_all": f"OverWindow.rows(None, {time}, {keep})",
            "range": f"OverWindow.range({size}, {time}, {keep})",
            "range_all": f"OverWindow.range(None, {time}, {keep})",
            "global": f"GlobalWindow.of({time}{lives})",
        }[self.shape]

    def code(self, label):
        groups = f".group_by({', '.join(map(repr, self.groups))})" if self.groups else ""
        made = "".join(each.code() for each in self.aggregates) + (self.top.code() if self.top else "")
        late = f'.late_to("{label}_late", name="{label}_late")' if self.late else ""
        per = ', per="split", lateness="record"' * self.by_record
        # No split may be idle, however slow the machine is.
        per += ', per="split", idle_timeout=Time.hours(9)' * self.by_split
        mark = f".water_mark(Time.seconds({self.delay}){per})" if self.delay or per else ""
        if self.path:
            made += f'.reduce({PATH.format(name=self.path)}, schema="{self.path} string", fields=["id"])'
        made += "".join(each.code(label) for each in self.own)
        begin = f'{self.of}.window({self.shaped()}, name="{label}"{self.firing.emit()})'
        return f"{begin}{groups}{made}{self.firing.code()}{mark}{late}.to_data_stream()"


@dataclass(frozen=True)
class Join(Step):
    """Pairs of two streams: `within` is seconds before and after, or a window's size and slide.

    The kind is interval, tumbling, hopping or any. `others` are the keys of the right side if they have other names.
    An empty text equals nothing, unless there are `empties`, as in SQL.
    """

    left: str
    right: str
    on: tuple[str, ...]
    how: str
    kind: str
    within: tuple[int, int]
    time: str
    delays: tuple[int, int]
    prefix: str | None
    processor: bool
    condition: tuple[str, str, str] | None
    empties: bool = False
    others: tuple[str, ...] = ()
    early: bool = False

    @property
    def pairs(self):
        """The fields that are equal: of the left side, and of the right one."""
        return tuple(zip(self.on, self.others or self.on, strict=True))

    def near(self):
        if self.kind == "any":
            return None
        first, second = (f"Time.seconds({each})" for each in self.within)
        return {
            "interval": f"Interval.of(before={first}, after={second})",
            "tumbling": f'TumblingWindow.of({first}, "{self.time}")',
            "hopping": f'HoppingWindow.of({first}, {second}, "{self.time}")',
        }[self.kind]

    def code(self, label):
        time = f', time_field="{self.time}"' if self.kind == "interval" else ""
        marks = ", ".join(f"Time.seconds({each})" for each in self.delays)
        condition = ""
        if self.condition:
            left, operator, right = self.condition
            condition = f', condition="left.{left} {operator} right.{right}"'
        more = f", water_mark=({marks})" * any(self.delays) + ", processor=True" * self.processor
        more += ", early=True" * self.early
        prefix = f', prefix="{self.prefix}"' if self.prefix else ""
        on = dict(self.pairs) if self.others else list(self.on)
        what = f'on={on!r}, within={self.near()}{time}, how="{self.how}"{condition}{more}{prefix}'
        return f'{self.left}.join({self.right}, {what}, name="{label}")'


@dataclass(frozen=True)
class AsOf(Step):
    """Each left row with the newest right row at or before its time."""

    left: str
    right: str
    on: str
    time: str
    tolerance: int | None
    how: str
    delays: tuple[int, int]
    deletes: object = None

    def code(self, label):
        marks = ", ".join(f"Time.seconds({each})" for each in self.delays)
        age = f"Time.seconds({self.tolerance})" if self.tolerance is not None else "None"
        what = f'on="{self.on}", time_field="{self.time}", tolerance={age}, how="{self.how}", water_mark=({marks})'
        what += f", deletes={self.deletes.sql()!r}" if self.deletes else ""
        return f'{self.left}.asof_join({self.right}, {what}, prefix="r_", name="{label}")'


@dataclass(frozen=True)
class Lookup(Step):
    """Each row with the rows of a dimension, which has other rows in each batch if `versions` has them.

    `condition` compares the row's `n` with their rank.
    """

    of: str
    on: str
    how: str
    rows: tuple[tuple[str | None, str, int], ...]
    versions: tuple[tuple[tuple[str | None, str, int], ...], ...] = ()
    condition: str = ""
    schema = (("d_key", "string"), ("d_tier", "string"), ("d_rank", "bigint"))

    def code(self, label):
        versions = [[dict(zip(("key", "tier", "rank"), row, strict=True)) for row in rows] for rows in self.each]
        rows = f"{versions!r}[VERSION[0]]" if self.versions else f"{versions[0]!r}"
        empty = ", may_be_empty=True" * bool(self.versions)
        loaded = f'Dimension.from_loader(lambda: {rows}, schema="key string, tier string, rank bigint"{empty})'
        on = f'{{"{self.on}": "key"}}'
        more = f'condition="left.n {self.condition} right.rank", ' if self.condition else ""
        return f'{self.of}.dim_join({loaded}, on={on}, how="{self.how}", {more}prefix="d_", name="{label}")'

    @property
    def each(self):
        """Its rows by batch; of one that does not change only once."""
        return self.versions or (self.rows,)


@dataclass(frozen=True)
class Process(Step):
    """For each row the sum of `field` and the number of rows of its key, up to it; in Python, with a state.

    A sum that has reached `most` at the end of a batch begins again.
    """

    of: str
    key: str
    field: str
    kind: str = "string"
    most: int | None = None
    schema = (("id", "bigint"), ("total", "bigint"), ("rows", "bigint"))

    def code(self, label):
        most = f", {self.most}" if self.most is not None else ""
        return (
            f'{self.of}.process_values(running("{self.key}", "{self.field}"{most}), keys="{self.key}", '
            f'schema="{self.key} {self.kind}, id bigint, total bigint, rows bigint", '
            f'state="total bigint, rows bigint", name="{label}")'
        )


@dataclass(frozen=True)
class ToTable(Step):
    """The newest row of each key; by the order of reading, or by fields."""

    of: str
    key: str
    order: tuple[str, ...]
    deletes: object
    lives: int | None = None
    history: bool = False
    more: tuple[str, ...] = ()

    @property
    def keys(self):
        """All fields of its key."""
        return (self.key, *self.more)

    def code(self, label):
        order = f", order_by={list(self.order)!r}" if self.order else ""
        if self.lives:
            order = f', time_field="ts", time_to_live=Time.seconds({self.lives})'
        if self.history:
            order = ', time_field="ts", history=Time.hours(24)'
        deletes = f", deletes={self.deletes.sql()!r}" if self.deletes else ""
        keys = ", ".join(map(repr, self.keys))
        return f'{self.of}.to_table({keys}{order}{deletes}, name="{label}")'


@dataclass(frozen=True)
class Retable(Step):
    """The table of the rows that a stream of changes has left, by a key that each of them has for itself."""

    of: str
    key: str
    kept: tuple[str, ...]

    def code(self, label):
        # All but the flag, which the changes of this table have themselves.
        kept = ", ".join(map(repr, self.kept))
        table = f'{self.of}.to_table("{self.key}", deletes="retracted", name="{label}")'
        return f'{table}.map_values({kept}, name="{label}_row")'


@dataclass(frozen=True)
class MapValues(Step):
    """The key of a table, and terms."""

    of: str
    columns: tuple[tuple[str, object], ...]
    keys: tuple[str, ...]

    def code(self, label):
        items = ", ".join(repr(f"{term.sql()} AS {name}") for name, term in self.columns)
        return f'{self.of}.map_values({items}, name="{label}")'


@dataclass(frozen=True)
class Group(Step):
    """Aggregates of a table, or of a stream since its beginning."""

    of: str
    groups: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]

    def code(self, label):
        made = "".join(each.code() for each in self.aggregates if each.kind not in IN_SQL)
        texts = [f"{each.name}={each.sql()!r}" for each in self.aggregates if each.kind in IN_SQL]
        made += f'.aggregate({", ".join(texts)}, name="{label}")' if texts else f'.to_table(name="{label}")'
        return f"{self.of}.group_by({', '.join(map(repr, self.groups))}){made}"


@dataclass(frozen=True)
class TableJoin(Step):
    """Rows of two tables by their keys, or by fields of the left one: `on` are pairs of these and the right `keys`."""

    left: str
    right: str
    on: tuple[tuple[str, str], ...] | None
    how: str
    keys: tuple[str, ...]

    def code(self, label):
        on = f"on={dict(self.on)!r}, " if self.on else ""
        return f'{self.left}.join({self.right}, {on}how="{self.how}", name="{label}")'


@dataclass(frozen=True)
class TablePairs(Step):
    """All pairs of rows of two tables with equal fields `on`; names of the right one begin with `prefix`, if given."""

    left: str
    right: str
    on: tuple[tuple[str, str], ...]
    how: str
    prefix: str | None

    def shown(self, name):
        """The name that a right field has in the result; without a prefix, equal fields have those of the left one."""
        return f"{self.prefix}{name}" if self.prefix else {right: left for left, right in self.on}.get(name, name)

    def code(self, label):
        prefix = f', prefix="{self.prefix}"' if self.prefix else ""
        return f'{self.left}.join({self.right}, on={dict(self.on)!r}, how="{self.how}"{prefix}, name="{label}")'


@dataclass(frozen=True)
class StreamTable(Step):
    """Rows of a stream with the current row of a table, or with that of their time."""

    left: str
    right: str
    on: tuple[str, str]
    how: str
    timed: bool = False

    def code(self, label):
        on = f'{{"{self.on[0]}": "{self.on[1]}"}}'
        timed = ', prefix="r_", time_field="ts"' * self.timed
        return f'{self.left}.join_table({self.right}, on={on}, how="{self.how}"{timed}, name="{label}")'


@dataclass(frozen=True)
class TableTop(Step):
    """The first rows of each group of a table."""

    of: str
    group: str
    n: int
    by: str
    descending: bool
    rank: str | None

    def code(self, label):
        rank = f', rank="{self.rank}"' if self.rank else ""
        what = f'{self.n}, by="{self.by}", descending={self.descending}{rank}'
        return f'{self.of}.group_by("{self.group}").top_n({what}, name="{label}")'


@dataclass(frozen=True)
class Changes(Step):
    """The changes of a table as rows with the field `retracted`."""

    of: str

    def code(self, label):
        return f'{self.of}.to_stream(name="{label}")'


@dataclass(frozen=True)
class Sink:
    """What is compared. `view` says how: each row (append), the last row of a window (last), rows less those that are
    retracted (net), or sums of parts (deltas). A window is known by `keys`; `count` grows with each of its rows.

    In Delta `upsert` is the greatest row of each of the `keys` by time and id, `history` its versions by time.
    """

    of: str
    view: str
    keys: tuple[str, ...] = ()
    count: str = ""


@dataclass(frozen=True)
class Program:
    """Steps, sinks, and the rows of each source by batch; the query is restarted after the batch `restart`."""

    seed: int
    steps: tuple[Step, ...]
    sinks: tuple[Sink, ...]
    batches: tuple[dict[str, tuple[dict, ...]], ...]
    restart: int | None = None
    variant: str = ""

    @property
    def label(self):
        return f"p{self.seed}{self.variant}"

    @property
    def changing(self):
        """The names of lookups whose dimension has other rows in each batch."""
        return tuple(f"{self.label}_{step.name}" for step in self.steps if getattr(step, "versions", ()))

    @property
    def sources(self):
        return tuple(step for step in self.steps if isinstance(step, Source))

    def sink_names(self):
        """The names of its sinks, those of late rows included, each with the sink or the window."""
        named = {f"{self.label}_out{place}": sink for place, sink in enumerate(self.sinks)}
        late = {f"{self.label}_{step.name}_late": step for step in self.steps if getattr(step, "late", False)}
        return named | late

    def body(self):
        """The steps, over a source of streams `shop`; the last line gives the stream that is built."""
        lines = [f"{step.name} = {step.code(f'{self.label}_{step.name}')}" for step in self.steps]
        sinks = [f'{sink.of}.to_print(name="{self.label}_out{n}")' for n, sink in enumerate(self.sinks)]
        return "\n".join([*lines, *sinks[:-1], f"last = {sinks[-1]}"])

    def text(self):
        """The whole program."""
        lines = [
            f"# seed {self.seed}",
            HEAD,
            CODE,
            *[step.preamble for step in self.steps if hasattr(step, "preamble")],
            *["VERSION = [0]"] * bool(self.changing),
            f'shop = StreamBuilder.data_stream("programs", "{self.label}")',
            self.body(),
        ]
        lines.append("with PipelineDriver(last.build()) as driver:")
        for number, batch in enumerate(self.batches):
            for name, rows in batch.items():
                each = "".join(f"        {shown(row)},\n" for row in rows)
                lines.append(f'    driver.push([\n{each}    ], "{self.label}_{name}")')
            if self.changing and number:
                lines += [f"    VERSION[0] = {number}", *(f'    driver.reload("{name}")' for name in self.changing)]
            lines.append("    driver.step()")
            if number == self.restart:
                lines.append("    driver.restart()")
        lines.append("    driver.finish()")
        lines += [f'    print(*driver.take("{name}"), sep="\\n")' for name in self.sink_names()]
        return "\n".join(lines)


HEAD = """from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import inf, nan
import pyarrow.compute as pc
from rs_assets import (
    CalendarWindow, CountWindow, CumulateWindow, Dimension, GlobalWindow, HoppingWindow, Interval, MemoryChannel,
    Network, OverWindow, Processor, Range, Rules, SessionWindow, SlidingWindow, StreamBuilder, Time, TumblingWindow,
    ValueStore,
)
from rs_assets.testing import PipelineDriver
def at(second):
    return datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
def running(name, field, most=None):
    def process(key, state, rows):
        total, number, made = (state["total"], state["rows"], []) if state else (0, 0, [])
        for row in rows:
            total, number = total + (row[field] or 0), number + 1
            made.append({name: key[name], "id": row["id"], "total": total, "rows": number})
        return None if most is not None and total >= most else {"total": total, "rows": number}, made
    return process"""


def shown(row):
    """A row as Python text, with times as seconds."""
    items = []
    for name, value in row.items():
        second = f"{(value - START) / timedelta(seconds=1)!r}".removesuffix(".0") if isinstance(value, datetime) else ""
        text = f"at({second})" if second else repr(value)
        items.append(f'"{name}": {text}')
    return f"{{{', '.join(items)}}}"

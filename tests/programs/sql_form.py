"""The same program in SQL, where it can be written so: a view for each step, and an INSERT for each sink."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

from tests.programs import program as p
from tests.programs import terms as t
from tests.programs.shapes import fields_after

TYPES = {
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "odd": "DOUBLE",
    "string": "STRING",
    "boolean": "BOOLEAN",
    "decimal(8,2)": "DECIMAL(8, 2)",
    "timestamp": "TIMESTAMP(3)",
    "array<string>": "ARRAY<STRING>",
}
# A sum of decimals has more digits than they have.
SHOWN_TYPES = TYPES | {"decimal(8,2)": "DECIMAL(30, 2)"}
SHAPES = ("tumbling", "hopping", "cumulate", "session")
AGGREGATES = ("count", "sum", "avg", "min", "max", "count_distinct", "count_if", "sum_of")


def as_sql(program):
    """The program without what SQL has no word for, or None if more than that is missing."""
    steps = tuple(replace(step, late=False) if isinstance(step, p.Window) else step for step in program.steps)
    plain = replace(program, steps=steps)
    return plain if script(plain) is not None else None


def script(program):
    """The statements of a program, in which each name begins with its label; None if a step has no form in SQL."""
    steps = {step.name: step for step in program.steps}
    timed = [step for step in program.steps if isinstance(step, p.Window | p.Join)]
    if len(timed) > 1 or any(sink.view != "append" for sink in program.sinks):
        return None
    joins = [step for step in timed if isinstance(step, p.Join)]
    if joins and [step.name for step in program.sources] != ["a", "b"]:
        # A table on both sides is read twice, and rows are pushed to one of the two.
        return None
    delays = [delay for step in timed for delay in getattr(step, "delays", None) or (step.delay, step.delay)] or [0, 0]
    made = []
    for step in program.steps:
        name = f"{program.label}_{step.name}"
        if isinstance(step, p.Source):
            made.append(source(step, name, delays["ab".index(step.name)]))
            continue
        inputs = [f"{program.label}_{of}" for of in step.inputs]
        fields = [fields_after(steps, of) for of in step.inputs]
        text = view(step, inputs, fields)
        if text is None:
            return None
        made.append(f"CREATE VIEW {name} AS {text};")
    for place, sink in enumerate(program.sinks):
        fields = fields_after(steps, sink.of)
        if not set(fields.values()) <= TYPES.keys():
            return None
        columns = ", ".join(f"`{field}` {SHOWN_TYPES[kind]}" for field, kind in fields.items())
        out = f"{program.label}_out{place}"
        made.append(f"CREATE TABLE {out} ({columns}) WITH ('connector' = 'print');")
        made.append(f"INSERT INTO {out} SELECT {named(fields)} FROM {program.label}_{sink.of};")
    return "\n".join(made)


def source(step, name, delay):
    """A table of files; a test pushes its rows."""
    columns = ", ".join(f"`{field}` {TYPES[kind]}" for field, kind in step.schema)
    mark = f"WATERMARK FOR ts AS ts - INTERVAL '{delay}' SECOND"
    options = f"'connector' = 'filesystem', 'path' = '{name}.jsonl', 'format' = 'json', 'bad-records' = 'skip'"
    return f"CREATE TABLE {name} ({columns}, {mark}) WITH ({options});"


def named(fields):
    return ", ".join(f"`{field}`" for field in fields)


def term(of):
    """A term in Flink's SQL, in which whole numbers divided are whole."""
    if isinstance(of, t.Quotient):
        return f"CAST({of.field} AS DOUBLE) / {of.number}"
    return of.sql()


@singledispatch
def view(step, inputs, fields):
    """The query of a step over its inputs and their fields; None if SQL has no such step."""


@view.register
def _(step: p.Filter, inputs, fields):
    return f"SELECT {named(fields[0])} FROM {inputs[0]} WHERE {step.condition.sql()}"


@view.register
def _(step: p.WithFields, inputs, fields):
    new = dict(step.columns)
    columns = [f"{term(new[field])} AS `{field}`" if field in new else f"`{field}`" for field in fields[0]]
    columns += [f"{term(of)} AS `{field}`" for field, of in step.columns if field not in fields[0]]
    return f"SELECT {', '.join(columns)} FROM {inputs[0]}"


@view.register
def _(step: p.Select, inputs, fields):
    return f"SELECT {named(step.kept)} FROM {inputs[0]}"


@view.register
def _(step: p.Map, inputs, fields):
    columns = [f"`{name}`" if of == t.Field(name) else f"{term(of)} AS `{name}`" for name, of, _ in step.columns]
    return f"SELECT {', '.join(columns)} FROM {inputs[0]}"


@view.register
def _(step: p.Pass, inputs, fields):
    return f"SELECT {named(fields[0])} FROM {inputs[0]}" if step.how != "delta" else None


@view.register
def _(step: p.Branch, inputs, fields):
    condition = step.condition.sql()
    return f"SELECT {named(fields[0])} FROM {inputs[0]} WHERE {condition if step.taken else f'NOT ({condition})'}"


@view.register
def _(step: p.Union, inputs, fields):
    names = named(fields[0])
    return f"SELECT {names} FROM {inputs[0]} UNION ALL SELECT {names} FROM {inputs[1]}"


@view.register
def _(step: p.FlatMap, inputs, fields):
    names = named(name for name, _ in step.kept)
    return f"SELECT {names}, `item` FROM {inputs[0]} CROSS JOIN UNNEST(`{step.items}`) AS t (`item`)"


@view.register
def _(step: p.Join, inputs, fields):
    if step.kind != "interval" or step.how in ("semi", "anti") or not step.prefix:
        return None
    columns = [f"l.`{field}` AS `{field}`" for field in fields[0]]
    columns += [f"r.`{field}` AS `{step.prefix}{field}`" for field in fields[1]]
    before, after = map(seconds, step.within)
    on = " AND ".join(f"l.`{name}` = r.`{name}`" for name in step.on)
    bound = f"r.`{step.time}` BETWEEN l.`{step.time}` - {before} AND l.`{step.time}` + {after}"
    if step.condition:
        on += f" AND l.`{step.condition[0]}` {step.condition[1]} r.`{step.condition[2]}`"
    how = {"inner": "JOIN"}.get(step.how, f"{step.how.upper()} JOIN")
    return f"SELECT {', '.join(columns)} FROM {inputs[0]} AS l {how} {inputs[1]} AS r ON {on} AND {bound}"


def seconds(number):
    return f"INTERVAL '{number}' SECOND"


def aggregate(each):
    """An aggregate of SQL."""
    texts = {
        "count": "COUNT(*)",
        "count_distinct": f"COUNT(DISTINCT {each.field})",
        "avg": f"AVG(CAST({each.field} AS DOUBLE))",
        "count_if": f"COUNT(*) FILTER (WHERE {each.term.sql()})" if each.term else "",
        "sum_of": f"SUM({each.term.sql()})" if each.term else "",
    }
    return f"{texts.get(each.kind, f'{each.kind.upper()}({each.field})')} AS `{each.name}`"


@view.register
def _(step: p.Window, inputs, fields):
    if step.shape not in SHAPES or step.top or step.path or step.by_record or step.firing.how != "close" or step.late:
        return None
    if not all(each.kind in AGGREGATES for each in step.aggregates):
        return None
    groups = named(step.groups)
    partition = f" PARTITION BY {groups}" if groups and step.shape == "session" else ""
    times = {
        "tumbling": [step.size, *[step.slide] * bool(step.slide)],
        "hopping": [step.slide, step.size],
        "cumulate": [step.slide, step.size],
        "session": [step.size],
    }[step.shape]
    function = {"tumbling": "TUMBLE", "hopping": "HOP", "cumulate": "CUMULATE", "session": "SESSION"}[step.shape]
    given = ", ".join([f"TABLE {inputs[0]}{partition}", f"DESCRIPTOR({step.time})", *map(seconds, times)])
    by = ", ".join([*(f"`{name}`" for name in step.groups), "window_start", "window_end"])
    columns = [*(f"`{name}`" for name in step.groups), *map(aggregate, step.aggregates)]
    columns += ["window_start AS start_time", "window_end AS end_time"]
    return f"SELECT {', '.join(columns)} FROM TABLE({function}({given})) GROUP BY {by}"

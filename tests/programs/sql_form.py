"""The same program in SQL, where it can be written so: a view for each step, and an INSERT for each sink."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

from tests.programs import program as p
from tests.programs import terms as t
from tests.programs.meaning import value
from tests.programs.shapes import fields_after

TYPES = {
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "odd": "DOUBLE",
    "ip": "STRING",
    "word": "STRING",
    "big": "BIGINT",
    "struct<a:bigint,b:string>": "ROW<a BIGINT, b STRING>",
    "map<string,bigint>": "MAP<STRING, BIGINT>",
    "string": "STRING",
    "boolean": "BOOLEAN",
    "decimal(8,2)": "DECIMAL(8, 2)",
    "timestamp": "TIMESTAMP(3)",
    "array<string>": "ARRAY<STRING>",
}
# A sum of decimals has more digits than they have.
SHOWN_TYPES = TYPES | {"decimal(8,2)": "DECIMAL(30, 2)"}
FUNCTIONS = {"tumbling": "TUMBLE", "hopping": "HOP", "cumulate": "CUMULATE", "session": "SESSION"}
AGGREGATES = ("count", "sum", "avg", "min", "max", "count_distinct", "count_if", "sum_of")


class Unwritten(Exception):
    """A program has no form in SQL; says which part of it."""


def as_sql(program):
    """The program without what SQL has no word for; Unwritten if more than that is missing."""
    plain = replace(program, steps=tuple(map(_worded, program.steps)))
    for step in plain.steps:
        plain = flagged(plain, step)
    script(plain)
    return plain


def _worded(step):
    """The step as SQL has it: no output of late rows, and an empty text equals itself."""
    if isinstance(step, p.Window):
        return replace(step, late=False)
    return replace(step, empties=True) if isinstance(step, p.Join) else step


def flagged(program, step):
    """With a column `gone` in the rows of a source that `step` reads, where the program has a condition."""
    of = getattr(step, "right", None) or getattr(step, "of", None)
    condition = getattr(step, "deletes", None)
    if condition is None or of not in {source.name for source in program.sources}:
        return program
    steps = tuple(
        replace(each, schema=(*each.schema, ("gone", "boolean")))
        if each.name == of
        else replace(each, deletes=t.Compare("gone", "=", value=True))
        if each is step
        else each
        for each in program.steps
    )
    batches = tuple(
        batch | {of: tuple(row | {"gone": value(condition, row) is True} for row in batch.get(of, ()))}
        for batch in program.batches
    )
    return replace(program, steps=steps, batches=batches)


def script(program):
    """The statements of a program, in which each name begins with its label; Unwritten if a step has no form in SQL."""
    steps = {step.name: step for step in program.steps}
    check(program)
    delays, made = delays_of(program), []
    for step in program.steps:
        name = f"{program.label}_{step.name}"
        if isinstance(step, p.Source):
            readers = [each for each in program.steps if step.name in each.inputs]
            made.append(source(step, name, delays.get(step.name, 0), readers))
            continue
        inputs = [f"{program.label}_{of}" for of in step.inputs]
        fields = [fields_after(steps, of) for of in step.inputs]
        made.append(f"CREATE VIEW {name} AS {view(step, inputs, fields)};")
    for place, sink in enumerate(program.sinks):
        fields = fields_after(steps, sink.of)
        if not set(fields.values()) <= TYPES.keys():
            raise Unwritten("a result with an array of another type")
        columns = ", ".join(f"`{field}` {SHOWN_TYPES[kind]}" for field, kind in fields.items())
        out = f"{program.label}_out{place}"
        made.append(f"CREATE TABLE {out} ({columns}) WITH ('connector' = 'print');")
        made.append(f"INSERT INTO {out} SELECT {named(fields)} FROM {program.label}_{sink.of};")
    return "\n".join(made)


def timed_steps(program):
    """The steps by event time."""
    return [step for step in program.steps if isinstance(step, p.Window | p.Join | p.AsOf | p.Distinct)]


def check(program):
    """Unwritten for what a single step does not show."""
    timed, changes = timed_steps(program), any(isinstance(step, p.Changes) for step in program.steps)
    if len(timed) > 1:
        raise Unwritten("several steps by event time")
    if any(sink.view != ("net" if changes else "append") for sink in program.sinks):
        raise Unwritten("rows of windows that fire more than once")
    joins = [step for step in timed if isinstance(step, p.Join)]
    twice = any(isinstance(step, p.TablePairs) and step.left == step.right for step in program.steps)
    if twice or (joins and [step.name for step in program.sources] != ["a", "b"]):
        # Its table is read twice, and rows are pushed to one of the two.
        raise Unwritten("a stream joined with itself")


def delays_of(program):
    """The delay of each source by name; no watermark where no step asks for the time."""
    found = {}
    for step in timed_steps(program):
        delays = getattr(step, "delays", None) or (step.delay,) * len(program.sources)
        found = dict(zip((source.name for source in program.sources), delays, strict=True))
    return found


def source(step, name, delay, readers):
    """A table of files; a test pushes its rows. One that is read as a table has a key, and perhaps rows that delete."""
    columns = [f"`{field}` {TYPES[kind]}" for field, kind in step.schema]
    options, keyed = "", [each for each in readers if isinstance(each, p.ToTable)]
    versions = [each for each in readers if isinstance(each, p.AsOf) and each.right == step.name]
    deletes = next((each.deletes for each in (*keyed, *versions) if each.deletes is not None), None)
    if deletes is not None:
        options = f", 'deletes' = '{deletes.field}'"
    keys = next((each.keys for each in keyed), ()) or next(((each.on,) for each in versions), ())
    if keys:
        columns.append(f"PRIMARY KEY ({named(keys)}) NOT ENFORCED")
        order = next((each.order for each in keyed), ())
        options += ", 'follow' = 'true'" + (f", 'order-by' = '{order[0]}'" if order else "")
    if not keyed:
        columns.append(f"WATERMARK FOR ts AS ts - INTERVAL '{delay}' SECOND")
    files = f"'connector' = 'filesystem', 'path' = '{name}.jsonl', 'format' = 'json', 'bad-records' = 'skip'"
    return f"CREATE TABLE {name} ({', '.join(columns)}) WITH ({files}{options});"


def named(fields):
    return ", ".join(f"`{field}`" for field in fields)


def term(of):
    """A term in Flink's SQL, in which whole numbers divided are whole."""
    if isinstance(of, t.Quotient):
        return f"CAST({of.field} AS DOUBLE) / {of.number}"
    return of.sql()


@singledispatch
def view(step, inputs, fields):
    """The query of a step over its inputs and their fields; Unwritten if SQL has no such step."""
    raise Unwritten(f"the step {type(step).__name__}")


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
    if step.how == "delta":
        raise Unwritten("a durable shuffle between steps of the user")
    return f"SELECT {named(fields[0])} FROM {inputs[0]}"


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
    if step.kind != "interval" or step.how in ("semi", "anti") or not step.prefix or step.early:
        raise Unwritten("a join by windows, a semi join, an early one, or one without names for both sides")
    columns = [f"l.`{field}` AS `{field}`" for field in fields[0]]
    columns += [f"r.`{field}` AS `{step.prefix}{field}`" for field in fields[1]]
    before, after = map(seconds, step.within)
    on = " AND ".join(f"l.`{name}` = r.`{of}`" for name, of in step.pairs)
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
    if step.path or step.own or step.top:
        raise Unwritten("a window with aggregates in Python, or with a ranking and aggregates")
    if step.by_record or step.by_split or step.firing.how != "close" or step.late:
        raise Unwritten("a window with settings of its own")
    if not all(each.kind in AGGREGATES for each in step.aggregates):
        raise Unwritten("an aggregate that makes an array")
    return over(step, inputs) if step.kept else grouped_by_time(step, inputs)


def grouped_by_time(step, inputs):
    """A window by a table function."""
    if step.shape not in FUNCTIONS:
        raise Unwritten(f"a window of the kind {step.shape}")
    groups = named(step.groups)
    partition = f" PARTITION BY {groups}" if groups and step.shape == "session" else ""
    times = [step.slide, step.size] if step.shape in ("hopping", "cumulate") else [step.size]
    times += [step.offset] * bool(step.offset)
    given = ", ".join([f"TABLE {inputs[0]}{partition}", f"DESCRIPTOR({step.time})", *map(seconds, times)])
    by = ", ".join([*(f"`{name}`" for name in step.groups), "window_start", "window_end"])
    columns = [*(f"`{name}`" for name in step.groups), *map(aggregate, step.aggregates)]
    columns += ["window_start AS start_time", "window_end AS end_time"]
    return f"SELECT {', '.join(columns)} FROM TABLE({FUNCTIONS[step.shape]}({given})) GROUP BY {by}"


def over(step, inputs):
    """A window over each row."""
    bounds = {
        "over": f"ROWS BETWEEN {step.size} PRECEDING AND CURRENT ROW",
        "over_all": "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
        "range": f"RANGE BETWEEN {seconds(step.size)} PRECEDING AND CURRENT ROW",
        "range_all": "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    }[step.shape]
    window = f"OVER (PARTITION BY {named(step.groups)} ORDER BY {step.time} {bounds})"
    # Rows of one time are in the order of the columns.
    columns = [*(f"`{name}`" for name in (*step.kept, *step.groups))]
    for each in (*map(aggregate, step.aggregates), f"MIN({step.time}) AS `start_time`"):
        call, name = each.split(" AS ")
        columns.append(f"{call} {window} AS {name}")
    return f"SELECT {', '.join(columns)}, {step.time} AS `end_time` FROM {inputs[0]}"


# Tables.


@view.register
def _(step: p.ToTable, inputs, fields):
    if step.lives or step.history:
        raise Unwritten("a table whose rows live for a time, or have versions")
    # Sources have names of letters alone.
    if not step.of.isalpha():
        raise Unwritten("steps between a source and its table")
    return f"SELECT {named(fields[0])} FROM {inputs[0]}"


@view.register
def _(step: p.MapValues, inputs, fields):
    columns = [*(f"`{key}`" for key in step.keys), *(f"{term(of)} AS `{name}`" for name, of in step.columns)]
    return f"SELECT {', '.join(columns)} FROM {inputs[0]}"


@view.register
def _(step: p.Group, inputs, fields):
    if not all(each.kind in AGGREGATES for each in step.aggregates):
        raise Unwritten("an aggregate that makes an array")
    groups = named(step.groups)
    known = " AND ".join(f"`{name}` IS NOT NULL" for name in step.groups)
    columns = ", ".join([groups, *map(aggregate, step.aggregates)])
    # Without a condition the group of a stream gives its new rows alone.
    return f"SELECT {columns} FROM {inputs[0]} WHERE {known} GROUP BY {groups} HAVING COUNT(*) > 0"


@view.register
def _(step: p.TableTop, inputs, fields):
    names, direction = named(fields[0]), "DESC" if step.descending else "ASC"
    number = f"ROW_NUMBER() OVER (PARTITION BY `{step.group}` ORDER BY `{step.by}` {direction}) AS place_number"
    ranked = f"SELECT {names}, {number} FROM {inputs[0]} WHERE `{step.group}` IS NOT NULL"
    rank = f", place_number AS `{step.rank}`" if step.rank else ""
    return f"SELECT {names}{rank} FROM ({ranked}) AS ranked WHERE place_number <= {step.n}"


@view.register
def _(step: p.TableJoin, inputs, fields):
    pairs = step.on or tuple(zip(fields[0], step.keys, strict=False))
    columns = [f"l.`{field}`" for field in fields[0]]
    if step.how == "outer":
        columns[: len(pairs)] = [f"COALESCE(l.`{key}`, r.`{other}`) AS `{key}`" for key, other in pairs]
    columns += [f"r.`{field}`" for field in fields[1] if field not in step.keys]
    how = {"inner": "JOIN", "left": "LEFT JOIN", "outer": "FULL JOIN"}[step.how]
    on = " AND ".join(f"l.`{own}` = r.`{other}`" for own, other in pairs)
    return f"SELECT {', '.join(columns)} FROM {inputs[0]} AS l {how} {inputs[1]} AS r ON {on}"


@view.register
def _(step: p.TablePairs, inputs, fields):
    both = {own: f"COALESCE(l.`{own}`, r.`{other}`)" for own, other in step.on}
    both = both if step.how == "outer" and not step.prefix else {}
    columns = [f"{both.get(field, f'l.`{field}`')} AS `{field}`" for field in fields[0]]
    columns += [f"r.`{name}` AS `{step.shown(name)}`" for name in fields[1] if step.shown(name) not in fields[0]]
    how = {"inner": "JOIN", "left": "LEFT JOIN", "outer": "FULL JOIN"}[step.how]
    on = " AND ".join(f"l.`{own}` = r.`{other}`" for own, other in step.on)
    return f"SELECT {', '.join(columns)} FROM {inputs[0]} AS l {how} {inputs[1]} AS r ON {on}"


@view.register
def _(step: p.StreamTable, inputs, fields):
    if step.timed:
        raise Unwritten("versions of a table without waiting for its watermark")
    own, key = step.on
    columns = [f"l.`{field}`" for field in fields[0]] + [f"r.`{field}`" for field in fields[1] if field != key]
    how = {"inner": "JOIN", "left": "LEFT JOIN"}[step.how]
    now = f"{inputs[1]} FOR SYSTEM_TIME AS OF PROCTIME() AS r"
    return f"SELECT {', '.join(columns)} FROM {inputs[0]} AS l {how} {now} ON l.`{own}` = r.`{key}`"


@view.register
def _(step: p.AsOf, inputs, fields):
    if step.tolerance is not None or step.right != "b":
        raise Unwritten("an as-of join with an age, or of a computed table")
    columns = [f"l.`{field}`" for field in fields[0]] + [f"r.`{field}` AS `r_{field}`" for field in fields[1]]
    how = {"inner": "JOIN", "left": "LEFT JOIN"}[step.how]
    then = f"{inputs[1]} FOR SYSTEM_TIME AS OF l.{step.time} AS r"
    return f"SELECT {', '.join(columns)} FROM {inputs[0]} AS l {how} {then} ON l.`{step.on}` = r.`{step.on}`"


@view.register
def _(step: p.Changes, inputs, fields):
    return f"SELECT {named(fields[0])} FROM {inputs[0]}"

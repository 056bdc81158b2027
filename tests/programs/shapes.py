"""The fields after each step, with their types, by which a program is drawn and its rows are known without one."""

from __future__ import annotations

from functools import singledispatch

from tests.programs import lookups, reductions, scripts, terms, timers
from tests.programs import program as p

KINDS = {int: "bigint", str: "string", bool: "boolean"}
TIMES = (("start_time", "timestamp"), ("end_time", "timestamp"))


def fields_after(steps, name):
    """The fields of a step and their types, in order; `steps` by name."""
    step = steps[name]
    return fields(step, *(fields_after(steps, of) for of in step.inputs))


def names_after(steps, name):
    """The names of these fields."""
    return list(fields_after(steps, name))


def kind_of(term, of):
    """The type of a term over fields of known types."""
    match term:
        case terms.Field(name) | terms.Coalesce(name, _):
            return of[name]
        case terms.Part(_, _, kind):
            return kind
        case terms.Quotient():
            return "double"
        case terms.Joined():
            return "string"
        case terms.Case(_, then, _):
            return kind_of(then, of)
        case terms.Constant(value):
            return KINDS[type(value)]
    return "bigint"


def keys_after(steps, name):
    """The key of the table after a step."""
    step = steps[name]
    match step:
        case p.ToTable():
            return step.keys
        case p.Group():
            return step.groups
        case reductions.Reduced() | reductions.Cogroup():
            return (step.group,)
        case p.Retable():
            return (step.key,)
        case p.TablePairs():
            theirs = map(step.shown, keys_after(steps, step.right))
            return tuple(dict.fromkeys((*keys_after(steps, step.left), *theirs)))
    return keys_after(steps, step.inputs[0])


@singledispatch
def fields(step, *inputs):
    """The fields of a step from those of its inputs: by default those of the first one."""
    return inputs[0]


@fields.register
def _(step: p.Source):
    return dict(step.schema)


@fields.register
def _(step: p.WithFields, of):
    return of | {name: kind_of(term, of) for name, term in step.columns}


@fields.register
def _(step: p.Select, of):
    return {name: of[name] for name in step.kept}


@fields.register
def _(step: p.Map, of):
    return {name: kind for name, _, kind in step.columns}


@fields.register
def _(step: scripts.Script, of):
    return scripts.fields_of(step.statements, of)


@fields.register
def _(step: p.FlatMap, of):
    return dict(step.kept) | {"item": "string"}


@fields.register
def _(step: p.Lookup, of):
    return of | dict(p.Lookup.schema)


@fields.register
def _(step: lookups.Contained, of):
    return of | {f"d_{name}": "string" if kind == "ip" else kind for name, kind in step.schema}


@fields.register
def _(step: lookups.Judged, of):
    return of | dict(step.schema)


@fields.register
def _(step: lookups.Batches, of):
    return dict(step.kept) | {step.made: "bigint"}


def kind_after(each, of):
    """The type of an aggregate's field."""
    if each.kind in ("count", "count_if", "count_distinct", "sum_of"):
        return "bigint"
    if each.kind in ("avg", "median"):
        return "double"
    if each.kind in ("collect", "distinct"):
        return f"array<{p.KINDS.get(of[each.field], of[each.field])}>"
    return of[each.field]


@fields.register
def _(step: p.Window, of):
    made = {name: of[name] for name in step.groups} | {each.name: kind_after(each, of) for each in step.aggregates}
    if step.top:
        made |= {"rank": "bigint", step.top.by: of[step.top.by], step.top.kept: of[step.top.kept]}
    made |= {name: of[name] for name in step.kept}
    made |= {step.path: "string"} if step.path else {}
    made |= {each.name: "bigint" for each in step.own}
    return made if step.shape == "global" else made | dict(TIMES)


@fields.register
def _(step: p.Group, of):
    return {name: of[name] for name in step.groups} | {each.name: kind_after(each, of) for each in step.aggregates}


@fields.register
def _(step: reductions.Reduced | reductions.Cogroup, of, *other):
    return {step.group: of[step.group]} | dict(step.schema)


@fields.register
def _(step: p.MapValues, of):
    return {key: of[key] for key in step.keys} | {name: kind_of(term, of) for name, term in step.columns}


@fields.register
def _(step: p.Join, left, right):
    made = dict(left)
    if step.how not in ("semi", "anti"):
        made |= {f"{step.prefix or ''}{name}": kind for name, kind in right.items()}
    made |= {"retracted": "flag"} if step.early else {}
    return made if step.kind in ("interval", "any") else made | dict(TIMES)


@fields.register
def _(step: p.AsOf, left, right):
    return left | {f"r_{name}": kind for name, kind in right.items()}


@fields.register
def _(step: p.ToTable, of):
    return {key: of[key] for key in step.keys} | {name: kind for name, kind in of.items() if name not in step.keys}


@fields.register
def _(step: p.Retable, of):
    return {step.key: of[step.key]} | {name: of[name] for name in step.kept}


@fields.register
def _(step: p.TableJoin, left, right):
    return left | {name: kind for name, kind in right.items() if name not in step.keys}


@fields.register
def _(step: p.TablePairs, left, right):
    return left | {step.shown(name): kind for name, kind in right.items() if step.shown(name) not in left}


@fields.register
def _(step: p.Process, of):
    return {step.key: of[step.key]} | dict(p.Process.schema)


@fields.register
def _(step: timers.Timers, of):
    return dict(step.keys) | dict(step.schema)


@fields.register
def _(step: timers.Other, of):
    return {"id": "bigint"}


@fields.register
def _(step: p.StreamTable, left, right):
    if step.timed:
        return left | {f"r_{name}": kind for name, kind in right.items()}
    return left | {name: kind for name, kind in right.items() if name != step.on[1]}


@fields.register
def _(step: p.TableTop, of):
    return of | ({step.rank: "bigint"} if step.rank else {})

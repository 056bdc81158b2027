"""The fields that each kind of step produces from its inputs, and the errors that are certain.

One row a node type. The fields of other types are unknown, and not checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from rs_assets.common.node import Node
from rs_assets.connectors.messages import flag_taken, no_condition, not_plain
from rs_assets.connectors.nodes import Sink, Source
from rs_assets.connectors.registry import SINKS, SOURCES
from rs_assets.errors import TopologyError, UnknownFieldError
from rs_assets.expressions.condition.bind import condition_sql
from rs_assets.expressions.rules.spec import check_given
from rs_assets.operators.dimension.keys import check_within
from rs_assets.operators.dimension.spec import LoaderOrigin
from rs_assets.operators.join.spec import OF_BOTH, two_fields, unlike_keys
from rs_assets.operators.window.messages import no_event_time, no_number
from rs_assets.operators.window.output import Aggregate
from rs_assets.records.fields import UNKNOWN, Fields, Types, declared
from rs_assets.records.types import Type, compared_by_rounding, type_in
from rs_assets.topology.check.sql import Item, all_of, check_sql
from rs_assets.topology.check.united import check_kinds
from rs_assets.topology.nodes import (
    dim_join,
    distinct,
    fold,
    join,
    match,
    process,
    rule_windows,
    shuffle,
    step,
    table,
    table_reduce,
    window,
)
from rs_assets.topology.nodes.match import RULE
from rs_assets.topology.nodes.rule_windows import HAVING, OWN
from rs_assets.topology.user_code.expression import ColumnBuilder, ConditionText, Expression, PythonFunction, SqlText

Inputs = tuple[Fields, ...]
Rule = Callable[[Any, Inputs], Fields]
# The nodes that compare keys of two sides.
Joined = join.StreamJoin | dim_join.DimJoin | table.TableJoin | table.StreamTableJoin

EVENT_TIMES = ("timestamp", "timestamp_ntz", "bigint", "string")
NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
# All other columns of a window row are times.
OWN_TYPES = {"final": "boolean", "retracted": "boolean"}
WHOLE = ("tinyint", "smallint", "int", "bigint")


def _passed(_node: Node, inputs: Inputs) -> Fields:
    return inputs[0]


def _expression(value: Expression, fields: Fields, *, step: str, before: Types | None = None) -> Item:
    """The result of an expression; unknown for a Column."""
    if isinstance(value, SqlText):
        return check_sql(value.text, fields, step=step, before=before or {})
    if isinstance(value, ColumnBuilder):
        _check_columns(value, fields, step=step)
    if isinstance(value, ConditionText) and fields.whole:
        condition_sql(value.text, field_types(fields), step=step)
    return Item(None)


def field_types(fields: Fields) -> dict[str, str | None]:
    """The fields with their types as Spark names them, as far as they are known."""
    return {name: _known(kind) for name, kind in fields.types.items()}


def _check_columns(value: ColumnBuilder, fields: Fields, *, step: str) -> None:
    """UnknownFieldError for a field that a Column certainly cannot find."""
    for name in sorted(value.fields):
        if re.fullmatch(r"\w+", name) and not fields.has(name):
            raise UnknownFieldError(name, step=step, known=tuple(fields.types))


def _mapped(node: step.Map, inputs: Inputs) -> Fields:
    if node.function is not None:
        return declared(node.function.schema, step=node.name)
    items: list[Item] = []
    named: dict[str, Type | None] = {}
    for part in node.select:
        items.append(_expression(part, inputs[0], step=node.name, before=named))
        _check_twice(named, items[-1].fields or {}, step=node.name)
        named |= items[-1].fields or {}
    return all_of(items)


def _check_twice(named: Types, added: Types, *, step: str) -> None:
    """TopologyError for a field that a select list has twice."""
    known = {name.casefold() for name in named}
    twice = next((name for name in added if name.casefold() in known), None)
    if twice is not None:
        raise two_fields(twice, "", step=step, remedy=f"leave one out, or give it another name: ... AS other_{twice}")


def _mapped_in_batches(node: step.MapBatches, inputs: Inputs) -> Fields:
    inputs[0].check(node.fields, step=node.name)
    return declared(node.function.schema, step=node.name)


def _flattened(node: step.FlatMap, inputs: Inputs) -> Fields:
    if isinstance(node.expression, PythonFunction):
        return declared(node.expression.schema, step=node.name)
    return all_of([_expression(node.expression, inputs[0], step=node.name)])


def _filtered(node: step.Filter | step.Expect, inputs: Inputs) -> Fields:
    kind = _expression(node.condition, inputs[0], step=node.name).type
    if kind is not None and kind.name not in ("boolean", "void"):
        raise TopologyError(
            f"step {node.name!r}: the condition {node.detail()!r} is a {kind.text}, not true or false",
            remedy='compare it with something: "ms > 0", "page = \'/\'"',
            step=node.name,
        )
    return inputs[0]


def _scripted(node: step.Script, inputs: Inputs) -> Fields:
    if not inputs[0].whole:
        return UNKNOWN
    # Few pipelines have a script, and its modules are read at each start of the command line.
    from rs_assets.expressions.script.bind import bound_script

    bound = bound_script(node.text, field_types(inputs[0]), step=node.name, zone=node.zone, strict=node.strict)
    return Fields({name: type_in(kind) if kind else None for name, kind in bound.fields})


def _labelled(node: step.Split, inputs: Inputs) -> Fields:
    _expression(node.label, inputs[0], step=node.name)
    return inputs[0]


def _selected(node: step.SelectFields, inputs: Inputs) -> Fields:
    inputs[0].check(node.fields, step=node.name)
    return Fields({name: inputs[0].type_of(name) for name in node.fields})


def _added(node: step.WithFields, inputs: Inputs) -> Fields:
    return inputs[0].plus({name: _expression(e, inputs[0], step=node.name).type for name, e in node.columns})


def _united(node: step.Union, inputs: Inputs) -> Fields:
    known = [(name, fields) for name, fields in zip(node.inputs, inputs, strict=True) if fields.whole]
    if not known:
        return UNKNOWN
    check_kinds(node.name, [(name, {each: _known(kind) for each, kind in f.types.items()}) for name, f in known])
    return known[0][1]


def _known(kind: Type | None) -> str | None:
    """The text of a type, None if a part of it is unknown."""
    return kind.text if kind is not None and "?" not in kind.text else None


def check_event_time(name: str | None, fields: Fields, *, step: str) -> None:
    """UnknownFieldError or TopologyError if the field `name` cannot be an event time; None is the time of arrival."""
    fields.check((name,), step=step)
    kind = fields.type_of(name) if name is not None else None
    if kind is not None and kind.name not in EVENT_TIMES:
        raise no_event_time(str(name), kind.text, step=step)


def _windowed(node: window.WindowAggregate, inputs: Inputs) -> Fields:
    fields = inputs[0]
    ranked = node.ranking.shown if node.ranking is not None else ()
    kept = (*(node.rows.fields if node.rows else ()), *(name for each in node.accumulated for name in each.fields))
    fields.check((*node.group_by, *(a.field for a in node.aggregates), *ranked, *kept, *node.kept), step=node.name)
    check_event_time(node.event_time, fields, step=node.name)
    for aggregate in node.aggregates:
        _check_number(aggregate, fields, step=node.name)
    types = {name: fields.type_of(name) for name in (*node.group_by, *ranked, *node.kept)}
    types |= {a.alias: aggregated(a, fields) for a in node.aggregates}
    # The results of Spark aggregates are unknown here.
    types |= dict.fromkeys((name for name, _ in node.own))
    types |= {node.ranking.rank: Type("int")} if node.ranking is not None else {}
    types |= dict.fromkeys(node.carried)
    return Fields(types | {name: Type(OWN_TYPES.get(name, "timestamp")) for name in node.own_fields})


def _folded(node: fold.Fold, inputs: Inputs) -> Fields:
    before = {name: kind for name, kind in inputs[0].types.items() if name != node.rows}
    return Fields({**before, **declared(node.function.schema, step=node.name).types}, inputs[0].whole)


def _check_number(aggregate: Aggregate, fields: Fields, *, step: str) -> None:
    kind = fields.type_of(aggregate.field) if aggregate.field is not None else None
    if kind is not None and aggregate.function in ("sum", "avg") and not _numeric(kind):
        raise no_number(aggregate.function, str(aggregate.field), kind.text, step=step)


def _numeric(kind: Type | None) -> bool:
    return kind is not None and (kind.name in NUMBERS or kind.name.startswith("decimal"))


def aggregated(aggregate: Aggregate, fields: Fields) -> Type | None:
    """The type of an aggregate over `fields`, None if it is unknown here."""
    kind = fields.type_of(aggregate.field) if aggregate.field is not None else None
    return AGGREGATES[aggregate.function](kind) if aggregate.function in AGGREGATES else None


def _whole(kind: Type | None) -> bool:
    return kind is not None and kind.name in WHOLE


def _sum_of(kind: Type | None) -> Type | None:
    if _whole(kind):
        return Type("bigint")
    return Type("double") if kind is not None and kind.name in NUMBERS else None


AGGREGATES: Mapping[str, Callable[[Type | None], Type | None]] = MappingProxyType(
    {
        **dict.fromkeys(("count", "count_distinct", "count_distinct_large"), lambda _: Type("bigint")),
        **dict.fromkeys(("min", "max"), lambda kind: kind),
        **dict.fromkeys(("distinct", "collect"), lambda kind: Type("array", (("element", kind),)) if kind else None),
        "sum": _sum_of,
        "avg": lambda _: Type("double"),
    }
)


def _deduplicated(node: distinct.Distinct, inputs: Inputs) -> Fields:
    inputs[0].check(node.fields, step=node.name)
    check_event_time(node.event_time, inputs[0], step=node.name)
    return inputs[0]


def _joined(node: join.StreamJoin, inputs: Inputs) -> Fields:
    _check_named(node, *inputs)
    for fields, at in zip(inputs, node.time_fields or (), strict=False):
        check_event_time(at, fields, step=node.name)
    _check_deletes(node, inputs[1])
    _check_keys(node, *inputs, alike=_numeric)
    return _both_sides(node, *inputs)


def _check_named(node: Joined, left: Fields, right: Fields) -> None:
    """UnknownFieldError for a key that a side does not have."""
    left.check([one for one, _ in node.on], step=node.name)
    right.check([two for _, two in node.on], step=node.name)


def _check_keys(node: Joined, left: Fields, right: Fields, *, alike: Callable[[Type | None], bool]) -> None:
    """TopologyError for keys that Spark would compare by a cast, unless both are `alike`, and none is rounded."""
    for one, two in node.on:
        kinds = left.type_of(one), right.type_of(two)
        here, there = map(_known, kinds)
        if here is None or there is None or here == there:
            continue
        if not all(map(alike, kinds)) or compared_by_rounding(here, there):
            raise unlike_keys((one, here), (two, there), step=node.name, loaded=isinstance(node, dim_join.DimJoin))


def _both_sides(node: join.StreamJoin, left: Fields, right: Fields) -> Fields:
    """The left side's fields, those of the right side added or replacing them, and the window's times."""
    types, whole = dict(left.types), left.whole
    if node.how in OF_BOTH:
        beside = {f"{node.prefix or ''}{name}": kind for name, kind in right.types.items()}
        _check_names(node, left, beside)
        types |= {name: kind for name, kind in beside.items() if left.find(name) is None}
        whole = whole and right.whole
    times = dict.fromkeys(join.PLACE_FIELDS if node.place is not None else (), Type("timestamp"))
    return Fields(types | times | ({"retracted": Type("boolean")} if node.early else {}), whole)


def _looked_up(node: dim_join.DimJoin, inputs: Inputs) -> Fields:
    stream, found = inputs[0], declared(node.dimension.schema, step=node.name)
    _check_named(node, stream, found)
    _check_keys(node, stream, found, alike=_whole)
    _check_within(node, stream, found)
    keys = {two for one, two in node.on if one == two and node.prefix is None}
    beside = {f"{node.prefix or ''}{name}": kind for name, kind in found.types.items() if name not in keys}
    _check_names(node, stream, beside)
    kept = {name: kind for name, kind in beside.items() if stream.find(name) is None}
    return Fields({**stream.types, **kept}, stream.whole and found.whole)


def _check_within(node: dim_join.DimJoin, stream: Fields, found: Fields) -> None:
    """TopologyError for a value that a key of the dimension cannot contain."""
    if node.within is None:
        return
    field, key = node.within
    stream.check((field,), step=node.name)
    found.check(key.fields, step=node.name)
    ends = [(name, _known(found.type_of(name))) for name in key.fields]
    check_within(key, (field, _known(stream.type_of(field))), ends, step=node.name)


def _matched(node: match.MatchRules, inputs: Inputs) -> Fields:
    stream, columns = inputs[0], declared(node.dimension.schema, step=node.name)
    taken = next((found for name in node.added if (found := stream.find(name)) is not None), None)
    if taken is not None:
        raise two_fields(taken, "", step=node.name)
    if stream.whole and isinstance(node.dimension.origin, LoaderOrigin):
        check_given(node.dimension.origin.call, field_types(stream), step=node.name)
    named = {node.into: Type("array", (("element", Type("string")),))}
    made = {name: columns.type_of(name) for name in node.carried} if node.form == "per_match" else named
    return stream.plus({**made, node.version_field: Type("bigint")})


def _alerted(node: rule_windows.RuleWindows, inputs: Inputs) -> Fields:
    stream = inputs[0]
    if stream.whole and HAVING not in stream.types:
        raise TopologyError(
            f"step {node.name!r} gets matches without {HAVING!r}",
            remedy="carry it: .match(rules, form='per_match', carry=['having'])",
            step=node.name,
        )
    stream.check((RULE, HAVING, *node.carry), step=node.name)
    check_event_time(node.event_time, stream, step=node.name)
    own = declared(OWN, step=node.name).types
    carried = {name: stream.type_of(name) for name in (RULE, *node.carry, HAVING)}
    return Fields({**carried, **own})


def _check_names(node: join.StreamJoin | dim_join.DimJoin, left: Fields, beside: Types) -> None:
    """TopologyError for a field of the right side that cannot replace the left one's."""
    for name, kind in beside.items():
        own = left.find(name)
        there = left.type_of(own) if own is not None else None
        if own is not None and node.prefix is not None:
            raise two_fields(own, "", step=node.name)
        if kind is not None and there is not None and kind.text != there.text:
            why = f", a {there.text} on the left and a {kind.text} on the right"
            raise two_fields(name, why, step=node.name)


def _tabled(node: table.ToTable, inputs: Inputs) -> Fields:
    inputs[0].check((*node.keys, *node.order_by), step=node.name)
    _check_deletes(node, inputs[0])
    if node.time_field is not None:
        check_event_time(node.time_field, inputs[0], step=node.name)
    _check_plain((*node.keys, *node.order_by), inputs[0], step=node.name)
    return inputs[0]


def _versions(node: table.TableVersions, inputs: Inputs) -> Fields:
    inputs[0].check(node.keys, step=node.name)
    _check_deletes(node, inputs[0])
    check_event_time(node.time_field, inputs[0], step=node.name)
    _check_plain(node.keys, inputs[0], step=node.name)
    return inputs[0]


def _check_deletes(node: table.ToTable | table.TableVersions | join.StreamJoin, fields: Fields) -> None:
    """TopologyError for a condition of removed rows that is certainly none."""
    if node.deletes is None:
        return
    kind = _expression(node.deletes, fields, step=node.name).type
    if kind is None or kind.name in ("boolean", "void"):
        return
    text = node.deletes.identity()
    if text.isidentifier():
        raise no_condition(text, kind.text, step=node.name)
    raise TopologyError(
        f"step {node.name!r}: deletes={text!r} is {kind.text}, not a condition: a row goes where it is true",
        remedy=f"compare it with something, as in deletes={f'({text}) IS NOT NULL'!r}",
        step=node.name,
    )


def _check_plain(names: Iterable[str], fields: Fields, *, step: str) -> None:
    """TopologyError for a key whose type a table cannot compare."""
    for name in names:
        kind = fields.type_of(name)
        if kind is not None and (kind.nested or kind.name == "binary"):
            raise not_plain(name, kind.text, step=step)


def _grouped(node: table.TableGroup, inputs: Inputs) -> Fields:
    fields = inputs[0]
    fields.check((*node.keys, *(each.field for each in node.aggregates)), step=node.name)
    for aggregate in node.aggregates:
        _check_number(aggregate, fields, step=node.name)
    _check_plain(node.keys, fields, step=node.name)
    types = {name: fields.type_of(name) for name in node.keys}
    made = {each.alias: aggregated(each, fields) for each in node.aggregates}
    return Fields({**types, **made, **dict.fromkeys(name for name, _ in node.own)})


def _reduced(node: table_reduce.TableReduce, inputs: Inputs) -> Fields:
    for fields in inputs:
        fields.check(node.keys, step=node.name)
        _check_plain(node.keys, fields, step=node.name)
    return Fields({name: inputs[0].type_of(name) for name in node.keys}).plus(
        declared(node.schema, step=node.name).types
    )


def _first(node: table.TableTop, inputs: Inputs) -> Fields:
    fields = inputs[0]
    fields.check((*node.groups, *(name for name, _ in node.by)), step=node.name)
    _check_plain(node.groups, fields, step=node.name)
    if node.rank is None:
        return fields
    if fields.find(node.rank) is not None:
        raise two_fields(node.rank, "", step=node.name, remedy=f"name the number of a row: rank='{node.rank}_2'")
    return fields.plus({node.rank: Type("int")})


def _table_joined(node: table.TableJoin | table.StreamTableJoin, inputs: Inputs) -> Fields:
    left, right = inputs
    _check_named(node, left, right)
    _check_plain((one for one, _ in node.on), left, step=node.name)
    _check_plain((two for _, two in node.on), right, step=node.name)
    _check_keys(node, left, right, alike=_whole)
    if isinstance(node, table.StreamTableJoin) and node.time_fields is not None:
        check_event_time(node.time_fields[0], left, step=node.name)
    same = {two for _, two in node.on} if node.prefix is None else set()
    beside = {f"{node.prefix or ''}{name}": kind for name, kind in right.types.items() if name not in same}
    for name in beside:
        if left.find(name) is not None:
            raise two_fields(name, "", step=node.name)
    return Fields({**left.types, **beside}, left.whole and right.whole)


def _changed(node: table.TableChanges, inputs: Inputs) -> Fields:
    if inputs[0].find("retracted") is not None:
        raise flag_taken(step=node.name)
    return inputs[0].plus({"retracted": Type("boolean")})


def _processed(node: process.Process, inputs: Inputs) -> Fields:
    inputs[0].check((*node.keys, *node.order_by), step=node.name)
    _check_plain((*node.keys, *node.order_by), inputs[0], step=node.name)
    state = declared(node.state, step=node.name)
    both = next((key for key in node.keys if state.find(key) is not None), None)
    if both is not None:
        raise TopologyError(
            f"the field {both!r} of step {node.name!r} is a key, and a field of the state",
            remedy="give the store another name"
            if node.form == "processor"
            else "leave it out of state=: a state is kept with its key",
            step=node.name,
        )
    check_event_time(node.time_field, inputs[0], step=node.name)
    return declared(node.made, step=node.name)


def _output(node: process.ProcessOutput, _inputs: Inputs) -> Fields:
    return declared(node.schema, step=node.name)


def _spread(node: shuffle.Shuffle | shuffle.ShuffleWrite, inputs: Inputs) -> Fields:
    inputs[0].check(node.keys, step=node.name)
    return inputs[0]


def _read(node: Source, _inputs: Inputs) -> Fields:
    return SOURCES[type(node)].fields(node)


def _written(node: Sink, inputs: Inputs) -> Fields:
    check = SINKS[type(node)].check
    if check is not None:
        check(node, inputs[0])
    return inputs[0]


RULES: Mapping[type[Node], Rule] = MappingProxyType(
    {
        **dict.fromkeys(SOURCES, _read),
        **dict.fromkeys(SINKS, _written),
        shuffle.ShuffleRead: _passed,
        step.Map: _mapped,
        step.MapBatches: _mapped_in_batches,
        step.FlatMap: _flattened,
        step.Filter: _filtered,
        step.Expect: _filtered,
        step.ForEach: _passed,
        step.Script: _scripted,
        step.SelectFields: _selected,
        step.WithFields: _added,
        step.Union: _united,
        step.Split: _labelled,
        step.Select: _passed,
        shuffle.Shuffle: _spread,
        shuffle.ShuffleWrite: _spread,
        window.WindowAggregate: _windowed,
        fold.Fold: _folded,
        distinct.Distinct: _deduplicated,
        join.StreamJoin: _joined,
        dim_join.DimJoin: _looked_up,
        match.MatchRules: _matched,
        rule_windows.RuleWindows: _alerted,
        table.ToTable: _tabled,
        table.TableVersions: _versions,
        table.TableGroup: _grouped,
        table.TableTop: _first,
        table.TableJoin: _table_joined,
        table.StreamTableJoin: _table_joined,
        table.TableChanges: _changed,
        table_reduce.TableReduce: _reduced,
        process.Process: _processed,
        process.ProcessOutput: _output,
    }
)

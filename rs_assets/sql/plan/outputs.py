"""Select lists: computed columns, filters, and column names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rs_assets.common.plural import count_of
from rs_assets.expressions.functions.literals import quote_name
from rs_assets.sql.expressions.values import BOUNDS, Value
from rs_assets.sql.plan.planner import Planner, QueryContext, name_of
from rs_assets.sql.plan.relation import Column, Relation, Scope
from rs_assets.sql.plan.windowing import check_bounds
from rs_assets.topology.user_code.steady import unsteady


@dataclass(frozen=True, slots=True)
class Output:
    """A column of a select list: its name, empty if it has none, and its value over the input rows."""

    name: str
    value: Value
    at: Any


@dataclass(frozen=True, slots=True)
class Selected:
    """A relation with a select list over its rows."""

    relation: Relation
    outputs: tuple[Output, ...]


def outputs_of(planner: Planner, relation: Relation, items: Sequence[Any]) -> tuple[Output, ...]:
    """A select list over a relation, `*` expanded."""
    scope = Scope(planner.text, relation.columns)
    made = planner.over(relation)
    found: list[Output] = []
    for item in items:
        star = scope.star(item)
        if star is not None:
            found += [Output(column.name, column.value, item) for column in star]
        else:
            value = _of_key(relation, made.value(item.unalias()))
            check_bounds(planner, value, item, alone=True)
            found.append(Output(name_of(item), value, item))
    return tuple(found)


def _of_key(relation: Relation, value: Value) -> Value:
    """`value`, as the field of a key if it is COALESCE of that key on both sides of a FULL JOIN."""
    field = next((each.field for each in relation.merged if value.text in each.texts), None)
    return value if field is None else replace(value, text=quote_name(field))


def filtered(
    planner: Planner, relation: Relation, conditions: Sequence[Any], context: QueryContext, kind: str
) -> Relation:
    """The rows for which all conditions hold."""
    if not conditions:
        return relation
    text = all_of(planner, relation, conditions)
    if not relation.changes:
        _check_keys(planner, relation, conditions)
    stream = relation.stream.filter(Value(text).plain, name=planner.name(context, kind, conditions[0]))
    return replace(relation, stream=stream)


def all_of(planner: Planner, relation: Relation, conditions: Sequence[Any]) -> str:
    """The SQL text of all conditions over a relation; SqlError for one that cannot be asked of its rows."""
    made = planner.over(relation)
    values = [made.condition(each) for each in conditions]
    for each, value in zip(conditions, values, strict=True):
        check_bounds(planner, value, each)
    if relation.changes:
        check_steady(planner, values, conditions[0])
    texts = [value.text for value in values]
    return texts[0] if len(texts) == 1 else f"({' AND '.join(texts)})"


def moving(planner: Planner, relation: Relation, conditions: Sequence[Any]) -> Any:
    """A column of `conditions` besides the keys of an updating result, which changes; None if there is none."""
    keys = relation.keys if relation.updating and not relation.retracts else None
    if keys is None:
        return None
    scope = Scope(planner.text, relation.columns)
    for tree in (column for each in conditions for column in each.find_all(_column_type())):
        value = scope.find(tree)
        if value is not None and value.field not in keys:
            return tree
    return None


def _check_keys(planner: Planner, relation: Relation, conditions: Sequence[Any]) -> None:
    """In an updating result only keys are fixed: a filter on other columns could require a retraction."""
    tree = moving(planner, relation, conditions)
    if tree is not None:
        raise planner.error(
            f"{tree.name!r} changes with each update, so a row that passed might have to be retracted",
            tree,
            remedy="filter before the aggregate, use HAVING, or read the table of the result",
        )


def check_steady(planner: Planner, values: Iterable[Value], at: Any) -> None:
    """SqlError for a function that differs from call to call: a row that goes would not equal the one that came."""
    found = next(filter(None, (unsteady(value.text) for value in values)), None)
    if found is not None:
        raise planner.error(
            f"{found.upper()} over a table gives another value when a row goes than when it came", at,
            remedy="compute it over a table that is not read as changes, or in the query that reads the result",
        )  # fmt: skip


def _column_type() -> Any:
    from sqlglot import exp

    return exp.Column


def named(planner: Planner, made: Selected, context: QueryContext, at: Any, names: Sequence[str] = ()) -> Relation:
    """The result of a query as a relation with named columns: computed columns become fields."""
    outputs = called(planner, made.outputs, names, at)
    relation = made.relation
    computed = {out.name: out.value for out in outputs if out.value.field is None and not _virtual(out.value, relation)}
    if computed and not relation.stateful and relation.keys is None and relation.pending is None:
        return mapped(planner, relation, outputs, context, at)
    if relation.changes:
        check_steady(planner, computed.values(), at)
    relation, fields = planner.with_fields(relation, computed, context, "select", at)
    columns = tuple(
        Column(out.name, replace(out.value, text=quote_name(fields[out.name])) if out.name in fields else out.value)
        for out in outputs
    )
    return replace(relation, columns=columns)


def _virtual(value: Value, relation: Relation) -> bool:
    """Whether a value is processing time, or the bound of a window whose rows are not grouped yet."""
    return value.role == "proctime" or (relation.pending is not None and value.role in BOUNDS)


def called(planner: Planner, outputs: Sequence[Output], names: Sequence[str], at: Any) -> list[Output]:
    """The columns renamed to `names`, if given; SqlError for unnamed and for duplicate columns."""
    if names and len(names) != len(outputs):
        raise planner.error(
            f"expected {count_of(len(outputs), 'column name')}, found {len(names)}", at, remedy="name each column"
        )
    made = [replace(out, name=name) for out, name in zip(outputs, names or [o.name for o in outputs], strict=True)]
    seen: set[str] = set()
    for out in made:
        if not out.name:
            raise planner.error("a computed column has no name", out.at, remedy="name it: expression AS name")
        if out.name.casefold() in seen:
            raise planner.error(
                f"duplicate column {out.name!r}", out.at, remedy=f"rename one of them: ... AS {out.name}_2"
            )
        seen.add(out.name.casefold())
    return made


def mapped(planner: Planner, relation: Relation, outputs: Sequence[Output], context: QueryContext, at: Any) -> Relation:
    """Rows with only these columns."""
    real = [out for out in outputs if not _virtual(out.value, relation)]
    texts = [f"{out.value.plain} AS {quote_name(out.name)}" for out in real]
    stream = relation.stream.map(*texts, name=planner.name(context, "select", at))
    columns = tuple(
        Column(out.name, out.value if out not in real else replace(out.value, text=quote_name(out.name)))
        for out in outputs
    )
    return replace(relation, stream=stream, fields=tuple(out.name for out in real), columns=columns)

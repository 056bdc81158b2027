"""Select lists: what a query makes of its rows, which rows it takes, and the names that columns get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rs_assets.expressions.functions.literals import quote_name
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.plan.planner import Place, Planner, name_of
from rs_assets.sql.plan.relation import Column, Relation, Scope
from rs_assets.sql.plan.windowing import check_bounds


@dataclass(frozen=True, slots=True)
class Output:
    """A column of a select list: its name, none if it has none, and its value over the rows before."""

    name: str
    value: Value
    at: Any


@dataclass(frozen=True, slots=True)
class Selected:
    """A relation, and what a select list makes of its rows."""

    relation: Relation
    outputs: tuple[Output, ...]


def outputs_of(planner: Planner, relation: Relation, items: Sequence[Any]) -> tuple[Output, ...]:
    """A select list over a relation, `*` taken apart."""
    scope = Scope(planner.text, relation.columns)
    made = planner.over(relation)
    found: list[Output] = []
    for item in items:
        star = scope.star(item)
        if star is not None:
            found += [Output(column.name, column.value, item) for column in star]
        else:
            value = made.value(item.unalias())
            check_bounds(planner, value, item, alone=True)
            found.append(Output(name_of(item), value, item))
    return tuple(found)


def filtered(planner: Planner, relation: Relation, conditions: Sequence[Any], place: Place, kind: str) -> Relation:
    """The rows for which all conditions hold."""
    if not conditions:
        return relation
    made = planner.over(relation)
    values = [made.condition(each) for each in conditions]
    for each, value in zip(conditions, values, strict=True):
        check_bounds(planner, value, each)
    texts = [value.text for value in values]
    if relation.keys is not None and not relation.retracts:
        _check_keys(planner, relation, conditions)
    text = texts[0] if len(texts) == 1 else f"({' AND '.join(texts)})"
    stream = relation.stream.filter(Value(text).plain, name=planner.name(place, kind, conditions[0]))
    return replace(relation, stream=stream)


def _check_keys(planner: Planner, relation: Relation, conditions: Sequence[Any]) -> None:
    """Of rows that are replaced only the keys stay as they are: by others a row that was told might have to go."""
    scope = Scope(planner.text, relation.columns)
    for tree in (column for each in conditions for column in each.find_all(_column_type())):
        value = scope.find(tree)
        if value is not None and value.field not in (relation.keys or ()):
            raise planner.error(
                f"{tree.name!r} changes with each update, so a row that passed might have to be taken back",
                tree,
                remedy="filter before the aggregate, or read the table that it writes",
            )


def _column_type() -> Any:
    from sqlglot import exp

    return exp.Column


def named(planner: Planner, made: Selected, place: Place, at: Any, names: Sequence[str] = ()) -> Relation:
    """What a query selected, as a relation of columns with names: computed ones become fields of its rows."""
    outputs = called(planner, made.outputs, names, at)
    relation = made.relation
    computed = {out.name: out.value for out in outputs if out.value.field is None and not _virtual(out.value, relation)}
    if computed and not relation.stateful and relation.keys is None and relation.pending is None:
        return mapped(planner, relation, outputs, place, at)
    relation, fields = planner.with_fields(relation, computed, place, "select", at)
    columns = tuple(
        Column(out.name, replace(out.value, text=quote_name(fields[out.name])) if out.name in fields else out.value)
        for out in outputs
    )
    return replace(relation, columns=columns)


def _virtual(value: Value, relation: Relation) -> bool:
    """Whether a value is the clock, or the bound of a window whose rows are not grouped yet."""
    return value.role == "proctime" or (relation.pending is not None and value.role in ("start", "end", "last"))


def called(planner: Planner, outputs: Sequence[Output], names: Sequence[str], at: Any) -> list[Output]:
    """The columns under `names`, if there are some; SqlError for columns without a name, and for two of one name."""
    if names and len(names) != len(outputs):
        raise planner.error(f"{len(names)} names are given to {len(outputs)} columns", at, remedy="name each column")
    made = [replace(out, name=name) for out, name in zip(outputs, names or [o.name for o in outputs], strict=True)]
    seen: set[str] = set()
    for out in made:
        if not out.name:
            raise planner.error("a computed column has no name", out.at, remedy="name it: expression AS name")
        if out.name.casefold() in seen:
            raise planner.error(
                f"two columns are called {out.name!r}", out.at, remedy=f"rename one of them: ... AS {out.name}_2"
            )
        seen.add(out.name.casefold())
    return made


def mapped(planner: Planner, relation: Relation, outputs: Sequence[Output], place: Place, at: Any) -> Relation:
    """Rows of just these columns."""
    real = [out for out in outputs if not _virtual(out.value, relation)]
    texts = [f"{out.value.plain} AS {quote_name(out.name)}" for out in real]
    stream = relation.stream.map(*texts, name=planner.name(place, "select", at))
    columns = tuple(
        Column(out.name, out.value if out not in real else replace(out.value, text=quote_name(out.name)))
        for out in outputs
    )
    return replace(relation, stream=stream, fields=tuple(out.name for out in real), columns=columns)

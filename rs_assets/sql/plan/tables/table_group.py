"""GROUP BY as a table: over a table, and over a stream whose groups are grouped, joined or filtered again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rs_assets.expressions.functions.literals import quote_name
from rs_assets.operators.window.output import Aggregate
from rs_assets.sql.expressions.aggregates import Aggregated
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.plan.group import ROWS, Group, renamed
from rs_assets.sql.plan.outputs import check_steady
from rs_assets.sql.plan.planner import added, conjuncts, not_null
from rs_assets.sql.plan.relation import Relation, free_name
from rs_assets.sql.plan.stateful import before_table


def table_group(group: Group) -> Relation:
    """The group as a table, whose rows change with those of its input."""
    planner, context, relation = group.planner, group.context, group.relation
    appends = not relation.changes
    if not group.keys:
        raise planner.error(
            "an aggregate over all rows of a table has no key", group.tree,
            remedy="group by a constant column: SELECT one, COUNT(*) FROM (SELECT 1 AS one FROM t) AS s GROUP BY one",
        )  # fmt: skip
    if appends:
        relation = before_table(planner, relation, context, group.tree)
    parts = {name: _parts(name, made, appends=appends) for name, made in _aggregates(group)}
    before = {name: renamed(name, value) for name, value in group.keys.items()}
    before |= {field: value for made in parts.values() for field, value in made.before}
    if relation.changes:
        check_steady(planner, before.values(), group.tree)
    relation, fields = planner.with_fields(relation, before, context, "keys", group.tree)
    keys = tuple(fields[name] for name in group.keys)
    return _added(group, relation, keys, parts, fields, appends=appends)


def _aggregates(group: Group) -> Iterator[tuple[str, Aggregated]]:
    if group.made:
        yield from group.made.items()
    else:
        yield free_name(ROWS, group.keys), Aggregated("COUNT", "count(1)", None, "count")


@dataclass(frozen=True, slots=True)
class _Parts:
    """An aggregate as columns of a table: fields before it, its columns, an aggregate in SQL, its value over both."""

    before: Sequence[tuple[str, Value]] = ()
    columns: Sequence[Aggregate] = ()
    own: str | None = None
    value: str | None = None


def _parts(name: str, made: Aggregated, *, appends: bool) -> _Parts:
    """Counts and sums if rows can be subtracted from them, else the aggregate itself."""
    if appends or made.sums is None:
        return _whole(name, made)
    sums = made.sums
    single = sums.text in [f"{{{part}}}" for part in sums.parts]
    columns = {part: name if single else f"{name}_{part}" for part in sums.parts}
    return _Parts(
        before=[(f"{columns[part]}_of", value) for part, (_, value) in sums.parts.items() if value is not None],
        columns=[
            Aggregate(function, f"{columns[part]}_of" if value is not None else None, columns[part])
            for part, (function, value) in sums.parts.items()
        ],
        value=None if single else sums.text.format(**{part: quote_name(column) for part, column in columns.items()}),
    )


def _whole(name: str, made: Aggregated) -> _Parts:
    if not made.method:
        return _Parts(own=made.text)
    of = f"{name}_of" if made.argument is not None else None
    return _Parts(before=list(made.before(name)), columns=[Aggregate(made.method, of, name)])  # type: ignore[arg-type]


def _added(
    group: Group,
    relation: Relation,
    keys: tuple[str, ...],
    parts: Mapping[str, _Parts],
    fields: Mapping[str, str],
    *,
    appends: bool,
) -> Relation:
    """The step of the group, and the aggregates that follow from its columns."""
    from rs_assets.topology.nodes.table import TableGroup
    from rs_assets.topology.user_code.expression import SqlText

    planner, context, stream = group.planner, group.context, relation.stream
    columns = [column for made in parts.values() for column in made.columns]
    own = {name: made.own for name, made in parts.items() if made.own is not None}
    node = TableGroup(
        name=planner.name(context, "group", group.tree),
        inputs=(stream.step,),
        keys=keys,
        aggregates=tuple(replace(each, field=fields[each.field] if each.field else None) for each in columns),
        own=tuple((name, SqlText(text)) for name, text in own.items()),
        appends=appends,
        nulls=True,
    )
    stream = replace(stream, step=stream.draft.add(node))
    values = {name: made.value for name, made in parts.items() if made.value is not None}
    if values:
        stream = added(stream, values, planner.name(context, "values", group.tree))
    return Relation(
        stream=stream,
        fields=(*keys, *(each.alias for each in columns), *own, *values),
        columns=(),
        origins=relation.origins,
        stateful=True,
        keys=keys,
        changes=True,
        nullable=not all(_never_null(group, name) for name in group.keys),
    )


def _never_null(group: Group, name: str) -> bool:
    """Whether a key is one of a table, or of rows that are not null by WHERE."""
    from sqlglot import exp

    relation, field = group.relation, group.keys[name].field
    if relation.changes and not relation.nullable and field in (relation.keys or ()):
        return True
    where = group.tree.args.get("where")
    conditions = list(conjuncts(where.this)) if where is not None else []
    over = group.planner.over(relation)
    tested = (column for each in conditions for column in each.find_all(exp.Column) if not_null(column, conditions))
    return any(over.value(column).field == field for column in tested)

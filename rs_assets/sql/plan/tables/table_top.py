"""ROW_NUMBER() over a table whose rows change: the first rows of each group through all changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rs_assets.expressions.functions.literals import quote_name
from rs_assets.records.types import Type
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.plan.outputs import check_steady
from rs_assets.sql.plan.planner import Planner
from rs_assets.sql.plan.ranking_order import Numbered, apart_from, ordered_trees
from rs_assets.sql.plan.relation import Column, Relation, free_name


def table_top(
    planner: Planner, relation: Relation, numbered: Numbered, outputs: Mapping[str, Value], limit: int
) -> Relation:
    """The rows of a table whose number is within `limit`, the number last; of equal rows the lesser key is first."""
    from rs_assets.topology.nodes.table import TableTop

    at, context = numbered.window, numbered.context
    orders = ordered_trees(planner, relation, at)
    over = planner.over(relation)
    parts = [over.value(each) for each in at.args.get("partition_by") or []] or [Value("1", Type("int"))]
    by_part, by_order = apart_from(outputs, "part", parts), apart_from(outputs, "order", (each[1] for each in orders))
    wanted = {**outputs, **by_part, **by_order}
    check_steady(planner, wanted.values(), at)
    relation, fields = planner.with_fields(relation, wanted, context, "ranked", at)
    groups = tuple(dict.fromkeys(fields[name] for name in by_part))
    by: dict[str, bool] = {}
    for name, (_, _, descends) in zip(by_order, orders, strict=True):
        by.setdefault(fields[name], descends)
    # The only row of a group has no number: with one the step emits a change when a row moves.
    rank = free_name(numbered.rank, relation.fields) if limit > 1 else None
    node = TableTop(
        name=planner.name(context, "top", at),
        inputs=(relation.stream.step,),
        keys=relation.keys or (),
        groups=groups,
        by=tuple(by.items()),
        n=limit,
        rank=rank,
        nulls=True,
    )
    also = (*(groups if at.args.get("partition_by") else ()), *((rank,) if rank is not None else ()))
    columns = [Column(name, replace(value, text=quote_name(fields[name]))) for name, value in outputs.items()]
    columns.append(Column(numbered.rank, Value("1" if rank is None else quote_name(rank), Type("int"))))
    return replace(
        relation,
        stream=replace(relation.stream, step=relation.stream.draft.add(node)),
        fields=(*relation.fields, *((rank,) if rank is not None else ())),
        columns=tuple(replace(column, table=numbered.alias) for column in columns),
        also=also or None,
        merged=(),
    )

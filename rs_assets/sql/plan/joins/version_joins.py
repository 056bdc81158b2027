"""JOIN t FOR SYSTEM_TIME AS OF s.ts: each row of a stream with the row that t had at its event time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rs_assets.operators.join.spec import JoinType
from rs_assets.sql.connectors.sources import ENDS, source_of
from rs_assets.sql.plan.join_conditions import Join, sides_of, take
from rs_assets.sql.plan.joins.join_step import written
from rs_assets.sql.plan.joins.temporal_joins import check_alias, check_how, no_whole_key, only_keys
from rs_assets.sql.plan.matches import only_matches
from rs_assets.sql.plan.planner import Planner, QueryContext, conjuncts
from rs_assets.sql.plan.relation import Relation
from rs_assets.sql.plan.stateful import shuffled


def is_versioned(planner: Planner, left: Relation, tree: Any) -> bool:
    """Whether a table with a key and a time of its rows is joined as of the event time of a row."""
    table = planner.catalog.tables.get(tree.this.name)
    if table is None or not table.key or table.watermark is None:
        return False
    return planner.over(left).value(tree.this.args["version"].expression).role == "rowtime"


def version_join(planner: Planner, left: Relation, tree: Any, how: JoinType, context: QueryContext) -> Relation:
    """The rows of the stream `left`, each with the version of its time, when the watermark has passed that."""
    _check(planner, left, tree, how)
    name = tree.this.name
    table = planner.catalog.table(name, tree.this)
    right = source_of(planner, table, context, versions=True)
    join = Join(planner, left, right.called(tree.this.alias or name), how, tree, context)
    keys = [word.text for word in table.key]
    for each in conjuncts(tree.args.get("on")):
        # A condition on versions alone must not make an earlier one valid again.
        if each.key == "eq" and sides_of(join, each) == "both":
            take(join, each)
            only_keys(join, each, keys)
        else:
            join.rest.append(each)
    if sorted(str(there.field) for _, there in join.pairs) != sorted(keys):
        raise no_whole_key(planner, keys, tree)
    made = _made(join, tree)
    return only_matches(join, made, made.columns[len(join.left.columns) :])


def _check(planner: Planner, left: Relation, tree: Any, how: JoinType) -> None:
    """SqlError for what cannot be joined with versions."""
    check_how(planner, tree, how)
    if left.keys is not None or left.pending is not None:
        raise planner.error(
            "rows that change, or belong to a window, cannot be joined as of a time", tree,
            remedy="join before the aggregate and before the window",
        )  # fmt: skip
    check_alias(planner, left, tree)


def _made(join: Join, tree: Any) -> Relation:
    """The step of the join. The time of a version is not one of its rows: it may be long ago."""
    planner = join.planner
    if join.left.apart:
        join.left = shuffled(planner, join.left, join.context, join.at)
    at = planner.over(join.left).value(tree.this.args["version"].expression)
    since = next(column.value for column in join.right.columns if column.value.role == "rowtime")
    columns = (replace(column, value=replace(column.value, role="")) for column in join.right.columns)
    join.right = replace(join.right, columns=tuple(columns))
    made, _ = written(join, None, (str(at.field), str(since.field)), ends=ENDS)
    return made

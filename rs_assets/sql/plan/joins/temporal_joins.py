"""JOIN t FOR SYSTEM_TIME AS OF PROCTIME() of a table that changes: each row of a stream with the current row of t."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from rs_assets.errors import SqlError
from rs_assets.operators.join.spec import JoinType
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.plan.join_conditions import Join, take
from rs_assets.sql.plan.join_fields import prefix_of, prefixed
from rs_assets.sql.plan.matches import only_matches
from rs_assets.sql.plan.planner import Planner, QueryContext, conjuncts
from rs_assets.sql.plan.relation import Relation
from rs_assets.sql.plan.stateful import before_table
from rs_assets.sql.plan.tables.table_joins import found_by_key

NOW = "FOR SYSTEM_TIME AS OF PROCTIME()"


def temporal_join(
    planner: Planner, left: Relation, right: Relation, tree: Any, how: JoinType, context: QueryContext
) -> Relation:
    """The rows of the stream `left`, each with the row that `right` has in the batch of that row."""
    _check(planner, left, right, tree, how)
    join = Join(planner, left, right, how, tree, context)
    for each in conjuncts(tree.args.get("on")):
        take(join, each)
        only_keys(join, each, right.keys or ())
    on = found_by_key(join.right, [(there.field, here) for here, there in join.pairs])
    if on is None:
        raise no_whole_key(planner, right.keys or (), tree)
    made = _joined(join, on)
    return only_matches(join, made, made.columns[len(join.left.columns) :])


def _check(planner: Planner, left: Relation, right: Relation, tree: Any, how: JoinType) -> None:
    """SqlError for a join that is not of a stream with the current rows of a table."""
    version = tree.this.args["version"]
    check_how(planner, tree, how)
    if not right.changes:
        raise planner.error(
            f"{tree.this.name!r} has no key, so it has no current row", tree.this,
            remedy="declare its PRIMARY KEY; a view must select from such a table, or group without a window",
        )  # fmt: skip
    if left.changes:
        raise planner.error(
            "both sides are tables that change, and a row is joined as of a time once", version,
            remedy="write JOIN without FOR SYSTEM_TIME AS OF: it follows both",
        )  # fmt: skip
    if left.keys is not None:
        raise planner.error("cannot join an updating result", tree, remedy="join before the aggregate or the ranking")
    if planner.over(left).value(version.expression).role != "proctime":
        raise planner.error(
            "a table has its current rows only, not those of the event time of a row", version.expression,
            remedy=f"write {NOW}, which joins the current row, or declare the WATERMARK of a table, from which its rows"
            " are valid; a view has none",
        )  # fmt: skip
    check_alias(planner, left, tree)


def check_how(planner: Planner, tree: Any, how: JoinType) -> None:
    """SqlError for a join in which rows of the table alone would emit something."""
    if how not in ("inner", "left"):
        raise planner.error(
            f"{how.upper()} JOIN of a table as of a time is not supported: its changes emit nothing", tree,
            remedy="use JOIN or LEFT JOIN",
        )  # fmt: skip


def only_keys(join: Join, tree: Any, keys: Collection[str]) -> None:
    """Leaves an equality that was taken last, but not of a key of the table, to be asked of the row that is found."""
    if join.pairs and join.pairs[-1][1].field not in keys:
        join.pairs.pop()
        join.rest.append(tree)


def check_alias(planner: Planner, left: Relation, tree: Any) -> None:
    """SqlError for a table with the name of another one."""
    alias = tree.this.alias or tree.this.name
    if alias in left.tables:
        raise planner.error(f"duplicate table name {alias!r}", tree, remedy="rename one of them: JOIN t AS other")


def no_whole_key(planner: Planner, keys: Iterable[str], tree: Any) -> SqlError:
    """The error of a join by other columns than the whole key."""
    return planner.error(
        "a table is joined by its whole key", tree,
        remedy=f"ON must name {', '.join(keys)}; filter by other columns in WHERE",
    )  # fmt: skip


def _joined(join: Join, on: dict[str, Value]) -> Relation:
    """The step of the join. No watermark passes it, so steps by event time follow in a query of their own."""
    planner, context, at = join.planner, join.context, join.at
    left = before_table(planner, join.left, context, at)
    left, keys = planner.with_keys(left, on.values(), context, at)
    prefix = prefix_of(left, join.right, always=True)
    stream = left.stream.join_table(
        join.right.table,
        on=dict(zip(keys, on, strict=True)),
        how="inner" if join.how == "inner" else "left",
        prefix=prefix,
        name=planner.name(context, "join", at),
    )
    return replace(
        left,
        stream=stream,
        fields=(*left.fields, *(f"{prefix}{name}" for name in join.right.fields)),
        columns=(*left.columns, *(prefixed(column, prefix) for column in join.right.columns)),
        origins=left.origins | join.right.origins,
        stateful=True,
        apart=True,
        untimed=True,
    )

"""JOIN t FOR SYSTEM_TIME AS OF: looks up a table as of the beginning of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from rs_assets.expressions.functions.literals import quote_name
from rs_assets.operators.dimension.spec import Dimension
from rs_assets.records.schema import ddl_of
from rs_assets.sql.plan.joins.lookup_keys import lookup_keys
from rs_assets.sql.plan.planner import Planner, QueryContext
from rs_assets.sql.plan.relation import Column, Relation, Scope, of_names
from rs_assets.sql.read.options import CONNECTORS, Options
from rs_assets.sql.read.source import nearest
from rs_assets.sql.read.statements import CreateTable

KINDS: Final = ("filesystem", "delta", "jdbc")


def dim_joined(planner: Planner, left: Relation, tree: Any, how: str, context: QueryContext) -> Relation:
    """`left` joined with a dimension."""
    if how not in ("inner", "left"):
        raise planner.error(
            f"{how.upper()} JOIN of a lookup table is not supported", tree, remedy="use JOIN or LEFT JOIN"
        )
    if left.keys is not None:
        raise planner.error("cannot join an updating result", tree, remedy="join before the aggregate or the ranking")
    moment = tree.this.args["version"].expression
    if planner.over(left).value(moment).role != "proctime":
        raise planner.error(
            "a lookup reads the current table, not the table at the time of a row", moment,
            remedy="write FOR SYSTEM_TIME AS OF PROCTIME(), or of a column that is declared AS PROCTIME()",
        )  # fmt: skip
    table = planner.catalog.table(tree.this.name, tree.this)
    alias = tree.this.alias or tree.this.name
    kinds = {column.name.text: column.type for column in table.declared}
    right = tuple(replace(column, table=alias) for column in of_names(kinds))
    keys = lookup_keys(planner, left, right, tree)
    asked = [*keys.pairs, *([keys.within] if keys.within else [])]
    left, fields = planner.with_keys(left, [value for value, _ in asked], context.inside(alias), tree)
    taken = {name.casefold() for name in left.fields}
    prefix = ""
    while any(f"{prefix}{name}".casefold() in taken for name in kinds):
        prefix += f"{alias.lower()}_"
    stream = left.stream.dim_join(
        dimension_of(planner, table),
        on=dict(zip(fields, (key for _, key in asked), strict=True)),
        how=how,  # type: ignore[arg-type]
        condition=_condition(planner, left, right, keys.rest),
        prefix=prefix or None,
        name=planner.name(context, alias, tree),
    )
    found = {name: quote_name(f"{prefix}{name}") for name in kinds}
    columns = (*left.columns, *(replace(c, value=replace(c.value, text=found[c.name])) for c in right))
    return replace(left, stream=stream, columns=columns, fields=(*left.fields, *(f"{prefix}{name}" for name in kinds)))


def _condition(planner: Planner, left: Relation, right: tuple[Column, ...], rest: Sequence[Any]) -> str | None:
    if not rest:
        return None
    sides = [
        replace(column, value=replace(column.value, text=f"{side}.{column.value.text}"))
        for side, columns in (("left", left.columns), ("right", right))
        for column in columns
        if column.value.field is not None
    ]
    made = planner.expressions(Scope(planner.text, tuple(sides)).find)
    return " AND ".join(made.condition(each).text for each in rest)


def dimension_of(planner: Planner, table: CreateTable) -> Dimension:
    """The dimension of a table's options."""
    options = Options.of(planner.text, table, "lookup table")
    if table.expectations:
        at, what = table.expectations[0].name.start, f"rows of the lookup table {table.name.text!r} are not judged"
        raise options.error(what, at=at, remedy="declare it for a source or a sink")
    pair = options.found.get("connector")
    kind = options.need("connector", "filesystem")
    kind = {"db": "jdbc", **CONNECTORS}.get(kind, kind)
    schema = ddl_of(table.kinds)
    if kind == "filesystem":
        form: Any = options.choice("format", {name: name for name in ("json", "csv", "parquet")}, "json")
        header = form != "csv" or options.flag("csv.header")
        path = options.need("path", "/data/t.csv").removeprefix("file://")
        made = Dimension.from_file(path, format=form, schema=schema, header=header)
    elif kind == "delta":
        made = Dimension.from_delta(options.take("path") or options.need("table", "users"), schema=schema)
    elif kind == "jdbc":
        made = Dimension.from_database(
            options.need("url", "sqlite:///t.db"), table=options.need("table-name", "t"), schema=schema
        )
    else:
        raise options.error(
            f"{kind!r} does not support lookups", at=pair[1].start if pair else None, remedy=nearest(kind, KINDS)
        )
    options.check_all_read()
    return made

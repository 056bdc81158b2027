"""JOIN t FOR SYSTEM_TIME AS OF: looks up a table as of the beginning of a batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from rs_assets.expressions.functions.literals import quote_name
from rs_assets.operators.dimension.spec import Dimension
from rs_assets.records.schema import ddl_of
from rs_assets.records.types import Type
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.plan.planner import Planner, QueryContext, conjuncts
from rs_assets.sql.plan.relation import Column, Relation, Scope, of_names
from rs_assets.sql.read.options import CONNECTORS, Options
from rs_assets.sql.read.source import nearest
from rs_assets.sql.read.statements import CreateTable

KINDS: Final = ("filesystem", "delta", "jdbc")
WHOLE: Final = ("tinyint", "smallint", "int", "bigint")


def dim_joined(planner: Planner, left: Relation, tree: Any, how: str, context: QueryContext) -> Relation:
    """`left` joined with a dimension."""
    if how not in ("inner", "left"):
        raise planner.error(
            f"{how.upper()} JOIN of a lookup table is not supported", tree, remedy="use JOIN or LEFT JOIN"
        )
    if left.keys is not None:
        raise planner.error("cannot join an updating result", tree, remedy="join before the aggregate")
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
    pairs, rest = _keys(planner, left, right, tree)
    wanted = {f"key_{n}": value for n, (value, _) in enumerate(pairs, 1)}
    left, fields = planner.with_fields(left, wanted, context.inside(alias), "keys", tree)
    taken = {name.casefold() for name in left.fields}
    prefix = ""
    while any(f"{prefix}{name}".casefold() in taken for name in kinds):
        prefix += f"{alias.lower()}_"
    stream = left.stream.dim_join(
        dimension_of(planner, table),
        on={fields[f"key_{n}"]: name for n, (_, name) in enumerate(pairs, 1)},
        how=how,  # type: ignore[arg-type]
        condition=_condition(planner, left, right, rest),
        prefix=prefix or None,
        name=planner.name(context, alias, tree),
    )
    found = {name: quote_name(f"{prefix}{name}") for name in kinds}
    columns = (*left.columns, *(replace(c, value=replace(c.value, text=found[c.name])) for c in right))
    return replace(left, stream=stream, columns=columns, fields=(*left.fields, *(f"{prefix}{name}" for name in kinds)))


def _keys(
    planner: Planner, left: Relation, right: tuple[Column, ...], tree: Any
) -> tuple[list[tuple[Value, str]], list[Any]]:
    """Values of the stream with the columns that they must equal, and the remaining conditions."""
    pairs, rest = list[tuple[Value, str]](), list[Any]()
    both = planner.expressions(Scope(planner.text, (*left.columns, *right)).find)
    names = {id(column.value): column for column in right}
    for each in conjuncts(tree.args.get("on")):
        sides = [(each.this, each.expression), (each.expression, each.this)] if each.key == "eq" else []
        found = next(((one, two) for one, two in sides if two.key == "column" and id(both.value(two)) in names), None)
        if found is None or _names_right(both, found[0], names):
            rest.append(each)
            continue
        column = names[id(both.value(found[1]))]
        value = both.value(found[0])
        pairs.append((_alike(value, column.value.type), column.name))
    if not pairs:
        raise planner.error("a lookup join needs equal columns", tree, remedy="add ON stream.key = table.key")
    return pairs, rest


def _names_right(both: Any, tree: Any, names: dict[int, Column]) -> bool:
    from sqlglot import exp

    return any(id(both.value(column)) in names for column in tree.find_all(exp.Column))


def _alike(value: Value, kind: Type | None) -> Value:
    """The value cast to the type of its column, if both are integer types."""
    known = value.type
    if known is None or kind is None or known.name == kind.name or not {known.name, kind.name} <= set(WHOLE):
        return value
    return Value(f"(cast({value.plain} AS {kind.text}))", kind)


def _condition(planner: Planner, left: Relation, right: tuple[Column, ...], rest: list[Any]) -> str | None:
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

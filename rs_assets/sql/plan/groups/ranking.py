"""ROW_NUMBER() in a sub-query with a limit outside: Top-N of a group, and deduplication by key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from rs_assets.expressions.functions.literals import quote_name
from rs_assets.operators.window.output import EmitStrategy
from rs_assets.operators.window.spec import Window
from rs_assets.records.decimals import opposite
from rs_assets.records.types import Type
from rs_assets.sql.expressions.values import BOUNDS, Value
from rs_assets.sql.plan.groups.first_rows import first_rows
from rs_assets.sql.plan.outputs import called
from rs_assets.sql.plan.planner import Planner, QueryContext
from rs_assets.sql.plan.ranking_order import Numbered, apart_from, ordered_trees
from rs_assets.sql.plan.relation import Column, Relation, free_name
from rs_assets.sql.plan.stateful import all_time, fired, fires_often, for_ever, place_field, shuffled
from rs_assets.sql.plan.tables.table_top import table_top
from rs_assets.sql.plan.tables.upsert_dedup import UpsertTable
from rs_assets.sql.plan.windowing import bound_values, check_end, check_once, regrouped
from rs_assets.sql.read.durations import duration_text
from rs_assets.sql.read.lexer import CALL
from rs_assets.sql.read.types import FLOATS, has_map, is_number, is_whole

ROW_NUMBER: Final = f"{CALL}ROW_NUMBER"
OTHERS: Final = (f"{CALL}RANK", f"{CALL}DENSE_RANK")
LIMITS: Final = ("lte", "lt", "eq")
# Comparisons with their sides exchanged.
TURNED: Final = {"gte": "lte", "gt": "lt", "eq": "eq"}
WINDOW_TIMES: Final = ("start_time", "end_time", "fire_time")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The input fields of a ranking; all are ordered in the direction of the first."""

    parts: tuple[str, ...]
    by: tuple[str, ...]
    descending: bool


def ranking_of(planner: Planner, first: Any, context: QueryContext) -> Numbered | None:
    """The numbered select in FROM: a sub-query, a view or a query of WITH; None if there is none."""
    if first.key == "subquery":
        return _unnamed(planner, _numbered(planner, first.this, first.alias, context.inside(first.alias)), first)
    if first.key != "table" or first.this.key != "identifier":
        return None
    name = first.name
    inside, alias = context.inside(name), first.alias or name
    query = context.local.get(name)
    if query is not None:
        return _numbered(planner, query.tree, alias, replace(inside, local=query.local))
    view = planner.catalog.views.get(name)
    if view is None:
        return None
    found = _numbered(planner, view.tree, alias, replace(inside, local={}))
    return _unnamed(planner, found, first, named=bool(view.columns))


def _unnamed(planner: Planner, found: Numbered | None, at: Any, *, named: bool = False) -> Numbered | None:
    """SqlError for a numbered select whose columns are renamed outside."""
    alias = at.args.get("alias")
    if found is not None and (named or (alias is not None and alias.columns)):
        raise planner.error(
            "the columns of a query with ROW_NUMBER() cannot be renamed outside", found.window,
            remedy="rename them inside: SELECT a AS b, ROW_NUMBER() OVER (...) AS rn",
        )  # fmt: skip
    return found


def _numbered(planner: Planner, tree: Any, alias: str, context: QueryContext) -> Numbered | None:
    if tree.key != "select":
        return None
    found = [each for each in tree.expressions if each.unalias().key == "window"]
    if not any(each.unalias().this.name in (ROW_NUMBER, *OTHERS) for each in found):
        return None
    window = found[0].unalias()
    if window.this.name in OTHERS:
        raise planner.error(
            f"{window.this.name.removeprefix(CALL)} is not supported", window, remedy="use ROW_NUMBER()"
        )
    if len(found) > 1 or window.this.name != ROW_NUMBER or not found[0].alias:
        raise planner.error(
            "OVER here supports only one ROW_NUMBER() AS name",
            window,
            remedy="SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC) AS rn FROM t",
        )
    return Numbered(tree, window, found[0].alias, alias, context)


def ranked(
    planner: Planner,
    numbered: Numbered,
    conditions: list[Any],
    *,
    rows_of: Callable[[Planner, Any, QueryContext], Relation],
    list_of: Callable[[Planner, Relation, Sequence[Any]], Sequence[Any]],
    upsert_table: UpsertTable | None = None,
) -> tuple[Relation, list[Any]]:
    """The rows whose number is within the limit, and the remaining conditions; a table may be their `upsert_table`."""
    limit, rest = _limit(planner, numbered, conditions)
    if numbered.tree.args.get("group") is not None:
        raise planner.error(
            "ROW_NUMBER() with GROUP BY is not supported",
            numbered.window,
            remedy="group in a sub-query, and rank its rows",
        )
    relation = planner.as_tables(
        lambda given: rows_of(planner, numbered.tree, given), numbered.context, lambda rows: rows.updating
    )
    if relation.updating:
        raise planner.error("cannot rank an updating result", numbered.window, remedy="group by a window first")
    at = next(n for n, each in enumerate(numbered.tree.expressions) if each.unalias() is numbered.window)
    before, behind = (
        list_of(planner, relation, items)
        for items in (numbered.tree.expressions[:at], numbered.tree.expressions[at + 1 :])
    )
    found = called(planner, (*before, *behind), (), numbered.window)
    outputs = {out.name: out.value for out in found}
    first = first_rows(planner, relation, numbered, outputs) if limit == 1 else None
    if first is not None:
        return first, conditions
    if relation.changes:
        made = table_top(planner, relation, numbered, outputs, limit)
    else:
        kept = _kept_outside(planner, relation, numbered, outputs, rest, upsert_table if limit == 1 else None)
        made = kept or _top(planner, relation, numbered, outputs, limit, rest)
    # The number keeps its position in the select list.
    columns = [*made.columns[: len(before)], made.columns[-1], *made.columns[len(before) : -1]]
    return replace(made, columns=tuple(columns)), rest


def _limit(planner: Planner, numbered: Numbered, conditions: list[Any]) -> tuple[int, list[Any]]:
    """The greatest number that passes, from `rn <= 3`, `rn < 4` or `rn = 1`."""
    limits, rest = list[int](), list[Any]()
    for each in conditions:
        found = _most(numbered.rank, each)
        if found is not None:
            limits.append(found)
        if found is None or not _all_to(each):
            rest.append(each)
    limit = min(limits, default=0)
    if limit < 1:
        raise planner.error(
            f"{numbered.rank!r} has no limit, so all rows would be kept forever",
            numbered.window,
            remedy=f"add WHERE {numbered.rank} <= 3 around the sub-query",
        )
    return limit, rest


def _most(rank: str, tree: Any) -> int | None:
    """The greatest number that passes a comparison with an integer on either side; else None."""
    if tree.key == "between":
        return _most(rank, _at_most(tree))
    kind, first, second = tree.key, tree.this, tree.args.get("expression")
    if kind in TURNED and first.key == "literal":
        kind, first, second = TURNED[kind], second, first
    if kind not in LIMITS or first.key != "column" or first.name != rank or second.key != "literal":
        return None
    if second.is_string or not second.name.isdigit():
        return None
    return int(second.name) - int(kind == "lt")


def _at_most(tree: Any) -> Any:
    """The upper bound of BETWEEN."""
    from sqlglot import exp

    return exp.LTE(this=tree.this.copy(), expression=tree.args["high"].copy())


def _all_to(tree: Any) -> bool:
    """Whether a comparison that limits a number accepts all numbers up to its limit."""
    if tree.key == "between":
        return bool(tree.args["low"].name == "1")
    return tree.key != "eq" or "1" in (tree.this.name, tree.expression.name)


def _kept_outside(
    planner: Planner,
    relation: Relation,
    numbered: Numbered,
    outputs: Mapping[str, Value],
    conditions: Sequence[Any],
    upsert_table: UpsertTable | None,
) -> Relation | None:
    """All rows, if the sink table keeps the first of each key; None if state is needed."""
    if upsert_table is None or relation.apart or relation.pending is not None:
        return None
    window, _, parts = _window(planner, relation, numbered.window)
    fields = {name: value.field or "" for name, value in outputs.items()}
    if window is not None or _moving(conditions, fields, [value.field or "" for value in parts if value.field]):
        return None
    columns = [Column(name, value, numbered.alias) for name, value in outputs.items()]
    columns.append(Column(numbered.rank, Value("1", Type("int")), numbered.alias))
    return upsert_table.kept(relation, columns, parts, numbered.window)


def _top(
    planner: Planner,
    relation: Relation,
    numbered: Numbered,
    outputs: Mapping[str, Value],
    limit: int,
    conditions: Sequence[Any],
) -> Relation:
    """The ranked rows; if `conditions` use more than their keys, each row is retracted before it is replaced."""
    at, context = numbered.window, numbered.context
    window, length, parts = _window(planner, relation, at)
    often = window is None
    if relation.apart or (often and relation.stateful):
        relation = shuffled(planner, relation, context, at)
    orders = _orders(planner, relation, at)
    _check_maps(planner, outputs, at)
    by_part, by_order = apart_from(outputs, "part", parts), apart_from(outputs, "order", (each for each, _ in orders))
    wanted = _kept({**outputs, **by_part, **by_order}, often=often)
    relation, fields = planner.with_fields(relation, wanted, context, "ranked", at)
    by = list(dict.fromkeys(fields[name] for name in by_order))
    groups = tuple(dict.fromkeys(fields[name] for name in by_part))
    shown = [f for name, f in fields.items() if name in outputs and f not in groups and f not in by]
    rank = free_name(numbered.rank, [*fields.values(), *WINDOW_TIMES])
    keys = (*groups, *((rank,) if limit > 1 else ()))
    retracts = often and _moving(conditions, {**fields, numbered.rank: rank}, keys)
    made = window or (for_ever(relation) if retracts else all_time(relation))
    emit: EmitStrategy = "on_window_update" if often and not retracts else "on_window_close"
    stream = relation.stream.window(made, name=planner.name(context, "top", at), emit=emit).group_by(*groups)
    by = [field for field in by if field not in groups] or by
    stream = stream.top_n(limit, by=by, fields=list(dict.fromkeys(shown)), descending=orders[0][1], rank=rank)
    if relation.own_delay and made.time_field is not None:
        stream = stream.water_mark(relation.own_delay)
    times = ("fire_time", "retracted") if retracts else WINDOW_TIMES
    return replace(
        relation,
        stream=fired(stream, context, often=often),
        fields=(*groups, rank, *by, *dict.fromkeys(shown), *times),
        columns=_columns(numbered, outputs, fields, rank, length),
        stateful=True,
        delay=timedelta(0),
        keys=keys if often else (*keys, place_field(made)) if fires_often(context) else None,
        retracts=retracts,
        window=None if often else length or made,
        pending=None,
    )


def _check_maps(planner: Planner, outputs: Mapping[str, Value], at: Any) -> None:
    """Refuse a column with a map: the other columns order rows that are equal, and a map has no order."""
    for name, value in outputs.items():
        if has_map(value.type):
            raise planner.error(
                f"the column {name!r} is a MAP, which cannot order equal rows of a ranking", at,
                remedy="name the other columns in the sub-query, without it, or use a value of it: pairs['key']",
            )  # fmt: skip


def _kept(values: Mapping[str, Value], *, often: bool) -> dict[str, Value]:
    """The fields that the ranking reads, under its own names."""
    return {name: _apart(value) for name, value in values.items() if not _given(value, often=often)}


def _moving(conditions: Sequence[Any], fields: Mapping[str, str], keys: Sequence[str]) -> bool:
    """Whether a row that passes `conditions` may be replaced by one that does not."""
    from sqlglot import exp

    named = (column.name for each in conditions for column in each.find_all(exp.Column))
    return any(fields.get(name) not in keys for name in named)


def _columns(
    numbered: Numbered, outputs: Mapping[str, Value], fields: Mapping[str, str], rank: str, length: Window | None
) -> tuple[Column, ...]:
    """The columns of the ranked rows, the number last."""
    end = f"(`start_time` + {duration_text(length.longest)})" if length is not None else "`end_time`"
    bounds = bound_values("`start_time`", end)
    columns = [_column(name, value, fields, bounds) for name, value in outputs.items()]
    columns.append(Column(numbered.rank, Value(quote_name(rank), Type("int")), ""))
    return tuple(replace(column, table=numbered.alias) for column in columns)


def _given(value: Value, *, often: bool) -> bool:
    """Whether a value is not a field of the ranked rows: processing time, or a bound that the window adds again."""
    return value.role == "proctime" or (not often and value.role in BOUNDS)


def _apart(value: Value) -> Value:
    """A value whose field does not share a name with the window's own times."""
    return replace(value, text=f"({value.text})") if value.field in WINDOW_TIMES else value


def _column(name: str, value: Value, fields: Mapping[str, str], bounds: Mapping[Any, Value]) -> Column:
    if name not in fields:
        return Column(name, bounds.get(value.role, value))
    role = value.role if value.role == "rowtime" else ""
    return Column(name, Value(quote_name(fields[name]), value.type, role))


def _window(planner: Planner, relation: Relation, at: Any) -> tuple[Window | None, Window | None, list[Value]]:
    """The window of the ranking, the window of the bounds, and the other keys; None for both without a window."""
    made = planner.over(relation)
    values = [(each, made.value(each)) for each in at.args.get("partition_by") or []]
    bounds = [each for each, value in values if value.role in BOUNDS]
    rest = [value for _, value in values if value.role not in BOUNDS]
    if not bounds:
        check_once(planner, relation, at)
        return None, None, rest
    if relation.pending is not None:
        check_end(planner, relation.pending.window, (value.role for _, value in values), bounds[0])
        return relation.pending.window, None, rest
    if relation.window is None:
        return None, None, [value for _, value in values]
    start = next((c.value for c in relation.columns if c.value.role == "start"), None)
    if start is None:
        raise planner.error(
            "the ranked rows have the end of their window, and not its start", bounds[0],
            remedy="select window_start (TUMBLE_START) in the sub-query as well",
        )  # fmt: skip
    return regrouped(planner, relation, start, at), relation.window, rest


def _orders(planner: Planner, relation: Relation, at: Any) -> list[tuple[Value, bool]]:
    """The order of rows, all in the direction of the first: values of the other direction are turned."""
    found = ordered_trees(planner, relation, at)
    first = found[0][2]
    return [
        (part, first)
        for each, value, descends in found
        for part in ([value] if descends == first else _turned(planner, value, each))
    ]


def _turned(planner: Planner, value: Value, each: Any) -> list[Value]:
    """What orders values in the opposite direction: the ends of the order, null and NaN, cannot be negated."""
    kind = value.type
    if kind is None or not (kind.name == "timestamp" or is_number(kind)):
        raise planner.error("ORDER BY in both directions needs numbers or times", each, remedy="use one direction")
    # Null, which is before 0 and 1, is the place of NaN, or of all values.
    number = f" WHEN NOT isnan({value.text}) THEN 0" if kind.name in FLOATS else ""
    end = Value(f"(CASE WHEN {value.text} IS NULL THEN 1{number} END)", Type("int"))
    whole = f"unix_micros({value.text})" if kind.name == "timestamp" else value.text
    # The least whole number has no negative one.
    turned = f"(~ {whole})" if whole != value.text or is_whole(kind) else opposite(value.text, kind.name)
    made = Value(turned, Type("bigint") if kind.name == "timestamp" else kind)
    return [made] if value.role == "rowtime" else [end, made]

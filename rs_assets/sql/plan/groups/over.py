"""OVER: aggregates over previous rows, in event-time order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from rs_assets.expressions.functions.literals import quote_name
from rs_assets.operators.window.over import OverWindow
from rs_assets.sql.expressions.aggregates import AGGREGATES, Aggregated, aggregated
from rs_assets.sql.expressions.expressions import Expressions
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.plan.groups.frames import FORM, Frame, frame_of, named, offset
from rs_assets.sql.plan.groups.grouping import RESERVED, items_of
from rs_assets.sql.plan.outputs import Output, Selected
from rs_assets.sql.plan.planner import Planner, QueryContext
from rs_assets.sql.plan.relation import Relation, free_aggregate, free_name
from rs_assets.sql.plan.stateful import fired, shuffled
from rs_assets.sql.plan.windowing import event_field
from rs_assets.sql.read.lexer import CALL
from rs_assets.sql.read.source import nearest
from rs_assets.sql.read.types import TIMESTAMP, has_map

NONE: Final = timedelta(0)
END_TIME: Final = "end_time"
# Functions that are not aggregates, and why they are not supported.
REFUSED: Final = MappingProxyType(
    {
        "LEAD": "following rows do not exist yet when a row is emitted: use LAG",
        "ROW_NUMBER": "COUNT(*) OVER (ORDER BY ts ROWS UNBOUNDED PRECEDING) numbers rows, "
        "or limit it outside: WHERE rn <= 3",
        "RANK": "COUNT(*) OVER (ORDER BY ts ROWS UNBOUNDED PRECEDING) numbers rows",
        "DENSE_RANK": "COUNT(*) OVER (ORDER BY ts ROWS UNBOUNDED PRECEDING) numbers rows",
        "NTILE": "streams have no end, so their number of rows is unknown",
        "PERCENT_RANK": "streams have no end, so their number of rows is unknown",
        "CUME_DIST": "streams have no end, so their number of rows is unknown",
        "NTH_VALUE": "use LAG(x, n), the value n rows before",
    }
)


@dataclass(slots=True)
class Over:
    """A step while it is planned: its window, the aggregates used, and the fields kept of each row."""

    planner: Planner
    relation: Relation
    time: str
    frame: Frame
    parts: dict[str, Value]
    kept: dict[str, Value] = field(default_factory=dict)
    made: dict[str, Aggregated] = field(default_factory=dict)

    @property
    def taken(self) -> list[str]:
        """The names of fields that are used."""
        return [*RESERVED, *self.relation.fields, *self.parts, *self.kept, *self.made]

    def free(self, wanted: str) -> str:
        """An unused name for a field."""
        return free_name(wanted, self.taken)

    def keep(self, value: Value) -> str:
        """The field with `value` of the row itself."""
        for names in (self.parts, self.kept):
            for name, other in names.items():
                if other.text == value.text:
                    return name
        name = value.field if value.field is not None and value.field not in RESERVED else self.free("kept")
        self.kept[name] = value
        return name


def windows_in(tree: Any) -> list[Any]:
    """The calls with OVER in a select list, without those of sub-queries."""
    return [
        node
        for item in tree.expressions
        for node in item.walk(prune=lambda each: each.key in ("subquery", "exists", "select"))
        if node.key == "window"
    ]


def over(planner: Planner, relation: Relation, tree: Any, context: QueryContext) -> Selected:
    """Each row with aggregates over previous rows, and the select list over them."""
    windows = windows_in(tree)
    first = windows[0]
    _check_rows(planner, relation, first)
    if relation.stateful:
        relation = shuffled(planner, relation, context, first)
    step = _step(planner, relation, windows)
    made = planner.expressions(lambda each: _resolved(step, each))
    outputs = [Output(name, made.value(item.unalias()), item) for name, item in items_of(planner, relation, tree)]
    return Selected(_rows(step, first, context), tuple(outputs))


def _check_rows(planner: Planner, relation: Relation, at: Any) -> None:
    if relation.keys is not None:
        raise planner.error("cannot use OVER on an updating result", at, remedy="group by a window first")
    if relation.pending is not None:
        raise planner.error(
            "cannot use OVER on windowed rows that are not grouped", at, remedy="use the table without its window"
        )


def _step(planner: Planner, relation: Relation, windows: list[Any]) -> Over:
    """The common frame of all windows of a select list."""
    made = planner.over(relation)
    found: Over | None = None
    for each in windows:
        parts = {value.text: value for value in map(made.value, each.args.get("partition_by") or [])}
        time, frame = _time(planner, made, each), frame_of(planner, each)
        if found is None:
            found = Over(planner, relation, time, frame, {})
            for value in parts.values():
                plain = value.field is not None and value.field not in RESERVED
                found.parts[str(value.field) if plain else found.free("part")] = value
            continue
        joined = found.frame.joined(frame)
        same = {value.text for value in found.parts.values()} == set(parts)
        if joined is None or not same or time != found.time:
            raise planner.error(
                "the functions of one SELECT have different windows", each,
                remedy="compute one in a sub-query, and the other outside",
            )  # fmt: skip
        found.frame = joined
    assert found is not None  # there are windows
    return found


def _time(planner: Planner, made: Expressions, window: Any) -> str:
    """The event-time field that orders the rows."""
    if window.args.get("alias") is not None:
        raise planner.error(f"unknown window {window.alias!r}", window, remedy=f"write it after OVER: {FORM}")
    orders = window.args["order"].expressions if window.args.get("order") is not None else []
    if not orders:
        raise planner.error("OVER needs ORDER BY", window, remedy=FORM)
    if len(orders) > 1 or orders[0].args.get("desc"):
        raise planner.error(
            "OVER must be ordered by event time, ascending", orders[-1], remedy="ORDER BY ts, the column of WATERMARK"
        )
    tree = orders[0].this
    time = event_field(planner, tree, made.value(tree) if tree.key == "column" else None)
    if time is None:
        raise planner.error(
            "all rows of a batch have the same processing time", tree, remedy="order by the event time: ORDER BY ts"
        )
    return time


def _resolved(step: Over, tree: Any) -> Value | None:
    """The value of a tree over the rows with their aggregates."""
    if tree.key == "window":
        return _aggregate(step, tree)
    if tree.key in ("literal", "null", "boolean") or any(each.key == "window" for each in tree.walk()):
        return None
    value = step.planner.over(step.relation).value(tree)
    if value.role == "proctime":
        return value
    if value.field == step.time:
        return Value(quote_name(END_TIME), TIMESTAMP, "rowtime")
    if has_map(value.type):
        raise step.planner.error(
            f"{step.planner.text.written(tree)} is a MAP, which cannot order rows of the same time", tree,
            remedy="use a value of it: pairs['key']",
        )  # fmt: skip
    return Value(quote_name(step.keep(value)), value.type)


def _aggregate(step: Over, window: Any) -> Value:
    made = _made(step, window)
    known = next((name for name, other in step.made.items() if other == made), None)
    if known is None:
        wanted = window.parent.alias if window.parent is not None and window.parent.alias else made.kind.lower()
        known = free_aggregate(wanted, step.taken)
        step.made[known] = made
    return Value(quote_name(known), made.type)


def _made(step: Over, window: Any) -> Aggregated:
    planner, (name, call) = step.planner, named(window)
    if window.this.key in ("ignorenulls", "respectnulls"):
        raise planner.error("IGNORE NULLS is not supported", window, remedy="filter them: WHERE x IS NOT NULL")
    if name in ROWS:
        if window.this.key == "filter":
            raise planner.error(f"{name} takes no FILTER", window, remedy="filter in WHERE")
        return ROWS[name](planner, planner.over(step.relation), call)
    if name not in AGGREGATES:
        known = (*AGGREGATES, *ROWS)
        raise planner.error(
            f"{name or 'this'} is not supported with OVER",
            window,
            remedy=REFUSED.get(name) or nearest(name, known),
        )
    return aggregated(planner.over(step.relation), window.this)


def _value_of(function: str) -> Callable[[Planner, Expressions, Any], Aggregated]:
    def made(planner: Planner, values: Expressions, call: Any) -> Aggregated:
        name = call.name.removeprefix(CALL)
        if len(call.expressions) != 1:
            raise planner.error(f"{name} takes one argument", call, remedy=f"write {name}(column)")
        value = values.value(call.expressions[0])
        # Flink skips nulls.
        nulls = ", true" if planner.text.dialect == "flink" else ""
        return Aggregated(name, f"{function}({value.plain}{nulls})", value.type)

    return made


def _lag(planner: Planner, values: Expressions, call: Any) -> Aggregated:
    reach = offset(planner, call)
    value = values.value(call.expressions[0])
    other = values.value(call.expressions[2]) if len(call.expressions) > 2 else None
    if other is not None and not _is_constant(call.expressions[2]):
        raise planner.error("the default of LAG must be a constant", call.expressions[2], remedy="LAG(x, 1, 0)")
    if other is not None and None not in (value.type, other.type) and other.type != value.type:
        other = Value(f"CAST({other.plain} AS {value.type.text if value.type else ''})", value.type)
    # collect_list skips nulls, but keeps structs of null.
    rows = f"collect_list(named_struct('v', {value.plain}))"
    found = f"try_element_at({rows}, {-(reach + 1)}).v"
    text = found if other is None else f"CASE WHEN count(1) > {reach} THEN {found} ELSE {other.text} END"
    return Aggregated("LAG", text, value.type)


def _is_constant(tree: Any) -> bool:
    """Whether a tree is a constant, also one in a CAST."""
    while tree.key in ("cast", "trycast", "paren", "neg"):
        tree = tree.this
    return tree.key in ("literal", "boolean", "null")


# Functions that depend on the order of rows.
ROWS: Final[Mapping[str, Callable[[Planner, Expressions, Any], Aggregated]]] = MappingProxyType(
    {"FIRST_VALUE": _value_of("first"), "LAST_VALUE": _value_of("last"), "LAG": _lag}
)


def _rows(step: Over, at: Any, context: QueryContext) -> Relation:
    """The rows with their aggregates."""
    planner, relation = step.planner, step.relation
    before = {name: _apart(name, value) for name, value in (*step.parts.items(), *step.kept.items())}
    before |= {wanted: value for name, made in step.made.items() for wanted, value in made.before(name)}
    relation, fields = planner.with_fields(relation, before, context, "before", at)
    parts = tuple(fields[name] for name in step.parts)
    frame, keep = step.frame, tuple(fields[name] for name in step.kept) or (step.time,)
    window = OverWindow(time_field=step.time, keep=keep, before=frame.before, within=frame.within, peers=frame.peers)
    stream = relation.stream.window(window, name=planner.name(context, "over", at)).group_by(*parts)
    for name, made in step.made.items():
        column = made.column(name, fields)
        stream = stream if column is None else getattr(stream, made.method)(*column, name=name)
    own = {name: made.text for name, made in step.made.items() if not made.method}
    stream = stream.aggregate(**own) if own else stream
    stream = stream.water_mark(relation.own_delay) if relation.own_delay else stream
    return replace(
        relation,
        stream=fired(stream, context, often=False),
        fields=(*parts, *step.made, *keep, "start_time", END_TIME, "fire_time"),
        columns=(),
        stateful=True,
        delay=NONE,
        window=None,
        apart=True,
    )


def _apart(name: str, value: Value) -> Value:
    """A value under its name; one whose field has another name is computed."""
    return value if value.field == name else replace(value, text=f"({value.text})")

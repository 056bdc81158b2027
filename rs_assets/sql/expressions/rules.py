"""The rules that compile trees to Spark SQL, by kind of tree; a tree without a rule is refused at its position."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from rs_assets.expressions.functions.literals import quote, quote_name
from rs_assets.records.decimals import opposite
from rs_assets.records.types import Type, type_in
from rs_assets.sql.expressions.aggregates import is_aggregate
from rs_assets.sql.expressions.arithmetic import computed
from rs_assets.sql.expressions.casts import cast_as
from rs_assets.sql.expressions.constants import check_cast, check_place
from rs_assets.sql.expressions.expressions import Expressions, a_type
from rs_assets.sql.expressions.flink_times import PARTS
from rs_assets.sql.expressions.predicates import PREDICATES, aligned, branches_type
from rs_assets.sql.expressions.sql_function import whole_literal
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.read.durations import MONTHS, duration, interval_text
from rs_assets.sql.read.lexer import CALL
from rs_assets.sql.read.types import BIGINT, BOOLEAN, DOUBLE, TEXT, TIMESTAMP, is_number, is_time, type_of_cast

# Calls that begin with a unit of time.
IN_UNITS: Final = (f"{CALL}TIMESTAMPADD", f"{CALL}TIMESTAMPDIFF")
LARGEST_INT: Final = 2**31 - 1
# Words before a bracket that make an array or a map.
CONSTRUCTORS: Final = ("MAP", "ROW", "MULTISET")


def _literal(_made: Expressions, tree: Any) -> Value:
    if tree.is_string:
        return Value(quote(tree.this), TEXT)
    number = tree.this
    if number.isdigit():
        return Value(number, Type("int") if int(number) <= LARGEST_INT else BIGINT)
    if "e" in number.casefold():
        return Value(number, DOUBLE)
    whole, _, behind = number.partition(".")
    return Value(number, type_in(f"decimal({len(whole) + len(behind)},{len(behind)})"))


def _fixed(text: str, kind: Type | None) -> Callable[[Expressions, Any], Value]:
    return lambda made, tree: Value(text, kind)  # noqa: ARG005  the table's form


def _boolean(_made: Expressions, tree: Any) -> Value:
    return Value("true" if tree.this else "false", BOOLEAN)


def _bracketed(made: Expressions, tree: Any) -> Value:
    return made.value(tree.this)


def _negative(made: Expressions, tree: Any) -> Value:
    value = made.value(tree.this)
    _need_number(made, value, tree)
    return Value(opposite(value.text, value.type.name if value.type is not None else None), value.type)


def arithmetic(
    sign: str, compute: Callable[[str, Value, Value], Value] = computed
) -> Callable[[Expressions, Any], Value]:
    """The rule for two numbers under a sign, and for a time and an interval."""

    def rule(made: Expressions, tree: Any) -> Value:
        moved = _moved(made, tree, sign)
        if moved is not None:
            return moved
        left, right = made.value(tree.this), made.value(tree.expression)
        for value, part in ((left, tree.this), (right, tree.expression)):
            _need_number(made, value, part)
        return compute(sign, left, right)

    return rule


def _moved(made: Expressions, tree: Any, sign: str) -> Value | None:
    """A time and an interval."""
    parts = (tree.this, tree.expression)
    if sign not in "+-" or not any(part.key == "interval" for part in parts):
        return None
    at, span = parts if parts[1].key == "interval" else (parts[1], parts[0])
    value = made.value(at)
    if value.type is not None and not is_time(value.type):
        raise made.error(
            f"{made.shown(at)} is {a_type(value.type)}, not a time", at, remedy="add intervals to timestamps"
        )
    moved = f"({value.text} {sign} {interval_text(made.text, span)})"
    if value.type is not None and value.type.name == "date":
        # In Spark, a date plus an interval of days is a timestamp.
        return Value(f"cast({moved} AS date)", value.type) if _in_days(made, span) else Value(moved, TIMESTAMP)
    return Value(moved, value.type)


def _in_days(made: Expressions, span: Any) -> bool:
    """Whether an interval is of whole days, or of months and years."""
    unit = span.args.get("unit")
    months = unit is not None and unit.name.upper().removesuffix("S") in MONTHS
    return months or duration(made.text, span) % timedelta(days=1) == timedelta(0)


def _need_number(made: Expressions, value: Value, tree: Any) -> None:
    if value.type is not None and not is_number(value.type):
        raise made.error(
            f"{made.shown(tree)} is {a_type(value.type)}, not a number",
            tree,
            remedy="CAST(... AS BIGINT)" + (", or || to join texts" if value.type.name == "string" else ""),
        )


def _divided(made: Expressions, tree: Any) -> Value:
    left, right = made.value(tree.this), made.value(tree.expression)
    for value, part in ((left, tree.this), (right, tree.expression)):
        _need_number(made, value, part)
        if value.type is None:
            raise made.error(
                f"the type of {made.shown(part)} is unknown, so it is unclear whether / truncates",
                part,
                remedy="CAST(... AS BIGINT) or CAST(... AS DOUBLE)",
            )
    return computed("/", left, right)


def _cast(made: Expressions, tree: Any) -> Value:
    value = made.value(tree.this)
    check_cast(made, value, tree, type_of_cast(made.text, tree.args["to"], tree))
    return cast_as(made.text, value, tree, failing="cast")


def _try_cast(made: Expressions, tree: Any) -> Value:
    return cast_as(made.text, made.value(tree.this), tree, failing="try_cast")


def _call(made: Expressions, tree: Any) -> Value:
    name = tree.name.removeprefix(CALL)
    if is_aggregate(tree):
        raise made.error(
            f"the aggregate {name} is not allowed here", tree,
            remedy="use it in HAVING after GROUP BY, or compute it in a sub-query",
        )  # fmt: skip
    return made.calls(made, name, [made.value(each) for each in arguments(tree)], tree)


def arguments(tree: Any) -> list[Any]:
    """The arguments of a call; a unit of time as the first one becomes a text."""
    from sqlglot import exp

    return [
        exp.Literal.string(each.name.upper()) if tree.name in IN_UNITS and place == 0 else each
        for place, each in enumerate(tree.expressions)
    ]


def _extract(made: Expressions, tree: Any) -> Value:
    unit = tree.this.name.upper()
    if unit not in PARTS:
        raise made.error(f"unknown unit {unit!r} of EXTRACT", tree, remedy=f"use one of: {', '.join(PARTS)}")
    return Value(f"cast({PARTS[unit].format(made.value(tree.expression).text)} AS bigint)", BIGINT)


def _trim(made: Expressions, tree: Any) -> Value:
    value = made.value(tree.this).text
    side = tree.args.get("position") or "BOTH"
    letters = f"{made.value(tree.expression).text} " if tree.expression is not None else ""
    return Value(f"trim({side} {letters}FROM {value})", TEXT)


def _position(made: Expressions, tree: Any) -> Value:
    return Value(f"locate({made.value(tree.args['substr']).text}, {made.value(tree.this).text})", Type("int"))


def _concat(made: Expressions, tree: Any) -> Value:
    parts = [made.value(part) for part in (tree.this, tree.expression)]
    for part, each in zip(parts, (tree.this, tree.expression), strict=True):
        if part.type is not None and part.type.name != "string":
            raise made.error(
                f"{made.shown(each)} is {a_type(part.type)}, not a text", each, remedy="CAST(... AS STRING)"
            )
    return Value(f"({parts[0].text} || {parts[1].text})", TEXT)


def _bracket(made: Expressions, tree: Any) -> Value:
    if tree.this.key == "column" and tree.this.name.upper() in CONSTRUCTORS and not tree.this.this.args.get("quoted"):
        raise made.error(f"{tree.this.name.upper()}[...] is not supported here", tree, remedy="use a column")
    value, place = made.value(tree.this), made.value(one_place(made, tree))
    kind = value.type
    if kind is not None and kind.name not in ("array", "map"):
        raise made.error(f"{made.shown(tree.this)} is {a_type(kind)}, which has no elements", tree)
    if kind is None or kind.name == "map":
        of = dict(kind.parts).get("value") if kind is not None else None
        return Value(f"try_element_at({value.text}, {place.text})", of)
    check_place(made, value, place, tree.expressions[0])
    number = whole_literal(place)
    # Indexes begin at 1, in Spark's get at 0; a missing element is null.
    before = str(number - 1) if number is not None else f"{place.text} - 1"
    return Value(f"get({value.text}, {before})", dict(kind.parts)["element"])


def _array(made: Expressions, tree: Any) -> Value:
    if not tree.expressions:
        raise made.error("an array without elements has no type", tree, remedy="write ARRAY[1, 2]")
    values = [made.value(each) for each in tree.expressions]
    kind = branches_type(made, [value.type for value in values], tree)
    texts = ", ".join(aligned(made, value, kind).plain for value in values)
    return Value(f"array({texts})", Type("array", (("element", kind),)))


def one_place(made: Expressions, tree: Any) -> Any:
    """The index in brackets after an array or a map; SqlError for several."""
    if len(tree.expressions) != 1:
        raise made.error(
            "an element has one index", tree, remedy="write tags[1], and rows[1][2] for an array of arrays"
        )
    return tree.expressions[0]


def _dot(made: Expressions, tree: Any) -> Value:
    value = made.value(tree.this)
    kind = dict(value.type.parts).get(tree.expression.name) if value.type is not None else None
    return Value(f"{value.text}.{quote_name(tree.expression.name)}", kind)


def _interval(made: Expressions, tree: Any) -> Value:
    raise made.error("an INTERVAL is not a value", tree, remedy="add it to a time: ts + INTERVAL '1' HOUR")


def _column(made: Expressions, tree: Any) -> Value:
    raise made.error(f"there is no column {made.shown(tree)} here", tree)


# Kinds of trees that are refused with a remedy.
REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "similarto": "write REGEXP(text, 'pattern')",
        "subquery": "join with it: JOIN (SELECT k, MAX(x) AS m FROM t GROUP BY k) AS s ON a.k = s.k; for one value of"
        " all rows let k be 1 in both",
        "exists": "move it to WHERE, joined to other conditions with AND",
        "any": "write EXISTS (SELECT ... WHERE ...); for a list, compare each value and join with OR",
        "all": "write NOT EXISTS (SELECT ... WHERE ...); for a list, compare each value and join with AND",
        "window": "compute OVER in a sub-query, and use its column outside",
        "struct": "name the columns one by one",
        "star": "name the columns, or write COUNT(*)",
        "tuple": "compare the columns one by one",
    }
)
RULES: Final[Mapping[str, Callable[[Expressions, Any], Value]]] = MappingProxyType(
    {
        **PREDICATES,
        "literal": _literal, "null": _fixed("NULL", Type("void")), "boolean": _boolean, "paren": _bracketed,
        "neg": _negative, "add": arithmetic("+"), "sub": arithmetic("-"), "mul": arithmetic("*"),
        "mod": arithmetic("%"), "div": _divided, "cast": _cast, "trycast": _try_cast, "anonymous": _call,
        "extract": _extract, "trim": _trim, "strposition": _position, "dpipe": _concat, "bracket": _bracket,
        "array": _array, "dot": _dot, "interval": _interval, "column": _column,
        "currenttimestamp": _fixed("current_timestamp()", TIMESTAMP),
        "currentdate": _fixed("current_date()", type_in("date")),
    }
)  # fmt: skip

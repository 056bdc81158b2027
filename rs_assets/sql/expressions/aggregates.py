"""Aggregates: as methods of a window, else as Spark aggregates in SQL text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

from rs_assets.expressions.functions.literals import quote, quote_name
from rs_assets.expressions.functions.udf import PREFIX, AggregateFunction
from rs_assets.records.types import MOST_DIGITS, Type, type_in
from rs_assets.sql.expressions.decimals import combined, size_of, summed
from rs_assets.sql.expressions.expressions import Expressions
from rs_assets.sql.expressions.udf import UDF_AGGREGATE, check_arguments
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.read.lexer import CALL
from rs_assets.sql.read.types import BIGINT, DOUBLE, has_map, is_decimal, is_number, is_whole
from rs_assets.udf.fold import Folded, MergedFold

# Aggregates by name, with the equivalent method of a window.
METHODS: Final[Mapping[str, str]] = MappingProxyType({"SUM": "sum", "MIN": "min", "MAX": "max"})
NUMERIC: Final = ("SUM", "AVG", "STDDEV_POP", "STDDEV_SAMP", "VAR_POP", "VAR_SAMP", "STDDEV", "VARIANCE")

# Those of the different values of a column.
DIFFERENT: Final = ("COUNT", "MIN", "MAX", "SUM", "AVG", "LISTAGG", "ARRAY_AGG")
# The aggregate with a second argument.
LISTED: Final = "LISTAGG"
# The one whose result has nulls, too.
ARRAYED: Final = "ARRAY_AGG"


@dataclass(frozen=True, slots=True)
class Sums:
    """An aggregate that follows from counts and sums, so that rows can be subtracted: `text` over its `parts`.

    A part is a count or a sum with its argument; COUNT(*) has none.
    """

    text: str
    parts: Mapping[str, tuple[Literal["count", "sum"], Value | None]]

    @classmethod
    def count(cls, value: Value | None = None) -> Sums:
        """The number of values, or of rows."""
        return cls("{n}", {"n": ("count", value)})

    @classmethod
    def mean(cls, value: Value, text: str) -> Sums:
        """`text` over the sum `s` and the number `n`; null without a value."""
        return cls(f"(CASE WHEN {{n}} > 0 THEN {text} END)", {"s": ("sum", value), "n": ("count", value)})


@dataclass(frozen=True, slots=True)
class Aggregated:
    """An aggregate: `method` of a window over `argument`, or, without one, Spark's aggregate `text`.

    `sums` are the same for tables; None for an aggregate that needs all rows.
    """

    kind: str
    text: str
    type: Type | None
    method: str = ""
    argument: Value | None = None
    # A user-defined aggregate of `arguments`, over the rows for which `only` is true.
    own: AggregateFunction | None = None
    arguments: tuple[Value, ...] = ()
    only: Value | None = None
    sums: Sums | None = None

    def before(self, name: str) -> Iterator[tuple[str, Value]]:
        """The values that must be fields before the window, for the aggregate `name`."""
        if self.argument is not None:
            yield f"{name}_of", self.argument
        for place, each in enumerate(self.arguments, 1):
            yield f"{name}_of_{place}", each
        if self.only is not None:
            yield f"{name}_only", self.only

    def column(self, name: str, fields: Mapping[str, str]) -> tuple[str, ...] | None:
        """The argument of the window's method, empty for COUNT(*); None for an aggregate in SQL text."""
        if not self.method:
            return None
        return (fields[f"{name}_of"],) if self.argument is not None else ()

    def folded(self, stream: Any, name: str, fields: Mapping[str, str], step: str) -> Any:
        """The window `stream` with a user-defined aggregate of its rows, in a step named `step`."""
        assert self.own is not None  # checked before
        taken = tuple(fields[f"{name}_of_{place}"] for place in range(1, len(self.arguments) + 1))
        only = fields[f"{name}_only"] if self.only is not None else None
        folded = Folded if self.own.accumulator is None else MergedFold
        made = folded(self.own.aggregate, taken, self.own.needs, name, only)
        kept = tuple(dict.fromkeys([*taken, *([only] if only else [])]))
        schema = f"{quote_name(name)} {self.own.function.returns}"
        return stream.reduce(made, schema=schema, accumulator=self.own.accumulator, fields=kept, name=step)


def is_aggregate(tree: Any) -> bool:
    """Whether a call is an aggregate, with or without FILTER."""
    inner = tree.this if tree.key == "filter" else tree
    return inner.key == "anonymous" and (inner.name.removeprefix(CALL) in AGGREGATES or UDF_AGGREGATE in inner.meta)


def is_grouped(tree: Any) -> bool:
    """Whether a SELECT aggregates rows."""
    if any(tree.args.get(part) is not None for part in ("group", "having", "distinct")):
        return True
    return any(aggregates_in(item) for item in tree.expressions)


def aggregates_in(tree: Any) -> bool:
    """Whether a tree has an aggregate outside of its sub-queries."""
    return any(is_aggregate(call) for call in calls_in(tree))


def calls_in(tree: Any) -> list[Any]:
    """The calls in a tree, without those of sub-queries and those before OVER."""
    nodes = tree.walk(prune=lambda node: node.key in ("subquery", "exists", "select"))
    return [node for node in nodes if node.key == "anonymous" and not _before_over(node)]


def _before_over(call: Any) -> bool:
    above = call.parent
    while above is not None and above.key in ("filter", "ignorenulls", "respectnulls"):
        above = above.parent
    return above is not None and above.key == "window" and any(each is call for each in above.this.walk())


def aggregated(made: Expressions, tree: Any) -> Aggregated:
    """The aggregate of a call."""
    found = _aggregated(made, tree)
    if PREFIX in found.text:
        remedy = "compute the value in a sub-query: SELECT AVG(v) FROM (SELECT f(x) AS v FROM t) AS s"
        raise made.error(f"{found.kind} calls a Python function", tree, remedy=remedy)
    return found


def _aggregated(made: Expressions, tree: Any) -> Aggregated:
    if UDF_AGGREGATE in (tree.this if tree.key == "filter" else tree).meta:
        return _own(made, tree)
    where = made.condition(tree.expression.this).text if tree.key == "filter" else None
    call = tree.this if tree.key == "filter" else tree
    name = call.name.removeprefix(CALL)
    spark = made.text.dialect == "spark"
    arguments, distinct, ignores = _given(call, nulls=name == ARRAYED and not spark)
    if name == "COUNT" and not distinct and (not arguments or arguments[0].key == "star"):
        return _rows(where)
    by = None
    if name == LISTED and len(arguments) == 2:
        arguments, by = arguments[:1], _separator(made, arguments[1])
    if len(arguments) != 1 or arguments[0].key == "star":
        raise made.error(f"{name} takes one argument", call, remedy=f"write {name}(column)")
    if any(is_aggregate(each) for each in arguments[0].find_all(type(call))):
        raise made.error(f"{name} of an aggregate", call, remedy="compute the inner one in a sub-query")
    value = made.value(arguments[0])
    _check_value(made, name, value, call, distinct=distinct)
    if name == ARRAYED and not spark:
        return _arrayed(value, distinct, where, ignores=ignores)
    if where is not None:
        value = Value(f"(CASE WHEN {where} THEN {value.plain} END)", value.type)
    if by is not None:
        return _listed(value, distinct, by)
    known = OF_SPARK.get(name) if spark else None
    return (known or AGGREGATES[name])(value, distinct)


def _given(call: Any, *, nulls: bool) -> tuple[list[Any], bool, bool]:
    """The arguments of a call, whether they are DISTINCT, and whether it ignores nulls, if it may say so (`nulls`)."""
    arguments, ignores = call.expressions, False
    if nulls and arguments and arguments[0].key in ("ignorenulls", "respectnulls"):
        arguments, ignores = [arguments[0].this], arguments[0].key == "ignorenulls"
    if arguments and arguments[0].key == "distinct":
        return arguments[0].expressions, True, ignores
    return arguments, False, ignores


def _check_value(made: Expressions, name: str, value: Value, call: Any, *, distinct: bool) -> None:
    """SqlError for values that an aggregate does not take."""
    from sqlglot import exp

    if name in NUMERIC and value.type is not None and not is_number(value.type):
        raise made.error(
            f"{name} of {value.type.text.upper()}, which is not a number", call, remedy="CAST(... AS BIGINT)"
        )
    if name == LISTED and value.type is not None and value.type.name != "string":
        raise made.error(
            f"{name} of {value.type.text.upper()}, which is not a text", call, remedy="CAST(... AS STRING)"
        )
    if name == ARRAYED and has_map(value.type):
        raise made.error(f"{name} of a MAP, whose values have no order", call, remedy="ARRAY_AGG(JSON_STRING(...))")
    if distinct and name not in DIFFERENT:
        remedy = "group by the value and a window in a sub-query, and by a window of its window_time outside"
        raise made.error(f"{name}(DISTINCT ...) is not supported", call, remedy=remedy)
    if distinct and name in NUMERIC and value.type is None:
        at = next(call.find_all(exp.Distinct)).expressions[0]
        what = f"the type of {made.shown(at)} is unknown, so it is unclear how {name}(DISTINCT ...) adds"
        raise made.error(what, at, remedy="CAST(... AS BIGINT) or CAST(... AS DOUBLE)")


def _separator(made: Expressions, tree: Any) -> str:
    """The SQL of the text between values."""
    if not tree.is_string:
        raise made.error(f"the separator of {LISTED} must be a text", tree, remedy=f"{LISTED}(name, ', ')")
    return quote(tree.this)


def _own(made: Expressions, tree: Any) -> Aggregated:
    """A user-defined aggregate."""
    only = made.condition(tree.expression.this) if tree.key == "filter" else None
    call = tree.this if tree.key == "filter" else tree
    name = call.name.removeprefix(CALL)
    function = made.calls.aggregate(name)  # type: ignore[attr-defined]
    inside = next((each for each in call.expressions if each.key in ("distinct", "star")), None)
    if inside is not None:
        raise made.error(f"{name}({inside.key.upper()}) is not supported", call, remedy=f"write {function.signature}")
    if any(is_aggregate(each) for argument in call.expressions for each in argument.find_all(type(call))):
        raise made.error(f"{name} of an aggregate", call, remedy="compute the inner one in a sub-query")
    values = [made.value(each) for each in call.expressions]
    check_arguments(made, function.function, values, call)
    given = function.function.casts(*(each.plain for each in values))
    taken = [Value(f"({given[each.name]})", type_in(each.kind)) for each in function.function.parameters]
    return Aggregated(name, "", type_in(function.function.returns), own=function, arguments=tuple(taken), only=only)


def _rows(where: str | None) -> Aggregated:
    if where is None:
        return Aggregated("COUNT", "count(1)", BIGINT, "count", sums=Sums.count())
    counted = Sums.count(Value(f"(CASE WHEN {where} THEN 1 END)"))
    return Aggregated("COUNT", f"count_if({where})", BIGINT, sums=counted)


def _counted(value: Value, distinct: bool) -> Aggregated:  # noqa: FBT001  the table's form
    if distinct:
        return Aggregated("COUNT", "", BIGINT, "count_distinct", value)
    return Aggregated("COUNT", f"count({value.plain})", BIGINT, sums=Sums.count(value))


def _of(name: str, kind: Callable[[Type | None], Type | None]) -> Callable[[Value, bool], Aggregated]:
    def made(value: Value, _distinct: bool) -> Aggregated:  # noqa: FBT001
        sums = Sums("{s}", {"s": ("sum", value)}) if name == "SUM" else None
        if value.field is not None or PREFIX in value.text:
            return Aggregated(name, "", kind(value.type), METHODS[name], value, sums=sums)
        return Aggregated(name, f"{METHODS[name]}({value.plain})", kind(value.type), sums=sums)

    return made


def _same(kind: Type | None) -> Type | None:
    return kind


def _sum_type(kind: Type | None) -> Type | None:
    if kind is None or is_decimal(kind):
        return None
    return BIGINT if is_whole(kind) else DOUBLE


def _listed(value: Value, distinct: bool, by: str = "','") -> Aggregated:  # noqa: FBT001
    """The texts in their order, which does not depend on that of rows; null without one."""
    text = f"CASE WHEN count({value.plain}) > 0 THEN array_join({_sorted(value.plain, distinct=distinct)}, {by}) END"
    return Aggregated(LISTED, text, Type("string"))


def _array(kind: Type | None) -> Type | None:
    return None if kind is None else type_in(f"array<{kind.text}>")


def _arrayed(value: Value, distinct: bool, where: str | None = None, *, ignores: bool = False) -> Aggregated:  # noqa: FBT001
    """The values in their order, which does not depend on that of rows, and then nulls; null without a row."""
    each = f"struct({value.text} IS NULL AS none, {value.plain} AS v)"
    asked = [f"({condition})" for condition in (where, f"{value.text} IS NOT NULL" if ignores else None) if condition]
    each = f"CASE WHEN {' AND '.join(asked)} THEN {each} END" if asked else each
    text = f"CASE WHEN count({each}) > 0 THEN transform({_sorted(each, distinct=distinct)}, each -> each.v) END"
    return Aggregated(ARRAYED, text, _array(value.type))


def _arrayed_of_spark(value: Value, distinct: bool) -> Aggregated:  # noqa: FBT001
    """The values in their order, without nulls; empty without one."""
    return Aggregated(ARRAYED, _sorted(value.plain, distinct=distinct), _array(value.type))


def _sorted(text: str, *, distinct: bool) -> str:
    """The values of `text` as an array in their order, which does not depend on that of rows."""
    return f"sort_array({'collect_set' if distinct else 'collect_list'}({text}))"


def _different(value: Value) -> str:
    """The different values as an array, in their order: sums of floating-point numbers depend on it."""
    return _sorted(value.plain, distinct=True)


def _different_sum(value: Value, kind: Type) -> str:
    """The sum of the different values as a `kind`; null without a value."""
    added = f"cast(coalesce(total, 0) + each AS {kind.text})"
    return f"aggregate({_different(value)}, cast(NULL AS {kind.text}), (total, each) -> {added})"


def _sum_of_spark(value: Value, distinct: bool) -> Aggregated:  # noqa: FBT001
    if not distinct or value.type is None:
        return _of("SUM", _sum_type)(value, distinct)
    kind = _sum_type(value.type) or _wider(value.type, 10, 0)
    return Aggregated("SUM", _different_sum(value, kind), kind)


def _wider(kind: Type, digits: int, decimals: int) -> Type:
    """A DECIMAL with more digits, up to those that there are."""
    precision, scale = size_of(kind)
    return Type(f"decimal({min(precision + digits, MOST_DIGITS)},{min(scale + decimals, MOST_DIGITS)})")


def _average_of_spark(value: Value, distinct: bool) -> Aggregated:  # noqa: FBT001
    """A DOUBLE; for a DECIMAL only Spark knows the digits."""
    if distinct and value.type is not None:
        kind = _wider(value.type, 4, 4) if is_decimal(value.type) else DOUBLE
        total = _sum_of_spark(value, distinct).text
        return Aggregated("AVG", f"cast(cast({total} AS {kind.text}) / size({_different(value)}) AS {kind.text})", kind)
    known = value.type is not None and not is_decimal(value.type)
    sums = Sums.mean(value, "cast({s} AS double) / {n}") if known else None
    return Aggregated("AVG", f"avg({value.plain})", DOUBLE if known else None, sums=sums)


def _summed(value: Value, distinct: bool) -> Aggregated:  # noqa: FBT001
    """For a DECIMAL 38 digits, as in Flink; the digits of a quotient depend on them."""
    if distinct and value.type is not None:
        kind = _sum_type(value.type) or summed(value.type)
        return Aggregated("SUM", _different_sum(value, kind), kind)
    if value.type is None or not is_decimal(value.type) or PREFIX in value.text:
        return _of("SUM", _sum_type)(value, distinct)
    kind = summed(value.type)
    sums = Sums(f"cast({{s}} AS {kind.text})", {"s": ("sum", value)})
    return Aggregated("SUM", f"cast(sum({value.plain}) AS {kind.text})", kind, sums=sums)


def _average(value: Value, distinct: bool) -> Aggregated:  # noqa: FBT001
    """The type of the numbers: whole numbers truncated, a DECIMAL with at least six decimals."""
    kind = value.type
    if kind is not None and is_whole(kind):
        text = "{s} div {n}" if kind == BIGINT else f"cast({{s}} div {{n}} AS {kind.text})"
        return _mean(value, text, kind, distinct=distinct)
    if kind is not None and is_decimal(kind):
        text = f"cast({{s}} AS {summed(kind).text}) / cast({{n}} AS decimal(20,0))"
        return _mean(value, text, combined("/", summed(kind), Type("decimal(20,0)")), distinct=distinct)
    if distinct and kind is not None:
        return _mean(value, f"cast({{s}} / {{n}} AS {kind.text})", kind, distinct=True)
    wide = Value(f"cast({value.plain} AS double)", DOUBLE)
    if kind is not None and kind.name == "float":
        sums = Sums.mean(wide, "cast({s} / {n} AS float)")
        return Aggregated("AVG", f"cast(avg({wide.text}) AS float)", kind, sums=sums)
    return Aggregated("AVG", f"avg({wide.text})", DOUBLE, sums=Sums.mean(wide, "{s} / {n}"))


def _mean(value: Value, text: str, kind: Type, *, distinct: bool) -> Aggregated:
    """A mean as `text` over the sum `s` and the number `n` of the values, or of the different ones."""
    if distinct:
        total = _summed(value, distinct).text
        return Aggregated("AVG", text.format(s=total, n=f"size({_different(value)})"), kind)
    whole = text.format(s=f"sum({value.plain})", n=f"count({value.plain})")
    return Aggregated("AVG", whole, kind, sums=Sums.mean(value, text))


def _double(name: str) -> Callable[[Value, bool], Aggregated]:
    return lambda value, distinct: Aggregated(name, f"{name.lower()}({value.plain})", DOUBLE)  # noqa: ARG005


AGGREGATES: Final[Mapping[str, Callable[[Value, bool], Aggregated]]] = MappingProxyType(
    {
        "COUNT": _counted,
        "SUM": _summed,
        "MIN": _of("MIN", _same),
        "MAX": _of("MAX", _same),
        "AVG": _average,
        "LISTAGG": _listed,
        ARRAYED: _arrayed,
        "STDDEV_POP": _double("STDDEV_POP"),
        "STDDEV_SAMP": _double("STDDEV_SAMP"),
        "VAR_POP": _double("VAR_POP"),
        "VAR_SAMP": _double("VAR_SAMP"),
        "VARIANCE": _double("VAR_SAMP"),
    }
)
# Aggregates that differ in Spark.
OF_SPARK: Final[Mapping[str, Callable[[Value, bool], Aggregated]]] = MappingProxyType(
    {
        "AVG": _average_of_spark,
        "SUM": _sum_of_spark,
        "LISTAGG": lambda value, distinct: _listed(value, distinct, "''"),
        ARRAYED: _arrayed_of_spark,
    }
)

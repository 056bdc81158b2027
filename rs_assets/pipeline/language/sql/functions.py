"""Functions with the meaning that they have in Flink; all others are those of the registry that scripts use too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final

from rs_assets.engine.functions.literals import quote, unquote
from rs_assets.engine.functions.own import OWN, AggregateFunction, Declared
from rs_assets.engine.functions.registry import (
    FUNCTIONS,
    TABLE_FUNCTIONS,
    UnknownFunctionError,
    function_named,
    own_named,
)
from rs_assets.errors import SqlError, TopologyError
from rs_assets.pipeline.check.types import Type, type_in
from rs_assets.pipeline.language.sql.expressions import Expressions
from rs_assets.pipeline.language.sql.own import aggregate_called, called
from rs_assets.pipeline.language.sql.predicates import branches_type
from rs_assets.pipeline.language.sql.source import meant
from rs_assets.pipeline.language.sql.types import is_whole
from rs_assets.pipeline.language.sql.values import Value

# The type of a call, from those of its arguments; a text names one.
Returns = str | Callable[[Sequence[Type | None]], Type | None]
Template = str | Callable[[Sequence[str]], str]
UNITS: Final = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")


@dataclass(frozen=True, slots=True)
class SqlFunction:
    """A function: how many arguments it takes, Spark SQL with their places in braces, and what it gives.

    `texts` are the places of arguments that must be texts if their type is known, `numbers` those of numbers.
    """

    least: int
    most: int
    template: Template
    returns: Returns
    texts: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()
    # What the first argument, a word, may be.
    words: tuple[str, ...] = ()

    def sql(self, arguments: Sequence[str]) -> str:
        """The Spark SQL of a call."""
        if callable(self.template):
            return self.template(arguments)
        return self.template.format(*arguments, all=", ".join(arguments))


def _first(kinds: Sequence[Type | None]) -> Type | None:
    return kinds[0]


def _rounded(kinds: Sequence[Type | None]) -> Type | None:
    return kinds[0] if is_whole(kinds[0]) else None


def _truncated(arguments: Sequence[str]) -> str:
    """FLOOR(ts TO HOUR), and FLOOR of a number."""
    if len(arguments) == 1:
        return f"floor({arguments[0]})"
    return f"date_trunc({arguments[1]}, {arguments[0]})"


def _replaced(arguments: Sequence[str]) -> str:
    """What is put in is taken as it is: a `$1` or a backslash in it means nothing more."""
    literal = unquote(arguments[2])
    if literal is not None:
        by = quote(literal.replace("\\", "\\\\").replace("$", "\\$"))
    else:
        by = f"replace(replace({arguments[2]}, {quote(chr(92))}, {quote(chr(92) * 2)}), '$', {quote(chr(92) + '$')})"
    return f"regexp_replace({arguments[0]}, {arguments[1]}, {by})"


def _truncated_type(kinds: Sequence[Type | None]) -> Type | None:
    """None for a DOUBLE or DECIMAL, which stays one in Flink and is a BIGINT in Spark."""
    return kinds[0] if len(kinds) > 1 or is_whole(kinds[0]) else None


def _to_timestamp(arguments: Sequence[str]) -> str:
    form = f", {arguments[1]}" if len(arguments) > 1 else ""
    return f"try_to_timestamp({arguments[0]}{form})"


def _to_timestamp_ltz(arguments: Sequence[str]) -> str:
    """A number of seconds (precision 0) or milliseconds (3), as the second argument says."""
    if len(arguments) > 1 and arguments[1] == "0":
        return f"timestamp_seconds({arguments[0]})"
    return f"timestamp_millis({arguments[0]})"


def _formatted(arguments: Sequence[str]) -> str:
    if len(arguments) == 3:
        return f"date_format(try_to_timestamp({arguments[0]}, {arguments[1]}), {arguments[2]})"
    return f"date_format({arguments[0]}, {arguments[1]})"


def _split_index(arguments: Sequence[str]) -> str:
    """The part of a text at a place that is counted from 0; null for one that is not there, and for an empty text."""
    literal = unquote(arguments[1])
    by = quote(f"\\Q{literal}\\E") if literal is not None else f"concat('\\\\Q', {arguments[1]}, '\\\\E')"
    return f"get(split(nullif({arguments[0]}, ''), {by}, -1), {arguments[2]})"


def _extracted(arguments: Sequence[str]) -> str:
    """Null where nothing matches, which is an empty text in Spark."""
    group = arguments[2] if len(arguments) > 2 else "0"
    subject, pattern = arguments[:2]
    return f"CASE WHEN {subject} RLIKE {pattern} THEN regexp_extract({subject}, {pattern}, {group}) END"


def _in_unit(name: str) -> Callable[[Sequence[str]], str]:
    def made(arguments: Sequence[str]) -> str:
        return f"{name}({unquote(arguments[0])}, {arguments[1]}, {arguments[2]})"

    return made


def _part(name: str) -> SqlFunction:
    return SqlFunction(1, 1, f"{name}({{0}})", "int")


def _number(template: str, returns: Returns = "double", arity: int = 1) -> SqlFunction:
    return SqlFunction(arity, arity, template, returns, numbers=tuple(range(arity)))


def _text(
    template: Template, least: int, most: int, returns: Returns = "string", texts: tuple[int, ...] = (0,)
) -> SqlFunction:
    return SqlFunction(least, most, template, returns, texts=texts)


MANY: Final = 255
SQL_FUNCTIONS: Final[Mapping[str, SqlFunction]] = MappingProxyType(
    {
        # Choices.
        "COALESCE": SqlFunction(1, MANY, "coalesce({all})", "branches"),
        "IFNULL": SqlFunction(2, 2, "coalesce({all})", "branches"),
        "NULLIF": SqlFunction(2, 2, "nullif({all})", _first),
        "IF": SqlFunction(3, 3, "if({all})", "branches of if"),
        "GREATEST": SqlFunction(1, MANY, lambda a: _unless_null("greatest", a), "branches"),
        "LEAST": SqlFunction(1, MANY, lambda a: _unless_null("least", a), "branches"),
        # Numbers.
        "ABS": _number("abs({0})", _first),
        "MOD": _number("({0} % {1})", _first, 2),
        "ROUND": SqlFunction(1, 2, "round({all})", _rounded, numbers=(0,)),
        "FLOOR": SqlFunction(1, 2, _truncated, _truncated_type),
        "CEIL": _number("ceil({0})", _rounded),
        "CEILING": _number("ceil({0})", _rounded),
        "POWER": _number("power({0}, {1})", "double", 2),
        "SQRT": _number("sqrt({0})"),
        "EXP": _number("exp({0})"),
        "LN": _number("ln({0})"),
        "LOG10": _number("log10({0})"),
        "SIGN": _number("sign({0})"),
        # Texts.
        "UPPER": _text("upper({0})", 1, 1),
        "LOWER": _text("lower({0})", 1, 1),
        "CHAR_LENGTH": _text("char_length({0})", 1, 1, "int"),
        "CHARACTER_LENGTH": _text("char_length({0})", 1, 1, "int"),
        "CONCAT": SqlFunction(1, MANY, "concat({all})", "string"),
        "CONCAT_WS": SqlFunction(2, MANY, "concat_ws({all})", "string", texts=(0,)),
        "REPLACE": _text("replace({all})", 3, 3, texts=(0, 1, 2)),
        "COUNT_CHAR": _text(
            "cast(length({0}) - length(replace({0}, {1}, '')) AS bigint)", 2, 2, "bigint", (0, 1)
        ),
        "REVERSE": _text("reverse({0})", 1, 1),
        "SPLIT_INDEX": _text(_split_index, 3, 3, texts=(0, 1)),
        "REGEXP": _text("({0} RLIKE {1})", 2, 2, "boolean", (0, 1)),
        "REGEXP_EXTRACT": _text(_extracted, 2, 3, texts=(0, 1)),
        "REGEXP_REPLACE": _text(_replaced, 3, 3, texts=(0, 1, 2)),
        "JSON_VALUE": _text("get_json_object({0}, {1})", 2, 2, texts=(0, 1)),
        # Times.
        "DATE_FORMAT": SqlFunction(2, 3, _formatted, "string", texts=(1,)),
        "TO_TIMESTAMP": _text(_to_timestamp, 1, 2, "timestamp", (0, 1)),
        "TO_TIMESTAMP_LTZ": SqlFunction(1, 2, _to_timestamp_ltz, "timestamp", numbers=(0,)),
        "TO_DATE": _text("cast(try_to_timestamp({all}) AS date)", 1, 2, "date", (0, 1)),
        "UNIX_TIMESTAMP": SqlFunction(0, 2, "unix_timestamp({all})", "bigint"),
        "FROM_UNIXTIME": SqlFunction(1, 2, "from_unixtime({all})", "string", numbers=(0,)),
        "TIMESTAMPADD": SqlFunction(3, 3, _in_unit("timestampadd"), "timestamp", numbers=(1,), words=UNITS),
        "TIMESTAMPDIFF": SqlFunction(3, 3, _in_unit("timestampdiff"), "bigint", words=UNITS),
        "NOW": SqlFunction(0, 0, "current_timestamp()", "timestamp"),
        "PROCTIME": SqlFunction(0, 0, "current_timestamp()", "timestamp"),
        "YEAR": _part("year"),
        "QUARTER": _part("quarter"),
        "MONTH": _part("month"),
        "WEEK": _part("weekofyear"),
        "DAYOFYEAR": _part("dayofyear"),
        "DAYOFMONTH": _part("dayofmonth"),
        "DAYOFWEEK": _part("dayofweek"),
        "DAY": _part("day"),
        "HOUR": _part("hour"),
        "MINUTE": _part("minute"),
        "SECOND": _part("second"),
        "CARDINALITY": SqlFunction(1, 1, "cardinality({0})", "int"),
    }
)  # fmt: skip


def _unless_null(name: str, arguments: Sequence[str]) -> str:
    """Null if one of them is null, which Spark passes over."""
    if len(arguments) == 1:
        return arguments[0]
    missing = " OR ".join(f"{each} IS NULL" for each in arguments)
    return f"CASE WHEN NOT ({missing}) THEN {name}({', '.join(arguments)}) END"


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls by name: `own` are names that the file gives to functions, which are those of SQL and of the registry."""

    own: Mapping[str, str | Declared]

    def aggregate(self, name: str) -> AggregateFunction:
        """The aggregate of users' own of a name, whose calls are marked."""
        return aggregate_called(self.own, name)

    def __call__(self, made: Expressions, name: str, values: list[Value], tree: Any) -> Value:
        """The Spark SQL of a call; SqlError for one that is unknown, or has other arguments."""
        known = self.own.get(name, name)
        if not isinstance(known, str):
            return called(made, known, name, values, tree)
        name = known
        function = SQL_FUNCTIONS.get(name)
        if function is None:
            return _registered(made, name, values, tree)
        return checked_call(made, name, function, values, tree)


def checked_call(made: Expressions, name: str, function: SqlFunction, values: list[Value], tree: Any) -> Value:
    """The Spark SQL of a call; SqlError for other arguments than it takes."""
    if not function.least <= len(values) <= function.most:
        wanted = function.least if function.least == function.most else f"{function.least} to {function.most}"
        wanted = f"{function.least} or more" if function.most == MANY else wanted
        raise made.error(
            f"{name} takes {wanted} arguments, not {len(values)}", tree, remedy="see docs/sql.md for its arguments"
        )
    _check(made, name, function, values, tree)
    role = "proctime" if name == "PROCTIME" else ""
    kind = _returned(made, function, values, tree)
    return Value(_operand(function.sql([value.text for value in values])), kind, role)  # type: ignore[arg-type]


def _operand(text: str) -> str:
    return f"({text})" if text.startswith("CASE ") else text


def _check(made: Expressions, name: str, function: SqlFunction, values: list[Value], tree: Any) -> None:
    if function.words and unquote(values[0].text) not in function.words:
        raise made.error(
            f"{name} knows no unit {unquote(values[0].text)!r}", tree, remedy=f"use one of: {', '.join(function.words)}"
        )
    wanted = {**dict.fromkeys(function.texts, "text"), **dict.fromkeys(function.numbers, "number")}
    for place, what in wanted.items():
        kind = values[place].type if place < len(values) else None
        fits = kind is None or kind.name == "void" or (kind.name == "string") == (what == "text")
        if not fits and (what == "text" or kind is None or kind.name in ("string", "boolean", "timestamp", "date")):
            raise made.error(
                f"the argument {place + 1} of {name} is {kind.text.upper() if kind else ''}, no {what}",
                tree,
                remedy=f"CAST(... AS {'STRING' if what == 'text' else 'BIGINT'})",
            )


def _returned(made: Expressions, function: SqlFunction, values: list[Value], tree: Any) -> Type | None:
    kinds = [value.type for value in values]
    if callable(function.returns):
        return function.returns(kinds)
    if function.returns.startswith("branches"):
        return branches_type(made, kinds[1:] if function.returns.endswith("if") else kinds, tree)
    return type_in(function.returns)


def _registered(made: Expressions, name: str, values: list[Value], tree: Any) -> Value:
    try:
        function = function_named(name, len(values))
        if function.family == OWN:
            return called(made, function, name, values, tree)
        text = function.sql(*(value.plain for value in values))
    except UnknownFunctionError as error:
        known = [*SQL_FUNCTIONS, *(each.upper() for each in FUNCTIONS)]
        near = meant(name, get_close_matches(name, known, n=1)) or "docs/sql.md and docs/functions.md list them"
        told = name in known or own_named(name) is not None or name.casefold() in TABLE_FUNCTIONS
        raise made.error(error.what, tree, remedy=error.remedy if told else near) from error
    except SqlError:
        raise
    except TopologyError as error:
        raise made.error(error.what, tree, remedy=error.remedy) from error
    return Value(_operand(text), type_in(function.returns) if function.returns else None)

"""Functions with Flink's meaning; all others come from the registry that scripts share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final

from rs_assets.errors import SqlError, TopologyError
from rs_assets.expressions.functions.literals import unquote
from rs_assets.expressions.functions.registry import (
    FUNCTIONS,
    TABLE_FUNCTIONS,
    UnknownFunctionError,
    function_named,
    udf_named,
)
from rs_assets.expressions.functions.udf import UDF, AggregateFunction, Declared
from rs_assets.records.types import Type, type_in
from rs_assets.sql.expressions.comparing import comparison, is_rounded
from rs_assets.sql.expressions.expressions import Expressions, a_type
from rs_assets.sql.expressions.flink_collections import COLLECTIONS
from rs_assets.sql.expressions.flink_json import JSON_FUNCTIONS, clause
from rs_assets.sql.expressions.flink_json_made import MAKING
from rs_assets.sql.expressions.flink_numbers import NUMBERS
from rs_assets.sql.expressions.flink_texts import TEXTS
from rs_assets.sql.expressions.flink_times import TIMES_OF_FLINK
from rs_assets.sql.expressions.predicates import aligned, branches_type, check_alike
from rs_assets.sql.expressions.sql_function import MANY, SqlFunction, kind_of_first
from rs_assets.sql.expressions.udf import aggregate_called, called
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.read.json_clauses import MARKS
from rs_assets.sql.read.source import nearest
from rs_assets.sql.read.types import is_number, is_time

SQL_FUNCTIONS: Final[Mapping[str, SqlFunction]] = MappingProxyType(
    {
        "COALESCE": SqlFunction(1, MANY, "coalesce({all})", "branches"),
        "IFNULL": SqlFunction(2, 2, "coalesce({all})", "branches"),
        "NULLIF": SqlFunction(2, 2, "nullif({all})", kind_of_first, compares=True),
        "IF": SqlFunction(3, 3, "if({all})", "branches of if"),
        "GREATEST": SqlFunction(1, MANY, lambda values: _unless_null("greatest", values), "branches"),
        "LEAST": SqlFunction(1, MANY, lambda values: _unless_null("least", values), "branches"),
        **NUMBERS,
        **TEXTS,
        **TIMES_OF_FLINK,
        **COLLECTIONS,
        **JSON_FUNCTIONS,
        **MAKING,
    }
)
# Which types an argument may have that must be of a kind, and the cast to one of them.
FITTING: Final[Mapping[str, tuple[Callable[[Type], bool], str]]] = MappingProxyType(
    {
        "text": (lambda kind: kind.name == "string", "STRING"),
        "number": (is_number, "BIGINT"),
        "time": (is_time, "TIMESTAMP"),
    }
)
JSON_PARTS: Final = "JSON_VALUE(text, '$.a.b') gives one value"
IN_GROUPS: Final = "use ARRAY_AGG or LISTAGG, or write the rows of groups to a table, and collect them when reading it"
# Unsupported functions of Flink and their replacements; scripts may have others with these names.
NOT_HERE: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("JSON_QUOTE", "JSON_UNQUOTE", "JSON_LENGTH"), JSON_PARTS),
        **dict.fromkeys(("COLLECT", "JSON_OBJECTAGG", "JSON_ARRAYAGG"), IN_GROUPS),
        **dict.fromkeys(("FIRST_VALUE", "LAST_VALUE"), "it needs OVER here: FIRST_VALUE(x) OVER (ORDER BY ts)"),
        **dict.fromkeys(("PERCENTILE", "APPROX_COUNT_DISTINCT"), "use COUNT(DISTINCT x), AVG or STDDEV_POP"),
        **dict.fromkeys(
            ("GROUPING", "GROUPING_ID", "GROUP_ID"), "write one query for each grouping, and UNION ALL between them"
        ),
        **dict.fromkeys(
            ("RAND", "RAND_INTEGER", "UUID"),
            "a batch that is computed again must give the same rows: use MD5 of columns that identify the row",
        ),
        **dict.fromkeys(("LOCALTIME", "CURRENT_TIME"), "use CURRENT_TIMESTAMP: there are no times without a date"),
        "LOCALTIMESTAMP": "write CURRENT_TIMESTAMP",
        "CURRENT_WATERMARK": "remove it: stateful steps drop and count late rows",
        "CURRENT_DATABASE": "write the name as a text",
        "PRINTF": "CONCAT the parts, with CAST(... AS STRING) and LPAD",
        "ELEMENT": "write array[1]",
        "TYPEOF": "EXPLAIN, or `describe NAME;` at the shell, shows types",
        "OVERLAPS": "write a.begin <= b.end AND b.begin <= a.end",
    }
)  # fmt: skip

# How the keys of lookup joins are written: the columns of the table first, then the value of the stream.
LOOKUP_CALLS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "IP_CONTAINS": "IP_CONTAINS(table.network, stream.ip)",
        "RANGE_CONTAINS": "RANGE_CONTAINS(table.low, table.high, stream.value), or with TRUE for a closed one",
    }
)


def _unless_equal(made: Expressions, value: Value, other: Value) -> str:
    """Null if two numbers are equal, of which Spark would round one."""
    return f"CASE WHEN NOT coalesce({comparison(made, '=', value, other)}, false) THEN {value.text} END"


def _unless_null(name: str, values: Sequence[Value]) -> str:
    """Null if one of them is null; Spark skips nulls."""
    arguments = [value.text for value in values]
    if len(arguments) == 1:
        return arguments[0]
    missing = " OR ".join(f"{each} IS NULL" for each in arguments)
    return f"CASE WHEN NOT ({missing}) THEN {name}({', '.join(arguments)}) END"


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls by name: of `own`, the functions created in the file, of SQL functions, and of the registry."""

    own: Mapping[str, str | Declared]

    def aggregate(self, name: str) -> AggregateFunction:
        """The user-defined aggregate with a name, whose calls are marked."""
        return aggregate_called(self.own, name)

    def __call__(self, made: Expressions, name: str, values: list[Value], tree: Any) -> Value:
        """The Spark SQL of a call; SqlError for an unknown function, or a wrong number of arguments."""
        if name in MARKS:
            return clause(name, values)
        known = self.own.get(name, name)
        if not isinstance(known, str):
            return called(made, known, name, values, tree)
        function = SQL_FUNCTIONS.get(known)
        if function is None and known == name and name in NOT_HERE and udf_named(name) is None:
            raise made.error(f"{name} of Flink is not supported", tree, remedy=NOT_HERE[name])
        if known in LOOKUP_CALLS and udf_named(name) is None:
            raise made.error(
                f"{name} is a key of a lookup join", tree,
                remedy=f"JOIN table FOR SYSTEM_TIME AS OF PROCTIME() ON {LOOKUP_CALLS[known]}",
            )  # fmt: skip
        if function is None:
            return _registered(made, known, values, tree)
        return checked_call(made, known, function, values, tree)


def checked_call(made: Expressions, name: str, function: SqlFunction, values: list[Value], tree: Any) -> Value:
    """The Spark SQL of a call; SqlError for unsuitable arguments."""
    if function.longer is not None and len(values) > function.most:
        function = function.longer
    if not function.least <= len(values) <= function.most:
        wanted = function.least if function.least == function.most else f"{function.least} to {function.most}"
        wanted = f"{function.least} or more" if function.most == MANY else wanted
        raise made.error(
            f"{name} takes {wanted} arguments, not {len(values)}", tree, remedy="see docs/sql.md for its arguments"
        )
    _check(made, name, function, values, tree)
    refusal = function.refuses(values)
    if refusal is not None:
        raise made.error(f"{name}: {refusal[0]}", tree, remedy=refusal[1])
    kind, values = _returned(made, function, values, tree)
    rounded = function.compares and is_rounded(made, *values)
    text = _unless_equal(made, *values) if rounded else function.sql(values)
    if isinstance(text, Value):
        return text
    return Value(_operand(text), kind, "proctime" if name == "PROCTIME" else "")


def _operand(text: str) -> str:
    return f"({text})" if text.startswith("CASE ") else text


def _check(made: Expressions, name: str, function: SqlFunction, values: list[Value], tree: Any) -> None:
    if function.words and unquote(values[0].text) not in function.words:
        raise made.error(
            f"unknown unit {unquote(values[0].text)!r} of {name}",
            tree,
            remedy=f"use one of: {', '.join(function.words)}",
        )
    if function.compares:
        check_alike(made, values[0], values[1], tree)
    places = {"text": function.texts, "number": function.numbers, "time": function.times}
    for what, place in ((what, place) for what, among in places.items() for place in among):
        kind = values[place].type if place < len(values) else None
        if kind is None or kind.name == "void":
            continue
        fits, cast = FITTING[what]
        if not fits(kind):
            raise made.error(
                f"the argument {place + 1} of {name} is {a_type(kind)}, not a {what}",
                tree,
                remedy=f"CAST(... AS {cast})",
            )


def _returned(
    made: Expressions, function: SqlFunction, values: list[Value], tree: Any
) -> tuple[Type | None, list[Value]]:
    """The type of a call, and its arguments; arguments that can be its result are cast to this type."""
    if callable(function.returns):
        return function.returns(values), values
    if not function.returns.startswith("branches"):
        return type_in(function.returns), values
    head = 1 if function.returns.endswith("if") else 0
    kind = branches_type(made, [value.type for value in values[head:]], tree)
    return kind, [*values[:head], *(aligned(made, value, kind) for value in values[head:])]


def _registered(made: Expressions, name: str, values: list[Value], tree: Any) -> Value:
    try:
        function = function_named(name, len(values))
        if function.family == UDF:
            return called(made, function, name, values, tree)
        plain = [value.plain for value in values]
        text, kind = function.sql(*plain), function.type_of(*plain)
    except UnknownFunctionError as error:
        known = [*SQL_FUNCTIONS, *(each.upper() for each in FUNCTIONS)]
        near = (
            nearest(name, get_close_matches(name, known, n=1)) or "docs/sql.md and docs/functions.md list all functions"
        )
        declared = name in known or udf_named(name) is not None or name.casefold() in TABLE_FUNCTIONS
        raise made.error(error.what, tree, remedy=error.remedy if declared else near) from error
    except SqlError:
        raise
    except TopologyError as error:
        raise made.error(error.what, tree, remedy=error.remedy) from error
    return Value(_operand(text), type_in(kind) if kind else None)

"""Functions and operators with Spark's meaning, for statements in Spark's dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final

from rs_assets.expressions.functions.registry import udf_named
from rs_assets.expressions.functions.udf import UDF
from rs_assets.records.types import type_in
from rs_assets.sql.expressions.constants import check_cast
from rs_assets.sql.expressions.expressions import Expressions
from rs_assets.sql.expressions.functions import SQL_FUNCTIONS, Calls, checked_call
from rs_assets.sql.expressions.rules import RULES, arithmetic, one_place
from rs_assets.sql.expressions.sql_function import MANY, Returns, SqlFunction, kind_of_first, numeric, textual
from rs_assets.sql.expressions.udf import called
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.read.source import nearest
from rs_assets.sql.read.types import BOOLEAN, DOUBLE, TEXT, common, is_decimal, is_number, type_of_cast

# Functions of numbers, and their result types.
OF_NUMBERS: Final[Mapping[str, Returns]] = MappingProxyType(
    {
        **dict.fromkeys(("POWER", "SQRT", "EXP", "LN", "LOG10", "SIGN"), "double"),
        "ABS": kind_of_first,
        "ROUND": lambda values: None if is_decimal(values[0].type) else kind_of_first(values),
    }
)
# Functions of texts.
OF_TEXTS: Final = ("UPPER", "LOWER", "REVERSE", "CHAR_LENGTH", "CHARACTER_LENGTH")
# Functions of a time.
PARTS: Final = (
    *("YEAR", "QUARTER", "MONTH", "DAYOFYEAR", "DAYOFMONTH", "DAYOFWEEK", "DAY", "HOUR", "MINUTE", "SECOND"),
)


# The number of arguments of a function, and its result type; empty if only Spark knows it.
PLAIN: Final[Mapping[str, tuple[int, int, Returns]]] = MappingProxyType(
    {
        "COALESCE": (1, MANY, "branches"), "IFNULL": (2, 2, "branches"),
        "IF": (3, 3, "branches of if"), "CONCAT": (1, MANY, "string"), "CONCAT_WS": (2, MANY, "string"),
        "NOW": (0, 0, "timestamp"), "CARDINALITY": (1, 1, "int"), "UNIX_TIMESTAMP": (0, 2, "bigint"),
        "GREATEST": (2, MANY, "branches"), "LEAST": (2, MANY, "branches"), "NVL": (2, 2, "branches"),
        "NVL2": (3, 3, ""), "NANVL": (2, 2, "double"), "ISNULL": (1, 1, "boolean"), "ISNOTNULL": (1, 1, "boolean"),
        "FLOOR": (1, 1, ""), "CEIL": (1, 1, ""), "CEILING": (1, 1, ""), "POW": (2, 2, "double"),
        "CBRT": (1, 1, "double"),
        "PMOD": (2, 2, kind_of_first), "BROUND": (1, 2, ""), "LOG2": (1, 1, "double"), "LOG": (1, 2, "double"),
        "SIN": (1, 1, "double"), "COS": (1, 1, "double"), "TAN": (1, 1, "double"), "ATAN2": (2, 2, "double"),
        "SUBSTRING": (2, 3, "string"), "SUBSTR": (2, 3, "string"), "LEFT": (2, 2, "string"), "RIGHT": (2, 2, "string"),
        "LENGTH": (1, 1, "int"), "LEN": (1, 1, "int"), "LTRIM": (1, 1, "string"), "RTRIM": (1, 1, "string"),
        "LPAD": (2, 3, "string"), "RPAD": (2, 3, "string"), "REPEAT": (2, 2, "string"), "INITCAP": (1, 1, "string"),
        "INSTR": (2, 2, "int"), "LOCATE": (2, 3, "int"), "TRANSLATE": (3, 3, "string"), "ASCII": (1, 1, "int"),
        "SPLIT": (2, 3, "array<string>"), "SPLIT_PART": (3, 3, "string"), "SUBSTRING_INDEX": (3, 3, "string"),
        "REGEXP_EXTRACT": (2, 3, "string"), "REGEXP_REPLACE": (3, 4, "string"), "REGEXP_LIKE": (2, 2, "boolean"),
        "STARTSWITH": (2, 2, "boolean"), "ENDSWITH": (2, 2, "boolean"), "CONTAINS": (2, 2, "boolean"),
        "MD5": (1, 1, "string"), "SHA1": (1, 1, "string"), "SHA2": (2, 2, "string"), "BASE64": (1, 1, "string"),
        "HASH": (1, MANY, "int"), "XXHASH64": (1, MANY, "bigint"), "CRC32": (1, 1, "bigint"),
        "GET_JSON_OBJECT": (2, 2, "string"), "TO_JSON": (1, 1, "string"), "PARSE_URL": (2, 3, "string"),
        "DATE_TRUNC": (2, 2, "timestamp"), "TRUNC": (2, 2, "date"), "DATE_FORMAT": (2, 2, "string"),
        "TO_TIMESTAMP": (1, 2, "timestamp"), "TRY_TO_TIMESTAMP": (1, 2, "timestamp"), "TO_DATE": (1, 2, "date"),
        "DATE_ADD": (2, 2, "date"), "DATE_SUB": (2, 2, "date"), "ADD_MONTHS": (2, 2, "date"),
        "LAST_DAY": (1, 1, "date"),
        "DATEDIFF": (2, 2, "int"), "DATE_DIFF": (2, 2, "int"), "MONTHS_BETWEEN": (2, 3, "double"),
        "WEEKOFYEAR": (1, 1, "int"), "WEEKDAY": (1, 1, "int"), "UNIX_MILLIS": (1, 1, "bigint"),
        "UNIX_SECONDS": (1, 1, "bigint"), "UNIX_MICROS": (1, 1, "bigint"), "TIMESTAMP_MILLIS": (1, 1, "timestamp"),
        "TIMESTAMP_SECONDS": (1, 1, "timestamp"), "TIMESTAMP_MICROS": (1, 1, "timestamp"),
        "CURRENT_TIMESTAMP": (0, 0, "timestamp"), "CURRENT_DATE": (0, 0, "date"),
        "SIZE": (1, 1, "int"), "ARRAY_CONTAINS": (2, 2, "boolean"), "ELEMENT_AT": (2, 2, ""),
        "TRY_ELEMENT_AT": (2, 2, ""),
        "ARRAY_JOIN": (2, 3, "string"), "SORT_ARRAY": (1, 2, kind_of_first), "ARRAY_DISTINCT": (1, 1, kind_of_first),
    }
)  # fmt: skip
# Spark functions that are written as other syntax here.
ELSEWHERE: Final = MappingProxyType(
    {
        "EXPLODE": "FROM t LATERAL VIEW explode(tags) x AS tag",
        "POSEXPLODE": "FROM t LATERAL VIEW explode(tags) x AS tag",
        "COLLECT_LIST": "write the rows of groups to a table, and collect them when you read it",
        "COLLECT_SET": "write the rows of groups to a table, and collect them when you read it",
    }
)
SPARK_FUNCTIONS: Final[Mapping[str, SqlFunction]] = MappingProxyType(
    {
        **{
            name: SqlFunction(1, 2 if name == "ROUND" else 1, f"{name.lower()}({{all}})", returns, numbers=(0,))
            for name, returns in OF_NUMBERS.items()
        },
        "NULLIF": SQL_FUNCTIONS["NULLIF"],
        "POWER": numeric("power({0}, {1})", arity=2),
        "MOD": numeric("({0} % {1})", kind_of_first, 2),
        **{
            name: textual(f"{name.lower()}({{0}})", 1, 1, "int" if name.endswith("LENGTH") else "string")
            for name in OF_TEXTS
        },
        "REPLACE": textual("replace({all})", 3, 3, texts=(0, 1, 2)),
        **{name: SqlFunction(1, 1, f"{name.lower()}({{0}})", "int") for name in PARTS},
        "FROM_UNIXTIME": SqlFunction(1, 2, "from_unixtime({all})", "string", numbers=(0,)),
        **{
            name: SqlFunction(least, most, f"{name.lower()}({{all}})", returns)
            for name, (least, most, returns) in PLAIN.items()
        },
    }
)


@dataclass(frozen=True, slots=True)
class SparkCalls(Calls):
    """Calls of Spark's functions and of user-defined functions by name."""

    def __call__(self, made: Expressions, name: str, values: list[Value], tree: Any) -> Value:
        """The Spark SQL of a call; SqlError for an unknown function, or a wrong number of arguments."""
        known = self.own.get(name) or udf_named(name)
        if known is not None and not isinstance(known, str) and getattr(known, "family", UDF) == UDF:
            return called(made, known, name, values, tree)
        function = SPARK_FUNCTIONS.get(name)
        if function is None:
            raise made.error(
                f"there is no function {name!r} in statements of Spark", tree,
                remedy=ELSEWHERE.get(name) or nearest(name, get_close_matches(name, SPARK_FUNCTIONS, n=1))
                or "docs/sql.md lists them",
            )  # fmt: skip
        return checked_call(made, name, function, values, tree)


def _divided(made: Expressions, tree: Any) -> Value:
    """A DOUBLE for whole numbers; for decimals only Spark knows the digits."""
    left, right = made.value(tree.this), made.value(tree.expression)
    for value, part in ((left, tree.this), (right, tree.expression)):
        if value.type is not None and not is_number(value.type):
            raise made.error(f"{made.shown(part)} is {value.type.text.upper()}, not a number", part, remedy="CAST it")
    known = left.type is not None and right.type is not None and not (is_decimal(left.type) or is_decimal(right.type))
    return Value(f"({left.text} / {right.text})", DOUBLE if known else None)


def _plainly(sign: str, left: Value, right: Value) -> Value:
    """Two numbers unchanged: Spark makes a DOUBLE of a FLOAT and a whole number, and decides the digits of decimals."""
    known = not (is_decimal(left.type) or is_decimal(right.type))
    kind = common(left.type, right.type) if known else None
    kind = DOUBLE if kind is not None and kind.name == "float" and left.type != right.type else kind
    return Value(f"({left.text} {sign} {right.text})", kind)


def _cast(function: str) -> Callable[[Expressions, Any], Value]:
    def rule(made: Expressions, tree: Any) -> Value:
        value, kind = made.value(tree.this), type_of_cast(made.text, tree.to, tree)
        if function == "cast":
            check_cast(made, value, tree, kind)
        return Value(f"{function}({value.plain} AS {kind.text})", kind, value.role if value.type == kind else "")

    return rule


def _element(made: Expressions, tree: Any) -> Value:
    """An element of an array, counted from 0, or of a map by its key."""
    value, place = made.value(tree.this), made.value(one_place(made, tree))
    kind = value.type
    of = dict(kind.parts).get("element" if kind.name == "array" else "value") if kind is not None else None
    return Value(f"{value.text}[{place.plain}]", of)


def _extract(made: Expressions, tree: Any) -> Value:
    unit = tree.this.name.upper()
    kind = type_in("decimal(8,6)") if unit in ("SECOND", "SECONDS") else type_in("int")
    return Value(f"extract({unit} FROM {made.value(tree.expression).plain})", kind)


def _compared(sign: str) -> Callable[[Expressions, Any], Value]:
    def rule(made: Expressions, tree: Any) -> Value:
        return Value(f"({made.value(tree.this).text} {sign} {made.value(tree.expression).text})", BOOLEAN)

    return rule


def _joined(made: Expressions, tree: Any) -> Value:
    return Value(f"({made.value(tree.this).text} || {made.value(tree.expression).text})", TEXT)


SPARK_RULES: Final[Mapping[str, Callable[[Expressions, Any], Value]]] = MappingProxyType(
    {
        **RULES,
        **{name: arithmetic(sign, _plainly) for name, sign in {"add": "+", "sub": "-", "mul": "*", "mod": "%"}.items()},
        "div": _divided,
        "cast": _cast("cast"),
        "trycast": _cast("try_cast"),
        "bracket": _element,
        "nullsafeeq": _compared("<=>"),
        "regexplike": _compared("RLIKE"),
        "like": _compared("LIKE"),
        "ilike": _compared("ILIKE"),
        "dpipe": _joined,
        "extract": _extract,
    }
)

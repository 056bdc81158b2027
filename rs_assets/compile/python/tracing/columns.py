"""Converts traced expressions to Spark Columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from pyspark.sql import Column
from pyspark.sql import functions as F

from rs_assets.compile.python.tracing.expression import WHOLE, Expression, Field, Literal, literal
from rs_assets.compile.python.tracing.tree import Leaf, Tree
from rs_assets.records.schema import quoted

# None of them raises, whatever the values: Spark may compute each for any record.
OPERATIONS: Mapping[str, Callable[..., Column]] = MappingProxyType(
    {
        "is_null": F.isnull,
        "is_nan": F.isnan,
        "not": lambda a: ~a,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "=": lambda a, b: a == b,
        "<": lambda a, b: a < b,
        "<=": lambda a, b: a <= b,
        ">": lambda a, b: a > b,
        ">=": lambda a, b: a >= b,
        "between": lambda a, least, most: (a >= least) & (a <= most),
        "in": lambda a, *members: a.isin(*members),
        "contains": lambda a, part: a.contains(part),
        "starts": lambda a, start: a.startswith(start),
        "ends": lambda a, end: a.endswith(end),
        "concat": F.concat,
        "lower": F.lower,
        "upper": F.upper,
        "octets": lambda a: F.octet_length(a).cast("bigint"),
        "length": lambda a: F.char_length(a).cast("bigint"),
        "trim": F.btrim,
        "trim_start": lambda a, chars: F.call_function("ltrim", chars, a),
        "trim_end": lambda a, chars: F.call_function("rtrim", chars, a),
        "replace": F.replace,
        "substring": lambda a, start, length: F.substring(a, start.cast("int"), length.cast("int")),
        "+": F.try_add,
        "-": F.try_subtract,
        "*": F.try_multiply,
        "pmod": F.pmod,
        "div": lambda a, b: F.call_function("div", a, b),
        "double": lambda a: a.cast("double"),
        "double +": F.try_add,
        "double -": F.try_subtract,
        "double *": F.try_multiply,
        "double /": F.try_divide,
        "negative": F.negative,
        "abs": F.abs,
        "days": F.unix_date,
        "micros": F.unix_micros,
        **{kind: lambda a, kind=kind: a.try_cast(kind) for kind in WHOLE},
    }
)


class Columns:
    """Converts each expression once."""

    def __init__(self) -> None:
        self._made: dict[Expression, Column] = {}

    def of(self, expression: Expression) -> Column:
        """`expression` as a Column over the fields of a frame."""
        if expression not in self._made:
            self._made[expression] = self._column(expression)
        return self._made[expression]

    def _column(self, expression: Expression) -> Column:
        if isinstance(expression, Field):
            return F.col(quoted(expression.name))
        if isinstance(expression, Literal):
            return F.lit(expression.value).cast(expression.kind)
        return OPERATIONS[expression.operation](*map(self.of, expression.parts))

    def case(self, tree: Tree, place: int, kind: str) -> Column:
        """The value number `place`, of type `kind`, of the result; null where there is none.

        Each condition is computed only if the ones before it allow it.
        """
        if isinstance(tree, Leaf):
            return self.of(tree.values[place] if tree.values else literal(kind, None))
        yes, no = self.case(tree.yes, place, kind), self.case(tree.no, place, kind)
        return F.when(self.of(tree.condition), yes).otherwise(no)

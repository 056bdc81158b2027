"""User-defined aggregates in SQL or as a Column: their rules, and the fields that they read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rs_assets.compile.step import as_column
from rs_assets.errors import TopologyError, UnknownFieldError
from rs_assets.records.columns import EVENT_TIME, PREFIX, visible
from rs_assets.records.schema import quoted
from rs_assets.topology.nodes.window import WindowAggregate
from rs_assets.topology.user_code.expression import ColumnBuilder, SqlText

# Aggregates that depend on the order of rows, by Spark's class, with one to use instead.
BY_ORDER: Final = {
    "First": "min_by(x, struct(ts, x))",
    "Last": "max_by(x, struct(ts, x))",
    "AnyValue": "min(x)",
    "CollectList": "sort_array(collect_list(x))",
    "CollectSet": "sort_array(collect_set(x))",
    "ListAgg": "array_join(sort_array(collect_list(x)), ',')",
}
# Functions above them that remove the dependence: they sort the values, or count them.
ORDERLESS: Final = frozenset({"SortArray", "Size"})
# Aggregates that choose among rows by an order, in which rows may be equal.
CHOOSING: Final = frozenset({"MaxBy", "MinBy", "MaxMinByK"})


def fields_of_own(df: DataFrame, node: WindowAggregate) -> list[str]:
    """The fields of `df` that user-defined aggregates read.

    TopologyError for an expression that is not an aggregate, whose result depends on the order of rows or on the clock,
    or that Spark cannot compute in a stream.
    """
    return list(dict.fromkeys(field for name, made in node.own for field in _Own(df, node, name, made).fields()))


class _Own:
    """One aggregate over the rows of `df`, as Spark analyses it."""

    def __init__(self, df: DataFrame, node: WindowAggregate, name: str, made: SqlText | ColumnBuilder) -> None:
        self._node, self._name = node, name
        self._known = visible(df.columns)
        # A hidden column represents all hidden ones: an aggregate of `*` would include it.
        rows = df.select(*(F.col(quoted(field)) for field in self._known), F.lit(None).alias(EVENT_TIME))
        jvm: Any = df.sparkSession._jvm  # noqa: SLF001  pyspark has no public way to Spark's plans
        self._patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
        keys = [F.col(quoted(field)) for field in node.group_by if field in self._known]
        try:
            column = as_column(made).alias(name)
            self._plan: Any = rows.groupBy(*keys).agg(column)._jdf.queryExecution().analyzed()  # noqa: SLF001
        except AnalysisException as error:
            raise self._of_spark(error) from error

    def fields(self) -> list[str]:
        """The fields that it reads, once it has passed the checks."""
        if self._plan.nodeName() != "Aggregate":
            raise self._refused("is not an aggregate: it makes rows", "compute an array, and unfold it with flat_map")
        own = _items(self._plan.aggregateExpressions())[-1]
        self._check(own)
        names = [attribute.name() for attribute in _items(own.references().toSeq())]
        if any(name.startswith(PREFIX) for name in names):
            raise self._refused("uses '*'", "name the fields one by one")
        return names

    def _check(self, own: Any) -> None:
        found = [(node, above) for node, above in _walk(own, "") if node.nodeName() == "AggregateExpression"]
        if not found:
            raise self._refused("is not an aggregate", "use a function of all rows, such as 'sum(ms * 2)' or 'max(ms)'")
        if own.containsPattern(self._patterns.CURRENT_LIKE()):
            raise self._refused(
                "reads the clock, so that its value depends on when a batch runs", "compare event times"
            )
        for aggregate, above in found:
            self._check_function(aggregate, aggregate.aggregateFunction(), above)

    def _check_function(self, aggregate: Any, function: Any, above: str) -> None:
        kind = str(function.nodeName())
        if "Python" in kind:
            raise self._refused("calls a Python function of all rows, which Spark cannot do in a stream", "use SQL")
        if aggregate.isDistinct():
            raise self._refused(
                "is over distinct values, which Spark cannot do in a stream",
                "use .count_distinct(field), or an aggregate of .distinct(field) in a step after the window",
            )
        if kind in BY_ORDER and above not in ORDERLESS and not self._ordered(kind):
            raise self._refused("depends on the order in which rows come", f"write {BY_ORDER[kind]}")
        if kind == "Mode" and function.reverseOpt().isEmpty():
            raise self._refused("gives any of the values that are equally frequent", "write mode(x, true)")
        if kind in CHOOSING and not _decided(function):
            raise self._refused(
                "gives any of the rows that are equal in the order",
                "include the chosen value in the order: max_by(x, struct(ms, x))",
            )

    def _ordered(self, kind: str) -> bool:
        """Whether the order of rows matters: a set has none in any case."""
        return bool(self._node.window.keep) and kind != "CollectSet"

    def _of_spark(self, error: AnalysisException) -> TopologyError:
        parameters = error.getMessageParameters() or {}
        if (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
            missing = parameters.get("objectName", "?").strip("`")
            return UnknownFieldError(missing, step=self._node.name, known=tuple(self._known))
        return self._refused(
            f"is not accepted by Spark: {str(error).strip().splitlines()[0]}",
            "put each field that is not grouped by into an aggregate function",
        )

    def _refused(self, why: str, remedy: str) -> TopologyError:
        return TopologyError(
            f"the aggregate {self._name!r} of step {self._node.name!r} {why}", remedy=remedy, step=self._node.name
        )


def _decided(choosing: Any) -> bool:
    """Whether rows that are equal in the order are equal in the chosen value."""
    chosen, order = _items(choosing.children())[:2]
    told = [order, *_items(order.children())]

    def is_told(expression: Any) -> bool:
        return any(each.semanticEquals(expression) for each in told)

    return is_told(chosen) or all(map(is_told, _items(chosen.references().toSeq())))


def _walk(expression: Any, above: str) -> Iterator[tuple[Any, str]]:
    """An expression of Spark's and all its children, each with the kind of its parent."""
    yield expression, above
    for child in _items(expression.children()):
        yield from _walk(child, str(expression.nodeName()))


def _items(seq: Any) -> list[Any]:
    """The items of a Scala sequence."""
    return [seq.apply(n) for n in range(seq.length())]

"""Diamond-shaped topologies in a streaming query: each record goes through all branches in turn, in one frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.common.node import Node
from rs_assets.compile.planner.context import Flow
from rs_assets.compile.step import check_united, condition_column, field_column
from rs_assets.errors import TopologyError
from rs_assets.operators.parts import rows_of_parts
from rs_assets.records.columns import LABEL, PREFIX, hidden, visible
from rs_assets.records.schema import quoted
from rs_assets.topology.nodes import step as nodes
from rs_assets.topology.nodes.shuffle import Shuffle
from rs_assets.topology.rejoin import Fork, Rejoin

# The record where the branches part, whether it is still in the branch, and the results of the branches.
KEPT, ALIVE, MADE = f"{PREFIX}kept", f"{PREFIX}alive", f"{PREFIX}made"


def compile_rejoin(node: Node, rejoin: Rejoin, flows: Mapping[str, Flow], known: Mapping[str, Node]) -> Flow:
    """The rows of all branches and those of other inputs, as `compile_union` would produce them."""
    check_united(node, tuple(flows[name] for name in node.inputs))
    parts = (_united(flows, fork, known) for fork in (*rejoin.forks, *rejoin.others))
    return Flow(reduce(DataFrame.unionByName, parts))


def _united(flows: Mapping[str, Flow], fork: Fork, known: Mapping[str, Node]) -> DataFrame:
    """The rows of all branches."""
    if fork.branches == ((),):
        return flows[fork.part].df
    frame, made = through_branches(flows, fork, known)
    return rows_of_parts(frame, made)


def through_branches(flows: Mapping[str, Flow], fork: Fork, known: Mapping[str, Node]) -> tuple[DataFrame, list[str]]:
    """Each record in KEPT, and the columns with each branch's result, null if the branch dropped it."""
    start = flows[fork.part].df
    frame = start.select(F.struct(*(F.col(quoted(name)) for name in start.columns)).alias(KEPT))
    made: list[str] = []
    for number, branch in enumerate(fork.branches):
        rows = frame.select("*", F.col(f"{KEPT}.*"), F.lit(True).alias(ALIVE))  # noqa: FBT003  Spark's form of a literal
        for name in branch:
            rows = SOFT[type(known[name])](rows, known[name])
        made.append(f"{MADE}_{number}")
        frame = rows.select(KEPT, *made[:-1], F.when(F.col(ALIVE), F.struct(*_fields(rows))).alias(made[-1]))
    return frame, made


def _fields(rows: DataFrame) -> list[Column]:
    """The fields of a branch's record, in an order that all branches share."""
    own = [name for name in hidden(rows.columns) if name not in {KEPT, ALIVE} and not name.startswith(MADE)]
    return [F.col(quoted(name)) for name in sorted([*visible(rows.columns), *own])]


def _hidden(rows: DataFrame) -> list[Column]:
    return [F.col(name) for name in hidden(rows.columns)]


def _if_alive(expression: Column) -> Column:
    """Null for a record that has left the branch: a filter may protect the expression from such records."""
    return F.when(F.col(ALIVE), expression)


def _own(rows: DataFrame, node: Node, expression: Column) -> Column:
    """`expression`, if it names its fields and is computed in the JVM; else filters could not protect it.

    The star of a Column would include our own columns, and Spark calls Python functions before it evaluates conditions.
    """
    plan = rows.select(expression)._jdf.queryExecution().analyzed()  # noqa: SLF001  there is no public way
    names = plan.references().toSeq().mkString("\n").split("\n")
    stars = any(name.split("#")[0] in {KEPT, ALIVE} for name in names)
    jvm: Any = rows.sparkSession._jvm  # noqa: SLF001  nor here
    # Not those of Python steps upstream, which the plan has, too.
    own, calls = plan.expressions(), jvm.org.apache.spark.sql.catalyst.trees.TreePattern.PYTHON_UDF()
    if stars or any(own.apply(number).containsPattern(calls) for number in range(own.size())):
        what = "uses '*'" if stars else "calls a Python function in a Column"
        raise TopologyError(
            f"step {node.name!r} {what}, in a branch that meets others again before a stateful step",
            remedy="name the fields one by one" if stars else "put .shuffle(n, strategy='delta') after the union",
            step=node.name,
        )
    return expression


def _staying(rows: DataFrame, condition: Column) -> DataFrame:
    return rows.withColumn(ALIVE, F.coalesce(_if_alive(condition), F.lit(False)))  # noqa: FBT003  a literal


def _filter(rows: DataFrame, node: nodes.Filter) -> DataFrame:
    return _staying(rows, _own(rows, node, condition_column(node, rows)))


def _split(rows: DataFrame, node: nodes.Split) -> DataFrame:
    return rows.withColumn(LABEL, _if_alive(_own(rows, node, field_column(node.label, rows)).cast("string")))


def _select(rows: DataFrame, node: nodes.Select) -> DataFrame:
    return _staying(rows, F.col(LABEL) == node.label).drop(LABEL)


def _with_fields(rows: DataFrame, node: nodes.WithFields) -> DataFrame:
    return rows.withColumns({name: _if_alive(_own(rows, node, field_column(e, rows))) for name, e in node.columns})


def _select_fields(rows: DataFrame, node: nodes.SelectFields) -> DataFrame:
    return rows.select(*(F.col(quoted(name)) for name in node.fields), *_hidden(rows))


def _map(rows: DataFrame, node: nodes.Map) -> DataFrame:
    columns: list[Column] = []
    for each in (field_column(e, rows) for e in node.select):
        names = rows.select(each).columns
        if len(names) > 1:
            raise TopologyError(
                f"step {node.name!r} gives several fields by one expression, in a branch that meets others again",
                remedy="list the fields one by one",
                step=node.name,
            )
        columns.append(_if_alive(_own(rows, node, each)).alias(names[0]))
    return rows.select(*columns, *_hidden(rows))


def _as_it_is(rows: DataFrame, _node: Node) -> DataFrame:
    return rows


# How each step changes the records of one branch and leaves those of others alone.
SOFT: Final[Mapping[type[Node], Callable[[DataFrame, Any], DataFrame]]] = {
    nodes.Filter: _filter,
    nodes.Map: _map,
    nodes.Select: _select,
    nodes.SelectFields: _select_fields,
    nodes.Split: _split,
    nodes.Union: _as_it_is,
    nodes.WithFields: _with_fields,
    Shuffle: _as_it_is,
}

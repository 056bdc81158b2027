"""Stateless steps: SQL and Columns stay in the JVM, Python functions wait to be fused."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.engine.source.columns import LABEL, hidden, visible
from rs_assets.engine.window.aggregate import check_fields
from rs_assets.errors import TopologyError
from rs_assets.pipeline.compile.python_step import python_step
from rs_assets.pipeline.compile.wiring import Flow, Wiring, parse_ddl
from rs_assets.pipeline.topology import step as nodes
from rs_assets.pipeline.topology.expression import ColumnBuilder, PythonFunction, SqlText

Inputs = tuple[Flow, ...]


def compile_map(wiring: Wiring, node: nodes.Map, inputs: Inputs) -> Flow:
    """A select list, or a Python function."""
    if node.function is not None:
        schema = parse_ddl(wiring.spark, node.function.schema or "", step=node.name)
        return inputs[0].then(python_step("map", node.name, node.function.call, schema), wiring)
    df = inputs[0].df
    return Flow(df.select(*(as_column(e) for e in node.select), *_hidden(df)))


def compile_flat_map(wiring: Wiring, node: nodes.FlatMap, inputs: Inputs) -> Flow:
    """A generator, or a Python function."""
    if isinstance(node.expression, PythonFunction):
        schema = parse_ddl(wiring.spark, node.expression.schema or "", step=node.name)
        return inputs[0].then(python_step("flat_map", node.name, node.expression.call, schema), wiring)
    df = inputs[0].df
    return Flow(df.select(as_column(node.expression), *_hidden(df)))


def compile_filter(wiring: Wiring, node: nodes.Filter, inputs: Inputs) -> Flow:
    """A condition in the JVM, or a Python function."""
    if isinstance(node.condition, PythonFunction):
        return inputs[0].then(python_step("filter", node.name, node.condition.call), wiring)
    return Flow(inputs[0].df.filter(as_column(node.condition)))


def compile_for_each(wiring: Wiring, node: nodes.ForEach, inputs: Inputs) -> Flow:
    """A side effect in a Python worker."""
    return inputs[0].then(python_step("for_each", node.name, node.function.call), wiring)


def compile_select_fields(wiring: Wiring, node: nodes.SelectFields, inputs: Inputs) -> Flow:  # noqa: ARG001
    """Some of the fields."""
    df = inputs[0].df
    check_fields(df, node.fields, step=node.name)
    return Flow(df.select(*(F.col(f"`{name}`") for name in node.fields), *_hidden(df)))


def compile_with_fields(wiring: Wiring, node: nodes.WithFields, inputs: Inputs) -> Flow:  # noqa: ARG001
    """New fields beside the old ones."""
    return Flow(inputs[0].df.withColumns({name: as_column(e) for name, e in node.columns}))


def compile_union(wiring: Wiring, node: nodes.Union, inputs: Inputs) -> Flow:  # noqa: ARG001  the table's form
    """Several streams of the same fields, matched by name."""
    frames = [flow.df for flow in inputs]
    fields = [sorted(visible(frame.columns)) for frame in frames]
    if any(names != fields[0] for names in fields):
        raise TopologyError(
            f"union {node.name!r} joins streams of different fields: {' / '.join(', '.join(n) for n in fields)}",
            remedy="bring them to the same fields with select_fields or map",
            step=node.name,
        )
    _check_types(node, inputs)
    return Flow(reduce(DataFrame.unionByName, frames))


def _check_types(node: nodes.Union, inputs: Inputs) -> None:
    """Refuse fields of different types: Spark would cast one of them, with digits lost or an error by the record."""
    kinds = [{f.name: f.dataType.simpleString() for f in flow.df.schema.fields} for flow in inputs]
    for name in visible(list(kinds[0])):
        for number, other in enumerate(kinds[1:], start=1):
            if other[name] != kinds[0][name]:
                raise TopologyError(
                    f"union {node.name!r}: {name!r} is a {kinds[0][name]} behind {node.inputs[0]!r}"
                    f" and a {other[name]} behind {node.inputs[number]!r}",
                    remedy=f"cast one of them before: .with_fields({name}='cast({name} as {kinds[0][name]})')",
                    step=node.name,
                )


def compile_split(wiring: Wiring, node: nodes.Split, inputs: Inputs) -> Flow:
    """A hidden label on each row."""
    if isinstance(node.label, PythonFunction):
        return inputs[0].then(python_step("label", node.name, node.label.call), wiring)
    return Flow(inputs[0].df.withColumn(LABEL, as_column(node.label).cast("string")))


def compile_select(wiring: Wiring, node: nodes.Select, inputs: Inputs) -> Flow:  # noqa: ARG001  the table's form
    """The rows of one label."""
    return Flow(inputs[0].df.filter(F.col(LABEL) == node.label).drop(LABEL))


def as_column(expression: SqlText | ColumnBuilder | PythonFunction) -> Column:
    """A native expression as a Column."""
    match expression:
        case SqlText(text):
            return F.expr(text)
        case ColumnBuilder(build):
            return build()
    raise TypeError(f"{expression!r} is no native expression")


def _hidden(df: DataFrame) -> list[Column]:
    return [F.col(name) for name in hidden(df.columns)]

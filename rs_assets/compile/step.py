"""Stateless steps: SQL and Columns stay in the JVM, Python functions wait to be fused."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.common.node import Node
from rs_assets.compile.planner.context import CompileContext, Flow, guarded, parse_ddl
from rs_assets.compile.python.batch_step import apply_to_batches
from rs_assets.compile.python.python_step import python_step
from rs_assets.compile.python.traced_step import traced_label, traced_map, without_dropped
from rs_assets.compile.python.tracing.traced import trace_filter, trace_flat_map
from rs_assets.compile.python.udf import know_functions
from rs_assets.expressions.condition.bind import condition_sql
from rs_assets.records.columns import LABEL, REASON, check_fields, hidden, visible
from rs_assets.records.schema import quoted
from rs_assets.topology.check.united import check_kinds
from rs_assets.topology.nodes import step as nodes
from rs_assets.topology.user_code.expression import ColumnBuilder, ConditionText, Expression, PythonFunction, SqlText
from rs_assets.topology.user_code.quoting import without

Inputs = tuple[Flow, ...]


def compile_map(context: CompileContext, node: nodes.Map, inputs: Inputs) -> Flow:
    """A select list, or a Python function."""
    if node.function is not None:
        schema = parse_ddl(context.spark, node.function.schema or "", step=node.name)
        step = python_step("map", node.name, node.function.call, schema)
        return traced_map(context, node.function, step, inputs[0]) or inputs[0].then(step, context)
    df = inputs[0].df
    return Flow(df.select(*(field_column(e, df) for e in node.select), *_hidden(df)))


def compile_map_batches(context: CompileContext, node: nodes.MapBatches, inputs: Inputs) -> Flow:
    """A Python function of Arrow batches, which is a pass of its own."""
    df = inputs[0].df
    check_fields(df, node.fields, step=node.name)
    schema = parse_ddl(context.spark, node.function.schema or "", step=node.name)
    made = apply_to_batches(
        df, node.function.call, node.fields, schema, step=node.name, quarantines=context.quarantines
    )
    return Flow(guarded(context, made, step=node.name) if context.quarantines else made)


def compile_flat_map(context: CompileContext, node: nodes.FlatMap, inputs: Inputs) -> Flow:
    """A generator, or a Python function."""
    if isinstance(node.expression, PythonFunction):
        schema = parse_ddl(context.spark, node.expression.schema or "", step=node.name)
        left, _ = without_dropped(context, node.name, node.expression, inputs[0], trace_flat_map)
        return left.then(python_step("flat_map", node.name, node.expression.call, schema), context)
    df = inputs[0].df
    return Flow(df.select(field_column(node.expression, df), *_hidden(df)))


def compile_filter(context: CompileContext, node: nodes.Filter, inputs: Inputs) -> Flow:
    """A condition in the JVM, or a Python function."""
    if isinstance(node.condition, PythonFunction):
        left, whole = without_dropped(context, node.name, node.condition, inputs[0], trace_filter)
        if whole:
            return left
        located = context.streaming and node.name in context.located
        return left.then(python_step("filter", node.name, node.condition.call, located=located), context)
    return Flow(inputs[0].df.filter(condition_column(node, inputs[0].df)))


def compile_expect(context: CompileContext, node: nodes.Expect, inputs: Inputs) -> Flow:
    """Rows for which a condition is not true are counted, and treated by the policy; null is not true."""
    df = inputs[0].df
    met = F.coalesce(field_column(node.condition, df), F.lit(False))  # noqa: FBT003  a literal
    judged = df.withColumn(REASON, F.when(~met, F.lit(f"expected {node.said}")))
    return Flow(context.record_filter.expect(judged, step=node.name, on_fail=node.on_fail))


def condition_column(node: nodes.Filter, df: DataFrame) -> Column:
    """The condition of a filter over the fields of `df`."""
    if isinstance(node.condition, ConditionText):
        made = condition_sql(node.condition.text, field_types(df), step=node.name)
        know_functions(df.sparkSession)
        return F.expr(made)
    return field_column(node.condition, df)


def field_types(df: DataFrame) -> dict[str, str | None]:
    """The visible fields of a frame, with their types as Spark names them."""
    shown = set(visible(df.columns))
    return {each.name: each.dataType.simpleString() for each in df.schema.fields if each.name in shown}


def compile_for_each(context: CompileContext, node: nodes.ForEach, inputs: Inputs) -> Flow:
    """A side effect in a Python worker, in one of the queries that have the step."""
    if node.name in context.called:
        return inputs[0]
    return inputs[0].then(python_step("for_each", node.name, node.function.call), context)


def compile_select_fields(_context: CompileContext, node: nodes.SelectFields, inputs: Inputs) -> Flow:
    """Some of the fields."""
    df = inputs[0].df
    check_fields(df, node.fields, step=node.name)
    return Flow(df.select(*(F.col(quoted(name)) for name in node.fields), *_hidden(df)))


def compile_with_fields(_context: CompileContext, node: nodes.WithFields, inputs: Inputs) -> Flow:
    """New fields in addition to the old ones."""
    df = inputs[0].df
    return Flow(df.withColumns({name: field_column(e, df) for name, e in node.columns}))


def compile_union(_context: CompileContext, node: nodes.Union, inputs: Inputs) -> Flow:
    """Several streams of the same fields, matched by name."""
    check_united(node, inputs)
    return Flow(reduce(DataFrame.unionByName, [flow.df for flow in inputs]))


def check_united(node: Node, inputs: Inputs) -> None:
    """TopologyError if streams have different fields, by name or by type."""
    kinds = [{f.name: f.dataType.simpleString() for f in flow.df.schema.fields} for flow in inputs]
    shown = [{name: its[name] for name in visible(list(its))} for its in kinds]
    check_kinds(node.name, list(zip(node.inputs, shown, strict=True)))


def compile_split(context: CompileContext, node: nodes.Split, inputs: Inputs) -> Flow:
    """A hidden label on each row."""
    if isinstance(node.label, PythonFunction):
        made = traced_label(context, node.name, node.label, inputs[0])
        return made or inputs[0].then(python_step("label", node.name, node.label.call), context)
    df = inputs[0].df
    return Flow(df.withColumn(LABEL, field_column(node.label, df).cast("string")))


def compile_select(_context: CompileContext, node: nodes.Select, inputs: Inputs) -> Flow:
    """The rows of one label."""
    return Flow(inputs[0].df.filter(F.col(LABEL) == node.label).drop(LABEL))


def as_column(expression: Expression) -> Column:
    """A native expression as a Column."""
    match expression:
        case SqlText(text):
            return F.expr(text)
        case ColumnBuilder():
            return expression.column()
    raise TypeError(f"{expression!r} is not a native expression")


def native_column(expression: Expression, inner: Sequence[str]) -> Column:
    """A native expression; a star in SQL stands for all fields but `inner` ones."""
    return F.expr(without(expression.text, inner)) if isinstance(expression, SqlText) else as_column(expression)


def field_column(expression: Expression, df: DataFrame) -> Column:
    """A native expression over the fields of `df`; a star in SQL stands for the visible ones."""
    return native_column(expression, hidden(df.columns))


def _hidden(df: DataFrame) -> list[Column]:
    return [F.col(name) for name in hidden(df.columns)]

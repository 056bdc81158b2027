"""Compiles scripts, once the fields of the frame are known: to Spark SQL alone, without a Python worker."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.compile.planner.context import CompileContext, Flow
from rs_assets.compile.python.udf import know_functions
from rs_assets.compile.step import Inputs, field_types
from rs_assets.expressions.script.bind import bound_script
from rs_assets.expressions.script.steps import Drop, Fill, Generate, Keep, Project, Step
from rs_assets.records.columns import hidden
from rs_assets.records.schema import quoted
from rs_assets.topology.nodes import step as nodes


def compile_script(context: CompileContext, node: nodes.Script, inputs: Inputs) -> Flow:
    """The steps of a script, one after the other."""
    df = inputs[0].df
    bound = bound_script(node.text, field_types(df), step=node.name, zone=node.zone, strict=node.strict)
    know_functions(context.spark)
    return Flow(reduce(applied, bound.steps, df))


def applied(df: DataFrame, step: Step) -> DataFrame:
    """The frame after a step of a script; hidden columns stay."""
    match step:
        case Fill(columns):
            return df.withColumns({name: F.expr(sql) for name, sql in columns})
        case Keep(condition):
            return df.filter(condition)
        case Project(columns):
            return df.select(*(F.expr(sql).alias(name) for sql, name in columns), *_hidden(df))
        case Generate(kept, generator):
            return df.select(*(F.col(quoted(name)) for name in kept), F.expr(generator), *_hidden(df))
        case Drop(columns):
            return df.drop(*columns)


def _hidden(df: DataFrame) -> list[Column]:
    return [F.col(name) for name in hidden(df.columns)]

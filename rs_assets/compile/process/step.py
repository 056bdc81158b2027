"""The steps of a Python function or processor with state, and of its outputs."""

from __future__ import annotations

from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rs_assets.compile.planner.context import CompileContext, Flow, parse_ddl
from rs_assets.compile.process.by_batch import ByBatch
from rs_assets.compile.process.by_key import ByKey
from rs_assets.compile.process.by_processor import ByProcessor
from rs_assets.compile.process.by_worker import by_worker
from rs_assets.compile.process.runner import ProcessorSpec
from rs_assets.compile.process.touched import Shape
from rs_assets.compile.python.contract import check_sendable
from rs_assets.compile.timed import timed
from rs_assets.operators.table.keys import check_keys, normal_keys
from rs_assets.operators.table.rows import READ, with_read
from rs_assets.records.columns import EVENT_TIME, visible
from rs_assets.topology.nodes.process import OUTPUT, Process, ProcessOutput, rows_of


def compile_process(context: CompileContext, node: Process, inputs: tuple[Flow, ...]) -> Flow:
    """The rows that the function makes; a replay ends before it."""
    df = inputs[0].df
    check_keys(df, (*node.keys, *node.order_by), step=node.name)
    check_sendable(node.function.call, f"of step {node.name!r}", step=node.name)
    state = parse_ddl(context.spark, node.state, step=node.name)
    made = parse_ddl(context.spark, node.made, step=node.name)
    rows, read = _ordered(context, node, normal_keys(df, node.keys))
    if not context.streaming:
        return Flow(rows)
    time = [EVENT_TIME] if node.timed else []
    return by_worker(
        node,
        rows,
        partial(_call, node),
        fields=[*visible(df.columns), *time],
        order_by=[*time, *node.order_by, *read],
        state=state,
        made=made,
        timed=node.timed,
    )


def compile_output(_context: CompileContext, node: ProcessOutput, inputs: tuple[Flow, ...]) -> Flow:
    """The records of one output."""
    df = inputs[0].df
    return Flow(df.filter(F.col(OUTPUT) == node.output).select(f"`{rows_of(node.output)}`.*"))


def _ordered(context: CompileContext, node: Process, df: DataFrame) -> tuple[DataFrame, list[str]]:
    """The rows, under the watermark if the step has a time, and the columns with their order of reading."""
    rows = with_read(df)
    if node.timed:
        rows = timed(context, node, rows, visible(df.columns), kept=node.delay)
    return rows, [name for name in READ if name in rows.columns]


def _call(node: Process, shape: Shape) -> ByKey | ByBatch | ByProcessor:
    """What the worker calls."""
    function: Any = node.function.call
    if node.form == "processor":
        spec = ProcessorSpec.of(
            function, step=node.name, schema=node.function.schema, outputs=node.outputs, timed=node.timed
        )
        return ByProcessor(spec, shape)
    return ByKey(function, shape) if node.form == "key" else ByBatch(function, shape)

"""The step of a Python function with state."""

from __future__ import annotations

from typing import Any

from pyspark import cloudpickle
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rs_assets.compile.planner.context import CompileContext, Flow, parse_ddl
from rs_assets.compile.process import worker
from rs_assets.compile.process.by_batch import ByBatch
from rs_assets.compile.process.by_key import ByKey
from rs_assets.compile.process.touched import Shape
from rs_assets.compile.python.contract import check_sendable
from rs_assets.operators.process import PythonProcess, processed
from rs_assets.operators.table.keys import check_keys
from rs_assets.records.columns import visible
from rs_assets.topology.nodes.process import Process


def compile_process(context: CompileContext, node: Process, inputs: tuple[Flow, ...]) -> Flow:
    """The rows that the function makes; a replay ends before it."""
    df = inputs[0].df
    check_keys(df, (*node.keys, *node.order_by), step=node.name)
    check_sendable(node.function.call, f"of step {node.name!r}", step=node.name)
    state = parse_ddl(context.spark, node.state, step=node.name)
    made = parse_ddl(context.spark, node.function.schema or "", step=node.name)
    if not context.streaming:
        return Flow(df)
    rows = StructType([df.schema[name] for name in visible(df.columns)])
    kinds = (to_arrow_schema(each, timezone="UTC") for each in (rows, state, made))
    shape = Shape(node.name, node.keys, *kinds)
    function: Any = node.function.call
    call = ByKey(function, shape) if node.form == "key" else ByBatch(function, shape)
    spec = PythonProcess(
        step=node.name,
        keys=node.keys,
        order_by=node.order_by,
        state=state,
        made=made,
        buckets=node.buckets,
        timeout=node.timeout,
        module=worker.__name__,
        function=cloudpickle.dumps(call),  # type: ignore[no-untyped-call]
    )
    return Flow(processed(df, spec))

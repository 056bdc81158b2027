"""Tables of values that Python functions keep for each key."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from rs_assets.compile.planner.context import CompileContext, Flow, parse_ddl
from rs_assets.compile.process.by_group import INPUT, ROWS, ByGroup, row_of
from rs_assets.compile.process.by_worker import by_worker
from rs_assets.compile.python.contract import check_sendable
from rs_assets.operators.table.groups import present
from rs_assets.operators.table.keys import check_keys, normal_keys
from rs_assets.operators.table.rows import READ, struct_of, with_read
from rs_assets.records.columns import PREFIX, RETRACTED, visible
from rs_assets.records.schema import quoted
from rs_assets.topology.nodes.table_reduce import TableReduce

# False for rows that go, which come first.
COMES = f"{PREFIX}comes"


def compile_reduce(context: CompileContext, node: TableReduce, inputs: tuple[Flow, ...]) -> Flow:
    """The changes of the values. A replay ends before it."""
    for flow in inputs:
        check_keys(flow.df, node.keys, step=node.name)
    adders: Any = node.function.call
    for what, function in adders.functions():
        check_sendable(function, f"{what} of step {node.name!r}", step=node.name)
    if not context.streaming:
        return inputs[0]
    rows = reduce(_united, (_packed(flow.df, node.keys, number) for number, flow in enumerate(inputs)))
    value = parse_ddl(context.spark, node.schema, step=node.name)
    keys = [inputs[0].df.schema[key] for key in node.keys]
    return by_worker(
        node,
        rows,
        partial(ByGroup, adders, frozenset(value.names)),
        fields=[INPUT, RETRACTED, *map(row_of, range(len(inputs)))],
        order_by=[COMES, *(name for name in READ if name in rows.columns)],
        # All null for a key whose function returned None.
        state=StructType([*(StructField(each.name, each.dataType) for each in value), StructField(ROWS, LongType())]),
        made=StructType([*keys, *value.fields, StructField(RETRACTED, BooleanType())]),
    )


def _packed(frame: DataFrame, keys: Sequence[str], number: int) -> DataFrame:
    """The rows of an input: their keys and order, whether they go, and all fields in a column of their own."""
    frame = with_read(normal_keys(frame, keys))
    goes = F.col(RETRACTED) if RETRACTED in frame.columns else F.lit(False)  # noqa: FBT003  a literal
    read = [name for name in READ if name in frame.columns]
    return present(frame, keys).select(
        *(F.col(quoted(key)) for key in keys),
        F.lit(number).alias(INPUT),
        goes.alias(RETRACTED),
        (~goes).alias(COMES),
        struct_of(visible(frame.columns)).alias(row_of(number)),
        *read,
    )


def _united(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.unionByName(other, allowMissingColumns=True)

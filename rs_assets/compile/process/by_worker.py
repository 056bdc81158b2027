"""The part that all steps of Python functions with state share: from a frame to the worker and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rs_assets.compile.planner.context import Flow
from rs_assets.compile.process import worker
from rs_assets.compile.process.touched import Shape
from rs_assets.compile.python.sent import sent
from rs_assets.operators.process import PythonProcess, processed
from rs_assets.topology.nodes.process import Process
from rs_assets.topology.nodes.table_reduce import TableReduce


def by_worker(
    node: Process | TableReduce,
    rows: DataFrame,
    call: Callable[[Shape], object],
    *,
    fields: Sequence[str],
    order_by: Sequence[str],
    state: StructType,
    made: StructType,
    timed: bool = False,
) -> Flow:
    """What a worker makes of `rows`, of which it gets `fields`; it runs what `call` makes of their types."""
    given = StructType([rows.schema[name] for name in fields])
    kinds = (to_arrow_schema(each, timezone="UTC") for each in (given, state, made))
    spec = PythonProcess(
        step=node.name,
        keys=node.keys,
        fields=fields,
        order_by=order_by,
        state=state,
        made=made,
        buckets=node.buckets,
        timed=timed,
        timeout=node.timeout,
        module=worker.__name__,
        function=cloudpickle.dumps(sent(call(Shape(node.name, node.keys, *kinds)), node.function.call)),  # type: ignore[no-untyped-call]
    )
    return Flow(processed(rows, spec))

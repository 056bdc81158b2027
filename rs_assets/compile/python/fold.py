"""Python functions over all rows of a window: they run as other Python steps do, on the rows of windows that fire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import StructField, StructType

from rs_assets.compile.planner.context import CompileContext, Flow, parse_ddl
from rs_assets.compile.python.python_step import python_step
from rs_assets.compile.python.record import Row
from rs_assets.compile.python.results import mapping
from rs_assets.topology.nodes.fold import Fold


@dataclass(frozen=True, slots=True)
class Folding:
    """The row of a window with the `fields` that `fold` computes from the rows in `rows`, which is dropped."""

    fold: Callable[[list[Row]], Any]
    fields: frozenset[str]
    rows: str

    def __call__(self, row: Row) -> Row:
        """Call the function."""
        return row | mapping(self.fold(row.pop(self.rows)), self.fields)


def compile_fold(context: CompileContext, node: Fold, inputs: tuple[Flow, ...]) -> Flow:
    """Add a Python step, whose fields replace the rows."""
    flow = inputs[0]
    made = parse_ddl(context.spark, node.function.schema or "", step=node.name)
    fields: list[StructField] = []
    for field in flow.schema.fields:
        fields += made.fields if field.name == node.rows else [field]
    call = Folding(node.function.call, frozenset(made.names), node.rows)
    return flow.then(python_step("map", node.name, call, StructType(fields)), context)

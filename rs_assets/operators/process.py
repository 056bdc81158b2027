"""Python functions with state, by a processor that keeps the state and asks a worker."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rs_assets.common.errors_wire import to_wire
from rs_assets.errors import StepError
from rs_assets.operators.join.processed import ROW
from rs_assets.operators.table.rows import struct_of
from rs_assets.records.columns import ORIGIN, PLACE, visible
from rs_assets.records.schema import quoted
from rs_assets.spark.processor.session import check_types, processors_of

MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonProcess:
    """A step's name, keys and order, the schemas of state and results, and the `module` of the worker.

    `function` is what the worker runs, pickled.
    """

    step: str
    keys: Sequence[str]
    order_by: Sequence[str]
    state: StructType
    made: StructType
    buckets: int
    timeout: timedelta
    module: str
    function: bytes


def processed(frame: DataFrame, spec: PythonProcess) -> DataFrame:
    """The rows that the function makes of the rows of `frame`.

    The rows of a key come by `order_by`, then as they were read (by ORIGIN and PLACE, if `frame` has them), then in the
    order of their fields.
    """
    for schema in (frame.schema, spec.state, spec.made):
        check_types(schema)
    fields = visible(frame.columns)
    places = [name for name in (ORIGIN, PLACE) if name in frame.columns]
    order = [F.col(quoted(name)) for name in (*spec.order_by, *places)] or [F.lit(0)]
    packed = frame.select(
        struct_of(fields).alias(ROW),
        F.struct(*(column.alias(f"by_{place}") for place, column in enumerate(order))).alias("at"),
        *(F.col(quoted(key)) for key in spec.keys),
    )
    processors = processors_of(packed)
    code = processors.PythonCode(
        sys.executable,
        spec.module,
        os.pathsep.join(filter(None, sys.path)),
        spec.function,
        spec.timeout // MILLISECOND,
        to_wire(_died(spec.step)),
        to_wire(_hung(spec.step, spec.timeout)),
    )
    made = processors.PythonRows.apply(packed._jdf, code, spec.state.json(), spec.made.json(), spec.buckets)  # noqa: SLF001
    return DataFrame(made, frame.sparkSession)


def _died(step: str) -> StepError:
    return StepError(
        f"the Python worker of step {step!r} ended twice with the same rows, with exit code {{exit}}",
        remedy="see what it printed; 137 or -9 is often a lack of memory, and 134 or 139 an error of a library in C",
        step=step,
    )


def _hung(step: str, timeout: timedelta) -> StepError:
    return StepError(
        f"a call of step {step!r} took longer than {timeout}",
        remedy="give the function a time limit for what it waits for, or the step a longer timeout=",
        step=step,
    )

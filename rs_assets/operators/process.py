"""Python functions and processors with state, by a processor of Spark's that keeps it and asks a worker."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rs_assets.common.errors_wire import to_wire
from rs_assets.errors import StepError
from rs_assets.operators.join.processed import ROW
from rs_assets.operators.table.rows import struct_of
from rs_assets.records.schema import quoted
from rs_assets.spark.processor.session import check_types, processors_of

MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonProcess:
    """A step's name and keys, the fields of a row, the schemas of state and results, and the `module` of the worker.

    Rows of a key come in the order of the columns `order_by`. `function` is what the worker runs, pickled. If it is
    `timed`, the last field of a state has its timers.
    """

    step: str
    keys: Sequence[str]
    fields: Sequence[str]
    order_by: Sequence[str]
    state: StructType
    made: StructType
    buckets: int
    timed: bool
    timeout: timedelta
    module: str
    function: bytes


def processed(frame: DataFrame, spec: PythonProcess) -> DataFrame:
    """The rows that the function makes of the rows of `frame`."""
    for schema in (frame.schema, spec.state, spec.made):
        check_types(schema)
    order = [F.col(quoted(name)) for name in spec.order_by] or [F.lit(0)]
    packed = frame.select(
        struct_of(spec.fields).alias(ROW),
        F.struct(*(column.alias(f"by_{place}") for place, column in enumerate(order))).alias("at"),
        *(F.col(quoted(key)) for key in spec.keys),
    )
    processors = processors_of(packed)
    code = python_code(processors, spec.step, spec.module, spec.function, spec.timeout)
    state, made, timed = spec.state.json(), spec.made.json(), spec.timed
    rows = processors.PythonRows.apply(packed._jdf, code, state, made, spec.buckets, timed)  # noqa: SLF001
    return DataFrame(rows, frame.sparkSession)


def python_code(processors: Any, step: str, module: str, function: bytes, timeout: timedelta) -> Any:
    """What a worker of `step` runs, for the `processors`: `module`, and the pickled `function` that it gets."""
    return processors.PythonCode(
        sys.executable,
        module,
        os.pathsep.join(filter(None, sys.path)),
        function,
        timeout // MILLISECOND,
        to_wire(_died(step)),
        to_wire(_hung(step, timeout)),
    )


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

"""Accumulators of a window that Python merges, as an aggregate of Spark."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

from pyspark.sql import Column, SparkSession

from rs_assets.operators.process import python_code
from rs_assets.spark.processor.session import processors_in


def merged(
    spark: SparkSession, accumulators: Column, *, step: str, module: str, function: bytes, timeout: timedelta
) -> Column:
    """The accumulator of all `accumulators` of a group, as a worker merges them: `module`, which runs `function`.

    ConfigurationError if the session was made without the jar of the processors.
    """
    processors = processors_in(spark)
    code = python_code(processors, step, module, function, timeout)
    return Column(processors.Accumulators.column(cast("Any", accumulators)._jc, code))  # noqa: SLF001

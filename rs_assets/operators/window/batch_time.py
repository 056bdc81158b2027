"""Times that are the same for all rows of a batch: generated code refers to them, and is the same in each batch."""

from __future__ import annotations

from typing import Any, cast

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from rs_assets.spark.processor.session import package_in


def batch_time() -> Column:
    """The clock of the batch, as `current_timestamp()`."""
    return batch_constant(F.current_timestamp())


def batch_constant(value: Column) -> Column:
    """A timestamp that depends on the clock of the batch, and on no row.

    By itself it is a constant in the code that Spark generates, which is compiled and warmed up again in each batch. In
    a session without the project's own jar nothing changes.
    """
    package = package_in(SparkSession.active())
    if package is None:
        return value
    return Column(package.BatchConstant.column(cast("Any", value)._jc))  # noqa: SLF001

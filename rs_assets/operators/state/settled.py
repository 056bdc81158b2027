"""What is in state must not depend on the steps behind it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rs_assets.records.schema import quoted


def settled(frame: DataFrame) -> DataFrame:
    """`frame`, of which Spark computes each field whatever the steps behind it use, and before they drop a row.

    Otherwise what is in state would depend on them: fields that nobody asks for, and rows that a filter drops, would be
    lacking there when the next version of the pipeline asks for them. The second condition is never computed; its
    number of repetitions keeps the optimizer from knowing its size.
    """
    every = F.struct(*(F.col(quoted(name)) for name in frame.columns))
    here = F.spark_partition_id()
    return frame.filter((here >= 0) | (F.size(F.array_repeat(every, here)) < 0))

"""An optimizer barrier: state must not depend on downstream steps."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rs_assets.records.schema import quoted


def fully_computed(frame: DataFrame) -> DataFrame:
    """`frame`, of which Spark computes every field and every row, whatever the downstream steps use.

    Otherwise state would depend on them: unused fields and rows dropped by a filter would be missing when the next
    version of the pipeline needs them. The second condition is never computed; its number of repetitions keeps the
    optimizer from knowing its size.
    """
    every = F.struct(*(F.col(quoted(name)) for name in frame.columns))
    here = F.spark_partition_id()
    return frame.filter((here >= 0) | (F.size(F.array_repeat(every, here)) < 0))

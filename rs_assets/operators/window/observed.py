"""How far the splits of a batch came, and how many rows were late by that, observed while Spark computes it."""

from __future__ import annotations

from typing import Any, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.errors import ConfigurationError
from rs_assets.operators.window.splits import CAME_LATE, LATEST, NO_SPLIT, splits_metric
from rs_assets.records.columns import EVENT_TIME, LATE, ORIGIN
from rs_assets.spark.processor.session import package_in


def observed_splits(frame: DataFrame, *, gate: str) -> DataFrame:
    """`frame` (with EVENT_TIME and ORIGIN, which control rows do not have), observed by the name of `gate`.

    Rows that are LATE are counted, if there is that column.

    ConfigurationError if the session was made without the jar of the processors.
    """
    package = package_in(frame.sparkSession)
    if package is None:
        raise ConfigurationError(
            "this Spark session has no function for watermarks of splits",
            remedy="add the jar that `python -m rs_assets.spark.processor.library` names to spark.jars",
        )
    split, at = F.coalesce(F.col(ORIGIN), F.lit(NO_SPLIT)), F.unix_micros(F.col(EVENT_TIME))
    latest = Column(package.LatestBySplit.column(*(cast("Any", each)._jc for each in (split, at))))  # noqa: SLF001
    late = [F.count(F.when(F.col(LATE), F.lit(1))).alias(CAME_LATE)] if LATE in frame.columns else []
    return frame.observe(splits_metric(gate), F.to_json(latest).alias(LATEST), *late)

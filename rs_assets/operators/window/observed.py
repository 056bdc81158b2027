"""Observes the progress of a batch's splits and, if lateness is judged by record, counts late rows."""

from __future__ import annotations

from typing import Any, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.errors import ConfigurationError
from rs_assets.operators.window.splits import CAME_LATE, LATEST, NO_SPLIT, splits_metric
from rs_assets.records.columns import EVENT_TIME, LATE, ORIGIN
from rs_assets.spark.processor.session import package_in


def observed_splits(frame: DataFrame, *, gate: str) -> DataFrame:
    """`frame` (with EVENT_TIME and ORIGIN, which control rows lack), observed under the name of `gate`.

    Rows that are LATE are counted, if that column exists.

    ConfigurationError if the session was made without the jar of the processors.
    """
    package = package_in(frame.sparkSession)
    if package is None:
        raise ConfigurationError(
            "this Spark session has no function for watermarks per split",
            remedy="add the jar that `python -m rs_assets.spark.processor.library` names to spark.jars",
        )
    split, at = F.coalesce(F.col(ORIGIN), F.lit(NO_SPLIT)), F.unix_micros(F.col(EVENT_TIME))
    latest = Column(package.LatestBySplit.column(*(cast("Any", each)._jc for each in (split, at))))  # noqa: SLF001
    late = [F.count(F.when(F.col(LATE), F.lit(1))).alias(CAME_LATE)] if LATE in frame.columns else []
    return frame.observe(splits_metric(gate), F.to_json(latest).alias(LATEST), *late)

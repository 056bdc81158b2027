"""Lateness by record: each row with the greatest event time before it in its split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import orjson
from pyspark.sql import DataFrame, SparkSession

from rs_assets.operators.window.splits import Latest
from rs_assets.records.columns import EVENT_TIME, MARK, ORIGIN, PLACE
from rs_assets.spark.processor.session import processors_of

# The local property of Spark that carries the progress of splits before a batch to its tasks.
PROPERTY = "rs_assets.splits"


def with_marks(frame: DataFrame, latest: Latest | None) -> DataFrame:
    """`frame` (with EVENT_TIME, ORIGIN and PLACE) with MARK, null for the first record of a split.

    It begins with `latest`, or, if that is None, with the local property of a batch's tasks.
    ConfigurationError if the session was made without the jar of the processors.
    """
    noted = None if latest is None else _text(latest)
    marks = processors_of(frame).MarksBefore
    made = marks.marked(cast("Any", frame)._jdf, ORIGIN, PLACE, EVENT_TIME, MARK, noted)  # noqa: SLF001
    return DataFrame(made, frame.sparkSession)


def tell_latest(spark: SparkSession, latest: Latest) -> None:
    """Let the tasks that this thread starts begin with `latest`."""
    spark.sparkContext.setLocalProperty(PROPERTY, _text(latest))


def _text(latest: Mapping[str, int]) -> str:
    return orjson.dumps(dict(latest)).decode()

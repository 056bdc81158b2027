"""Frames whose streams wait for tables."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame

from rs_assets.spark.processor.session import processors_of


def held_frame(frame: DataFrame, sources: Iterable[str]) -> DataFrame:
    """The streaming `frame`, in which `sources`, named as in the checkpoint, have no rows yet.

    ConfigurationError if the session was made without the jar of the processors.
    """
    made = processors_of(frame).HeldSources.apply(frame._jdf, sorted(sources))  # noqa: SLF001  there is no public way
    return DataFrame(made, frame.sparkSession)

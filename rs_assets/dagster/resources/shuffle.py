"""The shuffle family as a Dagster resource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from rs_assets.common.node import Family
from rs_assets.dagster.resources.family import FamilyResource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ShuffleResource(FamilyResource):
    """How rows are distributed; distributes a frame in an op of your own.

    >>> from rs_assets.spark.driver import SparkDriver
    >>> hits = SparkDriver.shared().call(lambda spark: spark.range(100))
    >>> ShuffleResource(partitions=3).spread(hits, keys=["id"]).rdd.getNumPartitions()
    3
    """

    family: ClassVar[Family] = "shuffle"

    partitions: int = Field(
        default=0, ge=0, description="State and shuffle partitions of a new checkpoint, kept for its life; 0: the cores"
    )

    def settings(self) -> Mapping[str, Any]:
        """The number of partitions of a new checkpoint."""
        return {"partitions": self.partitions or None}

    def spread(self, frame: DataFrame, *, keys: Sequence[str] = (), partitions: int = 0) -> DataFrame:
        """`frame` over `partitions` partitions: rows of equal `keys` together, or evenly without keys.

        - `keys` (sequence of str, default none): UnknownFieldError for one that `frame` lacks.
        - `partitions` (int, default: those of the resource, else the cores).
        """
        from rs_assets.operators.shuffle.memory import shuffle
        from rs_assets.records.columns import check_fields

        check_fields(frame, tuple(keys), step=self.family)
        cores = frame.sparkSession.sparkContext.defaultParallelism
        return shuffle(frame, partitions or self.partitions or cores, keys)

"""The join family as a Dagster resource."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from rs_assets.common.home import Home
from rs_assets.common.node import Family
from rs_assets.dagster.resources.family import FamilyResource, Steps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class JoinResource(FamilyResource):
    """How long a join waits for a silent side; joins two frames by event time in an op of your own.

    >>> from rs_assets.spark.driver import SparkDriver
    >>> make = lambda spark: (
    ...     spark.createDataFrame([(1, "tea"), (2, "jam")], "id int, item string"),
    ...     spark.createDataFrame([(1, 4.5)], "id int, paid double"),
    ... )
    >>> orders, payments = SparkDriver.shared().call(make)
    >>> paid = JoinResource().join(orders, payments, lambda left, right: left.join(right, on="id", within=None))
    >>> [row.asDict() for row in paid.collect()]
    [{'id': 1, 'item': 'tea', 'paid': 4.5}]
    """

    family: ClassVar[Family] = "join"

    idle_timeout_seconds: float = Field(
        default=0.0,
        ge=0,
        description="Seconds after which a silent side of a started pipeline does not hold the other back; 0: never",
    )

    def settings(self) -> Mapping[str, Any]:
        """How long a silent side is waited for."""
        return {"idle_timeout": timedelta(seconds=self.idle_timeout_seconds) or None}

    def join(self, left: DataFrame, right: DataFrame, steps: Steps, *, home: Home | None = None) -> DataFrame:
        """The pairs of both frames, and under "left" and the others the rows without a partner.

        - `left`, `right` (DataFrame).
        - `steps` (function of two streams): such as `lambda left, right: left.join(right, on="id", within=...)`. Other
          steps may come before and after. Errors: TopologyError if there is no join of streams.
        - `home` (Home, default RS_HOME): where tables and dimensions that are given by name are.
        """
        return self.computed(steps, {"left": left, "right": right}, home)

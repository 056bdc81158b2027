"""The family of stateless steps as a Dagster resource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from rs_assets.common.home import Home
from rs_assets.common.node import Family
from rs_assets.dagster.resources.family import FamilyResource, Steps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class StepResource(FamilyResource):
    """How stateless steps compute; computes maps, filters and scripts over a frame in an op of your own.

    >>> from rs_assets.spark.driver import SparkDriver
    >>> make = lambda spark: spark.createDataFrame([("/A", 12), ("/B", 90)], "page string, ms int")
    >>> hits = SparkDriver.shared().call(make)
    >>> slow = StepResource().compute(hits, lambda rows: rows.filter("ms > 50").script("page=lower(page)"))
    >>> [row.asDict() for row in slow.collect()]
    [{'page': '/b', 'ms': 90}]
    """

    family: ClassVar[Family] = "step"

    trace: bool = Field(default=True, description="Translate Python functions into Spark expressions where possible")
    max_poisons: int = Field(
        default=100, gt=0, description="How many records of a batch may be quarantined because a step fails on them"
    )

    def settings(self) -> Mapping[str, Any]:
        """Whether functions are translated, and how many records may fail."""
        return {"trace": self.trace, "max_poisons": self.max_poisons}

    def compute(self, frame: DataFrame, steps: Steps, *, home: Home | None = None) -> DataFrame:
        """The rows of `frame` after `steps`.

        - `frame` (DataFrame).
        - `steps` (function of a stream): the steps, such as `lambda rows: rows.filter("ms > 50")`.
        - `home` (Home, default RS_HOME): where tables and dimensions that are given by name are.
        """
        return self.computed(steps, {"rows": frame}, home)

"""The table family as a Dagster resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rs_assets.common.home import Home
from rs_assets.common.node import Family
from rs_assets.dagster.resources.family import FamilyResource, Steps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class TableResource(FamilyResource):
    """Tables that change; computes the current rows of a frame of changes in an op of your own. It has no settings.

    >>> from rs_assets.spark.driver import SparkDriver
    >>> changes = [(1, "free", 1), (1, "paid", 2), (2, "free", 3)]
    >>> make = lambda spark: spark.createDataFrame(changes, "id int, tier string, version int")
    >>> users = SparkDriver.shared().call(make)
    >>> now = TableResource().keep(users, steps=lambda rows: rows.to_table("id", order_by="version"))
    >>> sorted((row.id, row.tier) for row in now.collect())
    [(1, 'paid'), (2, 'free')]
    """

    family: ClassVar[Family] = "table"

    def keep(self, *frames: DataFrame, steps: Steps, home: Home | None = None) -> DataFrame:
        """The rows of a table after all changes, or what is computed from it.

        - `frames` (DataFrame, at least one): the changes.
        - `steps` (function of as many streams): such as `lambda rows: rows.to_table("id", order_by="version")`. Give
          `order_by`: a frame has no order. Errors: TopologyError if there is no table.
        - `home` (Home, default RS_HOME): where tables and dimensions that are given by name are.
        """
        named = {"rows": frames[0]} if len(frames) == 1 else {f"rows_{n}": f for n, f in enumerate(frames, 1)}
        return self.computed(steps, named, home)

"""The family of processors as a Dagster resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rs_assets.common.home import Home
from rs_assets.common.node import Family
from rs_assets.dagster.resources.family import FamilyResource, Steps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ProcessorResource(FamilyResource):
    """Python functions with a state for each key; calls them over a frame in an op of your own. It has no settings.

    >>> from rs_assets import Processor, ValueStore
    >>> from rs_assets.spark.driver import SparkDriver
    >>> class Count(Processor):
    ...     seen = ValueStore("n bigint")
    ...
    ...     def process(self, key, row, context):
    ...         n = (context.seen.get() or {"n": 0})["n"] + 1
    ...         context.seen.put({"n": n})
    ...         context.forward({"page": key["page"], "n": n})
    >>> def counted(rows):
    ...     return rows.process(Count, keys="page", schema="page string, n bigint")
    >>> hits = SparkDriver.shared().call(lambda spark: spark.createDataFrame([("/a",), ("/a",)], "page string"))
    >>> sorted(row.n for row in ProcessorResource().process(hits, counted).collect())
    [1, 2]
    """

    family: ClassVar[Family] = "processor"

    def process(self, frame: DataFrame, steps: Steps, *, home: Home | None = None) -> DataFrame:
        """The rows that a processor forwards for the rows of `frame`; each key begins without state.

        - `frame` (DataFrame): its rows come in no order, except by a field that the processor sorts by.
        - `steps` (function of a stream): such as `lambda rows: rows.process(Count, keys="page", ...)`. Errors:
          TopologyError if there is no processor.
        - `home` (Home, default RS_HOME): where tables and dimensions that are given by name are.
        """
        return self.computed(steps, {"rows": frame}, home)

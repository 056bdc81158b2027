"""The window family as a Dagster resource."""

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


class WindowResource(FamilyResource):
    """How windows end; aggregates a frame by event time in an op of your own.

    >>> from rs_assets import Time, TumblingWindow
    >>> from rs_assets.spark.driver import SparkDriver
    >>> rows = [("/a", "2026-01-05 10:00:01"), ("/a", "2026-01-05 10:00:59"), ("/a", "2026-01-05 10:01:00")]
    >>> make = lambda spark: spark.createDataFrame(rows, "page string, at string").selectExpr("page", "at::timestamp")
    >>> minutes = TumblingWindow.of(Time.minutes(1), "at")
    >>> per_minute = WindowResource().aggregate(
    ...     SparkDriver.shared().call(make), lambda hits: hits.window(minutes).group_by("page").count("n")
    ... )
    >>> sorted(row.n for row in per_minute.collect())
    [1, 2]
    """

    family: ClassVar[Family] = "window"

    close_on_idle_seconds: float = Field(
        default=0.0,
        ge=0,
        description="Seconds without rows after which event time of a started pipeline follows the clock; 0: it waits",
    )
    finish: bool = Field(
        default=False, description="Fire every open window at the end of a run; later rows of these windows are late"
    )

    def settings(self) -> Mapping[str, Any]:
        """When event time goes on without rows."""
        return {"close_on_idle": timedelta(seconds=self.close_on_idle_seconds) or None}

    def aggregate(self, frame: DataFrame, steps: Steps, *, home: Home | None = None) -> DataFrame:
        """The results of all windows over `frame`, each as at its end; no row is late.

        - `frame` (DataFrame).
        - `steps` (function of a stream): the windows, such as `lambda rows: rows.window(minutes).group_by("page")...`.
          Other steps may come before and after. Errors: TopologyError if there is no window.
        - `home` (Home, default RS_HOME): where tables and dimensions that are given by name are.
        """
        return self.computed(steps, {"rows": frame}, home)

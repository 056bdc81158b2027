"""Spark as a Dagster resource, on dagster-pyspark's."""

from __future__ import annotations

from typing import Any

from dagster import InitResourceContext
from dagster_pyspark import PySparkResource
from pydantic import Field, PrivateAttr

from rs_assets.spark.driver import SparkDriver
from rs_assets.spark.settings import SparkSettings


class SparkResource(PySparkResource):
    """A Spark session with the project's settings, started at its first use on its own thread.

    Unlike its parent it starts nothing when the run begins, keeps Spark off the thread that Dagster interrupts, and
    ends the session (and its JVM) with the run, except with `share`, which uses the process's own session.
    """

    spark_config: dict[str, Any] = Field(default_factory=dict, description="Spark settings that override the project's")
    master: str = Field(default="", description="local[n] or spark://host:port; empty: RS_SPARK_MASTER, else local[*]")
    memory: str = Field(default="", description="The driver's heap, such as 2g; empty: RS_DRIVER_MEMORY, else 1g")
    lean: bool | None = Field(
        default=None, description="Settings for a small machine, with a heap of 512m; none: RS_PROFILE=lean, else no"
    )
    ui: bool = Field(default=False, description="Spark's own UI, on loopback")
    share: bool = Field(default=False, description="Use the session of this process and leave it running")

    _driver: SparkDriver | None = PrivateAttr(default=None)

    def setup_for_execution(self, context: InitResourceContext) -> None:
        """Nothing: a run initialises its resources twice."""

    def teardown_after_execution(self, context: InitResourceContext) -> None:  # noqa: ARG002  Dagster's form
        """End the session unless it is shared."""
        if self._driver is not None and not self.share:
            self._driver.stop()
            self._driver = None

    @property
    def driver(self) -> SparkDriver:
        """The thread that calls Spark."""
        if self._driver is None:
            self._driver = SparkDriver.shared(self.settings()) if self.share else SparkDriver(self.settings())
        return self._driver

    def settings(self) -> SparkSettings:
        """The settings of the session."""
        given: dict[str, Any] = {"master": self.master or None, "memory": self.memory or None, "lean": self.lean}
        chosen = {name: value for name, value in given.items() if value is not None}
        return SparkSettings(ui=self.ui, extra=self.spark_config, **chosen)

    @property
    def spark_session(self) -> Any:
        """The session; call it on the driver's thread only."""
        return self.driver.call(lambda session: session)

    @property
    def spark_context(self) -> Any:
        """The session's context."""
        return self.driver.call(lambda session: session.sparkContext)

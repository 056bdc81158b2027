"""The sink family as a Dagster resource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from dagster import AssetExecutionContext, OpExecutionContext
from pydantic import Field, PrivateAttr

from rs_assets.common.home import Home
from rs_assets.common.node import Family
from rs_assets.dagster.resources.family import FamilyResource, Steps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rs_assets.runtime.run.write_once import Written


class SinkResource(FamilyResource):
    """How sinks write; writes a frame in an op of your own, once for each run.

    >>> from dagster import build_op_context
    >>> from rs_assets import MemoryChannel
    >>> from rs_assets.spark.driver import SparkDriver
    >>> hits = SparkDriver.shared().call(lambda spark: spark.createDataFrame([("/a", 12)], "page string, ms int"))
    >>> channel = MemoryChannel()
    >>> with build_op_context() as context:
    ...     SinkResource().write(context, hits, lambda rows: rows.to_memory(channel))
    Written(rows=1, again=False)
    >>> channel.take()
    [{'page': '/a', 'ms': 12}]
    """

    family: ClassVar[Family] = "sink"

    delta_connector: Literal["as_written", "native", "jvm"] = Field(
        default="as_written", description="The writer of all Delta sinks; as_written: as each step says"
    )

    target_file_mb: int = Field(
        default=0, ge=0, description="Compaction joins files of outputs up to about this size; 0: as each table says"
    )

    # How many frames each attempt of a step has written into each sink and place.
    _written: dict[tuple[str, int, str, str], int] = PrivateAttr(default_factory=dict)

    def settings(self) -> Mapping[str, Any]:
        """The writer of Delta sinks, if it is the same for all."""
        return {"connector": None if self.delta_connector == "as_written" else self.delta_connector}

    def write(
        self,
        context: OpExecutionContext | AssetExecutionContext,
        frame: DataFrame,
        to: Steps,
        *,
        namespace: str = "ops",
        home: Home | None = None,
    ) -> Written:
        """Write `frame` into a sink, once for the run and step of `context`.

        A sink with memory (Delta, files, databases, exactly-once topics) stores a mark with the rows. A step that
        Dagster repeats because it failed, in the same run or in a re-execution, finds the mark and writes nothing:
        `again` is true, and the rows are those of the first attempt. Its n-th frame for a sink and place counts as the
        n-th frame of the attempt before. Any other run, and a step that had succeeded, writes its own rows. A folder of
        files and a served store belong to one run: SinkError for another one.

        - `context`: that of the op or asset.
        - `to` (function of a stream): one sink and nothing else, such as `lambda rows: rows.to_delta("pages")`.
        - `namespace` (str, default "ops"): that of a table by name.
        - `home` (Home, default RS_HOME): where tables that are given by name are.

        Errors: TopologyError if `to` has other steps; SinkError and others as those of the sink.
        """
        from rs_assets.compile.sink import writer_of
        from rs_assets.dagster.resources.writing import mark_of, sink_of
        from rs_assets.runtime.run.write_once import write_once

        sink = sink_of(to, frame, namespace, connector=self.settings()["connector"])
        writer = writer_of(sink, home or Home.default(), namespace)
        mark = mark_of(context, sink.name, writer.location(), self._written)
        return write_once(frame, sink, writer, mark)

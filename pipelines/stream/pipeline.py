"""A finished pipeline: described, run to the end of its input, or started for good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, overload

from pipelines.topology.describe import as_mermaid, as_text
from pipelines.topology.topology import Topology
from resources.errors import TopologyError

if TYPE_CHECKING:
    from pipelines.runtime.options import RunOptions
    from pipelines.runtime.realtime import RealTimePipeline
    from pipelines.runtime.report import RunReport
    from pipelines.runtime.running import RunningPipeline


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A frozen pipeline; nothing has touched Spark yet."""

    topology: Topology

    @property
    def name(self) -> str:
        """Namespace and job, joined by a dot."""
        return self.topology.name

    def describe(self, *, mermaid: bool = False) -> str:
        """The pipeline as lines of text, or as a Mermaid graph."""
        return as_mermaid(self.topology) if mermaid else as_text(self.topology)

    def run(self, options: RunOptions | None = None, *, finish: bool | None = None) -> RunReport:
        """Process all input there is now, then stop; the report says what happened.

        A bounded pipeline fires its open windows at the end. An unbounded one leaves them in state for the next run,
        unless `finish=True` ends the input on purpose. Errors: see resources.errors; nothing of a failed batch is
        visible.
        """
        from pipelines.runtime.run import run

        return run(self.topology, options, finish=finish)

    @overload
    def start(self, options: RunOptions | None = None) -> RunningPipeline: ...
    @overload
    def start(self, options: RunOptions | None = None, *, latency: Literal["micro-batch"]) -> RunningPipeline: ...
    @overload
    def start(self, options: RunOptions | None = None, *, latency: Literal["real-time"]) -> RealTimePipeline: ...
    def start(
        self, options: RunOptions | None = None, *, latency: Literal["micro-batch", "real-time"] = "micro-batch"
    ) -> RunningPipeline | RealTimePipeline:
        """Run on until stopped; returns at once. `.status()`, `.stop(drain=True)`, `.await_termination()`.

        `latency="real-time"` lets each record through at once, in milliseconds: only from Kafka to one topic of Kafka,
        at least once, with steps in SQL or Columns and without state. TopologyError names the step that forbids it;
        ConfigurationError if Spark has fewer slots than the topics have partitions.
        """
        if latency == "real-time":
            from pipelines.runtime.options import RunOptions
            from pipelines.runtime.realtime import start_real_time

            return start_real_time(self.topology, options or RunOptions())
        if latency != "micro-batch":
            raise TopologyError(f"{latency!r} is no latency", remedy="use 'micro-batch' or 'real-time'")
        from pipelines.runtime.run import start

        return start(self.topology, options)

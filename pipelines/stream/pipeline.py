"""A finished pipeline: described, run to the end of its input, or started for good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipelines.topology.describe import as_mermaid, as_text
from pipelines.topology.topology import Topology

if TYPE_CHECKING:
    from pipelines.runtime.options import RunOptions
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

    def start(self, options: RunOptions | None = None) -> RunningPipeline:
        """Run on until stopped; returns at once. `.status()`, `.stop(drain=True)`, `.await_termination()`."""
        from pipelines.runtime.run import start

        return start(self.topology, options)

"""A finished pipeline: described, run to the end of its input, or started for good."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, overload

from rs_assets.errors import TopologyError
from rs_assets.topology.describe import as_mermaid, as_text, in_short
from rs_assets.topology.draw import as_svg
from rs_assets.topology.topology import Topology

if TYPE_CHECKING:
    import pyarrow as pa

    from rs_assets.recovery.savepoints import Savepoint
    from rs_assets.runtime.job.preflight import Verified
    from rs_assets.runtime.options import RunOptions
    from rs_assets.runtime.report import RunReport
    from rs_assets.runtime.run.realtime import RealTimePipeline
    from rs_assets.runtime.run.rescale import RescaleReport
    from rs_assets.runtime.run.running import RunningPipeline


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Pipeline:
    """A frozen pipeline; nothing has touched Spark yet."""

    topology: Topology
    # What people read of it in Dagster, who answers for it, and how far event time may lie behind the clock.
    description: str = ""
    owners: tuple[str, ...] = ()
    fresh_within: timedelta | None = None

    @property
    def name(self) -> str:
        """Namespace and job, joined by a dot."""
        return self.topology.name

    def __repr__(self) -> str:
        """Its name, sources, steps with state and sinks."""
        return f"<Pipeline {in_short(self.topology)}>"

    def _repr_html_(self) -> str:
        """A drawing for notebooks."""
        return f"<b>{self.name}</b><br>{as_svg(self.topology)}"

    def describe(self, *, mermaid: bool = False) -> str:
        """The pipeline as lines of text, or as a Mermaid graph.

        The lines tell of each Python function whether Spark computes it ("compiled"), drops records before Python gets
        the others ("compiled in part"), or has no part in it ("Python"), and because of which line of its file.

        >>> from rs_assets import StreamBuilder
        >>> hits = StreamBuilder.data_stream("shop", "slow").from_file("hits.jsonl", schema="page string, ms bigint")
        >>> slow = hits.filter(lambda hit: hit["page"] == "/" and hit["ms"] > 100)
        >>> print(slow.to_print().build().describe())
        shop.slow  fingerprint ...
          file      file_source  [json hits.jsonl]
          filter_1  filter <- file  [<lambda>()]  compiled in part: line 1: it raises TypeError
          print     print_sink <- filter_1
        """
        if mermaid:
            return as_mermaid(self.topology)
        from rs_assets.compile.python.tracing.explain import compiled

        return as_text(self.topology, compiled(self.topology))

    def check(self, options: RunOptions | None = None) -> Mapping[str, str]:
        """Let Spark analyse every step over empty input; the fields behind each step, by its name.

        It starts Spark, and neither reads, writes nor connects to anything: for tests and before a deployment.
        UserError names the first step that Spark does not accept; SchemaError a source whose schema would be inferred.
        """
        from rs_assets.runtime.job.analysis import analyse
        from rs_assets.runtime.options import RunOptions

        return analyse(self.topology, (options or RunOptions()).driver)

    def try_(
        self, rows: Iterable[Mapping[str, Any]] | Mapping[str, Iterable[Mapping[str, Any]]], *, spark: Any = None
    ) -> Mapping[str, list[dict[str, Any]]]:
        """Run over `rows` and nothing else; what each sink would get, by its name, with all windows fired.

        Of several sources the rows are given by their names. Sources and sinks are not touched, and nothing is kept. A
        sink that merges gets each row that it would merge. `spark` is the SparkDriver to use. Errors: as for `run()`.

        >>> from rs_assets import StreamBuilder
        >>> hits = StreamBuilder.data_stream("shop", "slow").from_file("hits.jsonl", schema="page string, ms bigint")
        >>> hits.filter("ms > 100").to_delta("slow").build().try_([{"page": "/", "ms": 12}, {"page": "/a", "ms": 120}])
        {'slow_table': [{'page': '/a', 'ms': 120}]}
        """
        from rs_assets.runtime.run.trial import try_rows
        from rs_assets.spark.driver import SparkDriver

        return try_rows(self.topology, rows, spark or SparkDriver.shared())

    def run(self, options: RunOptions | None = None, *, finish: bool | None = None) -> RunReport:
        """Process all input there is now, then stop; the report says what happened.

        A bounded pipeline fires its open windows at the end. An unbounded one leaves them in state for the next run,
        unless `finish=True` ends the input on purpose. Errors: see rs_assets.errors; nothing of a failed batch is
        visible.
        """
        from rs_assets.runtime.run.run import run

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
            from rs_assets.runtime.options import RunOptions
            from rs_assets.runtime.run.realtime import start_real_time

            return start_real_time(self.topology, options or RunOptions())
        if latency != "micro-batch":
            raise TopologyError(f"{latency!r} is no latency", remedy="use 'micro-batch' or 'real-time'")
        from rs_assets.runtime.run.run import start

        return start(self.topology, options)

    def savepoint(self, options: RunOptions | None = None, *, note: str = "") -> Savepoint:
        """Copy the checkpoints, whether the pipeline runs or not; `note` is for people.

        CheckpointError before the first batch, ConfigurationError with a durable shuffle.
        """
        from rs_assets.runtime.upkeep.savepoints import savepoint

        return savepoint(self.topology, options, note=note)

    def restore(self, options: RunOptions | None = None, *, savepoint_id: str | None = None) -> Savepoint:
        """Bring the stopped pipeline and its sinks to a savepoint, the newest by default, as a new generation.

        CheckpointError if there is none or it is damaged; SinkError if a sink cannot go there, and nothing is changed.
        """
        from rs_assets.runtime.upkeep.savepoints import restore

        return restore(self.topology, options, savepoint_id=savepoint_id)

    def rewind(self, to_batch: int, options: RunOptions | None = None, *, step: str | None = None) -> str:
        """Bring one query of the stopped pipeline, and its sinks, back to the end of batch `to_batch`.

        `step` names the query by its stateful step, needed only if there are several. Returns what was done.
        CheckpointError names the batches that it can go to; SinkError if a sink cannot, and nothing is changed.
        """
        from rs_assets.runtime.upkeep.savepoints import rewind

        return rewind(self.topology, to_batch, options, step=step)

    def fork(
        self, source: Pipeline, options: RunOptions | None = None, *, savepoint_id: str | None = None
    ) -> Savepoint:
        """Begin this pipeline, which has not run yet, with state and offsets of a savepoint of `source`.

        The newest by default. Steps are found by their names. CheckpointError if this one has run, or there is none.
        """
        from rs_assets.runtime.upkeep.savepoints import fork

        origin = (source.topology.namespace, source.topology.job)
        return fork(self.topology, origin, options, savepoint_id=savepoint_id)

    def rescale(self, partitions: int, options: RunOptions | None = None) -> RescaleReport:
        """Process what there is, rewrite the state in `partitions` partitions, and leave the pipeline stopped.

        ConfigurationError for state that cannot be spread again, PipelineBusyError if it runs.
        """
        from rs_assets.runtime.run.rescale import rescale

        return rescale(self.topology, partitions, options)

    def verify(self, options: RunOptions | None = None) -> tuple[Verified, ...]:
        """Look at the checkpoints of the stopped pipeline as each start does, one result a query; changes nothing."""
        from rs_assets.runtime.job.preflight import verify

        return verify(self.topology, options)

    def state(self, step: str, options: RunOptions | None = None, *, rows: int | None = None) -> pa.Table:
        """What `step` keeps after the last committed batch, at most `rows` of it.

        Of a window the open ones as they would fire now; of a join the rows that wait for partners: `side`, `matched`,
        and the fields in `left` or `right`.

        ConfigurationError for other steps, CheckpointError before the first batch.
        """
        from rs_assets.runtime.upkeep.state import preview

        return preview(self.topology, step, options, rows=rows)

"""The steps downstream of the streaming output of a query: they run on each micro-batch, inside foreachBatch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rs_assets.compile.planner.context import BadRecordCollector, CompileContext, Dead, Flow
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.compile.planner.table import compile_node
from rs_assets.compile.sink import shown
from rs_assets.connectors.nodes import Sink
from rs_assets.connectors.sink import BatchMark, SinkWriter, Staged
from rs_assets.errors import StepError
from rs_assets.records.columns import LINE, OFFSET, RAW, SPLIT, visible
from rs_assets.records.poison import exact_text
from rs_assets.runtime.translate import translate
from rs_assets.topology.branches import dominators, paths_from
from rs_assets.topology.topology import Topology
from rs_assets.topology.user_code.expression import calls_python


@dataclass(frozen=True, slots=True)
class PerBatchSteps:
    """The steps downstream of the streaming output of one query. `letters` makes rows of the dead-letter table."""

    topology: Topology
    plan: QueryPlan
    context: CompileContext
    letters: Callable[[Sequence[Dead]], pa.Table]

    def stage(
        self, batch: DataFrame, sinks: Mapping[str, tuple[SinkWriter, BatchMark]]
    ) -> tuple[dict[str, Staged], pa.Table]:
        """Compute `batch`, the rows of the streaming output, once and stage it for `sinks`.

        In quarantine, rows of windows on which a Python step raises are left out and returned as dead letters. Other
        rows on which a step fails end the batch: they can be traced to the record of a source.
        """
        guarded = self._guards
        paths = paths_from(self.topology, self.plan.streaming_output)
        several = sum(paths[name] for name in sinks) > 1 or guarded
        shared = batch.persist() if several else batch

        def hand_out(frames: Mapping[str, DataFrame]) -> dict[str, Staged]:
            return {name: writer.stage(frames[name], mark) for name, (writer, mark) in sinks.items()}

        try:
            if guarded:
                # State is computed here and nowhere else, whatever happens to the steps after it.
                shared.write.format("noop").mode("overwrite").save()
            try:
                return hand_out(self._frames(replace(self.context, quarantines=False), shared)), self.letters(())
            except Exception as error:
                if not (guarded and isinstance(translate(error, query=self.plan.name), StepError)):
                    raise
            # Rare enough that rows are checked one by one only after the batch has failed.
            frames, refused = self._guarded_frames(shared)
            return hand_out(frames), _once(self.letters(refused))
        finally:
            if several:
                shared.unpersist()

    @property
    def _guards(self) -> bool:
        """Whether rows of windows may have to be kept from the sinks."""
        below = self.plan.batch_nodes(self.topology)
        return self.context.quarantines and self.plan.stateful is not None and any(map(calls_python, below))

    def _frames(self, context: CompileContext, batch: DataFrame) -> dict[str, DataFrame]:
        """The rows of `batch` for each sink."""
        below = self.plan.batch_nodes(self.topology)
        if all(isinstance(node, Sink) for node in below):
            return {node.name: shown(batch, node) for node in below}
        flows = {self.plan.streaming_output: Flow(batch)}
        for node in below:
            flows[node.name] = compile_node(context, node, tuple(flows[i] for i in node.inputs))
        return {name: flows[name].df for name in self.plan.outputs}

    def _guarded_frames(self, batch: DataFrame) -> tuple[Mapping[str, DataFrame], list[Dead]]:
        """The same, without the rows on which a Python step raises, and those rows.

        A row of a window has no position in a source: its split is empty, line and offset are null, its record is the
        row of the window, as JSON.
        """
        row = exact_text(visible(batch.columns))
        nowhere = F.lit(None).cast("bigint")
        number = F.monotonically_increasing_id()
        addressed = batch.withColumns({SPLIT: F.lit(""), LINE: number, OFFSET: nowhere, RAW: row})
        collector = BadRecordCollector()
        frames = self._frames(replace(self.context, quarantines=True, record_filter=collector), addressed)
        return frames, collector.dead


def _once(letters: pa.Table) -> pa.Table:
    """`letters` without duplicates from several branches, and without the numbers that identify rows."""
    distinct = letters.group_by(letters.column_names, use_threads=False).aggregate([])
    nowhere = pa.nulls(distinct.num_rows, pa.int64())
    return distinct.set_column(distinct.schema.get_field_index("line"), "line", nowhere).cast(letters.schema)


def before_python(topology: Topology, plan: QueryPlan) -> QueryPlan:
    """`plan` with a streaming output before the first Python step after its window.

    Inside the streaming query, rows that such a step rejects could be counted, but not read again. Spark passes all
    columns to a Python step, so the columns in state are the same either way.
    """
    if plan.stateful is None:
        return plan
    python = {n for n in plan.nodes if plan.stateful in topology.ancestors(n) and calls_python(topology[n])}
    passed = dominators(topology)[plan.streaming_output] | {plan.streaming_output}
    free = [n for n in plan.nodes if n in passed and not python & (topology.ancestors(n) | {n})]
    return replace(plan, streaming_output=free[-1])

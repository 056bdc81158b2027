"""The steps downstream of the streaming output of a query: they run on each micro-batch, inside foreachBatch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rs_assets.common.node import Node
from rs_assets.compile.planner.context import CompileContext, Dead, Flow
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.compile.planner.table import compile_node
from rs_assets.compile.sink import shown
from rs_assets.connectors.nodes import Sink
from rs_assets.connectors.sink import BatchMark, SinkWriter, Staged
from rs_assets.errors import StepError
from rs_assets.records.columns import LINE, OFFSET, RAW, SPLIT, visible
from rs_assets.records.poison import exact_text
from rs_assets.runtime.batch.expectations import BatchRecordFilter
from rs_assets.runtime.translate import translate
from rs_assets.topology.branches import dominators, paths_from
from rs_assets.topology.nodes.step import Expect, ForEach
from rs_assets.topology.topology import Topology
from rs_assets.topology.user_code.expression import calls_python

# Keeps the rows of a frame, once they are computed, until the batch is staged.
Keep = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """A batch that is staged for its sinks.

    `refused` are dead letters of rows that a step after a window rejected, `judged` the rows of each expectation among
    the steps of this module, and those that failed.
    """

    sinks: dict[str, Staged]
    refused: pa.Table
    judged: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class PerBatchSteps:
    """The steps downstream of the streaming output of one query. `letters` makes rows of the dead-letter table."""

    topology: Topology
    plan: QueryPlan
    context: CompileContext
    letters: Callable[[Sequence[Dead]], pa.Table]

    def stage(self, batch: DataFrame, sinks: Mapping[str, tuple[SinkWriter, BatchMark]]) -> StagedBatch:
        """Compute `batch`, the rows of the streaming output, once and stage it for `sinks`.

        Rows of windows that do not meet an expectation, or in quarantine those on which a Python step raises, are left
        out and returned as dead letters. Without `sinks` state and expectations alone are computed. Other rows on which
        a step fails end the batch: they can be traced to the record of a source.
        """
        guarded = self._guards
        paths = paths_from(self.topology, self.plan.streaming_output)
        several = sum(paths[name] for name in sinks) > 1 or guarded or self.expects
        shared = batch.persist() if several else batch
        kept = [shared] * several

        def keep(frame: DataFrame) -> DataFrame:
            kept.append(frame.persist())
            return frame

        def handed_out(*, quarantines: bool) -> StagedBatch:
            found = BatchRecordFilter()
            frames = self._frames(shared, found, keep, quarantines=quarantines)
            staged = {name: writer.stage(frames[name], mark) for name, (writer, mark) in sinks.items()}
            return StagedBatch(staged, _once(self.letters(found.dead)), found.judged)

        try:
            if guarded or not sinks:
                # State is computed here and nowhere else, whatever happens to the steps after it.
                shared.write.format("noop").mode("overwrite").save()
            try:
                return handed_out(quarantines=False)
            except Exception as error:
                if not (guarded and isinstance(translate(error, query=self.plan.name), StepError)):
                    raise
            # Rare enough that rows are checked one by one only after the batch has failed.
            return handed_out(quarantines=True)
        finally:
            for frame in kept:
                frame.unpersist()

    @property
    def _guards(self) -> bool:
        """Whether rows of windows may have to be kept from the sinks."""
        below = self.plan.batch_nodes(self.topology)
        return self.context.quarantines and self.plan.stateful is not None and any(map(calls_python, below))

    @property
    def expects(self) -> bool:
        """Whether there are expectations among these steps."""
        return any(isinstance(node, Expect) for node in self.plan.batch_nodes(self.topology))

    def _frames(
        self, batch: DataFrame, found: BatchRecordFilter, keep: Keep, *, quarantines: bool
    ) -> dict[str, DataFrame]:
        """The rows of `batch` for each sink. A frame of which several are made, after a side effect, is kept.

        With `quarantines`, rows on which a Python step raises are left out, and added to `found`.
        """
        below = self.plan.batch_nodes(self.topology)
        if all(isinstance(node, Sink) for node in below):
            return {node.name: shown(batch, node) for node in below}
        context = replace(self.context, quarantines=quarantines, record_filter=found)
        if self.plan.stateful is not None and (quarantines or self.expects):
            batch = _addressed(batch)
        flows = {self.plan.streaming_output: Flow(batch)}
        for node in below:
            flow = compile_node(context, node, tuple(flows[i] for i in node.inputs))
            flows[node.name] = flow.computed(keep) if self._called_again(node) else flow
        return {name: flows[name].df for name in self.plan.outputs}

    def _called_again(self, node: Node) -> bool:
        """Whether the rows of a step with a side effect would be computed by several passes."""
        if not isinstance(node, ForEach):
            return False
        paths = paths_from(self.topology, node.name)
        judged = [each.name for each in self.plan.batch_nodes(self.topology) if isinstance(each, Expect)]
        return sum(paths[name] for name in self.plan.outputs) > 1 or any(paths[name] for name in judged)


def _addressed(batch: DataFrame) -> DataFrame:
    """The rows of a window with an ADDRESS.

    They have no position in a source: the split is empty, line and offset are null, the record is the row as JSON. The
    line is a number here, which identifies the row in several branches.
    """
    row, nowhere = exact_text(visible(batch.columns)), F.lit(None).cast("bigint")
    return batch.withColumns({SPLIT: F.lit(""), LINE: F.monotonically_increasing_id(), OFFSET: nowhere, RAW: row})


def _once(letters: pa.Table) -> pa.Table:
    """`letters` without duplicates from several branches, and without the numbers that identify rows."""
    distinct = letters.group_by(letters.column_names, use_threads=False).aggregate([])
    nowhere = pa.nulls(distinct.num_rows, pa.int64())
    return distinct.set_column(distinct.schema.get_field_index("line"), "line", nowhere).cast(letters.schema)


def before_rejecting(topology: Topology, plan: QueryPlan, *, quarantines: bool) -> QueryPlan:
    """`plan` with a streaming output before the first step after its window that may reject rows.

    Inside the streaming query, rows that such a step rejects could be counted, but not read again. These are
    expectations and, with `quarantines`, Python steps. Spark passes all columns to either, so the columns in state are
    the same either way.
    """
    if plan.stateful is None:
        return plan
    below = (topology[name] for name in plan.nodes if plan.stateful in topology.ancestors(name))
    rejecting = {node.name for node in below if isinstance(node, Expect) or (quarantines and calls_python(node))}
    passed = dominators(topology)[plan.streaming_output] | {plan.streaming_output}
    free = [n for n in plan.nodes if n in passed and not rejecting & (topology.ancestors(n) | {n})]
    return replace(plan, streaming_output=free[-1])

"""Events of the ops of the steps in the log of a run: what each has done so far, and which one failed.

The op `Process` does the work, so the op of a step has ended long before. Its events are written under its name
nevertheless: who selects an op on the page of a run sees its own rows, while a stream runs, too.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from dagster import MetadataValue, OpExecutionContext
from dagster._core.events import EngineEventData
from dagster._utils.error import serializable_error_info_from_exc_info

from rs_assets.common.node import Node
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.dagster.assets.roles import PROCESS, op_name
from rs_assets.errors import RsError
from rs_assets.operators.window.event_time import watermark_in_words
from rs_assets.runtime.report import BatchProgress
from rs_assets.topology.topology import Topology


class OpEvents:
    """Sums up the batches of a run by step, and reports them to Dagster."""

    def __init__(self, context: OpExecutionContext, topology: Topology) -> None:
        self._context = context
        self._topology = topology
        self._prefix = context.get_step_execution_context().step.key.removesuffix(PROCESS)
        self._query_of: dict[str, QueryPlan] = {}
        for plan in plan_queries(topology):
            self._query_of.update((node, plan) for node in plan.nodes if node not in self._query_of)
        self._latest: dict[str, BatchProgress] = {}
        self._sums: Counter[tuple[str, str]] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._said: dict[str, str] = {}

    def note(self, progress: BatchProgress) -> None:
        """Add a finished batch."""
        query = progress.query
        self._latest[query] = progress
        self._seconds[query] += progress.seconds
        self._sums[query, "batches"] += 1
        self._sums[query, "late"] += progress.rows_late
        for gate, (rows, dead) in progress.gates.items():
            step = gate.partition(".")[0]
            if self._query_of[step].name == query:
                self._sums[step, "in"] += rows
                self._sums[step, "dead"] += dead
        for sink, rows in progress.rows_out.items():
            self._sums[sink, "out"] += rows

    def report(self) -> None:
        """Report each step whose numbers have changed since the last report."""
        for node in self._topology:
            query = self._query_of[node.name].name
            text = self._text(node) if query in self._latest else ""
            if text and self._said.get(node.name) != text:
                self._said[node.name] = text
                self._event(node.name, text, self._metadata(node))

    def failed(self, error: RsError) -> None:
        """Report the error that ended the run at the step that it names, if it names one; called in its handler."""
        step = error.facts.get("step")
        if step in self._query_of:
            info = serializable_error_info_from_exc_info(sys.exc_info())
            data = EngineEventData(metadata={"remedy": MetadataValue.text(error.remedy or "none")}, error=info)
            self._report(str(step), f"the run failed at this step: {error.what}", data)

    def _text(self, node: Node) -> str:
        """What the step has done so far, in a line."""
        plan = self._query_of[node.name]
        batch, sums = self._latest[plan.name], self._sums
        if node.family == "source":
            return f"{sums[node.name, 'in']:,} rows read, {sums[node.name, 'dead']:,} dead"
        if node.family == "sink" or node.name in batch.rows_out:
            return f"{sums[node.name, 'out']:,} rows written"
        if node.stateful:
            parts = [f"{batch.state_rows:,} rows of state" + self._shared(plan), f"{sums[plan.name, 'late']:,} late"]
            if (node.name, "in") in sums:
                parts = [f"{sums[node.name, 'in']:,} rows in", f"{sums[node.name, 'dead']:,} dead", *parts]
            if batch.watermark is not None:
                parts.append(f"watermark {watermark_in_words(batch.watermark)}")
            return ", ".join(parts)
        return f"computed in query {plan.name!r}: {sums[plan.name, 'batches']:,} batches"

    @staticmethod
    def _shared(plan: QueryPlan) -> str:
        others = len(plan.states) - 1
        return f" with {others} other steps of query {plan.name!r}" if others else ""

    def _metadata(self, node: Node) -> Mapping[str, Any]:
        query = self._query_of[node.name].name
        return {
            "query": query,
            "batches": self._sums[query, "batches"],
            "seconds": round(self._seconds[query], 3),
        }

    def _event(self, step: str, text: str, metadata: Mapping[str, Any]) -> None:
        self._report(step, text, EngineEventData(metadata=metadata))

    def _report(self, step: str, text: str, data: EngineEventData) -> None:
        key = f"{self._prefix}{op_name(step)}"
        self._context.instance.report_engine_event(text, self._context.run, data, step_key=key)

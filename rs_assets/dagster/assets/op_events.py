"""Events of the ops of the steps in the log of a run: what each has done so far, and which one failed.

The op `Process` does the work, so the op of a step has ended long before. Its events are written under its name
nevertheless: who selects an op on the page of a run sees its own rows, while a stream runs, too.
"""

from __future__ import annotations

import sys
from typing import Any

from dagster import MetadataValue, OpExecutionContext
from dagster._core.events import EngineEventData
from dagster._utils.error import serializable_error_info_from_exc_info

from rs_assets.common.node import Node
from rs_assets.common.plural import count_of
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.dagster.assets.roles import PROCESS, op_name
from rs_assets.dagster.assets.sums import RunSums
from rs_assets.errors import RsError
from rs_assets.operators.window.event_time import watermark_in_words
from rs_assets.topology.nodes.step import Expect
from rs_assets.topology.topology import Topology


class OpEvents:
    """Reports the sums of a run to Dagster, each step as an event of its op."""

    def __init__(self, context: OpExecutionContext, topology: Topology) -> None:
        self._context = context
        self._topology = topology
        self._prefix = context.get_step_execution_context().step.key.removesuffix(PROCESS)
        self._query_of: dict[str, QueryPlan] = {}
        for plan in plan_queries(topology):
            self._query_of.update((node, plan) for node in plan.nodes if node not in self._query_of)
        self._said: dict[str, str] = {}

    def report(self, sums: RunSums) -> None:
        """Report each step whose numbers have changed since the last report."""
        for node in self._topology:
            query = self._query_of[node.name].name
            text = self._text(node, sums) if query in sums.latest else ""
            if text and self._said.get(node.name) != text:
                self._said[node.name] = text
                facts: dict[str, Any] = {
                    "query": query,
                    "batches": sums.batches[query],
                    "seconds": round(sums.seconds[query], 3),
                }
                self._report(node.name, text, EngineEventData(metadata=facts))

    def failed(self, error: RsError) -> None:
        """Report the error that ended the run at the step that it names, if it names one; called in its handler."""
        step = error.facts.get("step")
        if step in self._query_of:
            info = serializable_error_info_from_exc_info(sys.exc_info())
            data = EngineEventData(metadata={"remedy": MetadataValue.text(error.remedy or "none")}, error=info)
            self._report(str(step), f"the run failed at this step: {error.what}", data)

    def _text(self, node: Node, sums: RunSums) -> str:
        """What the step has done so far, in a line."""
        plan, name = self._query_of[node.name], node.name
        batch, dead = sums.latest[plan.name], f"{sums.rows(plan.name, 'dead', name):,} dead"
        came = [f"{count_of(sums.rows(plan.name, 'in', name), 'row')} in", dead] if sums.gated(plan.name, name) else []
        if node.family == "source":
            return f"{count_of(sums.rows(plan.name, 'in', name), 'row')} read, {dead}"
        if node.family == "sink" or name in batch.rows_out:
            return f"{count_of(sums.rows(plan.name, 'out', name), 'row')} written"
        if isinstance(node, Expect):
            judged = count_of(sums.rows(plan.name, "in", name), "row")
            return f"{judged} judged, {sums.rows(plan.name, 'failed', name):,} failed"
        if not node.stateful:
            batches = count_of(sums.batches[plan.name], "batch")
            return ", ".join([*came, f"computed in query {plan.name!r}: {batches}"])
        late = f"{sums.rows(plan.name, 'late', name):,} late"
        parts = [*came, f"{count_of(batch.state_rows, 'row')} of state{self._shared(plan)}", late]
        if batch.watermark is not None:
            parts.append(f"watermark {watermark_in_words(batch.watermark)}")
        return ", ".join(parts)

    @staticmethod
    def _shared(plan: QueryPlan) -> str:
        others = len(plan.states) - 1
        return f" with {count_of(others, 'other step')} of query {plan.name!r}" if others else ""

    def _report(self, step: str, text: str, data: EngineEventData) -> None:
        key = f"{self._prefix}{op_name(step)}"
        self._context.instance.report_engine_event(text, self._context.run, data, step_key=key)

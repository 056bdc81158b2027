"""Assigns sinks of late rows to the queries that write them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rs_assets.common.node import Node
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.nodes import Sink
from rs_assets.errors import TopologyError
from rs_assets.topology.chain import DURABLE
from rs_assets.topology.nodes.timed import TimedState
from rs_assets.topology.topology import Topology


def gets_late(node: Node) -> bool:
    """Whether a sink gets late rows instead of those of the step before it."""
    return isinstance(node, DeltaSink) and node.late


def with_late(topology: Topology, plans: Iterable[QueryPlan]) -> tuple[QueryPlan, ...]:
    """`plans`, each with the sinks that get late rows of its steps.

    TopologyError for a step whose rows are never late, and for one that is in several queries: each of them decides
    lateness by its own batches.
    """
    made = list(plans)
    for sink in topology.sinks:
        if gets_late(sink):
            place = _place(sink, made)
            plan = made[place]
            made[place] = replace(
                plan,
                nodes=tuple(n.name for n in topology if n.name in {*plan.nodes, sink.name}),
                sinks=(*plan.sinks, sink.name),
                late=(*plan.late, sink.name),
            )
    return tuple(made)


def unmarked(topology: Topology, plan: QueryPlan) -> list[str]:
    """The steps of a query whose rows may be late and whose watermark delay is zero."""
    roots = [node for node in map(topology.__getitem__, plan.watermark_steps) if isinstance(node, TimedState)]
    return [node.name for node in roots if not node.own_delay]


def closing(topology: Topology, plan: QueryPlan) -> bool:
    """Whether the end of input empties the state of a query."""
    states = map(topology.__getitem__, plan.states)
    return bool(plan.watermark_inputs) and not any(isinstance(node, TimedState) and node.endless for node in states)


def _place(sink: Sink, plans: list[QueryPlan]) -> int:
    """The number of the query that decides which rows are late for the step before `sink`."""
    (step,) = sink.inputs
    places = [number for number, plan in enumerate(plans) if step in plan.watermark_steps]
    if len(places) == 1:
        return places[0]
    if places:
        queries = ", ".join(plans[place].name for place in places)
        raise TopologyError(
            f"step {step!r} is in several queries ({queries}), each with other late rows",
            remedy=f"put {DURABLE} after {step!r}, so that one query computes it for all",
            step=step,
        )
    if any(step in plan.states for plan in plans):
        raise TopologyError(
            f"no row is ever late for step {step!r}: it follows another stateful step",
            remedy="use late_to on the first of them",
            step=step,
        )
    raise TopologyError(
        f"only the late rows of step {step!r} go anywhere",
        remedy="end it with a sink such as .to_delta('table')",
        step=step,
    )

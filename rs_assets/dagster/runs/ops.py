"""One op factory per family. Ops wire lazy frames (milliseconds); the last op processes the batches."""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from dagster import DagsterExecutionInterruptedError, In, Nothing, OpDefinition, OpExecutionContext, Out, Output, op

from rs_assets.common.node import Family, Node
from rs_assets.compile.planner.context import Flow
from rs_assets.dagster.assets.causes import restart_events, unchanged_events
from rs_assets.dagster.assets.events import StepEvents
from rs_assets.dagster.assets.op_events import OpEvents
from rs_assets.dagster.assets.roles import PROCESS, output_name, roles_of
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.assets.verdicts import RunResults, report_verdicts
from rs_assets.dagster.resources.resource_keys import IN_PROCESS, RUNTIME, key_of
from rs_assets.dagster.runs.compaction import delta_outputs
from rs_assets.dagster.runs.outcome import (
    AT_ONCE,
    DRAINED,
    UNBEGUN,
    cause_first,
    refuse_if_unfinished,
    refuse_interrupted,
    shown_in,
    stop_was_requested,
)
from rs_assets.dagster.runs.runtime import RuntimeResource
from rs_assets.errors import RsError, StartRefused, UserError
from rs_assets.topology.topology import Topology

Flows = Mapping[str, Flow]
# Called when a start was refused.
Refused = Callable[[OpExecutionContext], None]
OpFactory = Callable[[Topology, Node, Refused], OpDefinition]


def report_nothing(context: OpExecutionContext) -> None:
    """Do nothing: for ops without reports."""


def source_op(topology: Topology, node: Node, refused: Refused = report_nothing) -> OpDefinition:
    """Opens a source: the frame of its good records, by query."""
    return _wiring_op(topology, node, "Reads", refused)


def step_op(topology: Topology, node: Node, refused: Refused = report_nothing) -> OpDefinition:
    """Adds a stateless step; consecutive Python steps are fused when a frame is needed."""
    return _wiring_op(topology, node, "Computes", refused)


def shuffle_op(topology: Topology, node: Node, refused: Refused = report_nothing) -> OpDefinition:
    """Distributes the rows over partitions."""
    return _wiring_op(topology, node, "Distributes", refused)


def window_op(topology: Topology, node: Node, refused: Refused = report_nothing) -> OpDefinition:
    """Groups rows into event-time windows, with control rows and watermark."""
    return _wiring_op(topology, node, "Aggregates", refused)


def join_op(topology: Topology, node: Node, refused: Refused = report_nothing) -> OpDefinition:
    """Joins two streams, each with control rows and watermark."""
    return _wiring_op(topology, node, "Joins", refused)


def table_op(topology: Topology, node: Node, refused: Refused = report_nothing) -> OpDefinition:
    """Keeps the current row of each key, or what is computed from such rows."""
    return _wiring_op(topology, node, "Keeps", refused)


def processor_op(topology: Topology, node: Node, refused: Refused = report_nothing) -> OpDefinition:
    """Calls a Python function that keeps a state for each key."""
    return _wiring_op(topology, node, "Calls", refused)


def sink_op(topology: Topology, node: Node, refused: Refused = report_nothing) -> OpDefinition:
    """Binds a writer to the rows that leave the pipeline."""
    return _wiring_op(topology, node, "Writes", refused)


FACTORIES: Mapping[Family, OpFactory] = MappingProxyType(
    {
        "source": source_op,
        "step": step_op,
        "shuffle": shuffle_op,
        "window": window_op,
        "join": join_op,
        "table": table_op,
        "processor": processor_op,
        "sink": sink_op,
    }
)


def _wiring_op(topology: Topology, node: Node, verb: str, refused: Refused) -> OpDefinition:
    @op(
        name=f"{topology.namespace}__{topology.job}__{node.name}",
        description=f"{verb}: {node.detail() or node.kind}",
        ins={f"from_{name}": In(dagster_type=Any) for name in node.follows},
        out=Out(dagster_type=Any, io_manager_key=IN_PROCESS),
        tags={"dagster/compute_kind": node.family},
        # It wires the step; Dagster shows it with the op.
        required_resource_keys={key_of(node.family), RUNTIME},
    )
    def wire(context: OpExecutionContext, **upstream: Flows) -> Flows:
        inputs = {name: upstream[f"from_{name}"] for name in node.inputs}
        runtime: RuntimeResource = getattr(context.resources, RUNTIME)
        with _beginning(context, refused):
            return runtime.wire(topology, node.name, inputs, run_id=context.run_id)

    return wire


@contextmanager
def _beginning(context: OpExecutionContext, refused: Refused) -> Iterator[None]:
    """Report a start that is refused, or interrupted before it has read anything."""
    try:
        with cause_first(context):
            yield
    except DagsterExecutionInterruptedError:
        refuse_interrupted(context, UNBEGUN)
        raise
    except (StartRefused, UserError):
        refused(context)
        raise


def process_op(assets: StreamAssets, refused: Refused = report_nothing) -> OpDefinition:
    """The last op: starts the queries, waits for them, and reports the steps that data went through."""
    topology, roles = assets.topology, roles_of(assets.topology)

    @op(
        name=f"{topology.namespace}__{topology.job}__{PROCESS}",
        description="Starts the queries and waits for them; terminating the run drains them first.",
        ins={f"after_{sink.name}": In(dagster_type=Any) for sink in topology.sinks},
        out={output_name(step, role): Out(Nothing, is_required=False) for step, role in roles},
    )
    def process(
        context: OpExecutionContext,
        rs_runtime: RuntimeResource,
        **after: Flows,  # noqa: ARG001  they order the ops
    ) -> Iterator[Output[None]]:
        with _beginning(context, refused):
            rs_runtime.stand_by(topology, run_id=context.run_id)
        place = rs_runtime.run.place()
        tables = delta_outputs(topology, place.home)
        live = rs_runtime.run.mode == "start"
        ops, results = OpEvents(context, topology), RunResults(context.instance, context.run)
        events = StepEvents(
            assets,
            context,
            place,
            live=live,
            tables=tables,
            computing_s=rs_runtime.computing_s,
            judge=lambda going: report_verdicts(context.instance, assets, place, results.take if going else None),
            ops=ops,
        )
        rs_runtime.listen(events.put)
        for event in restart_events(assets, events.tags):
            context.log_event(event)
        with shown_in(context), cause_first(context), events.closing():
            try:
                ended = rs_runtime.process(on_interrupt=lambda: stop_was_requested(context))
            except DagsterExecutionInterruptedError:
                refuse_interrupted(context, AT_ONCE)
                raise
            except RsError as error:
                ops.failed(error)
                raise
        context.log.info(ended.report.unchanged_in_words or events.summary(ended.report))
        for event in unchanged_events(assets, ended.report):
            context.log_event(event)
        reported = {output_name(step, role): events.metadata(step, role) for step, role in events.seen()}
        for name, metadata in reported.items():
            yield Output(None, name, metadata=metadata)
        events.judge()
        for warning in (*ended.report.warnings, *events.failures.warnings):
            context.log.warning(warning)
        if ended.interrupted:
            context.log.info(DRAINED)
            refuse_if_unfinished(rs_runtime.run.mode, requested=ended.requested)

    return process

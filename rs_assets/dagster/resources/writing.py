"""A write of an op: its sink, and the mark under which the sink has its rows once."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from dagster import AssetExecutionContext, DagsterInstance, DagsterRun, OpExecutionContext
from dagster._core.errors import DagsterInvalidPropertyError
from dagster._core.execution.stats import StepEventStatus

from rs_assets.compile.sink import by_connector
from rs_assets.connectors.nodes import Sink
from rs_assets.connectors.sink import BatchMark
from rs_assets.dagster.resources.frames import fields_of
from rs_assets.errors import TopologyError
from rs_assets.stream.builder import StreamBuilder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The job of the topology that names a sink; nothing is stored under it.
JOB = "written"


def sink_of(to: Callable[..., Any], frame: DataFrame, namespace: str, *, connector: Any = None) -> Sink:
    """The sink that `to` adds to the rows of `frame`; TopologyError if it adds anything else."""
    rows = StreamBuilder.data_stream(namespace, JOB).from_array([], schema=fields_of(frame, "rows"))
    nodes = to(rows).build().topology.nodes
    if len(nodes) != 2 or not isinstance(nodes[1], Sink):
        extra = [node.name for node in nodes[1:] if not isinstance(node, Sink)]
        raise TopologyError(
            f"a write takes one sink and no other step, not: {', '.join(extra) or f'{len(nodes) - 1} sinks'}",
            remedy="compute the rows before; write each sink by a call of its own",
        )
    return by_connector(nodes[1], connector)


def mark_of(
    context: OpExecutionContext | AssetExecutionContext,
    sink: str,
    place: str,
    counts: MutableMapping[tuple[str, int, str, str], int],
) -> BatchMark:
    """The mark of the next frame of this step for `sink` at `place`: the same in each attempt of the step.

    Frames are counted for each place: an attempt may write to several places in another order than the one before. An
    op that is called directly belongs to no run: each of its marks is new.
    """
    op = context if isinstance(context, OpExecutionContext) else context.op_execution_context
    try:
        step = op.get_step_execution_context().step.key
    except DagsterInvalidPropertyError:
        return BatchMark(uuid.uuid4().hex, 1, sink, 0)
    key = (step, op.retry_number, sink, place)
    number = counts[key] = counts.get(key, -1) + 1
    where = hashlib.sha256(place.encode()).hexdigest()[:8]
    # No slash: the history of a Delta table is searched for writers by `pipeline/generation/sink`.
    return BatchMark(f"{first_run(op.instance, op.run, step)}.{step}.{where}", 1, sink, number)


def first_run(instance: DagsterInstance, run: DagsterRun, step: str) -> str:
    """The id of the first of the runs that attempted `step` in vain, of which `run` is the last; else its own.

    Dagster repeats a run as another one, which names its parent. A parent that ended before it came to the step counts
    neither as an attempt nor as the end of them.
    """
    first = run.run_id
    while run.parent_run_id and (parent := instance.get_run_by_id(run.parent_run_id)) is not None:
        run = parent
        tries = instance.get_run_step_stats(run.run_id, [step])
        if tries and tries[0].status == StepEventStatus.SUCCESS:
            break
        first = run.run_id if tries else first
    return first

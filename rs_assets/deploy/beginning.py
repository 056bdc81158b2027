"""Checks of what a version finds in its outputs: rows of another query, none of its own, leftover checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.manifest import Manifest, QueryFacts
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.compile.sink import writer_of
from rs_assets.connectors.nodes import Sink
from rs_assets.connectors.sink import BatchMark, Closing
from rs_assets.deploy.io_compatibility import afresh
from rs_assets.errors import TopologyChangedError
from rs_assets.runtime.io_compatibility import targets_of
from rs_assets.runtime.options import RunOptions
from rs_assets.topology.topology import Topology


def refuse_used(topology: Topology, plan: QueryPlan, now: Manifest, folder: str, options: RunOptions) -> None:
    """TopologyChangedError if a new query would not start from scratch; `now` is the manifest of its version.

    An output that another query wrote to would skip the first batches as already committed. A checkpoint left by an
    earlier query of the same name would keep the input which that query has read from the outputs, unless the outputs
    are the same. Outputs that cannot report their last batch are not checked.
    """
    job = options.home.job(topology.namespace, topology.job)
    begun = CheckpointLog(now.place(job, folder) / "checkpoint", now.aliases).begun
    generation = now.queries[folder].generation
    known = remembered(topology, plan.sinks, now, (generation,), options)
    had = {name: batch for name, batch in known if batch is not None}
    used = [name for name, batch in had.items() if batch >= 0]
    if bool(used) == begun or not had:
        return
    what = (
        f"the output {used[0]!r} has rows of another query"
        if used
        else "an earlier query of this name left a checkpoint"
    )
    raise TopologyChangedError(
        f"the query {plan.name!r} is new in this version, but {what}",
        remedy=f"write to another table under another name; or {afresh(plan)}",
        pipeline=topology.name,
    )


def refuse_missed(topology: Topology, plan: QueryPlan, now: Manifest, known: QueryFacts, options: RunOptions) -> None:
    """TopologyChangedError if an output returns to a query that went on without it: it would miss rows.

    `known` is the stored state of the query. The output may have been there in any generation.
    """
    added = tuple(name for name in plan.sinks if name not in known.sinks)
    generations = range(1, known.generation + 1)
    for name, batch in remembered(topology, added, now, generations, options):
        if batch is not None and batch >= 0:
            raise TopologyChangedError(
                f"the output {name!r} has rows of the query {plan.name!r}, which has gone on without it: later rows"
                " would be missing",
                remedy=f"write the rows from now on to another table under another name; or {afresh(plan)}",
                pipeline=topology.name,
            )


def refuse_moved(topology: Topology, plan: QueryPlan, now: Manifest, known: QueryFacts, options: RunOptions) -> None:
    """TopologyChangedError if an output with rows writes to a place that lacks them: its start would be refused.

    `known` is the stored state of the query, by current names.
    """
    places = targets_of(topology, plan)
    written = (name for name in plan.sinks if known.sinks.get(name, -1) >= 0)
    moved = tuple(name for name in written if places.get(name) != known.targets.get(name))
    for name, batch in remembered(topology, moved, now, (known.generation,), options):
        if batch is not None and batch < known.sinks[name]:
            # Without a common step or output it would be another query, with the same checkpoint.
            may_leave = plan.stateful or len(plan.sinks) > 1
            elsewhere = "write the rows from now on to that place under another name; or " if may_leave else ""
            raise TopologyChangedError(
                f"the output {name!r} moves to another place, where the rows of its earlier batches are missing",
                remedy=f"{elsewhere}leave it where it is; or {afresh(plan)}",
                pipeline=topology.name,
            )


def remembered(
    topology: Topology, sinks: Iterable[str], now: Manifest, generations: Iterable[int], options: RunOptions
) -> Iterator[tuple[str, int | None]]:
    """The last batch that each output has of each generation; None if the output cannot report it."""
    with ExitStack() as stack:
        for name in sinks:
            node = topology[name]
            assert isinstance(node, Sink)  # plans name sinks
            writer = writer_of(node, options.home, topology.namespace)
            if isinstance(writer, Closing):
                stack.callback(writer.close)
            for generation in generations:
                mark = BatchMark(now.pipeline_id, generation, now.stored_name(name), batch_id=0)
                yield name, writer.last_committed(mark)

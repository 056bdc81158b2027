"""What a query that a version begins may find: rows of another query in its outputs, a checkpoint of its name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from rs_assets.engine.checkpoint.log import CheckpointLog
from rs_assets.engine.checkpoint.manifest import Manifest
from rs_assets.engine.sink.base import BatchMark, Closing
from rs_assets.errors import TopologyChangedError
from rs_assets.pipeline.compile.query_plan import QueryPlan
from rs_assets.pipeline.compile.sink import writer_of
from rs_assets.pipeline.runtime.options import RunOptions
from rs_assets.pipeline.topology.sink import Sink
from rs_assets.pipeline.topology.topology import Topology


def refuse_used(topology: Topology, plan: QueryPlan, now: Manifest, folder: str, options: RunOptions) -> None:
    """TopologyChangedError if a query that begins would not begin: `now` is the manifest of its version.

    An output that another query wrote to would drop its first batches as known; a checkpoint that an earlier query of
    this name left would keep the input that one read from its outputs, unless they are the same. Of outputs that
    cannot say what they had nothing is known.
    """
    job = options.home.job(topology.namespace, topology.job)
    begun = CheckpointLog(now.place(job, folder) / "checkpoint", now.aliases).begun
    had = {name: batch for name, batch in _remembered(topology, plan, now, folder, options) if batch is not None}
    used = [name for name, batch in had.items() if batch >= 0]
    if bool(used) == begun or not had:
        return
    step = (plan.states or (plan.name,))[-1]
    what = (
        f"the output {used[0]!r} has rows of another one" if used else "an earlier one of this name left a checkpoint"
    )
    raise TopologyChangedError(
        f"the query {plan.name!r} begins with this version, but {what}",
        remedy=f"write to another table under another name; or begin afresh: `reset` {step} (rs-assets deploy --reset"
        f" {step}), which replaces the rows of its outputs",
        pipeline=topology.name,
    )


def _remembered(
    topology: Topology, plan: QueryPlan, now: Manifest, folder: str, options: RunOptions
) -> Iterator[tuple[str, int | None]]:
    """The last batch that each output has of the generation of the query; None of one that cannot say."""
    generation = now.queries[folder].generation
    with ExitStack() as stack:
        for name in plan.sinks:
            node = topology[name]
            assert isinstance(node, Sink)  # noqa: S101  plans name sinks
            writer = writer_of(node, options.home, topology.namespace)
            if isinstance(writer, Closing):
                stack.callback(writer.close)
            yield name, writer.last_committed(BatchMark(now.pipeline_id, generation, now.stored_name(name), batch_id=0))

"""A batch that a failed version has written to some of its outputs: the previous version would skip it there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.manifest import Manifest
from rs_assets.common.background import LOG
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.deploy.beginning import remembered
from rs_assets.errors import LeaseLostError, PipelineBusyError, RsError, SinkError, TopologyChangedError
from rs_assets.recovery import rollback_marker as returning
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.upkeep.returns import matching
from rs_assets.runtime.upkeep.savepoints import rewind
from rs_assets.topology.nodes.shuffle import ShuffleWrite
from rs_assets.topology.topology import Topology

# Another process runs the pipeline, and goes on by itself.
ELSEWHERE = (PipelineBusyError, LeaseLostError)


@dataclass(frozen=True, slots=True)
class HalfWritten:
    """A query, by its step, its last committed batch, and the outputs that have the next one."""

    step: str
    batch: int
    outputs: tuple[str, ...]


def undo_half(topology: Topology, options: RunOptions, told: Callable[[str], None]) -> frozenset[str]:
    """Undo such batches of the stopped pipeline; the outputs that keep theirs, because one of them cannot go back.

    `told` is called with a text before the first one is undone. An undoing that was interrupted is repeated.
    """
    kept: set[str] = set()
    for query in half_written(topology, options):
        told(f"the next batch is undone in {', '.join(query.outputs)}" if query.outputs else "to the last batch")
        try:
            rewind(topology, query.batch, options, step=query.step)
        except ELSEWHERE:
            raise
        except RsError as error:
            LOG.warning("rows of a failed version stay in %s: %s", ", ".join(query.outputs), error)
            kept.update(query.outputs)
    return frozenset(kept)


def half_written(topology: Topology, options: RunOptions) -> Iterator[HalfWritten]:
    """The queries with such a batch; all queries while a pipeline that was going back is interrupted."""
    job = options.home.job(topology.namespace, topology.job)
    stored = manifests.load(job)
    if stored is None:
        return
    try:
        manifest, folders = matching(topology, stored)
    except TopologyChangedError:
        # The checkpoint is that of other queries: no version has begun its own.
        return
    interrupted = returning.under_way(job) is not None
    for plan in plan_queries(topology):
        facts = manifest.queries.get(folders[plan.name])
        if facts is None:
            continue
        log = CheckpointLog(manifest.place(job, folders[plan.name]) / "checkpoint", manifest.aliases)
        last = log.last_committed()
        sinks = [name for name in plan.sinks if not isinstance(topology[name], ShuffleWrite)]
        outputs = tuple(name for name in sinks if _last(topology, name, manifest, facts.generation, options) > last)
        if outputs or interrupted:
            yield HalfWritten(plan.stateful or plan.name, last, outputs)


def _last(topology: Topology, sink: str, now: Manifest, generation: int, options: RunOptions) -> int:
    """The last batch of an output, -1 for none; also if it cannot be asked, since then it cannot go back either."""
    try:
        [(_, batch)] = remembered(topology, (sink,), now, (generation,), options)
    except SinkError:
        return -1
    return -1 if batch is None else batch

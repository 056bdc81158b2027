"""Rows of a replayed batch: dead letters for their source systems, late rows for their sinks."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.source_log import SourceLog
from rs_assets.compile.planner.context import CompileContext
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.compile.readers import reader_of, reading_of
from rs_assets.connectors.nodes import Source
from rs_assets.connectors.sink import BatchMark, SinkWriter, Staged
from rs_assets.connectors.source import DeadLettering
from rs_assets.runtime.replay.replay import Replay
from rs_assets.topology.topology import Topology


def send_dead_letters(
    topology: Topology, plan: QueryPlan, context: CompileContext, log: CheckpointLog, batch_id: int, letters: pa.Table
) -> None:
    """Pass `letters` (rows of the dead-letter table) to the sources that forward their dead letters."""
    nodes = [topology[name] for name in plan.sources]
    for node in (n for n in nodes if isinstance(n, Source)):
        reader = reader_of(node, context.home)
        if isinstance(reader, DeadLettering):
            own = letters.filter(pc.field("source") == node.name)
            reader.send_dead_letters(reading_of(context, node), SourceLog(log, node.name).batch(batch_id), own)


def stage_late(
    topology: Topology, sinks: Mapping[str, tuple[SinkWriter, BatchMark]], replay: Replay, *, empty: bool
) -> dict[str, Staged]:
    """Stage for each of `sinks` the rows of the batch that were late for its input step; `empty`: none was."""
    rows = {name: replay.rows_late_for(topology[name].inputs[0]) for name in sinks}
    return {
        name: writer.stage(rows[name].limit(0) if empty else rows[name], mark) for name, (writer, mark) in sinks.items()
    }

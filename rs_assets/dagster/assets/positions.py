"""Formats source positions for asset metadata."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import orjson
from dagster import TableRecord

from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.source_log import SourceLog
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.connectors.nodes import Source
from rs_assets.connectors.source import Positions
from rs_assets.dagster.place import Place
from rs_assets.runtime.identity import log_of
from rs_assets.runtime.record.positions import positions
from rs_assets.runtime.report import BatchProgress
from rs_assets.topology.topology import Topology

# Splits in an event: Dagster keeps each event for ever.
SHOWN = 20
# Texts of offsets by their keys; other offsets are shown as they are.
WORDS: Mapping[frozenset[str], str] = MappingProxyType(
    {
        frozenset({"bytes"}): "whole, {bytes:,} bytes",
        frozenset({"byte", "line"}): "line {line:,}, byte {byte:,}",
        frozenset({"logOffset"}): "portion {logOffset:,}, counted from 0",
    }
)


def positions_read(topology: Topology, place: Place, progress: BatchProgress) -> Mapping[str, Positions]:
    """The position of each split by source after a batch, from Spark's log; for whole files those of its newest batch.

    A source is missing if nothing of it was read yet, or nothing new for so long that its batch is not in the log any
    more.
    """
    folder = place.job(topology)
    plan = next((plan for plan in plan_queries(topology) if plan.name == progress.query), None)
    log = log_of(manifests.load(folder), plan, folder) if plan is not None else None
    if log is None:
        return {}
    sources = [node for node in map(topology.__getitem__, progress.offsets) if isinstance(node, Source)]
    batches = {node.name: _last_read(log, node.name, progress.batch_id) for node in sources}
    found = {node.name: positions(node, log, batches[node.name], place.home) for node in sources}
    return {name: splits for name, splits in found.items() if splits}


def _last_read(log: CheckpointLog, source: str, batch_id: int) -> int:
    """The last batch up to `batch_id` that read rows of `source`; -1 if it is not in the log any more.

    At the end of the input windows fire in a batch that reads nothing.
    """
    batch = SourceLog(log, source).batch(batch_id)
    while batch.id > 0 and batch.start == batch.end:
        batch = batch.log.batch(batch.id - 1)
    return batch.id if batch.id == 0 or log.offsets(batch.id - 1) is not None else -1


def as_records(splits: Positions, **leading: str) -> list[TableRecord]:
    """A row for each split, after the columns `leading`; only the first splits, and the number of the others."""
    rows = [TableRecord({**leading, "split": name, "offset": offset_in_words(splits[name])}) for name in sorted(splits)]
    more = [TableRecord({**leading, "split": f"{len(rows) - SHOWN:,} more", "offset": ""})] if len(rows) > SHOWN else []
    return rows[:SHOWN] + more


def offset_in_words(offset: str) -> str:
    """The JSON text of an offset in words.

    >>> offset_in_words('{"byte": 4000, "line": 31}'), offset_in_words("17")
    ('line 31, byte 4,000', '17')
    """
    said = orjson.loads(offset)
    words = WORDS.get(frozenset(said)) if isinstance(said, dict) else None
    return words.format(**said) if words is not None else offset

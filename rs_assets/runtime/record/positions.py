"""The position of each source at the end of a batch, by split, from Spark's own log."""

from __future__ import annotations

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.source_log import SourceLog
from rs_assets.common.home import Home
from rs_assets.compile.readers import reader_of
from rs_assets.connectors.nodes import Source
from rs_assets.connectors.source import Positions


def positions(source: Source, log: CheckpointLog, batch_id: int, home: Home | None = None) -> Positions:
    """The splits of `source` at the end of batch `batch_id`, with offsets as JSON text; none if nothing was read."""
    batch = SourceLog(log, source.name).batch(batch_id)
    return {} if batch.end is None else reader_of(source, home).splits(batch)

"""What the catalog knows of one pipeline, for everything that shows it."""

from __future__ import annotations

from pipelines.topology.topology import Topology
from resources.checkpoint.storage import storage_named
from resources.checkpoint.storage.base import CheckpointRow
from resources.home import Home


def checkpoints_of(topology: Topology, home: Home, source: str | None = None) -> list[CheckpointRow]:
    """The checkpoints of a pipeline, or of one of its sources, in the order in which they were written."""
    stored = storage_named("delta", catalog=home.catalog).rows()
    mine = (row for row in stored if (row.namespace, row.group) == (topology.namespace, topology.job))
    return [row for row in mine if source in (None, row.topic)]

"""Standard output as a sink."""

from __future__ import annotations

from dataclasses import dataclass

from rs_assets.common.node import positive
from rs_assets.connectors.nodes import Sink
from rs_assets.errors import TopologyError


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintSink(Sink):
    """Prints at most `max_rows` of each batch as a table to standard output."""

    max_rows: int = 20

    def __post_init__(self) -> None:
        """Refuse an invalid limit."""
        Sink.__post_init__(self)
        if not positive(self.max_rows):
            raise TopologyError(f"step {self.name!r}: max_rows must be a positive number")

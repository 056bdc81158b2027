"""The sink that writes into a channel of this process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from rs_assets.connectors.sink import BatchMark, Staged
from rs_assets.records.rows import as_dicts

if TYPE_CHECKING:
    from rs_assets.connectors.memory import MemoryChannel, Record


@dataclass(frozen=True, slots=True)
class MemoryWriter:
    """Collects batches on the driver and appends them to `channel`, which stores the number of the last batch."""

    name: str
    channel: MemoryChannel

    def location(self) -> str:
        """The name shown to users."""
        return "memory"

    def committed(self, mark: BatchMark) -> bool:
        """Whether the channel got this batch."""
        return self.channel.delivered(mark.writer) >= mark.batch_id

    def last_committed(self, mark: BatchMark) -> int | None:  # noqa: ARG002  the protocol's form
        """None: a channel ends with its process."""
        return None

    def check_rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> None:
        """Always possible."""

    def rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> str:  # noqa: ARG002  the protocol's form
        """Does nothing: a channel ends with its process."""
        return "delivers rows again"

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:
        """Collect the rows."""
        rows = as_dicts(batch.toArrow())
        return Staged(lambda: self._deliver(rows, mark))

    def _deliver(self, rows: list[Record], mark: BatchMark) -> int:
        fresh = self.channel.deliver(rows, writer=mark.writer, batch_id=mark.batch_id)
        return len(rows) if fresh else 0

"""Spark's log of one source of a query: its offsets, batch by batch, as Spark's text."""

from __future__ import annotations

from dataclasses import dataclass

from rs_assets.checkpoint.log import NOTHING_READ, CheckpointLog, PlannedFile


@dataclass(frozen=True, slots=True)
class SourceLog:
    """The log of one query, for `source`, which is its current name.

    `repeated`: batches after the last committed one are computed again, over what was planned for them.
    """

    log: CheckpointLog
    source: str
    repeated: bool = False

    @property
    def stored_name(self) -> str:
        """The name of the source in the checkpoint."""
        return self.log.aliases.get(self.source, self.source)

    @property
    def committed(self) -> str | None:
        """The offset up to which Spark has committed the source; None if it has read nothing."""
        return self.offset(self.log.last_committed())

    @property
    def planned(self) -> bool:
        """Whether a batch is planned that Spark has not committed."""
        return self.log.offsets(self.log.last_committed() + 1) is not None

    def offset(self, batch_id: int) -> str | None:
        """The offset at the end of a batch; None if there is no such batch, or nothing was read before its end."""
        offsets = self.log.offsets(batch_id)
        text = offsets.sources.get(self.source, NOTHING_READ) if offsets else NOTHING_READ
        return None if text == NOTHING_READ else text

    def batch(self, batch_id: int) -> SourceBatch:
        """The part of a batch that reads the source."""
        return SourceBatch(self, batch_id)

    def files(self) -> list[PlannedFile]:
        """All files that Spark's file source has planned, as far as they are still in its log."""
        return self.log.planned_files(self.source)


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """The part of a planned batch that reads one source: after `start` (None: from the first record) up to `end`."""

    log: SourceLog
    id: int

    @property
    def start(self) -> str | None:
        """The offset at the end of the previous batch."""
        return self.log.offset(self.id - 1)

    @property
    def end(self) -> str | None:
        """The offset at the end of this batch; None if nothing was read before its end."""
        return self.log.offset(self.id)

    @property
    def files(self) -> list[PlannedFile]:
        """The files that Spark's file source planned for this batch."""
        return self.log.log.planned_files(self.log.source, self.id)

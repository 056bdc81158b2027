"""Spark's log with the older batches that were recorded elsewhere, to read their input again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from rs_assets.checkpoint.log import BatchOffsets, CheckpointLog


class RecalledLog(CheckpointLog):
    """A log that also knows the plans of batches which Spark has dropped.

    `recall` returns them, by stored names of sources, when one is first needed; it gets the oldest plan in Spark's log.
    """

    def __init__(
        self,
        folder: Path,
        aliases: Mapping[str, str] | None = None,
        *,
        recall: Callable[[BatchOffsets], Mapping[int, BatchOffsets]],
    ) -> None:
        super().__init__(folder, aliases)
        self._recall = recall

    def offsets(self, batch_id: int) -> BatchOffsets | None:
        """The planned end of a batch, from Spark's log or from the older ones."""
        found = super().offsets(batch_id)
        if found is not None or batch_id not in self.older:
            return found
        recalled = self.older[batch_id]
        return replace(recalled, sources={self._current(name): end for name, end in recalled.sources.items()})

    @cached_property
    def older(self) -> Mapping[int, BatchOffsets]:
        """The batches that only the record has."""
        planned = self.planned_batches()
        first = super().offsets(planned[0]) if planned else None
        if first is None or first.batch_id == 0:
            return {}
        stored = {self.aliases.get(name, name): end for name, end in first.sources.items()}
        return self._recall(replace(first, sources=stored))

    def _current(self, stored: str) -> str:
        return next((name for name, old in self.aliases.items() if old == stored), stored)

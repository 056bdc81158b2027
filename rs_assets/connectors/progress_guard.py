"""Ensures that a sink's progress never goes backwards: the target was then removed or restored meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field

from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import SinkError


@dataclass(frozen=True, slots=True)
class ProgressGuard:
    """The last batch that was seen in a sink, by writer, for the life of this process."""

    batches: dict[str, int] = field(default_factory=dict)

    def last(self, mark: BatchMark) -> int:
        """The last batch of the writer of `mark` that was seen, -1 for none."""
        return self.batches.get(mark.writer, -1)

    def advance(self, mark: BatchMark, now: int, *, step: str, place: str) -> int:
        """Record that batch `now` is the last one, and return it; SinkError if a later one was seen before."""
        before = self.last(mark)
        if now < before:
            has = "holds no batch" if now < 0 else f"ends at batch {now}"
            raise SinkError(
                f"the sink {has} of this pipeline and had batch {before}: it was removed, or replaced by an older copy",
                remedy="put it back as it was and start again, or read everything again (--new-generation)",
                step=step,
                place=place,
            )
        self.batches[mark.writer] = now
        return now

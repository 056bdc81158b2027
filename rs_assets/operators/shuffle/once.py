"""A writer for the places of shuffles: like the sink's own, but what it has written is read and cannot go back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame

from rs_assets.connectors.sink import BatchMark, Closing, Fencing, LastWriter, SinkWriter, Staged
from rs_assets.errors import SinkError


class WholeEnd(Protocol):
    """Where readers learn how far a place is whole."""

    def note(self) -> None:
        """Tell them of the batch that was committed just now."""
        ...

    def close(self) -> None:
        """Give connections back; may be called twice, and `note` may follow."""
        ...


@dataclass(frozen=True, slots=True)
class OnceWriter:
    """Hands batches, as `prepared` makes them, to the sink's writer `inner`, and notes each at the `end`, if any."""

    inner: SinkWriter
    prepared: Callable[[DataFrame, BatchMark], DataFrame]
    end: WholeEnd | None = None

    @property
    def name(self) -> str:
        """The name of the step."""
        return self.inner.name

    def location(self) -> str:
        """Where the rows lie."""
        return self.inner.location()

    def committed(self, mark: BatchMark) -> bool:
        """Whether the batch is there."""
        return self.inner.committed(mark)

    def last_committed(self, mark: BatchMark) -> int | None:
        """The last batch that is there."""
        return self.inner.last_committed(mark)

    def last_writer(self, mark: BatchMark) -> LastWriter:
        """Who wrote last, as the sink's writer knows it."""
        return self.inner.last_writer(mark) if isinstance(self.inner, Fencing) else LastWriter()

    def raise_fence(self, mark: BatchMark) -> None:
        """As the sink's writer does it."""
        if isinstance(self.inner, Fencing):
            self.inner.raise_fence(mark)

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:
        """Write the batch out of sight."""
        return self._noted(self.inner.stage(self.prepared(batch, mark), mark))

    def close(self) -> None:
        """Give up what was staged, where the sink's writer holds something open, and the connection."""
        if self.end is not None:
            self.end.close()
        if isinstance(self.inner, Closing):
            self.inner.close()

    def _noted(self, staged: Staged) -> Staged:
        end = self.end
        if end is None:
            return staged

        def commit() -> int:
            rows = staged.commit()
            if rows:
                end.note()
            return rows

        return Staged(commit)

    def check_rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> None:  # noqa: ARG002  never
        """Refused: another query has read the rows."""
        raise SinkError(
            "the rows of a durable shuffle cannot be taken back: the query behind it has read them",
            remedy="begin a new generation (--new-generation)",
            step=self.name,
        )

    def rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> str:
        """Refused."""
        self.check_rewind(kept, begun, had)
        raise AssertionError

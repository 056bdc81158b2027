"""The writer of durable shuffles: like the sink's writer, but without rollback, because the rows are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame

from rs_assets.connectors.sink import BatchMark, Closing, Fencing, LastWriter, SinkWriter, Staged


class WholeEnd(Protocol):
    """Lets readers know how far a shuffle is complete."""

    def note(self) -> None:
        """Publish the batch committed just now."""
        ...

    def close(self) -> None:
        """Close connections; may be called twice, and `note` may follow."""
        ...


@dataclass(frozen=True, slots=True)
class OnceWriter:
    """Passes batches, after `prepared`, to the sink's writer `inner`, and records each at the `end`, if any."""

    inner: SinkWriter
    prepared: Callable[[DataFrame, BatchMark], DataFrame]
    end: WholeEnd | None = None

    @property
    def name(self) -> str:
        """The name of the step."""
        return self.inner.name

    def location(self) -> str:
        """The location of the rows."""
        return self.inner.location()

    def committed(self, mark: BatchMark) -> bool:
        """Whether the batch is committed."""
        return self.inner.committed(mark)

    def last_committed(self, mark: BatchMark) -> int | None:
        """The last committed batch."""
        return self.inner.last_committed(mark)

    def last_writer(self, mark: BatchMark) -> LastWriter:
        """The last writer, as the sink's writer knows it."""
        return self.inner.last_writer(mark) if isinstance(self.inner, Fencing) else LastWriter()

    def raise_fence(self, mark: BatchMark) -> None:
        """Delegates to the sink's writer."""
        if isinstance(self.inner, Fencing):
            self.inner.raise_fence(mark)

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:
        """Write the batch without publishing it."""
        return self._noted(self.inner.stage(self.prepared(batch, mark), mark))

    def close(self) -> None:
        """Discard staged data, if the sink's writer holds something open, and close the connection."""
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

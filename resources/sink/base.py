"""What every sink does with a batch: stage it out of sight, then commit it in one step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class BatchMark:
    """Who writes which batch. A sink stores it in the same transaction as the rows and refuses it a second time.

    `token` is the fencing token of the lease that the driver holds: a sink that has seen a greater one refuses.
    """

    pipeline_id: str
    generation: int
    sink: str
    batch_id: int
    token: int = 0

    @property
    def writer(self) -> str:
        """The id under which the last batch is remembered; another generation is another writer."""
        return f"{self.pipeline_id}/g{self.generation}/{self.sink}"

    @property
    def fence(self) -> str:
        """The id under which the greatest token is remembered: one a pipeline and sink, for all generations."""
        return f"{self.pipeline_id}/fence/{self.sink}"

    def of_generation(self, generation: int) -> BatchMark:
        """The same batch of another generation."""
        return replace(self, generation=generation)

    @property
    def folder(self) -> str:
        """A name for the files of this batch."""
        return f"g{self.generation:04d}-b{self.batch_id:012d}"


@dataclass(frozen=True, slots=True)
class Staged:
    """A batch that is written but not visible; `commit` makes it so and returns the number of rows."""

    commit: Callable[[], int]


@runtime_checkable
class Closing(Protocol):
    """A writer that holds a connection; the runtime closes it at the end of a run, whatever ended it."""

    def close(self) -> None:
        """Give up what was staged and not committed, and the connection; may be called twice."""
        ...


class SinkWriter(Protocol):
    """A sink as the runtime sees it."""

    @property
    def name(self) -> str:
        """The name of the step."""
        ...

    def committed(self, mark: BatchMark) -> bool:
        """Whether this batch is visible already."""
        ...

    def last_committed(self, mark: BatchMark) -> int | None:
        """The last batch of this writer and generation that is visible, -1 for none; None if the sink forgets."""
        ...

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:
        """Compute the batch once and write it where nobody sees it; called at most once a batch and try."""
        ...

    def rewind(self, kept: BatchMark, begun: BatchMark) -> str:
        """Undo all batches behind `kept`, and remember `begun` (the same batch of a later generation) as the last one.

        Returns what was done, for people; may be called twice. SinkError, and nothing is changed, if it cannot be done
        without touching rows of others. A sink that forgets does nothing.
        """
        ...

    def location(self) -> str:
        """Where a person finds the rows."""
        ...

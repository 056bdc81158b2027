"""The reader of a durable shuffle, for tables and topics."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.source_log import SourceBatch, SourceLog
from rs_assets.connectors.source import BEGIN_ANEW, Follower, Known, Positions, Reading, Start, Watch, Watching
from rs_assets.errors import CheckpointError, TopologyChangedError
from rs_assets.operators.shuffle.base import ShufflePlace
from rs_assets.operators.shuffle.purging import ShufflePurge


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleReader:
    """Exactly once: the rows that the step `after` has written into `place`."""

    name: str
    after: str
    place: ShufflePlace

    def stream(self, reading: Reading) -> DataFrame:
        """The rows from the first one on.

        TopologyChangedError if rows with other fields wait, CheckpointError if the query would miss purged rows.
        """
        schema = reading.written_by(self.after)
        if reading.schema_of(lambda: schema) != schema:
            raise TopologyChangedError(
                f"the rows of the durable shuffle {self.name!r} have other fields than those that wait in it",
                remedy=BEGIN_ANEW,
                step=self.name,
            )
        if not CheckpointLog(reading.folder / "checkpoint").begun and not self.place.whole():
            raise CheckpointError(
                f"the query after the shuffle {self.name!r} begins from scratch, but rows of it were purged",
                remedy=BEGIN_ANEW,
                step=self.name,
            )
        return self.place.stream(reading.spark, schema, name=reading.name)

    def batch(self, reading: Reading, batch: SourceBatch) -> DataFrame:
        """The rows between the offsets of a batch."""
        schema = reading.schema_of(lambda: reading.written_by(self.after))
        return self.place.batch(reading.spark, schema, start=batch.start, end=str(batch.end))

    def splits(self, batch: SourceBatch) -> Positions:
        """The splits of the storage."""
        return self.place.splits(str(batch.end))

    def await_visible(self) -> None:
        """Delegates to the storage."""
        self.place.await_visible()

    def has_more(self, log: SourceLog) -> bool:
        """Delegates to the storage."""
        return self.place.has_more(log.committed)

    def follower(self) -> Follower:
        """Purges the rows that all queries have passed."""
        return ShufflePurge(self.place)

    def check(self, start: Start) -> Known:
        """Delegates to the storage."""
        return self.place.check_reader(self.name, start)

    def watch(self, watching: Watching) -> Watch:
        """The guard of the storage."""
        return self.place.watch(self.name, watching)

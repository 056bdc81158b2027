"""The protocol of durable shuffles: storage that one query writes, each batch once, and others read as a stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from rs_assets.connectors.sink import SinkWriter
from rs_assets.connectors.source import Known, Start, Watch, Watching


class ShufflePlace(Protocol):
    """A table or a topic that one pipeline fills and empties. Offsets are text, as in Spark's log."""

    def begin(self, schema: StructType) -> None:
        """Create the storage again for rows of `schema`; the contents of an earlier generation are deleted."""
        ...

    def resume(self) -> None:
        """Let readers see the commits of an earlier run, before the queries of a run start."""
        ...

    def untouched(self, schema: StructType | None = None) -> bool:
        """Whether `begin` has made the storage, for rows of `schema` (None: of any), and nothing was written since."""
        ...

    def check(self, schema: StructType, *, step: str) -> None:
        """TopologyError, which names the field, for rows that the storage cannot hold."""
        ...

    def whole(self) -> bool:
        """Whether nothing has been purged since `begin`, so that a new reader would miss no row."""
        ...

    def writer(self, name: str) -> SinkWriter:
        """Writes batches exactly once; they cannot be rolled back."""
        ...

    def stream(self, spark: SparkSession, schema: StructType, *, name: str) -> DataFrame:
        """The rows from the first one on, with REASON."""
        ...

    def batch(self, spark: SparkSession, schema: StructType, *, start: str | None, end: str) -> DataFrame:
        """The rows between two offsets (None: from the first), with REASON and ADDRESS."""
        ...

    def await_visible(self) -> None:
        """Return when new readers see every committed batch; SinkError after half a minute."""
        ...

    def has_more(self, offset: str | None) -> bool:
        """Whether there are rows after the offset of a reader (None: any rows); True in doubt."""
        ...

    def splits(self, offset: str) -> Mapping[str, str]:
        """The splits of the storage with their offsets as JSON text."""
        ...

    def check_reader(self, source: str, start: Start) -> Known:
        """The storage's entry in the manifest for the step `source`, as `SourceReader.check`."""
        ...

    def watch(self, source: str, watching: Watching) -> Watch:
        """The guard of the storage while a query reads it as the step `source`."""
        ...

    def purge(self, offsets: list[str]) -> None:
        """Delete the rows that all readers have passed, one offset a reader."""
        ...

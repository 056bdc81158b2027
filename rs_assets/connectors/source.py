"""What a source is to the runtime: a stream of rows, any batch of them again, and the splits that offsets count."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol, runtime_checkable

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from rs_assets.checkpoint.source_log import SourceBatch, SourceLog
from rs_assets.errors import DataLossError, RsError

# Splits with their offsets, as JSON text.
Positions = Mapping[str, str]
# Splits with how far each goes now: bytes of a file, the next offset of a partition.
Ends = Mapping[str, int]
# What the manifest keeps of the input of a source between runs; only its reader knows what it means.
Known = Mapping[str, int]

ENDED = "the input had ended, and now there is more of it"
BEGIN_ANEW = "begin a new generation (--new-generation)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a run lends a reader that makes frames.

    `name` keys the source in Spark's checkpoint, and `folder` belongs to the query that reads it. `schema_of(infer)` is
    the declared schema of the source, or what `infer` gave at the first start: it is pinned with the checkpoint.
    `written_by(step)` is the schema of what a step writes into a durable shuffle. `pruned`: the stream may pass over
    what nobody reads of a record (see `Pruning`). `placed`: its rows have their ADDRESS, if the reader is `Placed`.
    """

    spark: SparkSession
    name: str
    folder: Path
    schema_of: Callable[[Callable[[], StructType]], StructType]
    written_by: Callable[[str], StructType]
    max_line_bytes: int
    pruned: bool = False
    placed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What is known of a source when a run begins, before Spark is there.

    `known` is what the last check, or a watch, has kept in the manifest. `logs` are those of the queries that read the
    source, at least one. `sealed`: the input of the generation had ended. `note(losses)` writes down what is lost
    and is no error; a loss that was noted before is passed over.
    """

    known: Known
    logs: Sequence[SourceLog]
    sealed: bool
    note: Callable[[Sequence[object]], None]


class SourceReader(Protocol):
    """A source as the runtime sees it; the other protocols of this module are for those that can more.

    A reader is made of its node alone, often, and before Spark is there: it holds no connection. Offsets are the text
    of Spark's log.
    """

    @property
    def name(self) -> str:
        """The name of the step."""
        ...

    def stream(self, reading: Reading) -> DataFrame:
        """The rows as a stream: the fields and REASON, which is null for a record that can be used."""
        ...

    def batch(self, reading: Reading, batch: SourceBatch) -> DataFrame:
        """The rows of a planned batch again, just those: the fields, REASON and ADDRESS."""
        ...

    def splits(self, batch: SourceBatch) -> Positions:
        """The splits at the end of a batch, with their offsets as JSON text; asked only if something was read."""
        ...

    def check(self, start: Start) -> Known:
        """What the manifest shall keep of the input.

        Called once a run. SealedError if there is more behind the end of a sealed generation, DataLossError if input
        that was not read is gone or has changed, SourceReadError if the source cannot be read at all.
        """
        ...


class Watch:
    """Guards a source while a query reads it; this one guards nothing, others override what they need.

    Made once for each query of a run and source. `begin` is called before the query starts, the others, for a batch at
    a time, on Spark's thread: `planned`, `computed`, `check`, `read`; a batch that fails may end behind each of them.
    """

    __slots__ = ()

    @property
    def splits(self) -> int:
        """How many splits it has seen, 0 if it does not count them."""
        return 0

    def begin(self) -> None:
        """Look at the source before the query starts, again after each restart of it; SourceReadError."""

    def planned(self, batch_id: int) -> None:
        """A batch is planned and not computed yet; DataLossError if it cannot be read as it was planned."""

    def computed(self) -> None:
        """The batch was read; BadRecordError or SourceReadError if Spark read something else than is there."""

    def plain(self) -> int | None:
        """How many records the batch has, if a stream that is pruned cannot have missed a bad one; None otherwise."""
        return None

    def check(self, batch_id: int) -> None:
        """The last look before the sinks commit; DataLossError if the batch may lack records."""

    def read(self) -> Known:
        """What the manifest shall keep of the batch, which is committed, at the end of the run."""
        return {}

    def explain(self, batch_id: int) -> DataLossError | None:  # noqa: ARG002
        """Why Spark could not read a batch, if it is for lost records."""
        return None

    def plans_again(self, failure: RsError) -> bool | None:  # noqa: ARG002
        """Whether a batch that ended with `failure` is to be planned anew, if no sink has it.

        False forbids it, None leaves it to the other sources of the query.
        """
        return None

    def close(self) -> None:
        """Give connections back; may be called twice, and `begin` may follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """What a run lends a watch.

    `known()` is what the manifest keeps of the source's input now, `keep(facts)` adds to it at once. `note` is that of
    `Start`, `pruned` that of the query's `Reading`.
    """

    log: SourceLog
    known: Callable[[], Known]
    keep: Callable[[Known], None]
    note: Callable[[Sequence[object]], None]
    max_line_bytes: int
    pruned: bool = False


@runtime_checkable
class Watched(Protocol):
    """A reader whose input could change while a batch is computed, without a word from Spark."""

    def watch(self, watching: Watching) -> Watch:
        """The guard for one query of a run."""
        ...


@runtime_checkable
class Pruning(Protocol):
    """A reader whose stream can leave to its watch to find out that no record is bad.

    Such a stream passes over the fields that nobody reads, and over the rest of a record that a filter drops; its rows
    are counted by `Watch.plain`. What that cannot answer for is read again without.
    """

    def prunes(self, max_line_bytes: int) -> bool:
        """Whether it is worth trying with the input that is there."""
        ...


@runtime_checkable
class Complete(Protocol):
    """A reader that can tell of input that was passed over without a word."""

    def check_all_read(self, log: SourceLog, before_ms: int) -> None:
        """SourceReadError for input that was there at `before_ms`, since 1970, and that no batch of the log has.

        Called at the end of a run that has read all there was.
        """
        ...


@runtime_checkable
class Metered(Protocol):
    """A reader whose progress can be shown in bytes."""

    def size(self) -> int:
        """How many bytes there are."""
        ...

    def done(self, offset: str) -> int:
        """How many of them lie before an offset."""
        ...


class Follower(Protocol):
    """Follows one source through a run, on the journal's thread; a fault of it ends nothing and is told of."""

    @property
    def effect(self) -> str:
        """What is not done while it fails, for people."""
        ...

    def committed(self, ends: Sequence[str | None]) -> None:
        """Spark and the catalog have the source up to `ends`, one for each query that reads it (None: nothing).

        Called with new batches; RsError if it could not be passed on, which the next call must make up for.
        """
        ...

    def finish(self, ends: Sequence[str | None]) -> None:
        """The run ends, and there is nothing more to come: the last call but `close`, missing behind a failure."""
        ...

    def close(self) -> None:
        """Give connections back; may be called twice."""
        ...


@runtime_checkable
class Followed(Protocol):
    """A reader whose system is told what was read for good: to show it, or to let go of it."""

    def follower(self) -> Follower | None:
        """One for a run; None if nobody asked for it."""
        ...


@runtime_checkable
class Settling(Protocol):
    """A reader of what another query of the pipeline writes, where that may be seen late."""

    def settle(self) -> None:
        """Return when a query that starts now sees every batch that was committed; SinkError if that lasts."""
        ...


@runtime_checkable
class DeadLettering(Protocol):
    """A reader that can send bad records on within its own system."""

    def send_letters(self, reading: Reading, batch: SourceBatch, letters: pa.Table) -> None:
        """Send those of `letters` (rows of the dead-letter table, of all sources) that are its own.

        Called before the table has them, and again with a batch that is repeated: at least once.
        """
        ...


@runtime_checkable
class Ordered(Protocol):
    """A reader of several files a batch: rows of one batch do not come in the order in which they were written."""

    def order(self) -> tuple[Column, Column, Column]:
        """Where a row stands among those of its batch, as ORDER has it; null where that says nothing."""
        ...


@runtime_checkable
class Placed(Protocol):
    """A reader of splits that grow, whose stream can tell of each row which of them it came from, and where it stood.

    LINE grows within a split, over all batches.
    """

    @property
    def placed(self) -> bool:
        """True: `stream` obeys `Reading.placed`, and `splits` gives the names that SPLIT has."""
        ...


@runtime_checkable
class Growing(Protocol):
    """A reader whose splits can be looked at while nothing runs."""

    def ends(self, patience: timedelta) -> Ends:
        """The splits as they are now; SourceReadError if the system does not answer within `patience`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """How far a reader lies behind the end of its source, in what the source counts."""

    bytes: int = 0
    records: int = 0


@runtime_checkable
class Lagging(Protocol):
    """A reader that can tell how much there is behind an offset."""

    def lag(self, offset: str | None, patience: timedelta) -> Lag:
        """What was not read up to `offset` (None: anything); SourceReadError as for `ends`."""
        ...


def listed(losses: Sequence[object], *, at_most: int = 5) -> str:
    """Losses as text for an error: the first few, and how many more there are."""
    more = f" and {len(losses) - at_most} partitions more" if len(losses) > at_most else ""
    return "; ".join(str(loss) for loss in losses[:at_most]) + more

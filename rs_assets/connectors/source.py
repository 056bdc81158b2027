"""The source interface: a stream of rows, any planned batch again, and the splits that offsets count."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol, runtime_checkable

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from rs_assets.checkpoint.source_log import SourceBatch, SourceLog
from rs_assets.common.plural import count_of
from rs_assets.errors import DataLossError, RsError, SealedError
from rs_assets.records.policy import BadRecords

# Splits with their offsets, as JSON text.
Positions = Mapping[str, str]
# The current end of each split: bytes of a file, the next offset of a partition.
Ends = Mapping[str, int]
# The facts about a source's input that the manifest stores between runs; only its reader interprets them.
Known = Mapping[str, int]

ENDED = "the input had ended, and now there is more of it"
BEGIN_ANEW = "begin a new generation (--new-generation)"


def sealed_error(name: str, *, what: str = ENDED, how: str = "", **facts: object) -> SealedError:
    """The error of the source `name` for input that came after the end of the generation; `how` to begin a new one."""
    return SealedError(what, remedy=f"{BEGIN_ANEW}{how}", source=name, **facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The context in which a reader makes frames.

    `name` is the source's key in Spark's checkpoint, and `folder` belongs to the query that reads it.
    `schema_of(infer)` is the declared schema of the source, or the result of `infer` at the first start, which is
    pinned with the checkpoint. `written_by(step)` is the schema of a step's rows in a durable shuffle. `bad_records`
    is the policy of the source. `positioned`: the rows of its stream have their ADDRESS, if the reader is `Positioned`.
    `addressed`: those of a batch must have it. `ordered`: the order of the rows of its stream is asked for.
    """

    spark: SparkSession
    name: str
    folder: Path
    schema_of: Callable[[Callable[[], StructType]], StructType]
    written_by: Callable[[str], StructType]
    max_line_bytes: int
    bad_records: BadRecords = BadRecords.FAIL
    positioned: bool = False
    addressed: bool = True
    ordered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The facts about a source when a run begins, before Spark is started.

    `known` is what the last check, or a watch, has stored in the manifest. `logs` are those of the queries that read
    the source, at least one. `sealed`: the input of the generation had ended. `note(losses)` reports losses that are
    not an error; a loss that was reported before is skipped.
    """

    known: Known
    logs: Sequence[SourceLog]
    sealed: bool
    note: Callable[[Sequence[object]], None]


class SourceReader(Protocol):
    """A source as the runtime sees it; the other protocols of this module are optional abilities.

    A reader is made from its node alone, often, and before Spark is started: it holds no connection. Offsets are the
    text in Spark's log.
    """

    @property
    def name(self) -> str:
        """The name of the step."""
        ...

    def stream(self, reading: Reading) -> DataFrame:
        """The rows as a stream: the fields and REASON, which is null for a record that can be used.

        A stream that refuses or leaves out bad records by itself has no REASON: see `BatchExecution.judged`.
        """
        ...

    def batch(self, reading: Reading, batch: SourceBatch) -> DataFrame:
        """Exactly the rows of a planned batch again: the fields, REASON and ADDRESS. Required for exactly-once.

        Without `reading.addressed` it may be what `stream` gives: without ADDRESS, and without REASON.
        """
        ...

    def splits(self, batch: SourceBatch) -> Positions:
        """The splits at the end of a batch, with their offsets as JSON text; called only if something was read."""
        ...

    def check(self, start: Start) -> Known:
        """The facts about the input for the manifest.

        Called once a run. SealedError if there is more after the end of a sealed generation, DataLossError if unread
        input is gone or has changed, SourceReadError if the source cannot be read at all.
        """
        ...


class Watch:
    """Guards a source while a query reads it; this base class guards nothing, subclasses override what they need.

    Made once for each query of a run and source. `begin` is called before the query starts. The others are called for
    one batch after the other, on Spark's thread: `planned`, `computed`, `check`, `read`; a failed batch may end after
    any.
    """

    __slots__ = ()

    @property
    def splits(self) -> int:
        """The number of known splits, 0 if it does not count them."""
        return 0

    def begin(self) -> None:
        """Check the source before the query starts, and after each restart of the query; SourceReadError."""

    def planned(self, batch_id: int) -> None:
        """A batch is planned and not computed yet; DataLossError if it can no longer be read as planned."""

    def computed(self) -> None:
        """The batch was read; BadRecordError or SourceReadError if Spark misread the input."""

    def check(self, batch_id: int) -> None:
        """The last check before the sinks commit; DataLossError if the batch may lack records."""

    def read(self) -> Known:
        """The facts about the committed batch for the manifest, stored at the end of the run."""
        return {}

    def explain(self, batch_id: int) -> DataLossError | None:  # noqa: ARG002
        """The error if Spark could not read a batch because of lost records."""
        return None

    def plans_again(self, failure: RsError) -> bool | None:  # noqa: ARG002
        """Whether a batch that ended with `failure` is planned again, provided that no sink has it.

        False forbids it, None leaves it to the other sources of the query.
        """
        return None

    def close(self) -> None:
        """Close connections; may be called twice, and `begin` may follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """The context of a watch.

    `known()` returns the manifest's facts about the source's input, `keep(facts)` adds to them at once. `note` is that
    of `Start`. `inferred()` is the schema that was inferred at the first start, as JSON; None if it is declared.
    """

    log: SourceLog
    known: Callable[[], Known]
    keep: Callable[[Known], None]
    note: Callable[[Sequence[object]], None]
    inferred: Callable[[], str | None]
    max_line_bytes: int


@runtime_checkable
class Watched(Protocol):
    """A reader whose input could change while a batch is computed, without an error from Spark."""

    def watch(self, watching: Watching) -> Watch:
        """The guard for one query of a run."""
        ...


@runtime_checkable
class Complete(Protocol):
    """A reader that can detect input that was silently skipped."""

    def check_all_read(self, log: SourceLog, before_ms: int) -> None:
        """SourceReadError for input that existed at `before_ms`, since 1970, and is in no batch of the log.

        Called at the end of a run that has read all input.
        """
        ...


@runtime_checkable
class Unfinished(Protocol):
    """A reader that leaves a record unread as long as it may be incomplete."""

    def check_ended(self, log: SourceLog) -> None:
        """SourceReadError for such a record after the last batch of the log: when the input ends, it would be lost."""
        ...


@runtime_checkable
class Foreseeing(Protocol):
    """A reader that sees without Spark whether a query that starts now would read anything."""

    def has_more(self, log: SourceLog) -> bool:
        """Whether Spark would plan a batch after the last committed one, by the rules with which it lists the input.

        Called after `check`, while no batch is planned; True in doubt. After an error Spark looks.
        """
        ...


@runtime_checkable
class Metered(Protocol):
    """A reader whose progress can be shown in bytes."""

    def size(self) -> int:
        """The total number of bytes."""
        ...

    def done(self, offset: str) -> int:
        """The number of bytes before an offset."""
        ...


class Follower(Protocol):
    """Follows one source through a run, on the journal's thread; its errors end nothing and are reported."""

    @property
    def effect(self) -> str:
        """What is not done while it fails, for users."""
        ...

    def committed(self, ends: Sequence[str | None]) -> None:
        """Spark and the catalog have the source up to `ends`, one for each query that reads it (None: nothing).

        Called with new batches; RsError if they could not be passed on, which the next call must make up for.
        """
        ...

    def finish(self, ends: Sequence[str | None]) -> None:
        """The end of the run and its last offsets: the last call before `close`, omitted after a failure."""
        ...

    def close(self) -> None:
        """Close connections; may be called twice."""
        ...


@runtime_checkable
class Keeping(Protocol):
    """A follower that removes what was read, as far as nothing can go back to it."""

    def keep_for(self, needed: Callable[[], Sequence[str | None]]) -> None:
        """`needed()` are the offsets of the oldest batches and of savepoints; called once, before `committed`.

        None is an offset before all input. It reads savepoints, so call it only where something can be removed.
        """
        ...


@runtime_checkable
class Followed(Protocol):
    """A reader whose system is informed of committed offsets: to show them, or to delete what was read."""

    def follower(self) -> Follower | None:
        """The follower for a run; None if none is configured."""
        ...


@runtime_checkable
class EventuallyVisible(Protocol):
    """A reader of the output of another query of the pipeline, which may become visible late."""

    def await_visible(self) -> None:
        """Return when a query that starts now sees every committed batch; SinkError if that takes too long."""
        ...


@runtime_checkable
class DeadLettering(Protocol):
    """A reader that can forward bad records within its own system."""

    def send_dead_letters(self, reading: Reading, batch: SourceBatch, letters: pa.Table) -> None:
        """Send those of `letters` (rows of the dead-letter table, of all sources) that are its own.

        Called before they are in the table, and again when a batch is repeated: at least once.
        """
        ...


@runtime_checkable
class Ordered(Protocol):
    """A reader of several files per batch, whose rows are not in the order of writing."""

    def order(self) -> tuple[Column, Column, Column]:
        """The order of a row within its batch, for ORDER; null if there is none."""
        ...


@runtime_checkable
class Positioned(Protocol):
    """A reader of growing splits, whose stream can give the split of each row, and its position in it.

    LINE grows within a split, over all batches.
    """

    @property
    def positioned(self) -> bool:
        """True: `stream` obeys `Reading.positioned`, and `splits` returns the names in SPLIT."""
        ...


@runtime_checkable
class Backlogged(Protocol):
    """A positioned reader whose limit of rows may leave all input of a split to later batches."""

    def unread(self, offset: str) -> Collection[str]:
        """The splits that have input after an offset: a watermark waits for them, however long they had no rows.

        Asked while a stream runs, of splits that seem idle.
        """
        ...


@runtime_checkable
class Inspectable(Protocol):
    """A reader whose splits can be inspected while nothing runs."""

    def ends(self, patience: timedelta) -> Ends:
        """The current splits; SourceReadError if the system does not answer within `patience`."""
        ...


@runtime_checkable
class Rewritable(Inspectable, Protocol):
    """A reader whose splits may be other ones with the same ends, as a file that was rotated or corrected."""

    def states(self) -> Mapping[str, object]:
        """The end of each split, and what distinguishes it from another one of that end: when it was last written."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """The distance of a reader from the end of its source, in the source's own units."""

    bytes: int = 0
    records: int = 0


@runtime_checkable
class Lagging(Protocol):
    """A reader that can count unread input."""

    def lag(self, offset: str | None, patience: timedelta) -> Lag:
        """The unread input after `offset` (None: all input); SourceReadError as for `ends`."""
        ...


@runtime_checkable
class Counting(Protocol):
    """A reader that knows from two offsets how much is between them, also of input that has been removed since."""

    def between(self, start: str | None, end: str) -> Lag:
        """The input after `start` (None: from where the first batch began) up to `end`; nothing if it is not known."""
        ...


@runtime_checkable
class Verifiable(Protocol):
    """A reader that finds out whether input was edited after a batch had read it."""

    def verify(self, batch: SourceBatch, known: Known) -> None:
        """DataLossError if input of a batch is not as it was read. `known` are the manifest's facts about the input.

        Called before closed partitions are computed again from batches that were read.
        """
        ...


def listed(losses: Sequence[object], *, at_most: int = 5) -> str:
    """Losses as text for an error: the first few, and the number of the others."""
    more = f" and {count_of(len(losses) - at_most, 'partition')} more" if len(losses) > at_most else ""
    return "; ".join(str(loss) for loss in losses[:at_most]) + more

"""The sink interface: a batch is staged invisibly, then committed in one step."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, Protocol, runtime_checkable

from pyspark.sql import DataFrame

from rs_assets.errors import LeaseLostError
from rs_assets.records.fields import Types

# A claim has 62 bits: Delta's transactions hold signed numbers of 64 bits.
RANDOM_BITS = 47
MOST_GENERATIONS = (1 << 15) - 1


def overtaken(what: str = "another driver has taken over and written since", **facts: object) -> LeaseLostError:
    """The error of a run after which another one has begun."""
    return LeaseLostError(what, remedy="nothing to do: this run ends here, the other one goes on", **facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The start of a pipeline that writes. Tokens are counted per home, so those of two homes cannot be compared.

    `pipeline` is its name, `number` identifies this start (see `claim_number`), `home` is its host and folder, for
    users. `known` are the numbers that the sinks may have: earlier starts of the same home. None takes the sinks over.
    """

    pipeline: str
    number: int
    home: str = ""
    known: frozenset[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastWriter:
    """What a sink stores: the greatest token of a pipeline's id, and the last claim of its name; 0 for none.

    `pipeline_id` is that of the start with this claim, `home` the place of its checkpoints, as far as known.
    """

    token: int = 0
    claim: int = 0
    pipeline_id: str = ""
    home: str = ""

    @property
    def generation(self) -> int:
        """A lower bound of the greatest generation in the sink; a start takes one token, and begins one at most."""
        return self.claim >> RANDOM_BITS if self.claim else self.token


def claim_number(generation: int) -> int:
    """A number for a start, random except for the greatest generation that it writes to or begins.

    >>> LastWriter(claim=claim_number(3)).generation
    3
    """
    return min(generation, MOST_GENERATIONS) << RANDOM_BITS | secrets.randbits(RANDOM_BITS)


@dataclass(frozen=True, slots=True)
class BatchMark:
    """The identity of a batch. A sink stores it in the same transaction as the rows, and refuses it a second time.

    `token` is the fencing token of the driver's lease. A sink that has a greater token refuses the batch, and so does
    one that has a claim that the driver's `claim` does not know. `watermark` is that of the batch, None without one.
    """

    pipeline_id: str
    generation: int
    sink: str
    batch_id: int
    token: int = 0
    claim: Claim | None = None
    watermark: datetime | None = None

    @property
    def writer(self) -> str:
        """The id under which the last batch is stored; another generation is another writer."""
        return f"{self.pipeline_id}/g{self.generation}/{self.sink}"

    @property
    def fence(self) -> str:
        """The id under which the greatest token is stored: one per pipeline and sink, for all generations."""
        return f"{self.pipeline_id}/fence/{self.sink}"

    @property
    def claimed(self) -> str:
        """The id under which the last claim is stored: one per pipeline name and sink, for all homes."""
        return f"{self.claim.pipeline if self.claim else ''}/claim/{self.sink}"

    def refuses(self, claim: int) -> bool:
        """Whether a sink's last claim is neither of this start nor of earlier ones in its home."""
        known = self.claim.known if self.claim is not None else None
        return known is not None and claim != 0 and claim not in known

    def check(self, seen: LastWriter, *, where: str) -> None:
        """LeaseLostError if another driver has written to the sink `where` since."""
        if seen.token > self.token:
            raise overtaken(sink=where, token=self.token, newer_token=seen.token)
        if self.claim is not None and self.refuses(seen.claim):
            raise LeaseLostError(
                f"another home has written as {self.claim.pipeline} since this run began",
                remedy="continue in that home; or stop it there, then take the pipeline over here: rs-assets rewind, or"
                " rs-assets restore",
                sink=where,
                other_home=seen.home or None,
            )

    def of_generation(self, generation: int) -> BatchMark:
        """The same batch of another generation."""
        return replace(self, generation=generation)

    @property
    def folder(self) -> str:
        """A name for the files of this batch."""
        return f"g{self.generation:04d}-b{self.batch_id:012d}"


@dataclass(frozen=True, slots=True)
class Staged:
    """A batch that is written but not visible; `commit` publishes it and returns the number of rows."""

    commit: Callable[[], int]


@runtime_checkable
class Closing(Protocol):
    """A writer with a connection; the runtime closes it at the end of a run, however that ended."""

    def close(self) -> None:
        """Discard staged but uncommitted data, and close the connection; may be called twice."""
        ...


@runtime_checkable
class Checked(Protocol):
    """A sink that can check before a start whether it can write."""

    def check_start(self) -> None:
        """SinkError if its target does not exist or is not writable; read-only."""
        ...


@runtime_checkable
class Prepared(Protocol):
    """A sink that has to know the fields of the rows, as a registry of their schema."""

    def prepare(self, rows: DataFrame) -> None:
        """Prepare for rows as those of the stream `rows`; called before each start of the query that writes them.

        SinkError if the system refuses such rows. Not called if the rows are made within a batch: `stage` prepares for
        them.
        """
        ...


@runtime_checkable
class Rewinding(Protocol):
    """A writer whose pipeline can go back, or forward again, to the end of another batch.

    The runtime calls `check_rewind` of all sinks of a pipeline before the first `rewind`. If one writer lacks these
    methods its pipeline cannot be rewound.
    """

    def check_rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> None:
        """SinkError if `rewind` with the same arguments would fail; no row is touched."""
        ...

    def rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> str:
        """Restore exactly the rows of all batches up to `kept`, and store `begun` (that batch of a later generation).

        `kept` may be in a generation that was left before, and later than the sink's current batch. `had` is the last
        batch of `kept`'s generation that the pipeline knows the sink had, -1 for none: a sink that ends before it has
        lost rows. Returns a description for users; may be called twice. SinkError, and nothing is changed, if the rows
        cannot be restored, or only by losing rows of others. A sink without memory does nothing.
        """
        ...


@runtime_checkable
class Beginning(Protocol):
    """A writer whose sink cannot replace the rows of earlier generations by those of a new one.

    A start calls all such sinks of a query that begins a generation after the first, before anything is written.
    """

    def check_begin(self, begun: BatchMark) -> str:
        """What happens to the rows of earlier generations, as a warning for users; empty if there are none.

        SinkError if they must be removed first, because they could not be distinguished from those of `begun`.
        Read-only.
        """
        ...


@runtime_checkable
class Columned(Protocol):
    """A sink with columns that a new generation does not change.

    A start asks it before a query begins a generation after the first, if the fields of its rows are known then.
    """

    def check_fields(self, fields: Types) -> None:
        """SinkError if its columns are others than those of rows with these fields; read-only.

        Afterwards it would be too late: the former generation would be left already.
        """
        ...


@dataclass(frozen=True, slots=True)
class SinkChange:
    """A change by another writer to a sink's rows; an error if rows of ours may be missing.

    `acceptable` means that a user may accept the current rows.
    """

    what: str
    remedy: str
    severity: Literal["error", "warning"] = "error"
    acceptable: bool = False


@runtime_checkable
class Watched(Protocol):
    """A writer that can detect changes by others to its rows."""

    def changes_by_others(self, mark: BatchMark) -> Sequence[SinkChange]:
        """Changes by others since our last commit, oldest first; for a start in the mark's generation."""
        ...

    def accept_changes(self, mark: BatchMark) -> None:
        """Accept the current rows as those of the last batch; the pipeline must not run."""
        ...


@runtime_checkable
class Fencing(Protocol):
    """A writer whose sink stores who wrote last: all of them are read before the first one acts."""

    def last_writer(self, mark: BatchMark) -> LastWriter:
        """The token of the mark's pipeline and sink, and the claim of its name; read-only."""
        ...

    def raise_fence(self, mark: BatchMark) -> None:
        """Store the mark's token, without a batch, so that a stalled driver is refused when it resumes.

        Called first by a driver that takes over from a silent one. A sink whose rows cannot be removed may do nothing:
        the stalled driver then commits the planned batch, and its successor finds it there.
        """
        ...


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row that the system of a sink does not accept, and why."""

    row: Mapping[str, Any]
    reason: str


@runtime_checkable
class Refusing(Protocol):
    """A writer whose system may refuse single rows."""

    def keep_refused(self, keep: Callable[[Sequence[RefusedRow], BatchMark, int], None]) -> None:
        """Called before the first batch: `keep(rows, mark, number)` writes rows to the dead-letter table.

        `number` grows with each call for a sink and generation; a number that was written before is ignored, so rows
        of a repeated batch are there once.
        """
        ...


class SinkWriter(Protocol):
    """A sink as the runtime sees it; `Rewinding`, `Fencing`, `Watched` and `Closing` are optional abilities."""

    @property
    def name(self) -> str:
        """The name of the step."""
        ...

    def committed(self, mark: BatchMark) -> bool:
        """Whether this batch is already visible."""
        ...

    def last_committed(self, mark: BatchMark) -> int | None:
        """The last visible batch of this writer and generation, -1 for none; None if the sink does not know."""
        ...

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:
        """Compute the batch once and write it invisibly; called at most once per batch and attempt."""
        ...

    def location(self) -> str:
        """The location of the rows, for users."""
        ...

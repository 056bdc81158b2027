"""What every sink does with a batch: stage it out of sight, then commit it in one step."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, runtime_checkable

from pyspark.sql import DataFrame

from rs_assets.errors import LeaseLostError

# A claim has 62 bits in all: Delta's transactions hold signed numbers of 64.
RANDOM_BITS = 47
MOST_GENERATIONS = (1 << 15) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Which start of which pipeline writes: tokens are counted in a home, so those of two homes say nothing together.

    `pipeline` is its name, `number` is one of this start (see `claim_number`), `home` its host and folder, for people.
    `known` are the numbers that the sinks may remember: others were there since. None takes the sinks over.
    """

    pipeline: str
    number: int
    home: str = ""
    known: frozenset[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastWriter:
    """What a sink remembers: the greatest token of a pipeline's id, and the last claim of its name; 0 for none.

    `pipeline_id` is that of the start with this claim, `home` where it kept its checkpoints, as far as it is known.
    """

    token: int = 0
    claim: int = 0
    pipeline_id: str = ""
    home: str = ""

    @property
    def generation(self) -> int:
        """At least the greatest generation that the sink knows; a start takes a token, and begins one at most."""
        return self.claim >> RANDOM_BITS if self.claim else self.token


def claim_number(generation: int) -> int:
    """A number for a start, random but for the greatest generation that it writes to or begins.

    >>> LastWriter(claim=claim_number(3)).generation
    3
    """
    return min(generation, MOST_GENERATIONS) << RANDOM_BITS | secrets.randbits(RANDOM_BITS)


@dataclass(frozen=True, slots=True)
class BatchMark:
    """Who writes which batch. A sink stores it in the same transaction as the rows and refuses it a second time.

    `token` is the fencing token of the lease that the driver holds: a sink that has seen a greater one refuses, and one
    that has seen a stranger to the driver's `claim` since.
    """

    pipeline_id: str
    generation: int
    sink: str
    batch_id: int
    token: int = 0
    claim: Claim | None = None

    @property
    def writer(self) -> str:
        """The id under which the last batch is remembered; another generation is another writer."""
        return f"{self.pipeline_id}/g{self.generation}/{self.sink}"

    @property
    def fence(self) -> str:
        """The id under which the greatest token is remembered: one a pipeline and sink, for all generations."""
        return f"{self.pipeline_id}/fence/{self.sink}"

    @property
    def claimed(self) -> str:
        """The id under which the last claim is remembered: one a pipeline's name and sink, for all homes."""
        return f"{self.claim.pipeline if self.claim else ''}/claim/{self.sink}"

    def refuses(self, claim: int) -> bool:
        """Whether a sink's last claim is neither of this start nor of those before it in its home."""
        known = self.claim.known if self.claim is not None else None
        return known is not None and claim != 0 and claim not in known

    def check(self, seen: LastWriter, *, where: str) -> None:
        """LeaseLostError if what the sink `where` remembers tells that somebody else writes instead of this driver."""
        if seen.token > self.token:
            raise LeaseLostError(
                "another driver has taken over and written since",
                remedy="nothing to do: this run ends here, the other one goes on",
                sink=where,
                token=self.token,
                newer_token=seen.token,
            )
        if self.claim is not None and self.refuses(seen.claim):
            raise LeaseLostError(
                f"another home has written as {self.claim.pipeline} since this run began",
                remedy="go on in that home; or stop it there, then take the pipeline over here: rs-assets rewind, or"
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
    """A batch that is written but not visible; `commit` makes it so and returns the number of rows."""

    commit: Callable[[], int]


@runtime_checkable
class Closing(Protocol):
    """A writer that holds a connection; the runtime closes it at the end of a run, whatever ended it."""

    def close(self) -> None:
        """Give up what was staged and not committed, and the connection; may be called twice."""
        ...


@runtime_checkable
class Checked(Protocol):
    """A sink that knows before a start whether it can write."""

    def check_start(self) -> None:
        """SinkError if what it writes to is not there, or not its to write to; only looks."""
        ...


@runtime_checkable
class Rewinding(Protocol):
    """A writer whose pipeline can go back, or forward again, to the end of another batch.

    The runtime asks all sinks of a pipeline before the first of them acts. A writer without these methods keeps its
    pipeline from going anywhere.
    """

    def check_rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> None:
        """SinkError if `rewind` with the same arguments would fail; no row is touched."""
        ...

    def rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> str:
        """Have exactly the rows of all batches up to `kept`, and remember `begun` (that batch of a later generation).

        `kept` may lie in a generation that was left before, and ahead of what the sink has now. `had` is the last batch
        of `kept`'s generation that the pipeline knows the sink had, -1 for none: a sink that ends before it has lost
        rows. Returns what was done, for people; may be called twice. SinkError, and nothing is changed, if the rows
        cannot be had, or only without rows of others. A sink that forgets does nothing.
        """
        ...


@runtime_checkable
class Beginning(Protocol):
    """A writer whose sink cannot replace what earlier generations wrote by what a new one writes.

    A start asks all such sinks of a query that begins a generation above the first, before anything is written.
    """

    def check_begin(self, begun: BatchMark) -> str:
        """What becomes of the rows of earlier generations, as a warning for people; empty if there are none.

        SinkError if they must be removed first, because nobody could tell them from those of `begun`. Only looks.
        """
        ...


@dataclass(frozen=True, slots=True)
class SinkChange:
    """Something that others did to a sink's rows; an error if rows of ours may be missing.

    `acceptable` says that a person may take the rows as they are now.
    """

    what: str
    remedy: str
    severity: Literal["error", "warning"] = "error"
    acceptable: bool = False


@runtime_checkable
class Watched(Protocol):
    """A writer that can tell what others did to its rows."""

    def changes_by_others(self, mark: BatchMark) -> Sequence[SinkChange]:
        """What others did since the last commit of ours, oldest first; for a start in the mark's generation."""
        ...

    def accept_changes(self, mark: BatchMark) -> None:
        """Take the rows, as they are now, for those of the last batch; the pipeline must not run."""
        ...


@runtime_checkable
class Fencing(Protocol):
    """A writer whose sink remembers who wrote last: all of them are asked before the first one acts."""

    def last_writer(self, mark: BatchMark) -> LastWriter:
        """The token of the mark's pipeline and sink, and the claim of its name; only looks."""
        ...

    def raise_fence(self, mark: BatchMark) -> None:
        """Let the sink remember the mark's token, and no batch, so that a driver which only slept is refused.

        Called by who takes over from a silent driver, before anything else. A sink whose rows cannot be taken back may
        do nothing: the sleeper then commits the batch that was planned, which its successor finds there.
        """
        ...


class SinkWriter(Protocol):
    """A sink as the runtime sees it; `Rewinding`, `Fencing`, `Watched` and `Closing` are for those that can more."""

    @property
    def name(self) -> str:
        """The name of the step."""
        ...

    def committed(self, mark: BatchMark) -> bool:
        """Whether this batch is visible already."""
        ...

    def last_committed(self, mark: BatchMark) -> int | None:
        """The last batch of this writer and generation that is visible, -1 for none; None if the sink cannot tell."""
        ...

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:
        """Compute the batch once and write it where nobody sees it; called at most once a batch and try."""
        ...

    def location(self) -> str:
        """Where a person finds the rows."""
        ...

"""What a sink into topics notes of its last batch, whatever system keeps the note."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

import orjson

from rs_assets.connectors.generations import Lineage, Point
from rs_assets.connectors.sink import BatchMark, LastWriter, overtaken
from rs_assets.errors import SinkError

# `Commit.sent` of a topic that never got a record.
NOTHING = (0, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The last batch that a sink got, and the fencing token and the claim of the driver that sent it to `topic`.

    `sent` is the last batch that had records. `returns` are the starting points of the generations since then, for all
    of which the topic has the same content. Both are missing in commit records of earlier releases.
    """

    generation: int
    batch_id: int
    token: int
    rows: int
    sent: tuple[int, int] | None = None
    returns: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    topic: str = ""
    claimed: str = ""
    claim: int = 0
    home: str = ""
    pipeline_id: str = ""

    @property
    def place(self) -> tuple[int, int]:
        """Generation and batch: grows with every commit of a sink."""
        return self.generation, self.batch_id

    def why_not(self, kept: Point, had: int) -> str | None:
        """Why the topic does not hold just the batches up to `kept`, None if it does; see `Rewinding` for `had`."""
        sent = Point(*(self.sent or self.place))
        path = Lineage({int(g): Point(*began) for g, began in self.returns.items()}).path(kept)
        if sent.batch >= 0 and path.get(sent.generation, -1) < sent.batch:
            return (
                f"batch {sent.batch} of generation {sent.generation} is in the topic and cannot be removed:"
                f" it does not lead to batch {kept.batch} of generation {kept.generation}"
            )
        if kept.generation == self.generation and min(kept.batch, had) > self.batch_id:
            return f"the last committed batch is {self.batch_id}, and the pipeline had sent batch {had}"
        return None

    def dumped(self) -> bytes:
        """The value of the commit record."""
        return orjson.dumps(asdict(self))

    def last_batch(self, mark: BatchMark) -> int:
        """The last batch of the mark's generation, -1 for none.

        LeaseLostError if a driver with a newer token, of another home, or of a later generation has written since.
        """
        mark.check(LastWriter(token=self.token, claim=self.claim, home=self.home), where=mark.sink)
        if self.generation > mark.generation:
            raise overtaken(sink=mark.sink, token=mark.token, newer_token=self.token)
        return self.batch_id if self.generation == mark.generation else -1


def noted(mark: BatchMark, rows: int, topic: str = "") -> Commit:
    """The commit record of a batch with records for `topic`."""
    place = (mark.generation, mark.batch_id)
    made = Commit(generation=mark.generation, batch_id=mark.batch_id, token=mark.token, rows=rows, sent=place)
    return _claimed(made, mark, topic)


def _claimed(note: Commit, mark: BatchMark, topic: str) -> Commit:
    claim = mark.claim
    if claim is None:
        return replace(note, topic=topic)
    return replace(
        note, topic=topic, claimed=mark.claimed, claim=claim.number, home=claim.home, pipeline_id=mark.pipeline_id
    )


def noted_return(last: Commit | None, kept: BatchMark, begun: BatchMark, topic: str = "") -> Commit:
    """The commit record of a return, which sends nothing."""
    made = Commit(
        generation=begun.generation,
        batch_id=begun.batch_id,
        token=begun.token,
        rows=0,
        sent=(last.sent or last.place) if last else NOTHING,
        returns={**(last.returns if last else {}), str(begun.generation): (kept.generation, kept.batch_id)},
    )
    return _claimed(made, begun, topic)


def key_of(mark: BatchMark) -> bytes:
    """The record key of a pipeline's sink, the same for all generations."""
    return mark.fence.encode()


def refuse_return(last: Commit | None, kept: BatchMark, had: int, *, step: str) -> None:
    """SinkError if the topic, whose last commit is `last`, does not hold just the batches up to `kept`."""
    lost = f"no batch is committed, and the pipeline had sent batch {had}" if had >= 0 else None
    why = last.why_not(Point(kept.generation, kept.batch_id), had) if last is not None else lost
    if why is not None:
        raise SinkError(
            why,
            remedy="go back to a later batch than that one; or name another topic in the pipeline, and begin a new"
            " generation (rs-assets run --new-generation), which sends everything again",
            step=step,
        )

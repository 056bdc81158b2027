"""The ledger of a sink in Redis: its batches, who may write, and the batch whose rows are being written.

A large batch is written in several steps, so that the server answers others meanwhile. The first one notes that it has
begun; whoever finds it unfinished writes the rest of its staged rows, and nothing else before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import orjson

from rs_assets.connectors.generations import Lineage, Point
from rs_assets.connectors.redis.client import RedisClient
from rs_assets.connectors.redis.sink.script import CHANGED, LOST, STEP
from rs_assets.connectors.sink import BatchMark, LastWriter
from rs_assets.errors import SinkError

BATCH, RETURN, PENDING, DONE, TOKEN = "batch:", "return:", "pending", "done", "token"
# How often another start of the pipeline may write between the check and the script.
TRIES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A staged batch: `chunks` texts below `stage` with `rows` rows, and how they are written."""

    generation: int
    batch: int
    stage: str
    chunks: int
    rows: int
    structure: str
    fields: tuple[str, ...]
    ttl: int = 0

    def chunk(self, number: int) -> str:
        """The key of a text."""
        return f"{self.stage}:{number}"

    @property
    def keys(self) -> list[str]:
        """The keys of all texts."""
        return [self.chunk(number) for number in range(self.chunks)]


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The ledger as it was read. `done` chunks of `pending` are written."""

    version: str = "0"
    writer: LastWriter = field(default_factory=LastWriter)
    batches: Mapping[int, int] = field(default_factory=dict)
    returns: Mapping[int, Point] = field(default_factory=dict)
    pending: Pending | None = None
    done: int = 0

    def last(self, mark: BatchMark) -> int:
        """The last complete batch of the mark's generation, -1 for none."""
        return self.batches.get(mark.generation, -1)

    @property
    def points(self) -> list[Point]:
        """The last batch of each generation that has rows there, the newest generation first."""
        begun = {self.pending.generation: self.pending.batch} if self.pending is not None else {}
        found = {**self.batches, **begun}
        return sorted((Point(*each) for each in found.items() if each[1] >= 0), reverse=True)

    @property
    def newest(self) -> list[Point]:
        """The points with the rows there: the last batch, and those from which its generation began as they were."""
        return Lineage(self.returns).unchanged(self.points[0]) if self.points else []


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger of the sink of `mark`, which is `step` at `where`."""

    client: RedisClient
    mark: BatchMark
    step: str
    where: str

    @property
    def keys(self) -> list[str]:
        """The key of the marks, and that of the claim."""
        return [f"rs:marks:{self.mark.fence}", f"rs:claim:{self.mark.claimed}"]

    def read(self) -> State:
        """What is noted now."""
        pipe = self.client.pipeline(transaction=True)
        for key in self.keys:
            pipe.hgetall(key)
        marks, claim = ({k.decode(): v.decode() for k, v in found.items()} for found in pipe.execute())
        pending = orjson.loads(marks[PENDING]) if PENDING in marks else None
        return State(
            version=marks.get("version", "0"),
            writer=LastWriter(
                token=int(marks.get(TOKEN, 0)),
                claim=int(claim.get("claim", 0)),
                pipeline_id=claim.get("pipeline_id", ""),
                home=claim.get("home", ""),
            ),
            batches={int(g): int(batch) for g, batch in _named(marks, BATCH)},
            returns={int(g): Point(*map(int, at.split())) for g, at in _named(marks, RETURN)},
            pending=Pending(**{**pending, "fields": tuple(pending["fields"])}) if pending is not None else None,
            done=int(marks.get(DONE, 0)),
        )

    def checked(self) -> State:
        """The same; LeaseLostError if another driver has written since."""
        state = self.read()
        self.mark.check(state.writer, where=self.where)
        return state

    def note(self, pairs: Callable[[State], Sequence[tuple[str, object]]]) -> None:
        """Write the token, the claim, and the fields and values that `pairs` makes of what was noted before.

        LeaseLostError as in `checked`.
        """
        for _ in range(TRIES):
            state = self.checked()
            if self._step(state, note=[each for pair in pairs(state) for each in pair]):
                return
        raise self._busy()

    def commit(self, batch: Pending) -> int:
        """Write a staged batch, and before it the one that another attempt has left unfinished; the rows of the batch.

        0 if it was complete already. SinkError if the staged rows are gone.
        """
        rows, misses = 0, 0
        while misses < TRIES:
            state = self.checked()
            if state.pending is None and state.last(self.mark) >= self.mark.batch_id:
                self.discard(batch)
                return rows
            now = state.pending or batch
            if (now.generation, now.batch) == (self.mark.generation, self.mark.batch_id):
                rows = now.rows
            misses += not self._advance(state, now)
        raise self._busy()

    def discard(self, batch: Pending) -> None:
        """Remove the staged rows."""
        if batch.chunks:
            self.client.unlink(*batch.keys)

    def _advance(self, state: State, batch: Pending) -> bool:
        """The next step of a batch: begin it if it has several chunks, else write a chunk; False as for `_step`."""
        done, begun = state.done, state.pending is not None
        if not begun and batch.chunks > 1:
            return self._step(state, note=(PENDING, orjson.dumps(asdict(batch)).decode(), DONE, 0), keep=batch.keys)
        last = done + 1 >= batch.chunks
        note = (f"{BATCH}{batch.generation}", batch.batch) if last else (DONE, done + 1)
        drop = (PENDING, DONE) if last and begun else ()
        return self._step(state, note=note, drop=drop, batch=batch, chunk=batch.chunk(done) if batch.chunks else None)

    def _step(
        self,
        state: State,
        *,
        note: Sequence[object],
        drop: Sequence[str] = (),
        keep: Sequence[str] = (),
        batch: Pending | None = None,
        chunk: str | None = None,
    ) -> bool:
        """Run the script; False if the ledger has changed since `state` was read."""
        claim = self.mark.claim
        claimed = ("claim", claim.number, "pipeline_id", self.mark.pipeline_id, "home", claim.home) if claim else ()
        token = max(self.mark.token, state.writer.token)
        order: dict[str, Any] = {
            "note": [str(each) for each in (*note, TOKEN, token)],
            "claim": [str(each) for each in claimed],
            "drop": drop,
            "keep": keep,
            "structure": batch.structure if batch is not None else "",
            "ttl": batch.ttl if batch is not None else 0,
        }
        fields = batch.fields if batch is not None else ()
        keys = [*self.keys, chunk] if chunk is not None else self.keys
        args = [state.version, str(state.writer.claim), orjson.dumps(order), *fields]
        answer = self.client.register_script(STEP)(keys=keys, args=args)
        if answer == LOST:
            raise SinkError(
                f"the staged rows of step {self.step!r} are gone from the server: they were evicted, removed, or waited"
                " for longer than an hour",
                remedy="start again; if the server evicts keys, set its maxmemory-policy to noeviction",
                step=self.step,
                place=self.where,
            )
        return bool(answer != CHANGED)

    def _busy(self) -> SinkError:
        return SinkError(
            f"other starts of the pipeline write to the ledger of step {self.step!r} all the time",
            remedy="let one of them run",
            step=self.step,
            place=self.where,
        )


def _named(marks: Mapping[str, str], prefix: str) -> list[tuple[str, str]]:
    return [(name.removeprefix(prefix), value) for name, value in marks.items() if name.startswith(prefix)]

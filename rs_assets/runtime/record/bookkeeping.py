"""The system messages of a query: sinks may hold the batch by their answers, and the journal stores them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType

from tenacity import Retrying, retry_if_result, stop_after_attempt, wait_exponential

from rs_assets.catalog.batch_counts import BatchCounts
from rs_assets.catalog.batch_times import EventTimes
from rs_assets.catalog.catalog import Catalog, Row
from rs_assets.catalog.offsets import CheckpointStorage
from rs_assets.catalog.offsets.merge import held_back
from rs_assets.catalog.offsets.messages import (
    BatchFinish,
    CheckPoint,
    CheckPointState,
    SystemMessage,
    SystemMessageListener,
)
from rs_assets.catalog.offsets.splits import BatchMessages, SplitTracker
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.common.home import Home
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.connectors.nodes import Source
from rs_assets.connectors.source import Positions
from rs_assets.errors import CheckpointHeldError
from rs_assets.runtime.record.journal import Journal, JournalEntry, write_entries
from rs_assets.runtime.record.positions import positions
from rs_assets.topology.nodes.step import Expect
from rs_assets.topology.topology import Topology

# A sink may flush in its own thread, or its database may be unavailable for a moment: it is asked again within 2 s.
ASKED = 5
NOTHING: Mapping[str, tuple[int, int]] = MappingProxyType({})
NO_TIMES: Mapping[str, EventTimes | None] = MappingProxyType({})
NONE_LATE: Mapping[str, Mapping[datetime, int]] = MappingProxyType({})
PAUSE = wait_exponential(multiplier=0.125, max=1)


@dataclass(slots=True, kw_only=True)
class Bookkeeper:
    """Tracks the splits of one query's sources.

    For each batch, `before` is called ahead of its rows, `ask` after the commits of its sinks, and `after` when Spark
    may commit it.

    `versions` returns the catalog rows of dimension versions first used by a batch.
    """

    topology: Topology
    plan: QueryPlan
    log: CheckpointLog
    folder: str
    generation: int
    run_id: str
    journal: Journal
    home: Home | None = None
    versions: Callable[[int], Sequence[Row]] = lambda _: ()
    listeners: Sequence[SystemMessageListener] = ()
    _trackers: dict[str, SplitTracker] = field(default_factory=dict)
    _messages: list[BatchMessages] = field(default_factory=list)
    _replies: dict[int, tuple[CheckPointState, ...]] = field(default_factory=dict)
    _told: int = 0
    _code: str = field(init=False, default="")

    def __post_init__(self) -> None:
        """Make the digest of the steps once."""
        self._code = self.topology.code

    def before(self, batch_id: int) -> None:
        """Compute the batch's messages, and notify the listeners of new splits before their rows come."""
        self._messages = self._advance(batch_id)
        for message in (m for messages in self._messages for m in messages.before):
            self._tell(message)

    def ask(self) -> None:
        """Send listeners the messages that follow the rows; CheckpointHeldError if a listener has unflushed rows."""
        first = sum(len(each.before) for each in self._messages)
        after = (m for each in self._messages for m in each.after)
        self._replies = {number: self._tell(message) for number, message in enumerate(after, first)}

    def after(
        self,
        batch_id: int,
        expectations: Mapping[str, tuple[int, int]] = NOTHING,
        times: Mapping[str, EventTimes | None] = NO_TIMES,
        late: Mapping[str, Mapping[datetime, int]] = NONE_LATE,
        counts: BatchCounts | None = None,
        *,
        replayed: bool = False,
    ) -> None:
        """Queue the batch, with the answers, the counts of expectations, event times and late rows, for the catalog.

        What the catalog has of a batch that is `replayed` is not written twice.
        """
        made = self._messages
        messages = [*(m for each in made for m in each.before), *(m for each in made for m in each.after)]
        self._told = len(messages)
        entry = replace(self._entry(batch_id, messages, replies=self._replies), counts=counts)
        nodes = map(self.topology.__getitem__, expectations)
        conditions = {node.name: node.condition.identity() for node in nodes if isinstance(node, Expect)}
        counted = replace(entry, expectations=expectations, conditions=conditions, times=times, late=late)
        self.journal.put(replace(counted, replayed=replayed))

    def noted(self, batch_id: int) -> bool:
        """Whether the catalog has the batch: an earlier run has completed it, and the checkpoint went back since.

        False if the catalog cannot be read, which is reported.
        """
        columns = ("query", "generation", "batch_id")
        with self.journal.failures.guarding("a batch that comes again may be counted twice"):
            there = self.journal.catalog.there(
                "system_messages", columns, pipeline=self.topology.name, from_batch=batch_id
            )
            return (self.plan.name, self.generation, batch_id) in there
        return False

    def finished(self) -> None:
        """The bounded sources have ended."""
        batch_id = self.log.last_committed()
        if batch_id < 0:
            return
        messages = [BatchFinish(source=name, query=self.plan.name, batch_id=batch_id) for name in self.plan.sources]
        for message in messages:
            self._tell(message)
        self.journal.put(self._entry(batch_id, messages, first_number=self._told))

    def rewritten(self, batch_id: int) -> None:
        """Queue a batch that only rewrote the state, for the catalog."""
        messages = [message for each in self._advance(batch_id) for message in (*each.before, *each.after)]
        self.journal.put(self._entry(batch_id, messages))

    def reconcile(self, *, catalogued: int, catalog: Catalog, storage: CheckpointStorage) -> int:
        """Complete the catalog from Spark's log, after batch `catalogued`; returns the number of missing batches."""
        missing = [batch for batch in self.log.committed_batches() if batch > catalogued]
        if missing:
            # A killed driver may have written some of them, or a part of one.
            write_entries(catalog, storage, list(self._found(missing)), again=True)
        return len(missing)

    def _found(self, missing: Sequence[int]) -> Iterator[JournalEntry]:
        for batch_id in missing:
            made = self._advance(batch_id)
            # In the order of delivery.
            messages = [*(m for each in made for m in each.before), *(m for each in made for m in each.after)]
            yield self._entry(batch_id, messages, reconciled=True)

    def _advance(self, batch_id: int) -> list[BatchMessages]:
        made = []
        for name in self.plan.sources:
            tracker = self._trackers.get(name) or self._resumed(name, batch_id)
            self._trackers[name], messages = tracker.advance(batch_id, self._positions(name, batch_id))
            made.append(messages)
        return made

    def _resumed(self, source: str, batch_id: int) -> SplitTracker:
        """The tracker after the previous batch, so that a batch that is computed again gives the same messages."""
        return SplitTracker(source=source, query=self.plan.name, known=self._positions(source, batch_id - 1))

    def _positions(self, name: str, batch_id: int) -> Positions:
        source = self.topology[name]
        assert isinstance(source, Source)  # plans name sources
        return positions(source, self.log, batch_id, self.home)

    def _tell(self, message: SystemMessage) -> tuple[CheckPointState, ...]:
        return tuple(_answer(listener, message) for listener in self.listeners)

    def _entry(
        self,
        batch_id: int,
        messages: Sequence[SystemMessage],
        *,
        replies: Mapping[int, tuple[CheckPointState, ...]] | None = None,
        first_number: int = 0,
        reconciled: bool = False,
    ) -> JournalEntry:
        offsets = self.log.offsets(batch_id)
        stored = CheckpointLog(self.log.folder)
        return JournalEntry(
            namespace=self.topology.namespace,
            job=self.topology.job,
            generation=self.generation,
            query=self.plan.name,
            folder=self.folder,
            batch_id=batch_id,
            run_id=self.run_id,
            at=offsets.started if reconciled and offsets else datetime.now(UTC),
            watermark=offsets.watermark if offsets and self.plan.stateful else None,
            messages=tuple(messages),
            replies=replies or {},
            first_number=first_number,
            reconciled=reconciled,
            versions=() if first_number else self.versions(batch_id),
            plan=stored.offsets(batch_id),
            before=stored.offsets(batch_id - 1),
            code=self._code,
            log=self.log,
        )


def _answer(listener: SystemMessageListener, message: SystemMessage) -> CheckPointState:
    """The answer of `listener`; it is asked again while it holds a checkpoint back, then CheckpointHeldError."""
    if not isinstance(message, CheckPoint):
        return listener.on_system_message(message)
    asking = Retrying(
        stop=stop_after_attempt(ASKED),
        wait=PAUSE,
        retry=retry_if_result(lambda reply: bool(held_back(reply, proposed=message.offsets))),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
    )
    reply: CheckPointState = asking(listener.on_system_message, message)
    if why := held_back(reply, proposed=message.offsets):
        raise CheckpointHeldError(
            f"the sink has not flushed all rows of the batch: {why}",
            remedy="fix what keeps the sink from flushing and start again: the batch comes again; to a CheckPoint it"
            " must answer CheckPointState.normal(message.offsets) once it has flushed, or .any() if it keeps no rows",
            step=getattr(listener, "name", None),
            source=message.source,
            query=message.query,
            batch=message.batch_id,
        )
    return reply

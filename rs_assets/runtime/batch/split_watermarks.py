"""The watermark of a query by its slowest split."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.source_log import SourceLog
from rs_assets.common.home import Home
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.compile.readers import positioned, reader_of
from rs_assets.connectors.source import Backlogged
from rs_assets.operators.window.durations import EPOCH
from rs_assets.operators.window.splits import NO_SPLIT, BySplit, Latest, Silence, SplitNotes, later, reached
from rs_assets.records.columns import origin_of
from rs_assets.runtime.batch.execution import BatchExecution
from rs_assets.runtime.record.positions import positions
from rs_assets.topology.nodes.timed import TimedState
from rs_assets.topology.topology import Topology


@dataclass(slots=True, kw_only=True)
class SplitWatermarks:
    """Moves the watermark of a query's only gate; `now` gives seconds that never go back.

    `there` returns the splits of its sources at the end of a batch, with rows or without; for a source without known
    splits it returns the source itself, which counts as one split. `unread` returns those of which a limit has left
    input to later batches: they are not idle. `aliases` has the stored names of sources that were renamed: the notes go
    by these.
    """

    gate: str
    by_split: BySplit
    notes: SplitNotes
    there: Callable[[int], Iterator[str]]
    unread: Callable[[int], Iterator[str]] = lambda _: iter(())
    aliases: Mapping[str, str] = field(default_factory=dict)
    now: Callable[[], float] = time.monotonic
    _silence: Silence = field(init=False)
    _splits: frozenset[str] = frozenset()
    _latest: Latest = field(default_factory=dict)
    _moved_to: int | None = None
    _batch: int = -1

    def __post_init__(self) -> None:
        """Silence counts from now on."""
        self._silence = Silence(self.by_split.idle_timeout, self.now())

    def before(self, batch_id: int) -> Latest:
        """The greatest event time of each split before a batch."""
        return self._noted(batch_id - 1)

    def advance(self, execution: BatchExecution, batch_id: int, *, first: int) -> None:
        """Set the greatest event time of a computed batch to the time that all splits have reached.

        It is recorded before Spark commits the batch; `first` is the first batch that one can go back to. Control rows
        move the watermark for all splits.
        """
        found = dict(execution.latest(self.gate))
        asked = found.pop(NO_SPLIT, None)
        self._batch, self._splits = batch_id, frozenset(self.there(batch_id)) | found.keys()
        before = self.before(batch_id)
        self._latest = {split: at for split, at in later(before, found).items() if split in self._splits}
        self._silence.hear(frozenset(found), self.now())
        self._moved_to = max((at for at in (self._reached(), asked) if at is not None), default=None)
        # After a rewind there may be an entry of a batch that had the same number.
        if self._latest != self._noted(batch_id):
            self.notes.note(batch_id, _named(self._latest, self.aliases), first=first)
        execution.move_event_time(self._moved_to)

    def due(self) -> datetime | None:
        """The event time to advance to because splits have become idle since the last batch; None if there is none."""
        at = self._reached()
        if at is None or (self._moved_to is not None and at <= self._moved_to):
            return None
        self._moved_to = at
        return EPOCH + timedelta(microseconds=at)

    def _noted(self, batch_id: int) -> Latest:
        return _named(self.notes.behind(batch_id), {stored: name for name, stored in self.aliases.items()})

    def _reached(self) -> int | None:
        waited = self._silence.waited(self._splits, self.now())
        at = reached(self._latest, waited)
        if waited == self._splits or at is None or (self._moved_to is not None and at <= self._moved_to):
            return at
        return reached(self._latest, waited | self._splits.intersection(self.unread(self._batch)))


def _named(latest: Latest, names: Mapping[str, str]) -> Latest:
    """`latest` with other names of its sources."""
    if not names:
        return latest
    places = {split: split.partition(" ") for split in latest}
    return {origin_of(names.get(source, source), place): latest[split] for split, (source, _, place) in places.items()}


def by_split_of(topology: Topology, plan: QueryPlan) -> BySplit | None:
    """The settings by which the watermark of the query `plan` follows splits; None if it does not."""
    steps = (topology[name] for name in plan.watermark_steps)
    return next((node.by_split for node in steps if isinstance(node, TimedState) and node.by_split), None)


def split_watermarks_of(
    topology: Topology, plan: QueryPlan, log: CheckpointLog, folder: Path, home: Home
) -> SplitWatermarks | None:
    """The split watermarks of the query in `folder`; None if Spark uses the greatest time of all splits."""
    by_split = by_split_of(topology, plan)
    if by_split is None:
        return None
    (gate,) = plan.watermark_inputs
    sources = [node for node in topology.sources if node.name in plan.feeding(topology)[gate]]

    def there(batch_id: int) -> Iterator[str]:
        for source in sources:
            known = positions(source, log, batch_id, home) if positioned(source) else {}
            yield from (origin_of(source.name, split) for split in known)
            if not known:
                yield origin_of(source.name)

    def unread(batch_id: int) -> Iterator[str]:
        for source in sources:
            reader, end = reader_of(source, home), SourceLog(log, source.name).batch(batch_id).end
            if isinstance(reader, Backlogged) and end is not None:
                yield from (origin_of(source.name, split) for split in reader.unread(end))

    notes = SplitNotes.load(folder)
    return SplitWatermarks(gate=gate, by_split=by_split, notes=notes, there=there, unread=unread, aliases=log.aliases)

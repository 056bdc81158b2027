"""The processing of a batch: compute it once, stage it for each sink, check it, commit it, and report failures."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame

from rs_assets.catalog.batch_counts import BatchCounts
from rs_assets.catalog.batch_times import EventTimes
from rs_assets.catalog.lease import Lease
from rs_assets.catalog.offsets.messages import SystemMessageListener
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.compile.planner.context import CompileContext
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.connectors.dead_letters import SCHEMA, DeadLetters, refused_letters
from rs_assets.connectors.sink import BatchMark, Claim, RefusedRow, Refusing, SinkWriter, Staged
from rs_assets.connectors.source import Watch
from rs_assets.errors import BadRecordError, DataLossError, RsError, StepError
from rs_assets.operators.dimension.lookup import tell_tasks
from rs_assets.operators.state.exchange import Exchange
from rs_assets.operators.window.by_record import tell_latest
from rs_assets.operators.window.durations import EPOCH
from rs_assets.operators.window.event_time import END_OF_TIME
from rs_assets.recovery.uploads import QueryUploads
from rs_assets.runtime.batch.dimensions import BatchVersions
from rs_assets.runtime.batch.execution import BatchExecution, StateMetrics
from rs_assets.runtime.batch.per_batch import PerBatchSteps, StagedBatch
from rs_assets.runtime.batch.row_counts import Counts, acts_at_once, counts_of
from rs_assets.runtime.batch.sink_progress import SinkProgress
from rs_assets.runtime.batch.split_watermarks import SplitWatermarks
from rs_assets.runtime.record.bookkeeping import Bookkeeper
from rs_assets.runtime.replay.account import counted_gates
from rs_assets.runtime.replay.dead_letters import send_dead_letters, stage_late
from rs_assets.runtime.replay.late_partitions import LatePartitions, late_partitions
from rs_assets.runtime.replay.replay import Replay
from rs_assets.runtime.report import BatchProgress
from rs_assets.runtime.translate import translate
from rs_assets.topology.topology import Topology

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class PlannedAnew(Exception):
    """The plan of the batch has changed: the query has to begin it again."""


@dataclass(slots=True, kw_only=True)
class BatchWork:
    """The batches of one query, from the checkpoint in `folder` into its sinks, under the lease of the pipeline.

    `read` is the new input state of its sources in this run, `heard` the monotonic time of the last row of each.
    `reached`: the greatest event time since the start at each gate, for a query with several.
    """

    topology: Topology
    plan: QueryPlan
    context: CompileContext
    folder: Path
    pipeline_id: str
    generation: int
    lease: Lease
    claim: Claim | None
    book: Bookkeeper
    writers: Mapping[str, SinkWriter]
    letters: DeadLetters
    watches: Mapping[str, Watch]
    dimensions: BatchVersions
    notes: SinkProgress
    marks: SplitWatermarks | None = None
    uploads: QueryUploads | None = None
    # The state, if the machines of a cluster share none of the checkpoint's folders.
    exchange: Exchange | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    read: dict[str, dict[str, int]] = field(default_factory=dict)
    heard: dict[str, float] = field(default_factory=dict)
    reached: dict[str, datetime] = field(default_factory=dict)
    # Seconds that the newest commit of each sink has taken.
    took: dict[str, float] = field(default_factory=dict)
    _planned_before: int = -1

    @property
    def log(self) -> CheckpointLog:
        """Spark's own log of this query."""
        return CheckpointLog(self.folder / "checkpoint", self.aliases)

    def begin(self) -> None:
        """Prepare for the first batch after a start of the query, which may have been planned before."""
        self.book.listeners = tuple(w for w in self.writers.values() if isinstance(w, SystemMessageListener))
        for name, writer in self.writers.items():
            if isinstance(writer, Refusing):
                writer.keep_refused(partial(self._keep_refused, name))
        self.reached.clear()
        last = self.log.last_committed()
        self._planned_before = last + 1 if self.log.offsets(last + 1) is not None else -1
        self.dimensions.planned = self.log.planned_batches
        self.dimensions.announce()
        for watch in self.watches.values():
            watch.begin()

    def commit(self, batch: DataFrame, batch_id: int, query: StreamingQuery, *, rows_open: int) -> BatchProgress | None:
        """Process one batch of `query`, with `rows_open` in state before it; None if that did nothing."""
        began = time.monotonic()
        counted = batch_id == self._planned_before and self.book.noted(batch_id)
        self._prepare(batch_id)
        staged, out = self._stage(batch, batch_id)
        refused, execution = staged.refused, BatchExecution.of(query)
        counts = counts_of(execution, self.topology, self.plan, self.context, self.watches, staged.judged)
        self.heard.update(dict.fromkeys(counts.sources, time.monotonic()))
        state, times = self._measured(execution)
        self._reach(times)
        # Only a record on which a function failed is found by calling it again.
        replay = self._replay(batch_id, effects=self.context.quarantines and counts.dead > 0)
        dropped = bool(state.dropped) or self._came_late(execution)
        late_at = replay.late_rows() if dropped else {}
        late = sum(late_at.values())
        staged.sinks.update(self._stage_late(batch_id, replay, late=late))
        self._check(batch_id)
        if counts.dead > counts.dead_again or counts.unmet or late or refused.num_rows:
            self._write_dead_letters(replay, batch_id, refused, clean=counts.clean, late=late > 0)
        for name, part in staged.sinks.items():
            self.lease.check()
            begun = time.monotonic()
            out[name] = part.commit()
            self.took[name] = time.monotonic() - begun
        if self.uploads is not None:
            self.uploads.committed()
        missed = late_partitions(self.topology, self.plan, replay) if dropped else {}
        self._record(execution, batch_id, out, counts, times, missed, late)
        # State can shrink without an output row: a window in update mode closes silently, a later filter may drop its
        # row.
        moved = state.rows != rows_open
        if counts == Counts() and not (late or moved or any(out.values())):
            return None
        return BatchProgress(
            query=self.plan.name,
            steps=self._passed(counts, state, out),
            batch_id=batch_id,
            rows_in=counts.rows_in,
            rows_in_again=counts.in_again,
            rows_shuffled=counts.shuffled,
            rows_dead=counts.dead,
            rows_dead_again=counts.dead_again,
            rows_late=late,
            rows_refused=refused.num_rows,
            rows_out=out,
            seconds=time.monotonic() - began,
            state_rows=state.rows,
            state_bytes=state.size,
            watermark=self._watermark(batch_id),
            offsets=self._offsets(batch_id),
            gates=counts.gates,
            expectations=counts.expectations,
            late=late_at,
            generation=self.generation,
            replayed=batch_id == self._planned_before,
            counted=counted,
            newest=max((seen.greatest for seen in map(_of_rows, times.values()) if seen is not None), default=None),
        )

    def untouched(self, batch_id: int) -> bool:
        """Whether neither a sink nor the dead-letter table has anything of the batch."""
        has_letters = self.letters.committed(self._mark("dead_letters", batch_id))
        return not has_letters and len(self._waiting(self.plan.sinks, batch_id)) == len(self.plan.sinks)

    def plans_again(self, batch_id: int) -> bool:
        """Whether a batch of which nothing was computed may be planned again: all its sources are known to allow it."""
        able = [type(watch).plans_again is not Watch.plans_again for watch in self.watches.values()]
        return all(able) and len(able) == len(self.plan.sources) and self.untouched(batch_id)

    def _prepare(self, batch_id: int) -> None:
        """Record the inputs of the batch before any row is computed; PlannedAnew if its plan must change."""
        if self.uploads is not None:
            self.uploads.settle()
        if self.exchange is not None:
            self.exchange.fetch()
        ends = self.dimensions.ends_of(batch_id)
        if ends and self.log.plan_as(batch_id, ends):
            raise PlannedAnew(f"batch {batch_id} reads the same input as before")
        for watch in self.watches.values():
            watch.planned(batch_id)
        self._pin_versions(batch_id)
        self._pass_watermarks(batch_id)
        self.book.before(batch_id)
        self._upload(wait=acts_at_once(self.topology, self.plan))

    def _upload(self, *, wait: bool) -> None:
        """Begin to upload the checkpoint with this plan; it is stored before rows of the batch can be seen."""
        if self.uploads is not None:
            self.uploads.begin()
            if wait:
                self.uploads.wait()

    def _check(self, batch_id: int) -> None:
        """Raise if another driver has taken over the pipeline, or a source no longer has the planned input."""
        if self.uploads is not None:
            self.uploads.wait()
        self.lease.check()
        for watch in self.watches.values():
            watch.check(batch_id)

    def _record(
        self,
        execution: BatchExecution,
        batch_id: int,
        out: Mapping[str, int],
        counts: Counts,
        times: Mapping[str, EventTimes],
        missed: LatePartitions,
        late: int,
    ) -> None:
        """Record a committed batch: progress of sinks and splits, and input state of sources.

        Before that, sinks that buffer rows are asked: one that has not flushed them holds the batch.
        """
        self.book.ask()
        self.notes.note(batch_id, out)
        if self.marks is not None:
            self.marks.advance(execution, batch_id, first=self.log.planned_batches()[0])
        came = {gate: _of_rows(times.get(gate)) for gate in self.plan.watermark_inputs}
        parted = {self.aliases.get(sink, sink): rows for sink, rows in missed.items()}
        read = BatchCounts(counts.rows_in + counts.shuffled, counts.dead_at(counted_gates(self.plan)), late)
        again = batch_id == self._planned_before
        self.book.after(batch_id, counts.expectations, came, parted, read, replayed=again)
        for name, watch in self.watches.items():
            if known := watch.read():
                self.read.setdefault(name, {}).update(known)

    def _measured(self, execution: BatchExecution) -> tuple[StateMetrics, Mapping[str, EventTimes]]:
        """What the batch did to state, and the event times that came to each gate with rows."""
        if not self.plan.stateful:
            return StateMetrics(), {}
        state, came = execution.measured(self.context.spark)
        operators = {gate: self.context.watermarks.get(gate, "") for gate in self.plan.watermark_inputs}
        return state, {gate: came[operator] for gate, operator in operators.items() if operator in came}

    def _reach(self, times: Mapping[str, EventTimes]) -> None:
        """Update the greatest event time of each gate, if there are several."""
        if len(self.plan.watermark_inputs) > 1:
            found = {gate: seen.greatest for gate, seen in times.items()}
            self.reached |= {gate: max(at, self.reached.get(gate, at)) for gate, at in found.items()}

    def _came_late(self, execution: BatchExecution) -> bool:
        """Whether rows were late by the records before them."""
        return self._by_record and any(execution.late(gate) for gate in self.plan.watermark_inputs)

    @property
    def _by_record(self) -> bool:
        return self.marks is not None and self.marks.by_split.by_record

    def _pass_watermarks(self, batch_id: int) -> None:
        """Pass the event times of the splits before the batch to the tasks, if rows are judged by them."""
        if self.marks is not None and self._by_record:
            tell_latest(self.context.spark, self.marks.before(batch_id))

    def _pin_versions(self, batch_id: int) -> None:
        """Record the dimension versions of the batch, and pass them to the tasks of this thread."""
        if self.dimensions.dimensions:
            again = batch_id == self._planned_before
            settled = self.dimensions.pin(batch_id, planned_before=again, first=lambda: self.log.planned_batches()[0])
            tell_tasks(self.context.spark, settled)

    def _passed(self, counts: Counts, state: StateMetrics, out: Mapping[str, int]) -> frozenset[str]:
        """The steps that rows went through."""
        moved = self.plan.states if state.moved else ()
        return frozenset({*counts.sources, *moved, *(sink for sink, rows in out.items() if rows)})

    def _stage(self, batch: DataFrame, batch_id: int) -> tuple[StagedBatch, dict[str, int]]:
        """Compute the batch once and stage it for each sink that does not have it yet; with the rows of each sink."""
        waiting = self._waiting(self.plan.outputs, batch_id)
        out = dict.fromkeys(self.plan.sinks, 0)
        letters = partial(self._replay(batch_id).dead_letters_of, **self._job)
        steps = PerBatchSteps(self.topology, self.plan, self.context, letters)
        if not waiting and not steps.expects:
            # All these sinks have it, but Spark does not know: the state still has to advance.
            batch.write.format("noop").mode("overwrite").save()
            return StagedBatch({}, SCHEMA.empty_table(), {}), out
        return steps.stage(batch, waiting), out

    def _stage_late(self, batch_id: int, replay: Replay, *, late: int) -> dict[str, Staged]:
        """Stage the late rows, if there are any; the first batch of a later generation replaces the earlier ones."""
        if not late and batch_id > 0:
            return {}
        waiting = self._waiting(self.plan.late, batch_id)
        if not late:
            waiting = {name: (writer, mark) for name, (writer, mark) in waiting.items() if mark.generation > 1}
        return stage_late(self.topology, waiting, replay, empty=not late)

    def _waiting(self, sinks: Iterable[str], batch_id: int) -> dict[str, tuple[SinkWriter, BatchMark]]:
        """Those of `sinks` that do not have the batch yet."""
        marked = {name: (self.writers[name], self._mark(name, batch_id)) for name in sinks}
        return {name: (writer, mark) for name, (writer, mark) in marked.items() if not writer.committed(mark)}

    def _write_dead_letters(
        self, replay: Replay, batch_id: int, refused: pa.Table, *, clean: frozenset[str], late: bool
    ) -> None:
        mark = self._mark("dead_letters", batch_id)
        if not self.letters.committed(mark):
            rows = pa.concat_tables([replay.letters(clean=clean, late=late, **self._job), refused])
            if rows.num_rows:
                # Topics first: dead letters that are in the table are not sent again.
                send_dead_letters(self.topology, self.plan, self.context, self.log, batch_id, rows)
                self.letters.write(rows, mark)

    def _keep_refused(self, sink: str, rows: Sequence[RefusedRow], mark: BatchMark, number: int) -> None:
        """Write rows that a sink's system refused to the dead-letter table, once for each number."""
        name = f"{self.log.stored_name}.{sink}.refused"
        noted = replace(mark, sink=name, batch_id=number, token=self.lease.token, claim=None)
        table = refused_letters(rows, {**self._job, "query": self.plan.name, "batch_id": mark.batch_id, "step": sink})
        self.letters.write(table, noted)

    @property
    def _job(self) -> dict[str, Any]:
        return {"namespace": self.topology.namespace, "job": self.topology.job, "generation": self.generation}

    def _replay(self, batch_id: int, *, effects: bool = True) -> Replay:
        context = self.context
        if self.marks is not None:
            context = replace(context, latest=self.marks.before(batch_id))
        return Replay(self.topology, self.plan, context, self.log, batch_id, effects=effects)

    def explained(self, error: Exception, batch_id: int) -> RsError:
        """Our error for `error`; a bad record or a failing step is located by reading the batch again."""
        found = translate(error, query=self.plan.name)
        if isinstance(found, DataLossError):
            return next((why for w in self.watches.values() if (why := w.explain(batch_id))), found)
        if isinstance(found, BadRecordError):
            return self._replay(batch_id).first_bad() or found
        # In quarantine a replay raises nothing; the records are searched after the query has ended.
        if isinstance(found, StepError) and "line" not in found.facts and not self.context.quarantines:
            return self._replay(batch_id).failing(lambda e: translate(e, query=self.plan.name)) or found
        return found

    def withdraw(self, failure: RsError, batch_id: int) -> None:
        """Remove the plan of a batch if a source asks for it and none objects.

        A batch that a sink has must be computed again as planned.
        """
        if self.uploads is not None:
            self.uploads.settle()
        asked = {watch.plans_again(failure) for watch in self.watches.values()}
        if True in asked and False not in asked and self.untouched(batch_id):
            self.log.withdraw(batch_id)

    def _mark(self, sink: str, batch_id: int) -> BatchMark:
        letters = sink == "dead_letters"
        name = f"{self.log.stored_name}.{sink}" if letters else sink
        stored = self.aliases.get(name, name)
        # The dead-letter table is in the home itself.
        claim = None if letters else self.claim
        watermark = None if letters else self._watermark(batch_id)
        return BatchMark(self.pipeline_id, self.generation, stored, batch_id, self.lease.token, claim, watermark)

    def _watermark(self, batch_id: int) -> datetime | None:
        """The watermark of a batch; None before any event time, when Spark has the epoch."""
        offsets = self.log.offsets(batch_id) if self.plan.stateful else None
        return offsets.watermark if offsets and offsets.watermark > EPOCH else None

    def _offsets(self, batch_id: int) -> Mapping[str, str]:
        offsets = self.log.offsets(batch_id)
        return {k: v for k, v in offsets.sources.items() if k in self.plan.sources} if offsets else {}


def _of_rows(times: EventTimes | None) -> EventTimes | None:
    """The event times of a batch; None if there is only that of the control row which ends the input."""
    return times if times is not None and times.least < END_OF_TIME else None

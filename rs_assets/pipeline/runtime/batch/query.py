"""One Spark query of a pipeline: every batch is staged, checked and committed once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod

import pyarrow as pa
from pyspark.sql import DataFrame

from rs_assets.engine.checkpoint.lease import Lease
from rs_assets.engine.checkpoint.log import PARTITIONS, CheckpointLog
from rs_assets.engine.checkpoint.messages import SystemMessageListener
from rs_assets.engine.dimension.lookup import tell_tasks
from rs_assets.engine.sink.base import BatchMark, Claim, SinkWriter, Staged
from rs_assets.engine.sink.dead_letters import SCHEMA, DeadLetters
from rs_assets.engine.source.base import Watch
from rs_assets.engine.spark.settings import CHAINS
from rs_assets.engine.window.by_record import tell_latest
from rs_assets.engine.window.durations import EPOCH
from rs_assets.engine.window.event_time import END_OF_TIME, control_folder, send_control
from rs_assets.errors import BadRecordError, DataLossError, RsError, StepError
from rs_assets.pipeline.compile.query_plan import QueryPlan
from rs_assets.pipeline.compile.table import wire_node
from rs_assets.pipeline.compile.wiring import Flow, Wiring
from rs_assets.pipeline.runtime.batch.accounts import Counts, NotPlainError, acts_at_once, counts_of, plain_rows
from rs_assets.pipeline.runtime.batch.below_trunk import Behind
from rs_assets.pipeline.runtime.batch.calls import BatchNotDone, calling
from rs_assets.pipeline.runtime.batch.dimensions import BatchVersions
from rs_assets.pipeline.runtime.batch.execution import (
    BatchExecution,
    StateMetrics,
    forget_look,
    found_nothing,
    planning_held,
)
from rs_assets.pipeline.runtime.batch.sink_notes import SinkNotes
from rs_assets.pipeline.runtime.batch.split_marks import SplitMarks
from rs_assets.pipeline.runtime.batch.starved import RESTARTS, lacks_worker, trying_again
from rs_assets.pipeline.runtime.record.bookkeeping import Bookkeeper
from rs_assets.pipeline.runtime.replay.examine import blames_a_record
from rs_assets.pipeline.runtime.replay.letters import send_letters, stage_late
from rs_assets.pipeline.runtime.replay.replay import Replay
from rs_assets.pipeline.runtime.report import BatchProgress, QueryReport
from rs_assets.pipeline.runtime.translate import translate
from rs_assets.pipeline.topology.topology import Topology

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

# The triggers of a query, as arguments of Spark's `trigger()`.
AVAILABLE_NOW: Mapping[str, Any] = MappingProxyType({"availableNow": True})


def every(interval: timedelta) -> Mapping[str, Any]:
    """A batch every `interval`, if there is input.

    >>> every(timedelta(seconds=1))
    {'processingTime': '1000 milliseconds'}
    """
    return {"processingTime": f"{interval // timedelta(milliseconds=1)} milliseconds"}


@dataclass(slots=True, weakref_slot=True, kw_only=True)
class QueryRun:
    """A query while it runs. All methods but `process` are called on the Spark driver's thread."""

    topology: Topology
    plan: QueryPlan
    wiring: Wiring
    folder: Path
    pipeline_id: str
    generation: int
    partitions: int
    lease: Lease
    claim: Claim | None
    book: Bookkeeper
    writers: Mapping[str, SinkWriter]
    letters: DeadLetters
    on_progress: Callable[[BatchProgress], None]
    watches: Mapping[str, Watch]
    dimensions: BatchVersions
    notes: SinkNotes
    marks: SplitMarks | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    rows_open: int = 0
    flows: dict[str, Flow] = field(default_factory=dict)
    report: QueryReport = field(init=False)
    failure: RsError | None = None
    failed_batch: int = -1  # a batch that failed on its data, -1 for none
    given_up: bool = False  # quarantine was tried for that batch
    restarts_left: int = RESTARTS
    misread: bool = False  # the batch must be read again, with every field of its records
    read: dict[str, dict[str, int]] = field(default_factory=dict)
    heard: dict[str, float] = field(default_factory=dict)  # when each source last had rows, by the monotonic clock
    _planned_before: int = -1
    _query: StreamingQuery | None = None
    _started: threading.Event = field(default_factory=threading.Event)
    _last: threading.Event = field(default_factory=threading.Event)
    _cut_off: bool = False

    def __post_init__(self) -> None:
        """Begin with an empty report, but for what waits in state."""
        self.report = QueryReport(query=self.plan.name, rows_open=self.rows_open)

    @property
    def log(self) -> CheckpointLog:
        """Spark's own log of this query."""
        return CheckpointLog(self.folder / "checkpoint", self.aliases)

    def wire(self, name: str) -> Flow:
        """Compile the node `name`; its inputs were wired before. A worker may be asked for the schema of a source."""
        flow = trying_again()(wire_node, self.wiring, self.topology, self.plan.trunk, name, self.flows)
        self.flows[name] = flow
        return flow

    def start(self, trigger: Mapping[str, Any]) -> None:
        """Start the query; RsError if Spark refuses the plan."""
        self._wait_until_gone()
        self._started.clear()
        self.failure, self.failed_batch, self.given_up, self._cut_off = None, -1, False, False
        self.misread = False
        self.book.listeners = tuple(w for w in self.writers.values() if isinstance(w, SystemMessageListener))
        self.wiring.spark.conf.set(PARTITIONS, self.partitions)
        self.wiring.spark.conf.set(CHAINS, len(self.plan.states) > 1)
        self.log.clear_cut_writes()
        self.log.pin_partitions(self.partitions)
        last = self.log.last_committed()
        self._planned_before = last + 1 if self.log.offsets(last + 1) is not None else -1
        for watch in self.watches.values():
            watch.begin()
        frame = self.flows[self.plan.trunk].df
        writer = (
            frame.writeStream.queryName(f"{self.topology.namespace}.{self.topology.job}.{self.plan.name}")
            .outputMode(self.plan.output_mode)
            .option("checkpointLocation", str(self.log.folder))
            .trigger(**trigger)
            .foreachBatch(calling(WeakMethod(self.process)))
        )
        try:
            self._query = writer.start()
        except Exception as error:
            raise translate(error, query=self.plan.name) from error
        self._started.set()

    def _wait_until_gone(self) -> None:
        """Wait until Spark has let go of the query that ended before: for a moment its name is still taken."""
        if self._query is not None and not self._query.isActive:
            self.ended(wait_s=None)

    @property
    def active(self) -> bool:
        """Whether Spark runs it."""
        return self._query is not None and self._query.isActive

    def ended(self, *, wait_s: float | None) -> bool:
        """Whether the query has ended; waits up to `wait_s` seconds for it (None: as long as it takes).

        `raise_failure` tells how it ended.
        """
        from pyspark.errors import StreamingQueryException

        try:
            return self._query is None or self._query.awaitTermination(wait_s) is not False  # type: ignore[arg-type]
        except StreamingQueryException:
            return True

    @property
    def examinable(self) -> bool:
        """Whether it has failed on a batch whose records may be put into quarantine."""
        return self.failure is not None and self.failed_batch >= 0 and not self.given_up

    @property
    def starved(self) -> bool:
        """Whether it has ended because the machine was too busy to start a Python worker; False after some restarts."""
        if self._cut_off or not self.restarts_left:
            return False
        error = self.failure or (self._query.exception() if self._query is not None and not self.active else None)
        return error is not None and lacks_worker(error)

    @property
    def goes_on(self) -> bool:
        """Whether it has ended and may be started again: as it was, with whole records, or without those that fail."""
        return self.examinable or self.starved or (self.misread and not self._cut_off)

    def untouched(self, batch_id: int) -> bool:
        """Whether neither a sink nor the dead letters have anything of the batch."""
        has_letters = self.letters.committed(self._mark("dead_letters", batch_id))
        return not has_letters and len(self._waiting(self.plan.sinks, batch_id)) == len(self.plan.sinks)

    def raise_failure(self) -> None:
        """Raise what ended the query, if it was a failure."""
        if self.failure is not None:
            raise self.failure
        error = self._query.exception() if self._query is not None else None
        if error is not None and not self._cut_off:
            # Spark plans the reading of a batch before it hands it to us.
            batch_id = self.log.last_committed() + 1
            self.failure = self._explained(error, batch_id)
            self._withdraw(self.failure, batch_id)
            raise self.failure from error

    def process_all(self) -> None:
        """Wait until everything that is there now has been processed."""
        assert self._query is not None  # noqa: S101  started before
        try:
            self._query.processAllAvailable()
        except Exception as error:
            self.raise_failure()
            raise translate(error, query=self.plan.name) from error

    def planning_held(self) -> AbstractContextManager[None]:
        """No batch is planned meanwhile: what several sources get in that time goes into one."""
        assert self._query is not None  # noqa: S101  started before
        return planning_held(self._query)

    def look_anew(self) -> None:
        """Forget that nothing was found in its sources; `found_nothing` tells what the next look at them finds."""
        if self._query is not None:
            forget_look(self._query)

    def found_nothing(self) -> bool:
        """Whether its sources had nothing new when it last looked, since the start or `look_anew`."""
        return self._query is not None and found_nothing(self._query)

    def idle(self) -> bool:
        """Whether no batch is being computed."""
        return self._query is None or not self._query.status["isTriggerActive"]

    def begin_no_more(self) -> None:
        """Let the batch in flight be the last one; may be called on any thread."""
        self._last.set()

    def stop(self) -> None:
        """Stop at once; a batch in flight is given up and computed again at the next start."""
        if self._query is not None:
            self._cut_off = True
            self._query.stop()

    def status(self) -> dict[str, Any]:
        """Spark's word on what the query does, and how far its sources lie behind their ends."""
        if self._query is None:
            return {"message": "not started"}
        progress = self._query.lastProgress
        sources = progress["sources"] if progress else ()
        ends = {s["description"]: {"read": s["endOffset"], "there": s["latestOffset"]} for s in sources}
        return {**self._query.status, "sources": ends}

    def finish_windows(self) -> None:
        """Move the watermark to the end of time, so that the next batch fires every window."""
        self.move_watermark(END_OF_TIME)

    def move_watermark(self, at: datetime, gates: Iterable[str] | None = None) -> None:
        """Let the next batch move the watermark to `at`, if it is not there yet; that of some `gates`, or of all."""
        for gate in self.plan.controls if gates is None else gates:
            send_control(control_folder(self.wiring.folder, self.plan.controls[gate]), at)

    def process(self, batch: DataFrame, batch_id: int) -> None:
        """One micro-batch, called by Spark on a thread of its own."""
        self._started.wait()
        if self._last.is_set():
            # To wait here for the stop would hold it up, to return would let Spark commit the batch.
            self._cut_off = True
            raise BatchNotDone("the query was told to stop")
        began = time.monotonic()
        try:
            progress = self._commit_batch(batch, batch_id, began)
        except Exception as error:  # noqa: BLE001  kept in `failure`, and raised from there
            if self._cut_off:
                raise BatchNotDone("the query was stopped") from None
            if self._is_misread():
                self.misread = True
                raise BatchNotDone("the batch is read again") from None
            self.failed_batch = batch_id if self.wiring.quarantines and blames_a_record(error) else -1
            failure = self._explained(error, batch_id)
            failure.__cause__ = error if failure is not error else error.__cause__
            self.failure = failure
            self._withdraw(failure, batch_id)
            raise BatchNotDone(failure.what) from None
        self.restarts_left = RESTARTS
        if progress is not None:
            self.report = self.report.plus(progress)
            self.on_progress(progress)

    def _is_misread(self) -> bool:
        """Whether a batch that failed was read by halves, so that its failure says nothing."""
        try:
            plain_rows(self.wiring, self.watches)
        except NotPlainError:
            return True
        return False

    def _commit_batch(self, batch: DataFrame, batch_id: int, began: float) -> BatchProgress | None:
        for watch in self.watches.values():
            watch.planned(batch_id)
        if acts_at_once(self.topology, self.plan):
            plain_rows(self.wiring, self.watches)
        self._settle_versions(batch_id)
        self._tell_marks(batch_id)
        self.book.before(batch_id)
        staged, out, refused = self._stage(batch, batch_id)
        assert self._query is not None  # noqa: S101  waited for above
        execution = BatchExecution.of(self._query)
        counts = counts_of(execution, self.topology, self.plan, self.wiring, self.watches)
        self.heard.update(dict.fromkeys(counts.sources, time.monotonic()))
        state = execution.state() if self.plan.stateful else StateMetrics()
        replay = self._replay(batch_id)
        late = replay.late_rows() if state.dropped or self._came_late(execution) else 0
        if late:
            staged |= stage_late(self.topology, self._waiting(self.plan.late, batch_id), replay)
        self.lease.check()
        for watch in self.watches.values():
            watch.check(batch_id)
        if counts.dead > counts.dead_again or late or refused.num_rows:
            self._write_letters(replay, batch_id, refused, clean=counts.clean, late=late > 0)
        for name, part in staged.items():
            self.lease.check()
            out[name] = part.commit()
        self._settle(execution, batch_id, out)
        self.book.after(batch_id)
        for name, watch in self.watches.items():
            if known := watch.read():
                self.read.setdefault(name, {}).update(known)
        # State can shrink without a row: a window in update mode closes in silence, a later filter may drop its row.
        moved = state.rows != self.report.rows_open
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
            watermark=self._watermark(batch_id),
            offsets=self._offsets(batch_id),
            generation=self.generation,
            replayed=batch_id == self._planned_before,
        )

    def _settle(self, execution: BatchExecution, batch_id: int, out: Mapping[str, int]) -> None:
        """Note what the sinks have of a committed batch, and how far its splits have come."""
        self.notes.note(batch_id, out)
        if self.marks is not None:
            self.marks.settle(execution, batch_id, first=self.log.planned_batches()[0])

    def _came_late(self, execution: BatchExecution) -> bool:
        """Whether rows were late by the records before them."""
        return self._by_record and any(execution.late(gate) for gate in self.plan.entries)

    @property
    def _by_record(self) -> bool:
        return self.marks is not None and self.marks.by_split.by_record

    def _tell_marks(self, batch_id: int) -> None:
        """Tell the tasks of this thread how far the splits had come before the batch, if rows are judged by that."""
        if self.marks is not None and self._by_record:
            tell_latest(self.wiring.spark, self.marks.before(batch_id))

    def _settle_versions(self, batch_id: int) -> None:
        """Note which versions of its dimensions the batch uses, and tell the tasks of this thread."""
        if self.dimensions.dimensions:
            again = batch_id == self._planned_before
            settled = self.dimensions.settle(
                batch_id, planned_before=again, first=lambda: self.log.planned_batches()[0]
            )
            tell_tasks(self.wiring.spark, settled)

    def _passed(self, counts: Counts, state: StateMetrics, out: Mapping[str, int]) -> frozenset[str]:
        """The steps that rows went through."""
        moved = self.plan.states if state.moved else ()
        return frozenset({*counts.sources, *moved, *(sink for sink, rows in out.items() if rows)})

    def _stage(self, batch: DataFrame, batch_id: int) -> tuple[dict[str, Staged], dict[str, int], pa.Table]:
        """Compute the batch once and hand it to each sink that has not got it yet.

        The table has the letters of rows that a step behind a window refused.
        """
        waiting = self._waiting(self.plan.outputs, batch_id)
        out = dict.fromkeys(self.plan.sinks, 0)
        if not waiting:
            # All these sinks have it, Spark does not know: the state still has to move on.
            batch.write.format("noop").mode("overwrite").save()
            return {}, out, SCHEMA.empty_table()
        letters = partial(self._replay(batch_id).letters_of, **self._job)
        staged, refused = Behind(self.topology, self.plan, self.wiring, letters).stage(batch, waiting)
        return staged, out, refused

    def _waiting(self, sinks: Iterable[str], batch_id: int) -> dict[str, tuple[SinkWriter, BatchMark]]:
        """Those of `sinks` that have not got the batch yet."""
        marked = {name: (self.writers[name], self._mark(name, batch_id)) for name in sinks}
        return {name: (writer, mark) for name, (writer, mark) in marked.items() if not writer.committed(mark)}

    def _write_letters(
        self, replay: Replay, batch_id: int, refused: pa.Table, *, clean: frozenset[str], late: bool
    ) -> None:
        mark = self._mark("dead_letters", batch_id)
        if not self.letters.committed(mark):
            rows = pa.concat_tables([replay.letters(clean=clean, late=late, **self._job), refused])
            if rows.num_rows:
                # First the topics: what the table remembers is not sent again.
                send_letters(self.topology, self.plan, self.wiring, self.log, batch_id, rows)
                self.letters.write(rows, mark)

    @property
    def _job(self) -> dict[str, Any]:
        return {"namespace": self.topology.namespace, "job": self.topology.job, "generation": self.generation}

    def _replay(self, batch_id: int) -> Replay:
        wiring = self.wiring
        if self.marks is not None:
            wiring = replace(wiring, latest=self.marks.before(batch_id))
        return Replay(self.topology, self.plan, wiring, self.log, batch_id)

    def _explained(self, error: Exception, batch_id: int) -> RsError:
        """Our error for `error`; a bad record or a failing step gets its address by reading the batch again."""
        found = translate(error, query=self.plan.name)
        if isinstance(found, DataLossError):
            return next((why for w in self.watches.values() if (why := w.explain(batch_id))), found)
        if isinstance(found, BadRecordError):
            return self._replay(batch_id).first_bad() or found
        # In quarantine a replay raises nothing; there the records are looked for once the query has ended.
        if isinstance(found, StepError) and "line" not in found.facts and not self.wiring.quarantines:
            return self._replay(batch_id).failing(lambda e: translate(e, query=self.plan.name)) or found
        return found

    def _withdraw(self, failure: RsError, batch_id: int) -> None:
        """Give up the plan of a batch if a source asks for it and none forbids it.

        What a sink has got must be computed again.
        """
        asked = {watch.plans_again(failure) for watch in self.watches.values()}
        if True in asked and False not in asked and self.untouched(batch_id):
            self.log.withdraw(batch_id)

    def _mark(self, sink: str, batch_id: int) -> BatchMark:
        letters = sink == "dead_letters"
        name = f"{self.plan.name}.{sink}" if letters else sink
        stored = self.aliases.get(name, name)
        # The dead letters lie in the home itself.
        claim = None if letters else self.claim
        return BatchMark(self.pipeline_id, self.generation, stored, batch_id, self.lease.token, claim)

    def _watermark(self, batch_id: int) -> datetime | None:
        """The watermark of a batch; None before one with an event time, when Spark has the epoch."""
        offsets = self.log.offsets(batch_id) if self.plan.stateful else None
        return offsets.watermark if offsets and offsets.watermark > EPOCH else None

    def _offsets(self, batch_id: int) -> Mapping[str, str]:
        offsets = self.log.offsets(batch_id)
        return {k: v for k, v in offsets.sources.items() if k in self.plan.sources} if offsets else {}

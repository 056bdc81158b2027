"""One Spark query of a pipeline while it runs: wired, started, watched and stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod

from pyspark.sql import DataFrame

from rs_assets.checkpoint.log import PARTITIONS, CheckpointLog
from rs_assets.compile.planner.context import Flow
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.compile.planner.table import wire_node
from rs_assets.connectors.sink import Prepared
from rs_assets.errors import RsError
from rs_assets.operators.state.exchange import joined
from rs_assets.operators.table.held import held_frame
from rs_assets.operators.window.durations import EPOCH
from rs_assets.operators.window.event_time import END_OF_TIME, control_folder, has_ended, send_control
from rs_assets.runtime.batch.calls import BatchNotDone, Calls
from rs_assets.runtime.batch.execution import forget_look, found_nothing, planning_held
from rs_assets.runtime.batch.input_end import InputEnd, has_settled
from rs_assets.runtime.batch.table_loading import TableLoading
from rs_assets.runtime.batch.work import BatchWork, PlannedAnew
from rs_assets.runtime.batch.worker_start import RESTARTS, lacks_worker, trying_again
from rs_assets.runtime.replay.examine import blames_a_record
from rs_assets.runtime.report import BatchProgress, QueryReport
from rs_assets.runtime.translate import translate
from rs_assets.spark.processor.session import end_monitors, package_in
from rs_assets.spark.settings import CHAINS, DROPS_SIDES, LEFT_OUT
from rs_assets.topology.topology import Topology

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

    work: BatchWork
    partitions: int
    on_progress: Callable[[BatchProgress], None]
    report: QueryReport
    tables: TableLoading
    flows: dict[str, Flow] = field(default_factory=dict)
    failure: RsError | None = None
    failed_batch: int = -1  # a batch that failed on its data, -1 for none
    given_up: bool = False  # quarantine was tried for that batch
    restarts_left: int = RESTARTS
    planned_anew: bool = False  # the batch must be read again, by its current plan
    read_all: bool = False  # it reads nothing more, and only fires its windows
    ends: InputEnd | None = None  # where its windows are to fire; None while it goes on, or is started again for that
    _query: StreamingQuery | None = None
    _calls: Calls = field(init=False)
    _started: threading.Event = field(default_factory=threading.Event)
    _last: threading.Event = field(default_factory=threading.Event)
    _cut_off: bool = False
    _counted: bool = False  # a batch has counted the rows in state
    _begun_at: float | None = None  # on the monotonic clock: when the batch in flight came from Spark
    _ended_at: int = -1  # the batch after which it has moved its own watermark to the end of time

    def __post_init__(self) -> None:
        self._calls = Calls(WeakMethod(self.process))

    @property
    def topology(self) -> Topology:
        """The pipeline of the query."""
        return self.work.topology

    @property
    def plan(self) -> QueryPlan:
        """The nodes that it computes."""
        return self.work.plan

    @property
    def log(self) -> CheckpointLog:
        """Spark's own log of this query."""
        return self.work.log

    def wire(self, name: str) -> Flow:
        """Compile the node `name`, after its inputs. A worker may be asked for the schema of a source."""
        flow = trying_again()(wire_node, self.work.context, self.topology, self.plan.streaming_output, name, self.flows)
        # Branches that part here share the filter of its records, whose metric has one name.
        self.flows[name] = flow = Flow(flow.df) if name == self.plan.streaming_output else flow
        return flow

    def start(self, trigger: Mapping[str, Any]) -> None:
        """Start the query; RsError if Spark refuses the plan.

        While it loads tables for streams that wait it reads only what is there, and `loaded` says that it has ended.
        """
        self._wait_until_gone()
        self._started.clear()
        self.failure, self.failed_batch, self.given_up, self._cut_off = None, -1, False, False
        self.planned_anew = False
        self.work.context.spark.conf.set(PARTITIONS, self.partitions)
        self.work.context.spark.conf.set(CHAINS, len(self.plan.states) > 1)
        self.log.clear_cut_writes()
        self.log.pin_partitions(self.partitions)
        self._keep_sides()
        self._prepare_sinks()
        self.work.begin()
        self._go_by_watermark()
        frame, trigger = self._loading(self.flows[self.plan.streaming_output].df, trigger)
        writer = (
            frame.writeStream.queryName(f"{self.topology.namespace}.{self.topology.job}.{self.plan.name}")
            .outputMode(self.plan.output_mode)
            .option("checkpointLocation", self._checkpoint())
            .trigger(**trigger)
            .foreachBatch(self._calls)
        )
        try:
            self._query = writer.start()
        except Exception as error:
            raise translate(error, query=self.plan.name) from error
        self._started.set()

    def _keep_sides(self) -> None:
        """Let state begin with the same types of keys whichever inputs have rows in the first batch."""
        if self.plan.stateful:
            conf = self.work.context.spark.conf
            rules = [rule for rule in (conf.get(LEFT_OUT, None) or "").split(",") if rule not in {"", DROPS_SIDES}]
            conf.set(LEFT_OUT, ",".join([*rules, *([] if self.log.begun else [DROPS_SIDES])]))

    def _loading(self, frame: DataFrame, trigger: Mapping[str, Any]) -> tuple[DataFrame, Mapping[str, Any]]:
        """What to start: without the rows of streams that wait, and up to the present end, while tables are loaded.

        Nor with rows that came after the end of the input.
        """
        self.tables.begin()
        if held := self.tables.held or self._passed_by:
            frame = held_frame(frame, map(self.work.context.stored_name, held))
        return frame, AVAILABLE_NOW if self.tables.loads else trigger

    @property
    def _passed_by(self) -> frozenset[str]:
        """The sources whose further rows are not read, as the input of the run has ended."""
        over = self.read_all or 0 <= self._ended_at <= self.log.last_committed()
        able = over and package_in(self.work.context.spark) is not None and has_settled(self.log, self.plan.sources)
        return frozenset(self.plan.sources) if able else frozenset()

    @property
    def loaded(self) -> bool:
        """Whether it has read all that there was for tables, has ended with that, and may be started again."""
        if not self.tables.loads or self._query is None or self.active or self._cut_off or self.planned_anew:
            return False
        return self.failure is None and self._query.exception() is None

    def after_load(self) -> bool:
        """Whether the query that has `loaded` is to be started again now; False while a feeder still loads.

        The rows that its feeders have written since its start are read first.
        """
        released = self.tables.end()
        if released is None:
            return False
        # Their rows have waited: they were not idle.
        self.work.heard.update(dict.fromkeys(released, time.monotonic()))
        return True

    def _checkpoint(self) -> str:
        """The checkpoint for Spark."""
        exchange = self.work.exchange
        if exchange is None:
            return str(self.log.folder)
        exchange.begin()
        return joined(self.work.context.spark, exchange)

    def _prepare_sinks(self) -> None:
        for name, writer in self.work.writers.items():
            if name in self.flows and isinstance(writer, Prepared):
                writer.prepare(self.flows[name].df)

    def _go_by_watermark(self) -> None:
        """Request a batch, with or without input, if the last watermark has not been applied to state yet.

        Spark makes an empty batch for that, but only in a query that has moved the watermark since its start.
        """
        if self.plan.output_mode != "complete" and self.log.watermark_waits:
            # Any control row makes a batch; this one moves no watermark.
            self.move_watermark(EPOCH, [*self.plan.controls][:1])

    def _wait_until_gone(self) -> None:
        """Wait until Spark has released the query that ended before: its name stays taken for a moment."""
        if self._query is not None and not self._query.isActive:
            self.ended(wait_s=None)

    @property
    def keeps_rows(self) -> bool:
        """Whether rows are in state, and may wait for time to go on; True before the first batch that counts them.

        A run notes their number at its end: one that was killed has not, and savepoints and rewinds have another's.
        """
        return bool(self.report.rows_open) or (not self._counted and self.log.begun)

    @property
    def active(self) -> bool:
        """Whether Spark runs it."""
        return self._query is not None and self._query.isActive

    def ended(self, *, wait_s: float | None) -> bool:
        """Whether the query has ended; waits up to `wait_s` seconds for it (None: as long as it takes).

        `raise_failure` raises its failure.
        """
        from pyspark.errors import StreamingQueryException

        try:
            if self._query is not None and self._query.awaitTermination(wait_s) is False:  # type: ignore[arg-type]
                return False
        except StreamingQueryException:
            pass
        self._calls.end()
        end_monitors(self.work.context.spark)
        return True

    @property
    def examinable(self) -> bool:
        """Whether it has failed on a batch whose records may be quarantined."""
        return self.failure is not None and self.failed_batch >= 0 and not self.given_up

    @property
    def starved(self) -> bool:
        """Whether it ended because the machine was too busy to start a Python worker; False after some restarts."""
        if self._cut_off or not self.restarts_left:
            return False
        error = self.failure or (self._query.exception() if self._query is not None and not self.active else None)
        return error is not None and lacks_worker(error)

    @property
    def goes_on(self) -> bool:
        """Whether it has ended and may be started again.

        Unchanged, with another plan, without the records that fail, or with the rows that have waited for a table.
        """
        return self.examinable or self.starved or (self.planned_anew and not self._cut_off) or self.loaded

    def raise_failure(self) -> None:
        """Raise the failure that ended the query, if there was one."""
        if self.failure is not None:
            raise self.failure
        error = self._query.exception() if self._query is not None else None
        if error is not None and not self._cut_off:
            # Spark plans the reading of a batch before it calls us.
            batch_id = self.log.last_committed() + 1
            self.failure = self.work.explained(error, batch_id)
            self.work.withdraw(self.failure, batch_id)
            raise self.failure from error

    def process_all(self) -> None:
        """Wait until all current input has been processed."""
        assert self._query is not None  # started before
        try:
            self._query.processAllAvailable()
        except Exception as error:
            self.raise_failure()
            raise translate(error, query=self.plan.name) from error

    def planning_held(self) -> AbstractContextManager[None]:
        """Hold back planning meanwhile, so that new input of several sources goes into one batch."""
        assert self._query is not None  # started before
        return planning_held(self._query)

    def look_again(self) -> None:
        """Forget that its sources had nothing new; `found_nothing` reports the next look at them."""
        if self._query is not None:
            forget_look(self._query)

    def found_nothing(self) -> bool:
        """Whether its sources had nothing new at the last look, since the start or `look_again`."""
        return self._query is not None and found_nothing(self._query)

    def idle(self) -> bool:
        """Whether no batch is being computed."""
        return self._query is None or not self._query.status["isTriggerActive"]

    def begin_no_more(self) -> None:
        """Make the batch in flight the last one; may be called on any thread."""
        self._last.set()

    def begin_again(self) -> None:
        """Let batches begin after `begin_no_more`, once it is started again."""
        self._last.clear()

    def withdrawn(self) -> bool:
        """Whether the stopped query has no planned batch left; one that no sink has is planned again if it may be."""
        planned = self.log.last_committed() + 1
        if self.log.offsets(planned) is None:
            return True
        if not self.work.plans_again(planned):
            return False
        self.log.withdraw(planned)
        return True

    def stop(self) -> None:
        """Stop at once; a batch in flight is abandoned and computed again at the next start."""
        if self._query is not None:
            self._cut_off = True
            self._query.stop()
            self._calls.end()

    def status(self) -> dict[str, Any]:
        """Spark's status of the query, and the offsets read and available for each source."""
        if self._query is None:
            return {"message": "not started"}
        progress = self._query.lastProgress
        sources = progress["sources"] if progress else ()
        ends = {s["description"]: {"read": s["endOffset"], "there": s["latestOffset"]} for s in sources}
        return {**self._query.status, "sources": ends, **({"held": sorted(held)} if (held := self.tables.held) else {})}

    @property
    def progress(self) -> Mapping[str, Any] | None:
        """Spark's report of the newest trigger, which may have had no batch; None before the first."""
        return self._query.lastProgress if self._query is not None else None

    @property
    def computing_s(self) -> float:
        """For how many seconds the batch in flight has been computed, 0 without one; may be read on any thread."""
        begun = self._begun_at
        return 0.0 if begun is None else time.monotonic() - begun

    @property
    def control_folders(self) -> tuple[Path, ...]:
        """The folders of its control rows in this file system."""
        root = self.work.context.control_root
        names = self.plan.controls.values() if isinstance(root, Path) else ()
        return tuple(Path(str(control_folder(root, name))) for name in names)

    def finish_windows(self) -> None:
        """Move the watermark to the end of time, so that the next batch fires every window."""
        self.move_watermark(END_OF_TIME)

    def move_watermark(self, at: datetime, gates: Iterable[str] | None = None) -> None:
        """Make the next batch move the watermark of some `gates`, or of all, to `at`, if it is not there yet."""
        for gate in self.plan.controls if gates is None else gates:
            send_control(control_folder(self.work.context.control_root, self.plan.controls[gate]), at)

    def process(self, batch: DataFrame, batch_id: int) -> None:
        """One micro-batch, called by Spark on a thread of its own."""
        self._started.wait()
        if self._last.is_set():
            # Waiting here for the stop would delay it; returning would let Spark commit the batch.
            self._cut_off = True
            raise BatchNotDone("the query was asked to stop")
        assert self._query is not None  # waited for above
        self._begun_at = time.monotonic()
        try:
            progress = self.work.commit(batch, batch_id, self._query, rows_open=self.report.rows_open)
        except Exception as error:  # noqa: BLE001  kept in `failure`, and raised from there
            # Spark searches the text of a query that was stopped, by a recursion for each character: it must be short.
            raise BatchNotDone(self._failed(error, batch_id)) from None
        finally:
            self._begun_at = None
        self.restarts_left, self._counted = RESTARTS, True
        if progress is not None:
            self.report = self.report.plus(progress)
            self.on_progress(progress)
        self._end_after(batch_id)

    def _end_after(self, batch_id: int) -> None:
        """Move the watermark to the end of time if the input ends with this batch: the next ones fire all windows."""
        if self.ends is None or not self.plan.controls or self._ended_at >= 0:
            return
        if self.tables.loads or self.work.exchange is not None:
            return
        assert self._query is not None  # it has called us
        if self.ends.opened(self.work.context.spark, self._query, self.log, batch_id):
            self.finish_windows()
            self._ended_at = batch_id

    @property
    def lacks_input(self) -> bool:
        """Whether its input has not ended, as a source is known to have more."""
        return self.ends is not None and self._ended_at < 0 and self.ends.lacks(self.log)

    @property
    def finished(self) -> bool:
        """Whether it has fired all windows by itself, or has none."""
        if not self.plan.controls:
            return True
        at = self.log.watermark
        return self._ended_at >= 0 and at is not None and has_ended(at) and not self.log.watermark_waits

    def _failed(self, error: Exception, batch_id: int) -> str:
        """Keep why a batch failed in `failure`; the same in words."""
        if isinstance(error, PlannedAnew) and not self._cut_off:
            self.planned_anew = True
            return "the batch is planned again"
        try:
            if not self._cut_off:
                self.failed_batch = batch_id if self.work.context.quarantines and blames_a_record(error) else -1
                failure = self.work.explained(error, batch_id)
                failure.__cause__ = error if failure is not error else error.__cause__
                self.failure = failure
                self.work.withdraw(failure, batch_id)
                return failure.what
        except Exception:
            # The stop has ended what it was explained by.
            if not self._cut_off:
                raise
        return "the query was stopped"

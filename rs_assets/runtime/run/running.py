"""A pipeline that has been started and runs until it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rs_assets.catalog import requests
from rs_assets.common.background import PeriodicTask
from rs_assets.errors import PipelineBusyError, RsError
from rs_assets.recovery.savepoints import Savepoint
from rs_assets.runtime.batch.query import every
from rs_assets.runtime.job.ending import NOT_AS_ROWS, NOT_SAVED, record
from rs_assets.runtime.job.session import JobSession
from rs_assets.runtime.job.tidying import NOT_TIDY, tidy
from rs_assets.runtime.report import RunReport
from rs_assets.runtime.run.durations import EVERY, NOT_KNOWN, note_durations
from rs_assets.runtime.run.idle import PARTS, SHORTEST, IdleClock, IdleSides, IdleSplits
from rs_assets.runtime.run.idle_time import IdleTime
from rs_assets.runtime.run.loading import load_first
from rs_assets.runtime.run.quarantine import Warden
from rs_assets.runtime.run.rescale_requests import DRIVER_LOOKS, NOT_SEEN, answer_requests
from rs_assets.runtime.run.stopping import drain_and_stop
from rs_assets.runtime.upkeep.savepoints import savepoint
from rs_assets.runtime.upkeep.state import snapshot_state

if TYPE_CHECKING:
    from rs_assets.runtime.run.rescaled import RescaleReport

# How often the watcher checks the queries, in seconds.
LOOK_S = 0.2
NOT_FORGOTTEN = "an upkeep job may start the pipeline again, because its request could not be withdrawn"
# A catalog commit every ten seconds leaves 360 files in this time.
TIDY_EVERY = timedelta(hours=1)


@dataclass(slots=True)
class RunningPipeline:
    """The handle of a started pipeline; also a context manager that stops it."""

    session: JobSession
    clock: IdleClock
    warden: Warden
    _closed: bool = field(default=False)
    _tick: threading.Event = field(default_factory=threading.Event)
    _tasks: list[PeriodicTask] = field(default_factory=list)
    # Held while the queries are exchanged or ended.
    _changing: threading.RLock = field(default_factory=threading.RLock)
    _swapping: bool = field(default=False)
    # One rescale at a time; its thread may end the stream.
    _rescaling: threading.RLock = field(default_factory=threading.RLock)
    # The error of a rescale that has ended the stream.
    _failure: Exception | None = field(default=None)

    @classmethod
    def over(cls, session: JobSession) -> Self:
        """The handle of the queries that `session` has wired; nothing runs yet."""
        clock = IdleClock.over(session.queries.values(), session.failures)
        return cls(session, clock, Warden(session, every(session.options.interval)))

    def begin(self) -> Self:
        """Start the queries. If that is interrupted or fails, `end` stops those that run."""
        session = self.session
        load_first(session)
        for query in session.queries.values():
            session.options.driver.call(lambda _, q=query: q.start(every(session.options.interval)))  # type: ignore[misc]
        self.clock.start()
        self.warden.start()
        self._begin_tasks()
        return self

    def __enter__(self) -> Self:
        """Nothing more to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drain and stop; after an error it only ends, and its desired state stays running."""
        (self.stop if kind is None or issubclass(kind, KeyboardInterrupt) else self.end)()

    def status(self) -> dict[str, Any]:
        """The status of each query, and the sums so far."""
        queries = self.session.options.driver.call(lambda _: {n: q.status() for n, q in self.session.queries.items()})
        return {"queries": queries, **self.session.report().as_dict()}

    def savepoint(self, note: str = "") -> Savepoint:
        """Copy the checkpoints while the queries run; CheckpointError before the first batch is committed."""
        return savepoint(self.session.topology, self.session.options, note=note)

    def rescale(self, partitions: int) -> RescaleReport:
        """Change the number of state partitions while the stream runs; it pauses for seconds, not for the whole state.

        The state is written once more next to the queries, follows their changes, and is compared. Then they stop,
        the last changes are added, and they go on. If that fails, the state is rewritten while they wait, as for a
        stopped pipeline. Until they stop, a stop of the stream cancels it. `state_rows` of the report are those of the
        comparison, and empty if nothing had to change.

        ConfigurationError for an invalid number, for a pipeline without state, for state that cannot be redistributed
        or is in an object store; CheckpointError if rows or sums differ, or if state cannot be read. The stream runs
        on after these. PipelineBusyError if it was stopped meanwhile.

        - `partitions` (int): the new number of state partitions.

        >>> from tempfile import TemporaryDirectory
        >>> from rs_assets import Home, MemoryChannel, RunOptions, StreamBuilder
        >>> channel = MemoryChannel(schema="id bigint")
        >>> pipeline = StreamBuilder.data_stream("docs", "plain").from_memory(channel).to_print().build()
        >>> with TemporaryDirectory() as folder, pipeline.start(RunOptions(home=Home.at(folder))) as running:
        ...     running.rescale(4)
        Traceback (most recent call last):
        rs_assets.errors.ConfigurationError: docs.plain has no state, so there is nothing to rescale...
        """
        from rs_assets.runtime.run.live_rescale import rescale_live

        with self._rescaling:
            self.refuse_stopped()
            return rescale_live(self, partitions)

    @property
    def closed(self) -> bool:
        """Whether the stream is stopped, or is being stopped."""
        return self._closed

    def refuse_stopped(self) -> None:
        """PipelineBusyError if the stream is stopped, or is being stopped."""
        if self._closed:
            raise PipelineBusyError(
                f"{self.session.topology.name} was stopped meanwhile",
                remedy="nothing has changed; rescale the stopped pipeline",
            )

    @contextmanager
    def swapping(self) -> Iterator[None]:
        """A block that ends the queries and starts them again; an error in it ends the stream."""
        with self._exchanging():
            self._swapping = True
            self.warden.stop()
            try:
                yield
            except BaseException as error:
                self._failure = error if isinstance(error, Exception) else None
                with suppress(RsError):
                    self.end(drain=False)
                raise
            finally:
                self._swapping = False
            self.warden.start()

    @contextmanager
    def _exchanging(self) -> Iterator[None]:
        """Hold the lock of the queries. PipelineBusyError if a stop has it, which may wait for this thread."""
        while not self._changing.acquire(timeout=LOOK_S):
            self.refuse_stopped()
        try:
            self.refuse_stopped()
            yield
        finally:
            self._changing.release()

    def _begin_tasks(self) -> None:
        """Begin the periodic tasks: tidy the catalog, note durations, answer requests, save and export the state."""
        policy, failures = self.session.options.savepoints, self.session.failures
        tasks: list[tuple[Callable[[], object], str, timedelta, str]] = [
            (partial(tidy, self.session), "rs-catalog", TIDY_EVERY, NOT_TIDY),
            (partial(note_durations, self.session), "rs-durations", EVERY, NOT_KNOWN),
            (partial(answer_requests, self), "rs-requests", DRIVER_LOOKS, NOT_SEEN),
        ]
        if policy.every is not None and not policy.local_storage_only:
            tasks.append((self._save, "rs-savepoints", policy.every, NOT_SAVED))
            if policy.state_rows and any(plan.stateful for plan in self.session.plans):
                tasks.append((self._write_state, "rs-state", policy.every, NOT_AS_ROWS))
        idle, queries = self.session.options.idle_timeout, tuple(self.session.queries.values())
        if idle is not None:
            tasks.append((IdleSides(queries, idle).look, "rs-idle-sides", idle / 4, "idle sides hold joins back"))
        splits = IdleSplits(queries)
        if splits.shortest is not None:
            pause = max(splits.shortest / PARTS, SHORTEST)
            tasks.append((splits.look, "rs-idle-splits", pause, "idle splits hold windows back"))
        close = self.session.options.close_on_idle
        if close is not None:
            look = IdleTime(queries, close).look
            tasks.append((look, "rs-idle-time", max(close / PARTS, SHORTEST), "windows of idle sources stay open"))
        for work, name, pause, effect in tasks:
            task = PeriodicTask(work, name=name, every=pause, failures=failures, effect=effect)
            self._tasks.append(task.start())

    def _save(self) -> None:
        if self._committed and self.session.topology.savable:
            self.savepoint("by the clock")

    def _write_state(self) -> None:
        if self._committed:
            snapshot_state(self.session.topology, self.session.options)

    @property
    def _committed(self) -> bool:
        """Whether each query has committed a batch: before that there is nothing to save."""
        return all(self.session.log(plan).last_committed() >= 0 for plan in self.session.plans)

    @property
    def active(self) -> bool:
        """Whether all queries run, or will again in a moment."""
        if self._swapping:
            return True
        queries = self.session.queries.values()
        return self.session.options.driver.call(lambda _: all(q.active or q.goes_on for q in queries))

    def await_termination(self, timeout_s: float | None = None, *, stop: threading.Event | None = None) -> bool:
        """Wait until a query ends or a stop is requested; False if `timeout_s` or `stop` came first.

        Raises the failure of a query, or of a rescale that has ended the stream.
        """
        waited = 0.0
        while self.active:
            if requests.asked(self.session.folder, "stop") is not None:
                return True
            if (timeout_s is not None and waited >= timeout_s) or (stop is not None and stop.is_set()):
                return False
            self._tick.wait(LOOK_S)
            waited += LOOK_S
        if self._failure is not None:
            raise self._failure
        for query in self.session.queries.values():
            self.session.options.driver.call(lambda _, q=query: q.raise_failure())  # type: ignore[misc]
        return True

    def stop(self, *, drain: bool = True, patience_s: float = 60) -> RunReport:
        """Stop; with `drain` the batches in flight end first, for at most `patience_s` seconds.

        Without it they are abandoned: the next start computes them again. May be called twice. Dagster does not restart
        the stream by itself.
        """
        if not self._closed and requests.asked(self.session.folder, "stop") is None:
            self.session.request_stop()
        return self.end(drain=drain, patience_s=patience_s)

    def end(self, *, drain: bool = True, patience_s: float = 60) -> RunReport:
        """Stop as `stop` does, while the desired state stays running: it failed, or makes room."""
        with self._changing:
            if self._closed:
                return self.session.report()
            self._closed = True
            try:
                self._end(patience_s=patience_s if drain else 0)
                return record(self.session, sealed=False)
            finally:
                # Whatever fails before: a lease that is still renewed would keep all other runs out.
                self.session.close()

    def _end(self, *, patience_s: float) -> None:
        """Drain and stop the queries, then all background tasks, whatever fails."""
        with ExitStack() as tasks:
            for task in reversed(self._tasks):
                tasks.callback(task.stop)
            with ExitStack() as watchers, self.session.failures.guarding(NOT_FORGOTTEN):
                watchers.callback(self.warden.stop)
                watchers.callback(self.clock.stop)
                desired = self.session.desired
                if requests.asked(self.session.folder, "stop") is None or (desired is not None and desired.stopped):
                    # Stopped by a person: an earlier request of an upkeep job must not start it again.
                    requests.clear(self.session.folder, "resume")
            drain_and_stop(self.session, patience_s=patience_s)
            # A rescale ends now, and removes its copies: another run must not find them.
            with self._rescaling:
                pass

"""Rescales a stream while it runs; it waits only for the last changes of its state.

What a crash leaves is what it leaves in any rescale (`rs_assets/runtime/upkeep/beside.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql import SparkSession

from rs_assets.common.background import PeriodicTask
from rs_assets.common.plural import count_of
from rs_assets.errors import ConfigurationError
from rs_assets.runtime.batch.query import every
from rs_assets.runtime.job.session import JobSession
from rs_assets.runtime.run.rescaled import RescaleReport, check_partitions
from rs_assets.runtime.run.run import until_caught_up
from rs_assets.runtime.run.stopping import drain_and_stop
from rs_assets.runtime.upkeep import beside
from rs_assets.runtime.upkeep.beside import Beside
from rs_assets.runtime.upkeep.repartition import StateSum

if TYPE_CHECKING:
    from rs_assets.runtime.run.running import RunningPipeline

T = TypeVar("T")
# Spark looks once a minute for changes of the state that it may remove.
GATHER_EVERY = timedelta(seconds=1)
REWRITTEN = "the stream waited for a rewrite of its whole state"


def rescale_live(running: RunningPipeline, partitions: int) -> RescaleReport:
    """See `RunningPipeline.rescale`."""
    session, began = running.session, datetime.now(UTC)
    check_partitions(session.topology, partitions)
    if session.options.home.exchange is not None:
        raise ConfigurationError(
            "the state of a running stream in an object store cannot be rescaled",
            remedy="stop the stream, then rescale it",
            pipeline=session.topology.name,
        )
    before = session.manifest.partitions
    sums: Mapping[str, StateSum] = {}
    waited_s = 0.0
    try:
        if partitions != before:
            sums, waited_s = _changed(running, partitions)
    finally:
        beside.remove(session.folder)
    report = RescaleReport(
        pipeline=session.topology.name,
        before=before,
        after=partitions,
        state_rows={name: found.rows for name, found in sums.items()},
        seconds=(datetime.now(UTC) - began).total_seconds(),
        waited_s=waited_s,
    )
    summary = f"{before} -> {count_of(partitions, 'partition')}"
    session.note("rescale", summary, state_rows=report.state_rows, running=True)
    return report


def _changed(running: RunningPipeline, partitions: int) -> tuple[Mapping[str, StateSum], float]:
    """Change the number of partitions; the sums of the states, and for how many seconds the queries were stopped."""
    session = running.session
    copies = _copied(session, partitions)
    with _gathering(session, copies):
        copies = _written(running, copies)
        sums = _compared(running, copies)
        copies = _followed(session, copies)
    with running.swapping():
        began = time.monotonic()
        _end_batches(session)
        _swap(session, copies, partitions)
        _go_on(session)
    return sums, time.monotonic() - began


def _copied(session: JobSession, partitions: int) -> Mapping[str, Beside]:
    """Copies of the checkpoint of each query with state and a batch."""
    before, plans = session.manifest.partitions, [plan for plan in session.plans if plan.stateful is not None]
    return {
        plan.name: beside.copy(session.folder, session.query_folder(plan), before, partitions)
        for plan in plans
        if session.log(plan).last_committed() >= 0
    }


@contextmanager
def _gathering(session: JobSession, copies: Mapping[str, Beside]) -> Iterator[None]:
    """Keep the changes of the states for the copies meanwhile."""

    def gather() -> None:
        for copy in copies.values():
            beside.gather(copy)

    task = PeriodicTask(
        gather,
        name="rs-rescale",
        every=GATHER_EVERY,
        failures=session.failures,
        effect="changes of the state may be gone before a rescale has read them",
    )
    task.start()
    try:
        yield
    finally:
        task.stop()


def _written(running: RunningPipeline, copies: Mapping[str, Beside]) -> Mapping[str, Beside]:
    """The copies with the new number of partitions, after the last batches."""
    return _each(running, beside.follow, _each(running, beside.write, copies))


def _compared(running: RunningPipeline, copies: Mapping[str, Beside]) -> Mapping[str, StateSum]:
    """The sums of the copies, which are those of the states that they were read from."""
    return _each(running, beside.compare, copies)


def _each(
    running: RunningPipeline, step: Callable[[SparkSession, Beside], T], copies: Mapping[str, Beside]
) -> Mapping[str, T]:
    """The result of a step for each copy; calls for the stream do not wait for it, and a stop cancels it."""
    return {name: _unless_stopped(running, lambda spark, copy=copy: step(spark, copy)) for name, copy in copies.items()}  # type: ignore[misc]


def _unless_stopped(running: RunningPipeline, work: Callable[[SparkSession], T]) -> T:
    try:
        found = running.session.options.driver.beside(work, cancelled=lambda: running.closed)
    except Exception:
        # What it raises if its jobs were cancelled.
        running.refuse_stopped()
        raise
    running.refuse_stopped()
    return found


def _followed(session: JobSession, copies: Mapping[str, Beside]) -> Mapping[str, Beside]:
    """The copies, brought to the last batches."""
    follow = session.options.driver.call
    return {name: follow(partial(beside.follow, beside=copy)) for name, copy in copies.items()}


def _end_batches(session: JobSession) -> None:
    """Stop all queries so that none has a planned batch left: the rewrite needs its number."""
    drain_and_stop(session)
    left = []
    for query in session.queries.values():
        query.begin_again()
        if not query.withdrawn():
            left.append(query)
    until_caught_up(session, left, None)


def _swap(session: JobSession, copies: Mapping[str, Beside], partitions: int) -> None:
    """Give the stopped queries the state of the copies; if that fails, Spark rewrites it as for a stopped pipeline."""
    session.change(lambda manifest: replace(manifest, rescaling=partitions))
    whole = {plan.name for plan in session.plans if plan.stateful is not None and session.log(plan).begun}
    with session.failures.guarding(REWRITTEN):
        for copy in _followed(session, copies).values():
            session.held.check()
            beside.swap_in(copy)
        if whole == copies.keys():
            session.change(lambda manifest: replace(manifest, partitions=partitions, rescaling=0))
    if session.manifest.rescaling:
        session.options.driver.call(session.finish_rescale)
    if session.uploader is not None:
        session.uploader.begin_again()


def _go_on(session: JobSession) -> None:
    """Start all queries again, as the stream that they were."""

    def start(_: SparkSession) -> None:
        for query in session.queries.values():
            last, query.partitions = query.log.last_committed(), session.manifest.partitions
            if last > 0 and query.log.partitions(last) != query.log.partitions(last - 1):
                query.work.book.rewritten(last)
            query.start(every(session.options.interval))

    session.options.driver.call(start)

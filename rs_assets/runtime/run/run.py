"""Runs a pipeline to the end of its input, or starts it as a continuous stream."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from pyspark.sql import SparkSession

from rs_assets.compile.planner.plan import in_order
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.connectors.source import EventuallyVisible
from rs_assets.errors import RsError
from rs_assets.runtime.batch.input_end import InputEnd
from rs_assets.runtime.batch.query import AVAILABLE_NOW, QueryRun
from rs_assets.runtime.job.ending import record
from rs_assets.runtime.job.inputs import check_all_read, check_ended
from rs_assets.runtime.job.opening import opened
from rs_assets.runtime.job.session import JobSession
from rs_assets.runtime.job.unchanged import is_unchanged
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.report import RunReport
from rs_assets.runtime.run.idle import pass_time
from rs_assets.runtime.run.quarantine import go_on
from rs_assets.runtime.run.running import RunningPipeline
from rs_assets.runtime.run.stopping import drain_and_stop
from rs_assets.topology.topology import Topology

# How often a run checks its queries for an end, a failure or a stop, in seconds.
LOOK_S = 0.2
# Files younger than this at the beginning of a run may be left for the next one.
GRACE_MS = 2_000
# How often a run that ends reads input that came meanwhile.
READ_AGAIN = 10


def run(topology: Topology, options: RunOptions | None = None, *, finish: bool | None = None) -> RunReport:
    """Process all input there is, then stop; see `Pipeline.run`."""
    options = RunOptions.of(options)
    with opened(topology, options) as session:
        if not is_unchanged(session, finish=finish):
            options.driver.call(lambda spark: wire_all(session, spark))
        return run_wired(session, finish=finish)


def wire_all(session: JobSession, spark: SparkSession) -> None:
    """Compile every node of the session's topology."""
    session.prepare(spark)
    for node in session.topology:
        session.wire(node.name)


def run_wired(session: JobSession, *, finish: bool | None = None, stop: threading.Event | None = None) -> RunReport:
    """Run the wired queries, if any are needed, to the end of the current input; `stop` ends them between two batches.

    `finish` None means: fire all windows if the topology is bounded. An end that an earlier run has begun is completed.
    """
    if session.manifest.sealed:
        return session.report()
    if session.unchanged_since:
        return record(session, sealed=False)
    ending = session.topology.bounded if finish is None else finish
    ending = ending or bool(session.ended_queries)
    # Coarse file systems round times down, and a listing may be cached for a moment.
    before_ms = time.time_ns() // 1_000_000 - GRACE_MS
    for plans in in_order(session.topology, session.plans):
        queries = [session.queries[plan.name] for plan in plans]
        _await_shuffles(session, plans)
        pass_time(queries)
        if ending:
            _end_by_themselves(session, queries, stop)
        until_caught_up(session, queries, stop)
        if ending and not _stopped(stop):
            _read_on(session, queries, stop)
            check_ended(session.readers, [(plan, session.log(plan)) for plan in plans])
            _finish(session, [query for query in queries if query.plan.stateful and not query.finished], stop)
    report = record(session, sealed=ending and not _stopped(stop))
    if not _stopped(stop):
        check_all_read(session.readers, [(plan, session.log(plan)) for plan in session.plans], before_ms)
    return report


def _end_by_themselves(session: JobSession, queries: Sequence[QueryRun], stop: threading.Event | None) -> None:
    """Let the queries fire their windows after their last records, where they see that these are the last."""
    readers = Counter(name for plan in session.plans for name in plan.sources)
    growing = {source.name for source in session.topology.sources if not source.bounded}
    for query in queries:
        query.ends = InputEnd(
            readers={name: session.reader(name) for name in query.plan.sources},
            controls=query.control_folders,
            shared=any(name in growing and readers[name] > 1 for name in query.plan.sources),
            stopped=partial(_stopped, stop),
        )


def _read_on(session: JobSession, queries: Sequence[QueryRun], stop: threading.Event | None) -> None:
    """Read what came while the queries read, until all of them have read the same; some times, not for ever."""
    for _ in range(READ_AGAIN):
        behind = [query for query in queries if query.lacks_input]
        if not behind or _stopped(stop):
            return
        until_caught_up(session, behind, stop)


def _finish(session: JobSession, queries: Sequence[QueryRun], stop: threading.Event | None) -> None:
    """Start queries once more, to fire their windows. They read nothing more: its rows would be late."""
    for query in queries:
        query.ends, query.read_all = None, True
        query.finish_windows()
    until_caught_up(session, queries, stop)


def _await_shuffles(session: JobSession, plans: Sequence[QueryPlan]) -> None:
    """Make sure that `plans` can read all rows that earlier queries have written."""
    for name in {name for plan in plans for name in plan.sources}:
        reader = session.reader(name)
        if isinstance(reader, EventuallyVisible):
            reader.await_visible()


def start(topology: Topology, options: RunOptions | None = None) -> RunningPipeline:
    """Start a pipeline that runs until it is stopped; see `Pipeline.start`."""
    return started(open_stream(topology, RunOptions.of(options)))


def open_stream(
    topology: Topology, options: RunOptions, begin: Callable[[JobSession], None] = JobSession.run_on
) -> JobSession:
    """The opened session of a stream, which `begin` has recorded as the one that is to go on."""
    session = opened(topology, options)
    try:
        begin(session)
    except BaseException:
        session.close()
        raise
    return session


def started(session: JobSession) -> RunningPipeline:
    """Wire and start all queries of an opened stream; an error closes it."""
    try:
        session.options.driver.call(lambda spark: wire_all(session, spark))
    except BaseException:
        session.close()
        raise
    running = RunningPipeline.over(session)
    try:
        return running.begin()
    except BaseException:
        with suppress(RsError):
            running.end(drain=False)
        raise


def _stopped(stop: threading.Event | None) -> bool:
    return stop is not None and stop.is_set()


def until_caught_up(session: JobSession, queries: Sequence[QueryRun], stop: threading.Event | None) -> None:
    """Run the queries over the current input, concurrently: they share Spark's cores."""
    driver = session.options.driver
    if _stopped(stop):
        return
    for query in queries:
        driver.call(lambda _, q=query: q.start(AVAILABLE_NOW))  # type: ignore[misc]
    while not driver.call(lambda _: all(q.ended(wait_s=LOOK_S) and not q.goes_on for q in queries)):
        failed = driver.call(lambda _: next((q for q in queries if q.failure is not None or q.goes_on), None))
        if failed is not None and driver.call(lambda _, q=failed: go_on(session, q, AVAILABLE_NOW)):  # type: ignore[misc]
            continue
        if failed is not None or _stopped(stop):
            drain_and_stop(session)
            if failed is not None:
                # What has failed it may be mended before the next start: the others must not have planned it.
                driver.call(lambda _: [query.withdrawn() for query in queries if query.failure is None])
            break
    for query in queries:
        driver.call(lambda _, q=query: q.raise_failure())  # type: ignore[misc]

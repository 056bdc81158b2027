"""Running a pipeline to the end of its input, and starting it for good."""

from __future__ import annotations

import threading

from pyspark.sql import SparkSession

from pipelines.runtime.options import RunOptions
from pipelines.runtime.query import AVAILABLE_NOW
from pipelines.runtime.report import RunReport
from pipelines.runtime.running import RunningPipeline
from pipelines.runtime.session import JobSession
from pipelines.runtime.stopping import drain_and_stop
from pipelines.topology.topology import Topology

# How long a run waits for the end of its queries before it looks for a failure or a stop, in seconds.
LOOK_S = 0.05


def run(topology: Topology, options: RunOptions | None = None, *, finish: bool | None = None) -> RunReport:
    """Process all input there is, then stop; see `Pipeline.run`."""
    options = options or RunOptions()
    with JobSession(topology, options) as session:
        options.driver.call(lambda spark: wire_all(session, spark))
        return run_wired(session, finish=finish)


def wire_all(session: JobSession, spark: SparkSession) -> None:
    """Compile every node of the session's topology."""
    session.prepare(spark)
    for node in session.topology:
        session.wire(node.name)


def run_wired(session: JobSession, *, finish: bool | None = None, stop: threading.Event | None = None) -> RunReport:
    """Run the wired queries to the end of what there is; `stop` ends them early, between two batches.

    `finish` None means: fire all windows if the topology is bounded.
    """
    ending = session.topology.bounded if finish is None else finish
    if session.manifest.sealed:
        return session.report()
    _until_caught_up(session, stop)
    stopped = stop is not None and stop.is_set()
    if ending and not stopped:
        stateful = [q for q in session.queries.values() if q.plan.stateful]
        for query in stateful:
            query.finish_windows()
        _until_caught_up(session, stop, only={q.plan.name for q in stateful})
    return session.record(sealed=ending and not stopped)


def start(topology: Topology, options: RunOptions | None = None) -> RunningPipeline:
    """Start a pipeline that runs until it is stopped; see `Pipeline.start`."""
    options = options or RunOptions()
    session = JobSession(topology, options)
    session.__enter__()
    try:
        options.driver.call(lambda spark: wire_all(session, spark))
        return RunningPipeline.begin(session)
    except BaseException:
        session.__exit__(None, None, None)
        raise


def _until_caught_up(session: JobSession, stop: threading.Event | None, only: set[str] | None = None) -> None:
    """Run the queries over what there is now; all at once, they share Spark's cores."""
    driver = session.options.driver
    queries = [q for q in session.queries.values() if only is None or q.plan.name in only]
    for query in queries:
        driver.call(lambda _, q=query: q.start(AVAILABLE_NOW))  # type: ignore[misc]
    while not driver.call(lambda _: all(q.ended(wait_s=LOOK_S) for q in queries)):
        failed = next((q for q in queries if q.failure is not None), None)
        if failed is not None or (stop is not None and stop.is_set()):
            drain_and_stop(session)
            break
    for query in queries:
        driver.call(lambda _, q=query: q.raise_failure())  # type: ignore[misc]

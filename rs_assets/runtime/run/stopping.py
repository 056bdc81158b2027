"""Stops a run between two batches."""

from __future__ import annotations

import threading
import time

from rs_assets.runtime.job.session import JobSession

# How often a batch in flight is checked, in seconds.
LOOK_S = 0.05


def drain_and_stop(session: JobSession, *, patience_s: float = 60) -> None:
    """Let the batches in flight end, for at most `patience_s` seconds, begin no others, and stop the queries."""
    driver, queries = session.options.driver, session.queries.values()
    if patience_s:
        for query in queries:
            query.begin_no_more()
    tick = threading.Event()
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline and not driver.call(lambda _: all(not q.active or q.idle() for q in queries)):
        tick.wait(LOOK_S)
    driver.call(lambda _: session.stop_queries())

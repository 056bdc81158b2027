"""Stopping a run between two batches."""

from __future__ import annotations

import threading

from pipelines.runtime.session import JobSession

# How often a batch in flight is looked at, in seconds.
LOOK_S = 0.05


def drain_and_stop(session: JobSession, *, patience_s: float = 60) -> None:
    """Let the running batches end, for at most `patience_s` seconds, then stop the queries."""
    driver = session.options.driver
    tick = threading.Event()
    waited = 0.0
    while waited < patience_s and not driver.call(lambda _: all(q.idle() for q in session.queries.values())):
        tick.wait(LOOK_S)
        waited += LOOK_S
    driver.call(lambda _: session.stop_queries())

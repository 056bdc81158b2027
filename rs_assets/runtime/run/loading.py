"""Streams that wait for tables, across queries: whose rows the tables need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rs_assets.runtime.batch.query import QueryRun
from rs_assets.runtime.job.session import JobSession


def load_first(session: JobSession) -> None:
    """Let the queries of a stream that write the rows of an awaited table read all there is, before it is loaded."""
    writers = {sink: query for query in session.queries.values() for sink in query.plan.sinks}
    for query in session.queries.values():
        query.writers = _of(query.plan.sources, writers, session)
    waiting = [query for query in session.queries.values() if query.held]
    while waiting:
        query = waiting.pop()
        sources = query.plan.sources if query.feeds else query.plan.awaited
        query.feeders = _of(sources, writers, session)
        waiting += [feeder for feeder in query.feeders if not feeder.feeds]
        for feeder in query.feeders:
            feeder.feeds = True


def _of(sources: Iterable[str], writers: Mapping[str, QueryRun], session: JobSession) -> tuple[QueryRun, ...]:
    """The queries that write the rows of `sources`, each once."""
    followed = sorted({step for source in sources for step in session.topology[source].follows})
    return tuple({writers[step].plan.name: writers[step] for step in followed}.values())

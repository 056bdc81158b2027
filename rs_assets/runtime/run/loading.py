"""Streams that wait for tables, across queries: whose rows the tables need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rs_assets.runtime.batch.query import QueryRun
from rs_assets.runtime.batch.table_loading import TableLoading
from rs_assets.runtime.job.session import JobSession


def load_first(session: JobSession) -> None:
    """Let the queries of a stream that write the rows of an awaited table read all there is, before it is loaded."""
    writers = {sink: query for query in session.queries.values() for sink in query.plan.sinks}
    for query in session.queries.values():
        query.tables.writers = _tables(_of(query.plan.sources, writers, session))
    waiting = [query for query in session.queries.values() if query.tables.held]
    while waiting:
        query = waiting.pop()
        feeders = _of(query.plan.sources if query.tables.feeds else query.plan.awaited, writers, session)
        query.tables.feeders = _tables(feeders)
        waiting += [feeder for feeder in feeders if not feeder.tables.feeds]
        for feeder in feeders:
            feeder.tables.feeds = True


def _tables(queries: Iterable[QueryRun]) -> tuple[TableLoading, ...]:
    return tuple(query.tables for query in queries)


def _of(sources: Iterable[str], writers: Mapping[str, QueryRun], session: JobSession) -> tuple[QueryRun, ...]:
    """The queries that write the rows of `sources`, each once."""
    followed = sorted({step for source in sources for step in session.topology[source].follows})
    return tuple({writers[step].plan.name: writers[step] for step in followed}.values())

"""Streams that wait for tables, across queries: whose rows the tables need."""

from __future__ import annotations

from rs_assets.runtime.job.session import JobSession


def load_first(session: JobSession) -> None:
    """Let the queries of a stream that write the rows of an awaited table read all there is, before it is loaded."""
    writers = {sink: query for query in session.queries.values() for sink in query.plan.sinks}
    waiting = [query for query in session.queries.values() if query.held]
    while waiting:
        query = waiting.pop()
        sources = query.plan.sources if query.feeds else query.plan.awaited
        followed = sorted({step for source in sources for step in session.topology[source].follows})
        query.feeders = tuple({writers[step].plan.name: writers[step] for step in followed}.values())
        waiting += [feeder for feeder in query.feeders if not feeder.feeds]
        for feeder in query.feeders:
            feeder.feeds = True

"""Continues after a batch that failed on some of its records: find them, exclude them, compute the batch again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from rs_assets.checkpoint.manifest import Manifest
from rs_assets.common.background import PeriodicTask
from rs_assets.errors import RsError
from rs_assets.runtime.batch.query import QueryRun
from rs_assets.runtime.job.queries import book_of, poisons_of
from rs_assets.runtime.replay.examine import Examination, Poison
from rs_assets.runtime.translate import translate

if TYPE_CHECKING:
    from rs_assets.runtime.job.session import JobSession

# How often the watcher checks for failed queries.
LOOK = timedelta(seconds=0.1)


def go_on(session: JobSession, query: QueryRun, trigger: Mapping[str, Any]) -> bool:
    """Whether `query`, which a batch has ended, runs again without the records on which it failed.

    Called on the Spark driver's thread. A query for which no Python worker could be started, whose batch has a new
    plan, or that has loaded tables for which streams wait, runs again unchanged. The records are in the manifest before
    the batch is tried again; after a crash before that the next start finds them again. False leaves the query ended:
    no record was found to be at fault, or more than `RunOptions.max_poisons` records of the batch, which indicates a
    fault of the pipeline; the failure then gets the position of the first record.
    """
    if query.loaded or query.planned_anew or query.starved:
        return _unchanged(session, query, trigger)
    if not query.examinable:
        return False
    failure, batch_id = query.failure, query.failed_batch
    assert failure is not None  # examinable says so
    query.given_up = True
    query.stop()
    if not query.work.untouched(batch_id):
        # Output in a sink or the dead-letter table was computed with every remaining record.
        return False
    before = [p for p in session.facts(query.plan).poisons if p["batch"] == batch_id]
    most = session.options.max_poisons - len(before)
    try:
        with closing(_examination(query, batch_id).poisons()) as poisons:
            found = list(islice(poisons, most + 1))
    except RsError:
        # The batch cannot be read again, or the machine has a problem: the original failure is more useful.
        return False
    if len(found) > most:
        query.failure = _too_many(failure, found[0], most=session.options.max_poisons)
    if not found or len(found) > most:
        return False
    _keep(session, query, found, batch_id)
    restart(session, query, trigger)
    return True


def _unchanged(session: JobSession, query: QueryRun, trigger: Mapping[str, Any]) -> bool:
    """Whether a query that did not fail on its data runs again: at once, or after those that write rows of a table."""
    if query.loaded:
        begins = query.after_load()
        if begins:
            query.start(trigger)
        return begins
    query.restarts_left -= query.starved
    query.stop()
    restart(session, query, trigger)
    return True


def process_all(session: JobSession, query: QueryRun, trigger: Mapping[str, Any]) -> None:
    """Wait until `query` has processed all current input, with restarts; raises its final failure."""
    while True:
        try:
            return query.process_all()
        except RsError:
            if not go_on(session, query, trigger):
                query.raise_failure()
                raise


def restart(session: JobSession, query: QueryRun, trigger: Mapping[str, Any]) -> None:
    """Wire an ended query again, with the current manifest, and start it."""
    query.work.context = replace(query.work.context, poisons=poisons_of(session, query.plan))
    query.flows.clear()
    # Its trackers have seen the batch that comes again.
    query.work.book = book_of(session, query.plan)
    for name in query.plan.nodes:
        query.wire(name)
    query.start(trigger)


def _examination(query: QueryRun, batch_id: int) -> Examination:
    return Examination(
        topology=query.topology, plan=query.plan, context=query.work.context, log=query.log, batch_id=batch_id
    )


def _keep(session: JobSession, query: QueryRun, found: Iterable[Poison], batch_id: int) -> None:
    """Make `found` durable, and record it in the catalog."""
    found = list(found)
    begun = {"batch": batch_id, "code": session.topology.code}
    rows = [begun | {k: asdict(p)[k] for k in ("source", "digest", "reason")} for p in found]
    folder = session.folders[query.plan.name]

    def with_poisons(manifest: Manifest) -> Manifest:
        facts = manifest.queries[folder]
        # Those of the batch are the last ones, and no more than may be kept.
        poisons = (*facts.poisons, *rows)[-session.options.max_poisons :]
        return manifest.with_query(folder, replace(facts, poisons=poisons))

    session.change(with_poisons)
    steps = Counter(poison.step for poison in found)
    told = ", ".join(f"{number} by step {step!r}" for step, number in steps.items())
    session.note(
        "quarantine",
        f"records kept out of batch {batch_id} of query {query.plan.name!r}: {told}",
        query=query.plan.name,
        batch=batch_id,
        steps=dict(steps),
        records=[{"step": p.step, "split": p.split, "line": p.line, "reason": p.reason} for p in found],
    )


def _too_many(failure: RsError, first: Poison, *, most: int) -> RsError:
    """`failure` with the position of the first record, and why it was not quarantined."""
    facts = {**failure.facts, "step": first.step, "split": first.split, "line": first.line}
    remedy = f"correct the step: more than {most} records of the batch fail, too many for the quarantine"
    made = type(failure)(failure.what, remedy=remedy, **facts)
    made.__cause__ = failure.__cause__
    return made


@dataclass(slots=True)
class Warden:
    """Watches the queries of a started pipeline on a thread of its own, and restarts those that can continue."""

    session: JobSession
    trigger: Mapping[str, Any]
    _loop: PeriodicTask | None = None

    def start(self) -> None:
        """Begin to check for ended queries that can continue."""
        effect, failures = "a failed batch was not examined", self.session.failures
        loop = PeriodicTask(self._look, name="rs-quarantine", every=LOOK, failures=failures, effect=effect)
        self._loop = loop.start()

    def stop(self) -> None:
        """No query is started after this call; may be called twice."""
        if self._loop is not None:
            self._loop.stop()

    def _look(self) -> None:
        queries = self.session.queries.values()
        for query in self.session.options.driver.call(lambda _: [q for q in queries if q.goes_on]):
            self._look_after(query)

    def _look_after(self, query: QueryRun) -> None:
        def look(_: SparkSession) -> None:
            # Checked on the thread that also stops the queries, so that none is started after a stop.
            if self._loop is not None and not self._loop.stopping:
                go_on(self.session, query, self.trigger)

        try:
            self.session.options.driver.call(look)
        except Exception as error:
            # The lease is lost, or Spark refuses to start: that ends the pipeline.
            query.failure, query.given_up = translate(error, query=query.plan.name), True
            raise

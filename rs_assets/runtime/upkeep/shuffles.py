"""Durable shuffles in savepoints and rollbacks: which queries read from which, and which must be rolled back together.

A table is in the folder of the query that writes it, so it is restored, rewound and forked with that. It remains to end
the table where its writer ends, and to roll back readers that have read later rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.manifest import Manifest
from rs_assets.compile.planner.plan import in_order, plan_queries
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import CheckpointError, ConfigurationError
from rs_assets.operators.dimension.notes import forget_repeating
from rs_assets.operators.shuffle.cut import end_of, go_on, needed_files, newest_within, written_before
from rs_assets.recovery.savepoints import Link
from rs_assets.runtime.identity import matched
from rs_assets.runtime.places import table_at
from rs_assets.runtime.upkeep.claims import Claimed
from rs_assets.runtime.upkeep.returns import NEWEST, QueryReturn
from rs_assets.runtime.upkeep.rewound import refuse_batch
from rs_assets.topology.nodes.shuffle import ShuffleRead
from rs_assets.topology.topology import Topology


def refuse_topics(topology: Topology) -> None:
    """ConfigurationError for a pipeline with rows in topics: they are not in savepoints, and cannot be rolled back."""
    if not topology.savable:
        raise ConfigurationError(
            "a pipeline with a durable shuffle through Kafka has no savepoints and cannot go back",
            remedy="write shuffle(n, strategy='delta') and begin a new generation (--new-generation)",
            pipeline=topology.name,
        )


def links_of(topology: Topology, manifest: Manifest, job: Path) -> tuple[Link, ...]:
    """The tables between the queries of the stored `manifest`, one entry per reader."""
    if not topology.shuffled:
        return ()
    plans = plan_queries(topology)
    known, folders = matched(topology, plans, manifest)
    return tuple(
        Link(
            table=_table(job, known, write),
            sink=write,
            checkpoint=known.place(job, folders[reader.name]) / "checkpoint",
            writer=folders[writer.name],
            reader=folders[reader.name],
            source=known.stored_name(read.name),
        )
        for read in topology
        if isinstance(read, ShuffleRead) and (write := known.stored_name(read.after)) in known.places
        for writer in plans
        if read.after in writer.sinks and folders[writer.name] in known.queries
        for reader in plans
        if read.name in reader.sources and folders[reader.name] in known.queries
    )


def with_readers(topology: Topology, manifest: Manifest, job: Path, first: QueryReturn) -> tuple[QueryReturn, ...]:
    """`first`, and the rollbacks of all queries that have read rows which it removes, each after its writer.

    CheckpointError if such a query, or a row that must be read again, does not go back that far.
    """
    plans = plan_queries(topology)
    _, folders = matched(topology, plans, manifest)
    links, going = links_of(topology, manifest, job), {first.folder: first}
    for plan in (plan for group in in_order(topology, plans) for plan in group):
        folder = folders[plan.name]
        batch = _batch_of(links, going, folder)
        if folder not in going and batch is not None:
            refuse_batch(plan, manifest.place(job, folder), batch)
            going[folder] = QueryReturn(plan=plan, folder=folder, facts=manifest.queries[folder], batch=batch)
    for link in (link for link in links if link.reader in going):
        try:
            _check_there(link, going)
        except CheckpointError as error:
            writer = next(plan for plan in plans if folders[plan.name] == link.writer)
            remedy = _brought_by(topology, manifest, job, writer, link, going[link.reader].batch)
            raise CheckpointError(error.what, remedy=remedy or error.remedy, **error.facts) from error
    return tuple(going.values())


def begin_tables(
    topology: Topology, manifest: Manifest, job: Path, queries: Mapping[str, QueryReturn], claimed: Claimed
) -> None:
    """Let the writers of `manifest`, whose queries have been rolled back, continue in their tables.

    Rows that are written again have other versions there, so readers do not reuse the versions they had read.
    """
    for link in links_of(topology, manifest, job):
        query = queries.get(link.writer)
        if query is not None and link.table.exists():
            ends = (query.facts.generation, link.sink, query.batch)
            kept = BatchMark(manifest.pipeline_id, *ends, claimed.token, claimed.claim)
            go_on(link.table, kept, kept.of_generation(claimed.generation))
            forget_repeating(link.checkpoint.parent)


def _batch_of(links: tuple[Link, ...], going: Mapping[str, QueryReturn], reader: str) -> int | None:
    """The batch to roll a reader back to, with the writers in `going`; None if it has read none of the removed rows."""
    read = (link for link in links if link.reader == reader and link.writer in going)
    batches = (_unread(link, going[link.writer].batch) for link in read)
    return min((batch for batch in batches if batch is not None), default=None)


def _unread(link: Link, written: int) -> int | None:
    log, end = CheckpointLog(link.checkpoint), end_of(link.table, written)
    planned, last = max(log.planned_batches(), default=-1), log.last_committed()
    if planned < 0 or newest_within(log, link.source, end, last=planned) == planned:
        return None
    batch = newest_within(log, link.source, end, last=last)
    if batch < 0:
        raise CheckpointError(
            f"the first batch of {link.reader} has read rows that {link.writer} has written after its batch {written}",
            remedy=f"go back to a later batch of {link.writer}, or begin a new generation (--new-generation)",
            file=link.checkpoint,
        )
    return batch


def _check_there(link: Link, going: Mapping[str, QueryReturn]) -> None:
    """CheckpointError if rows that a reader has to read again are gone."""
    written = going.get(link.writer)
    end = end_of(link.table, written.batch if written else NEWEST)
    needed_files(link.table, CheckpointLog(link.checkpoint), link.source, batch=going[link.reader].batch, end=end)


def _brought_by(
    topology: Topology, manifest: Manifest, job: Path, writer: QueryPlan, link: Link, batch: int
) -> str | None:
    """The rewind that restores rows missing for a reader at the end of `batch`: of their writer, or upstream."""
    place, log = manifest.place(job, link.writer), CheckpointLog(link.checkpoint)
    to = written_before(link.table, CheckpointLog(place / "checkpoint"), log, link.source, batch)
    if to is None:
        return None
    try:
        refuse_batch(writer, place, to)
        facts = manifest.queries[link.writer]
        with_readers(topology, manifest, job, QueryReturn(plan=writer, folder=link.writer, facts=facts, batch=to))
    except CheckpointError as error:
        return error.remedy
    step = writer.stateful or writer.name
    return f"rewind {step}, which writes them, as well: rs-assets rewind {topology.name} --step {step} --to {to}"


def _table(job: Path, manifest: Manifest, write: str) -> Path:
    place = manifest.places[write]
    if "/" not in place:
        raise CheckpointError(
            "the table of a durable shuffle is at its location of an earlier release",
            remedy="run the pipeline once, which moves it",
            step=write,
        )
    return table_at(job, manifest, place)

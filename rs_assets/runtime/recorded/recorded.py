"""The batches that a pipeline has recorded, opened to be read again while it runs or not; nothing is changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from rs_assets.catalog.batch_offsets import older_batches
from rs_assets.catalog.batch_times import BatchTimes
from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.log import NOTHING_READ
from rs_assets.checkpoint.manifest import Manifest
from rs_assets.checkpoint.recalled import RecalledLog
from rs_assets.checkpoint.source_log import SourceLog
from rs_assets.common.node import Node
from rs_assets.compile.planner.context import CompileContext
from rs_assets.compile.planner.query_plan import CONTROL_SOURCE, QueryPlan
from rs_assets.compile.readers import reader_of
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.nodes import Source
from rs_assets.connectors.source import Verifiable
from rs_assets.errors import (
    BadRecordError,
    CheckpointError,
    ConfigurationError,
    DataLossError,
    RsError,
    StepError,
    TopologyError,
)
from rs_assets.recovery import forget_marker as forgetting
from rs_assets.recovery import rollback_marker as returning
from rs_assets.runtime.batch.split_watermarks import by_split_of, split_watermarks_of
from rs_assets.runtime.identity import queries_of_now, resumed
from rs_assets.runtime.io_compatibility import moved_files, refuse_elsewhere
from rs_assets.runtime.job.dimensions import dimensions_of
from rs_assets.runtime.job.queries import context_of, poisons_in
from rs_assets.runtime.job.session import JobSession
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.recorded.forgotten import Removal, removals, without
from rs_assets.runtime.replay.replay import Replay
from rs_assets.runtime.translate import translate
from rs_assets.topology.nodes.shuffle import ShuffleRead
from rs_assets.topology.nodes.versioned import VersionedTable
from rs_assets.topology.topology import Topology

Chosen = TypeVar("Chosen", bound=Node)
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Recorded:
    """The recorded batches of a pipeline. `stored` is the manifest as the last run left it."""

    session: JobSession
    stored: Manifest

    @property
    def code(self) -> str:
        """The digest of the version that read rows last, empty for none."""
        return self.stored.code

    @classmethod
    def of(cls, topology: Topology, options: RunOptions) -> Recorded:
        """Those of a home; CheckpointError before the first run, or after a rollback that was interrupted.

        TopologyChangedError as for a start, and for a source that reads another place.
        """
        session = JobSession(topology, options)
        stored = manifests.load(session.folder)
        if stored is None:
            raise CheckpointError(
                f"{topology.name} has not read anything yet", remedy="run it first", file=session.folder
            )
        forgetting.refuse(session.folder, topology.name)
        returning.refuse(session.folder)
        session.manifest, session.folders = resumed(topology, session.plans, stored, options)
        known = queries_of_now(topology, stored)
        for plan in session.plans:
            facts = known.get(session.folders[plan.name])
            if facts is not None:
                refuse_elsewhere(topology, plan, facts)
        return cls(session, stored)

    def plan_of(self, sink: str) -> QueryPlan:
        """The query that writes a sink."""
        return next(plan for plan in self.session.plans if sink in plan.sinks)

    def code_changed(self, plan: QueryPlan, batch: int) -> bool:
        """Whether the current code is another than that which computed a batch, as far as the manifest knows."""
        code = self.session.topology.code
        return (self.session.facts(plan).code_of(batch) or self.code or code) != code

    def on_driver(self, read: Callable[[SparkSession], Found]) -> Found:
        """What `read` returns on the Spark driver's thread; RsError for whatever fails there."""
        try:
            with translated(self.session.topology.name):
                return self.session.options.driver.call(read)
        except DataLossError as error:
            if moved := self._moved:
                error.remedy += f"; or, if {moved} has moved with its files, run the pipeline with this code first"
            raise

    @property
    def _moved(self) -> str:
        """The sources, for people, that find their files again at another place once a run has looked there."""
        known, topology = queries_of_now(self.session.topology, self.stored), self.session.topology
        facts = [(plan, known.get(self.session.folders[plan.name])) for plan in self.session.plans]
        moved = (each for plan, stored in facts if stored is not None for each in moved_files(topology, plan, stored))
        return ", ".join(map(repr, dict.fromkeys(moved)))

    def query(self, spark: SparkSession, plan: QueryPlan) -> RecordedQuery:
        """The batches of one query; on the driver's thread. TopologyError if it reads a durable shuffle."""
        session, folder = self.session, self.session.query_folder(plan)
        shuffles = [name for name in plan.sources if isinstance(session.topology[name], ShuffleRead)]
        if shuffles:
            raise TopologyError(
                f"query {plan.name!r} reads the durable shuffle {shuffles[0]!r}, whose rows are removed once they were"
                " read",
                remedy="follow a record of the source into the shuffle: pipeline.why(where='id = 17')",
                pipeline=session.topology.name,
            )
        schemas, home = session.manifest.schemas, session.options.home
        session.dimensions = dimensions_of(session.topology, home, spark, session.failures, schemas)
        context = context_of(session, spark, plan, folder)
        notes = session.dimensions.of_query(folder, plan.nodes).notes
        given = {step: name for step, name in session.dimensions.by_code().items() if step in plan.nodes}
        reading = replace(
            context,
            noted=lambda batch: {**notes.of(batch), **given},
            pinned=partial(_known, session.manifest),
            streaming=False,
        )
        return RecordedQuery(self, plan, reading, self.log(plan), removals(session, plan))

    def log(self, plan: QueryPlan) -> RecalledLog:
        """The log of one query, with the batches that only the catalog has."""
        log, session = self.session.log(plan), self.session
        recall = partial(older_batches, session.catalog, pipeline=session.topology.name, query=log.stored_name)
        return RecalledLog(log.folder, log.aliases, recall=lambda first: recall(first=first))

    def times(self, plan: QueryPlan, gate: str) -> BatchTimes:
        """The event times at a gate, as far as the catalog has them."""
        name, code = self.session.topology.name, self.session.topology.code
        return BatchTimes.of(self.session.catalog, pipeline=name, query=plan.name, gate=gate, code=code)


@dataclass(frozen=True, slots=True)
class RecordedQuery:
    """The recorded batches of one query; `context` reads them as they were read.

    `removals` are those of keys that were forgotten.
    """

    recorded: Recorded
    plan: QueryPlan
    context: CompileContext
    log: RecalledLog
    removals: tuple[Removal, ...] = ()

    def kept(self, batch: int, source: Source, rows: DataFrame, *, into: DeltaSink) -> DataFrame:
        """The records of a batch without those of keys that were forgotten since, if the output has these keys."""
        return without(rows, batch, source, into, self.recorded.session, self.removals) if self.removals else rows

    def refuse_forgotten(self) -> None:
        """CheckpointError if keys were forgotten, or are being forgotten, since this query was opened."""
        session = self.recorded.session
        forgetting.refuse(session.folder, session.topology.name)
        if removals(session, self.plan) != self.removals:
            raise CheckpointError(
                "keys were forgotten in the meantime, and the rows were computed with their records",
                remedy="do the same again: the records are left out then",
                pipeline=session.topology.name,
            )

    def batches(self, *, older: bool = False) -> list[int]:
        """The batches that can be read again, the newest first.

        These are the batches in Spark's log; with `older` also those that only the catalog has.
        """
        planned = {*self.log.planned_batches(), *(self.log.older if older else ())}
        # The first offsets that were kept are only the start of the next batch.
        return [batch for batch in sorted(planned, reverse=True) if batch == 0 or batch - 1 in planned]

    @property
    def recalls(self) -> bool:
        """Whether batches that only the catalog has can be read as then.

        Greatest times by split, and versions of dimensions, are kept only for the batches in Spark's log.
        """
        topology = self.recorded.session.topology
        by_split = by_split_of(topology, self.plan)
        looked_up = any(isinstance(topology[name], VersionedTable) for name in self.plan.nodes)
        return not looked_up and (by_split is None or not by_split.by_record)

    def times(self, gate: str) -> BatchTimes:
        """The event times at a gate, as far as the catalog has them."""
        return self.recorded.times(self.plan, gate)

    def located(self, error: RsError, batches: Sequence[int]) -> RsError:
        """The error of a record of `batches` with its position, which a replay finds; else `error`."""
        replays = (self.replay(batch, lambda _, rows: rows) for batch in batches)
        if isinstance(error, BadRecordError):
            return next(filter(None, (replay.first_bad() for replay in replays)), error)
        if isinstance(error, StepError) and "line" not in error.facts:
            ours = partial(translate, query=self.plan.name)
            return next(filter(None, (replay.failing(ours) for replay in replays)), error)
        return error

    def removed_source(self, batch: int) -> str | None:
        """A source of which a batch has read records, and that the pipeline no longer has; None if there is none."""
        planned, before = self.log.offsets(batch), self.log.offsets(batch - 1)
        ends = before.sources if before is not None else {}
        now = planned.sources if planned is not None else {}
        read = (name for name, end in now.items() if end not in (NOTHING_READ, ends.get(name)))
        return next(
            (name for name in read if name not in self.plan.sources and not name.startswith(CONTROL_SOURCE)), None
        )

    def refuse_removed(self, batch: int) -> None:
        """DataLossError if a batch has read records of a source that the pipeline no longer has."""
        source = self.removed_source(batch)
        if source is not None:
            raise DataLossError(
                f"batch {batch} has read the source {source!r}, which the pipeline no longer has, so its rows would be"
                " lost",
                remedy=f"use code that has {source!r}",
                pipeline=self.recorded.session.topology.name,
                query=self.plan.name,
            )

    def watermark_after(self, batch: int) -> datetime | None:
        """The watermark after a batch; None if it is not committed, or nothing is known of it."""
        following = self.log.offsets(batch + 1)
        if following is not None:
            return following.watermark
        return self.log.watermark if batch == self.log.last_committed() else None

    def verify(self, batch: int) -> None:
        """DataLossError if input of a batch was edited after it was read, as far as the source can say that."""
        session = self.recorded.session
        for source in session.topology.sources:
            reader = reader_of(source, session.options.home) if source.name in self.plan.sources else None
            if isinstance(reader, Verifiable):
                reader.verify(SourceLog(self.log, source.name).batch(batch), session.manifest.inputs_of(source.name))

    def replay(
        self,
        batch: int,
        only: Callable[[Source, DataFrame], DataFrame],
        *,
        strict: bool = False,
        addressed: bool = True,
    ) -> Replay:
        """One batch wired again, without its poisons, over the rows of each source that `only` leaves.

        With `strict` a record that ends a run raises. Without `addressed` only the flows are wired.
        """
        session = self.recorded.session
        folder, home = session.query_folder(self.plan), session.options.home
        marks = split_watermarks_of(session.topology, self.plan, self.log, folder, home)
        poisons = poisons_in(session.facts(self.plan), batch, code=session.topology.code)
        latest = self.context.latest if marks is None else marks.before(batch)
        judged = replace(self.context, latest=latest, poisons=poisons)
        return Replay(
            session.topology,
            self.plan,
            judged,
            self.log,
            batch,
            only=only,
            effects=False,
            strict=strict,
            addressed=addressed,
        )


def named(nodes: Sequence[Chosen], name: str | None, *, what: str, pipeline: str) -> Chosen:
    """The one of `nodes` called `name`, or the only one; ConfigurationError, which lists them, if there is none.

    `what` they are: a source, or something that is named by `sink=`, which is `--sink` in a shell.
    """
    known = {node.name: node for node in nodes}
    if name is None and len(known) == 1:
        return nodes[0]
    if name not in known:
        problem = f"there are several {what}s" if name is None else f"there is no {what} {name!r}"
        option = "source" if what == "source" else "sink"
        raise ConfigurationError(
            problem, remedy=f"name one of: {', '.join(known)} ({option}=, in a shell --{option})", pipeline=pipeline
        )
    return known[name]


@contextmanager
def translated(query: str) -> Iterator[None]:
    """Errors of Spark within it as ours."""
    try:
        yield
    except RsError:
        # It keeps its cause, as one that was translated further in.
        raise
    except Exception as error:
        raise translate(error, query=query) from error


def _known(manifest: Manifest, source: Source, infer: Callable[[], StructType]) -> StructType:
    """The schema that was inferred before the first batch; of a source that no batch has read, the present one."""
    stored = manifest.schema_of(source.name)
    return infer() if stored is None else StructType.fromJson(json.loads(stored))

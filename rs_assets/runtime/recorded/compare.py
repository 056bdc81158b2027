"""The current code over recorded batches: how its rows differ from those in the table."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from rs_assets.common.names import one_or_more
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.errors import ConfigurationError, TopologyChangedError
from rs_assets.runtime.identity import queries_of_now, stored_shape
from rs_assets.runtime.io_compatibility import origins_of, rules_of, targets_of
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.recorded.closed import in_passes, named_or
from rs_assets.runtime.recorded.comparison import Comparison, Parts
from rs_assets.runtime.recorded.difference import Difference, summed
from rs_assets.runtime.recorded.digest import comparable
from rs_assets.runtime.recorded.partitions import Partition, parted, partitions_of
from rs_assets.runtime.recorded.prove import stored_rows
from rs_assets.runtime.recorded.recompute import Recompute, Way, Written, refuse_clock, within
from rs_assets.runtime.recorded.recorded import Recorded, named
from rs_assets.runtime.recorded.streamed import refuse_streamed, streamed_table
from rs_assets.topology.shape import judged_otherwise, shape_of
from rs_assets.topology.topology import Topology


def compare(  # noqa: PLR0913  all but the first have defaults
    topology: Topology,
    options: RunOptions | None = None,
    *,
    partition: str | None = None,
    to: str | None = None,
    sink: str | None = None,
    newest: int = 24,
    keys: Sequence[str] = (),
    into: str | Path | None = None,
    savepoint_id: str | None = None,
) -> Difference:
    """Compute the rows of a table by the current code from recorded batches, and compare them with those that it has.

    Of an output with partitions closed ones are compared: those from `partition` `to` another one, else the `newest`.
    Of others the whole table. The home is not changed. With `into` each row that differs is written into a new Delta
    table in that folder. With `savepoint_id`, which may be "newest", the state of that savepoint goes on, and rows
    since then are compared. TopologyChangedError if the recorded batches do not fit the code, TopologyError for an
    output whose rows cannot be computed again; else errors as of a backfill.
    """
    options, target = replace(RunOptions.of(options), keep_state=True), None if into is None else Path(into)
    if target is not None and target.exists():
        raise ConfigurationError("the table of the difference exists", remedy="name a new folder", folder=target)
    node = _output(topology, sink, parted_by_time=partition is not None or to is not None)
    trial = _Trial(
        topology=topology, options=options, sink=node, keys=_keys(node, keys), target=target, savepoint_id=savepoint_id
    )
    trial.check()
    recorded = trial.recorded()
    chosen = trial.chosen(partition, to, newest)
    compared = partial(trial.as_stream if trial.streams else trial.by_batches, recorded, chosen)
    try:
        found = Difference(keys=trial.keys) if chosen == () else recorded.on_driver(compared)
    except BaseException:
        if target is not None:
            shutil.rmtree(target, ignore_errors=True)
        raise
    return replace(found, code=topology.code)


def _output(topology: Topology, sink: str | None, *, parted_by_time: bool) -> DeltaSink:
    """The table that is called `sink`, or the only one, or the only one with partitions."""
    tables = [node for node in topology.sinks if isinstance(node, DeltaSink) and not node.late]
    if parted_by_time or (sink is None and any(node.partitions for node in tables)):
        return parted(topology, sink)[0]
    if not tables:
        raise ConfigurationError(
            f"no output of {topology.name} is a Delta table", remedy="compare a table: to_delta('hits')"
        )
    return named(tables, sink, what="table", pipeline=topology.name)


def _keys(sink: DeltaSink, keys: Sequence[str]) -> tuple[str, ...]:
    """The fields that identify a row; of upserts those of the table."""
    return one_or_more(keys) or (sink.keys if sink.mode == "upsert" else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """The current code for one table."""

    topology: Topology
    options: RunOptions
    sink: DeltaSink
    keys: tuple[str, ...]
    target: Path | None
    savepoint_id: str | None

    @property
    def streams(self) -> bool:
        """Whether the batches go through the code as a stream; else each partition is one batch."""
        return self.savepoint_id is not None or not Way.fits(self.topology, self.sink)

    def check(self) -> None:
        """TopologyError if the rows cannot be computed again."""
        if self.streams:
            refuse_streamed(self.topology, self.sink)
        else:
            refuse_clock(self.topology, self.sink)

    def recorded(self) -> Recorded:
        """The recorded batches; TopologyChangedError if they cannot be read by this code, or fill another table."""
        try:
            recorded = Recorded.of(self.topology, self.options)
        except TopologyChangedError as error:
            remedy = "compare code with the same watermark delay, sources and outputs: others begin a new generation"
            raise TopologyChangedError(error.what, remedy=remedy, **error.facts) from error
        plan, name = recorded.plan_of(self.sink.name), self.sink.name
        problem = _misfit(self.topology, recorded, plan, name)
        if problem:
            raise TopologyChangedError(
                problem,
                remedy="leave names, locations and watermarks as the recorded batches have them",
                pipeline=self.topology.name,
            )
        return recorded

    def chosen(self, partition: str | None, to: str | None, newest: int) -> Sequence[Partition] | None:
        """The partitions to compare; None for a table without."""
        if self.sink.partitions is None:
            return None

        def newest_closed() -> Sequence[Partition]:
            return partitions_of(self.topology, self.options, sink=self.sink.name).closed[-newest:]

        way = Way.as_stream(self.topology, self.sink, self.sink.partitions)
        return tuple(named_or(newest_closed, self.topology, self.options, way, first=partition, last=to))

    def by_batches(self, recorded: Recorded, chosen: Sequence[Partition] | None, spark: SparkSession) -> Difference:
        """Each partition as one batch computes it."""
        way = Way.to(self.topology, *parted(self.topology, self.sink.name))
        computing = in_passes(spark, recorded, way, chosen or ())
        written = Written.by(computing[0].query, self.sink)
        return summed([self._in_a_pass(each, written) for each in computing])

    def _in_a_pass(self, made: Recompute, written: Written) -> Difference:
        batches = made.batches(written.mark.batch_id)
        with made.reading(batches) as folder:
            before = comparable(stored_rows(made, written.path, written.table))
            # Rows that differ are needed twice.
            after = comparable(made.rows(batches, folder)).persist()
            try:
                found = self._comparison(written).of(before, after, Parts.of(made.way.partitions, made.partitions))
            finally:
                after.unpersist()
        return replace(found, batches=len(batches))

    def as_stream(self, recorded: Recorded, chosen: Sequence[Partition] | None, spark: SparkSession) -> Difference:
        """The table as a stream over the recorded batches leaves it."""
        with streamed_table(spark, recorded, self.sink, chosen, self.savepoint_id) as tables:
            before, after = (comparable(rows) for rows in (tables.stored, tables.made))
            if chosen is None or self.sink.partitions is None:
                found = self._comparison(tables.written).of(before, after, Parts.whole())
                found = replace(found, whole=True, partitions=())
            else:
                partitions = self.sink.partitions
                before, after = (within(rows, partitions, *chosen) for rows in (before, after))
                found = self._comparison(tables.written).of(before, after, Parts.of(partitions, chosen))
        return replace(found, batches=len(tables.batches), streamed=True, savepoint=tables.savepoint)

    def _comparison(self, written: Written) -> Comparison:
        return Comparison(keys=self.keys, target=self.target, version=written.table.version())


def _misfit(topology: Topology, recorded: Recorded, plan: QueryPlan, sink: str) -> str:
    """Why recorded batches are not those of this plan; empty if they are."""
    facts = queries_of_now(topology, recorded.stored).get(recorded.session.folders[plan.name])
    if facts is None:
        return f"the query of {sink!r} has no recorded batches: its step with state, or its output, had another name"
    for source, origin in origins_of(topology, plan).items():
        if source not in facts.sources:
            return f"the recorded batches have not read the source {source!r}"
        if facts.origins.get(source, origin) != origin:
            return f"the source {source!r} reads another place than the recorded batches"
    step = judged_otherwise(stored_shape(facts), shape_of(topology, plan.stateful))
    if step is not None:
        return f"the step {step!r} has another watermark, so other records would be late"
    now = targets_of(topology, plan).get(sink), rules_of(topology, plan).get(sink)
    if (facts.targets.get(sink, now[0]), facts.rules.get(sink, now[1])) != now:
        return f"the output {sink!r} writes another table than before, or is parted in another way"
    return ""

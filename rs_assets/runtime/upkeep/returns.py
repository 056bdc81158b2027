"""Rollback of the sinks of a pipeline, backwards or forwards: all are checked before the first of them changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise

from deltalake.exceptions import DeltaError

from rs_assets.checkpoint.manifest import Manifest, QueryFacts
from rs_assets.common.home import Home
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.compile.sink import writer_of
from rs_assets.connectors.dead_letters import DeadLetters
from rs_assets.connectors.delta.log.causes import causes_of
from rs_assets.connectors.generations import Lineage, Point
from rs_assets.connectors.nodes import Sink
from rs_assets.connectors.sink import BatchMark, Closing, Rewinding
from rs_assets.errors import SinkError, TopologyChangedError
from rs_assets.runtime.identity import folder_of, matched
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.upkeep.claims import Claimed
from rs_assets.topology.nodes.shuffle import ShuffleWrite
from rs_assets.topology.topology import Topology

# After the last batch of any query.
NEWEST = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkReturn:
    """The rollback of one sink."""

    name: str
    writer: Rewinding
    kept: BatchMark
    begun: BatchMark
    had: int

    def check(self) -> None:
        """SinkError if it is impossible."""
        self.writer.check_rewind(self.kept, self.begun, self.had)

    def act(self) -> str:
        """Do it; returns a description."""
        return self.writer.rewind(self.kept, self.begun, self.had)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryReturn:
    """One query that goes to the end of a batch: its stored name, and its state there."""

    plan: QueryPlan
    folder: str
    facts: QueryFacts
    batch: int

    @property
    def path(self) -> Mapping[int, int]:
        """The generations that lead to the batch, each with its last valid batch."""
        return path_of(self.facts, self.batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """A pipeline that goes to the end of other batches, with the `manifest` of that time, by current names."""

    topology: Topology
    options: RunOptions
    manifest: Manifest
    queries: tuple[QueryReturn, ...]
    claimed: Claimed

    @contextmanager
    def checked(self) -> Iterator[tuple[SinkReturn, ...]]:
        """The rollbacks of all sinks, all of which have been checked; SinkError if one is impossible."""
        with ExitStack() as stack:
            sinks = tuple(self._sinks(stack))
            for sink in sinks:
                sink.check()
            yield sinks

    def act(self, sinks: tuple[SinkReturn, ...]) -> Mapping[str, str]:
        """Roll back all sinks, then the dead letters; returns descriptions."""
        done = {sink.name: sink.act() for sink in sinks}
        home = self.options.home
        begun = BatchMark(self.manifest.pipeline_id, self.claimed.generation, "", -1, self.claimed.token)
        for query in self.queries:
            roll_back_dead_letters(self.topology, home, query.plan, query.folder, path=query.path, begun=begun)
        return done

    def _sinks(self, stack: ExitStack) -> Iterator[SinkReturn]:
        for query in self.queries:
            for name in query.plan.sinks:
                node = self.topology[name]
                assert isinstance(node, Sink)  # plans name sinks
                if isinstance(node, ShuffleWrite):
                    # Its table is part of the checkpoint, and is rolled back with it.
                    continue
                writer = writer_of(node, self.options.home, self.topology.namespace)
                if isinstance(writer, Closing):
                    stack.callback(writer.close)
                if not isinstance(writer, Rewinding):
                    raise SinkError(
                        f"the sink {name!r} cannot go back to another batch",
                        remedy="give it the methods of rs_assets.sinks.Rewinding,"
                        " or begin a new generation (--new-generation)",
                        step=name,
                    )
                stored = self.manifest.stored_name(name)
                point = last_point(query.facts, name, query.batch) or Point(query.facts.generation, query.batch)
                kept = BatchMark(
                    self.manifest.pipeline_id,
                    point.generation,
                    stored,
                    point.batch,
                    self.claimed.token,
                    self.claimed.claim,
                )
                yield SinkReturn(
                    name=name,
                    writer=writer,
                    kept=kept,
                    begun=kept.of_generation(self.claimed.generation),
                    had=query.facts.sinks.get(name, -1),
                )


def undo_dead_letters(topology: Topology, home: Home, folders: Iterable[str], begun: BatchMark) -> None:
    """Invalidate all dead letters of the job, of any query name: all queries start over in `begun`'s generation."""
    for folder in folders:
        _route_dead_letters(topology, home, folder, path={}, begun=begun, names=None)


def roll_back_dead_letters(
    topology: Topology, home: Home, plan: QueryPlan, folder: str, *, path: Mapping[int, int], begun: BatchMark
) -> None:
    """Validate only dead letters of a query along `path`; none if it starts over, in `begun`'s generation.

    A dead letter has the stored name of its query; those of earlier releases have the name at that time.
    """
    _route_dead_letters(topology, home, folder, path=path, begun=begun, names=names_of(topology, plan, folder))


def names_of(topology: Topology, plan: QueryPlan, folder: str) -> tuple[str, ...]:
    """All names that a query has had."""
    old = {new: name for name, new in topology.renamed}
    names = [plan.name]
    while old.get(names[-1], names[0]) not in names:
        names.append(old[names[-1]])
    return tuple(dict.fromkeys((*names, folder)))


def _route_dead_letters(
    topology: Topology,
    home: Home,
    folder: str,
    *,
    path: Mapping[int, int],
    begun: BatchMark,
    names: tuple[str, ...] | None,
) -> None:
    mark = replace(begun, sink=f"{folder}.dead_letters")
    try:
        DeadLetters(home.dead_letters).go_to(path, mark, job=(topology.namespace, topology.job), names=names)
    except (DeltaError, OSError) as error:
        raise SinkError(
            f"the dead letters cannot be marked: {causes_of(error)}",
            remedy="check the disk and the permissions of the table, then do the same again",
            table=home.dead_letters,
        ) from error


def path_of(facts: QueryFacts, batch: int) -> dict[int, int]:
    """The generations that lead to the end of `batch`, newest first, each with its last valid batch."""
    chain = (*facts.path, (facts.generation, 0))
    began = {later[0]: Point(*before) for before, later in pairwise(chain)}
    return Lineage(began).path(Point(facts.generation, batch))


def last_point(facts: QueryFacts, sink: str, batch: int) -> Point | None:
    """The last valid batch up to `batch` that a sink can have which was removed when the pipeline went back.

    None for any other sink, and if the query has started over since.
    """
    last = facts.absent.get(sink, facts.generation)
    if last == facts.generation:
        return None
    return next((Point(*valid) for valid in path_of(facts, batch).items() if valid[0] <= last), None)


def valid_batches(manifest: Manifest, plan: QueryPlan) -> dict[int, int] | None:
    """The last batch of each generation of a query that was not undone; None for a query that has no state yet."""
    folder = folder_of(manifest, plan)
    return None if folder is None else path_of(manifest.queries[folder], NEWEST)


def begun_with(facts: QueryFacts, batch: int, generation: int) -> QueryFacts:
    """The state of a query that begins `generation` at the end of `batch`; none of its sinks had more."""
    path = tuple(reversed(path_of(facts, batch).items()))
    sinks = {sink: min(had, batch) for sink, had in facts.sinks.items()}
    poisons = tuple(poison for poison in facts.poisons if poison["batch"] <= batch)
    return replace(facts, generation=generation, path=path, sinks=sinks, poisons=poisons)


def matching(topology: Topology, manifest: Manifest) -> tuple[Manifest, Mapping[str, str]]:
    """`manifest` by current names, and the stored name of each query.

    TopologyChangedError if it has a query or a sink that the topology lacks: its rows would not be rolled back.
    """
    plans = plan_queries(topology)
    known, folders = matched(topology, plans, manifest)
    strays = sorted(set(known.queries) - set(folders.values()))
    here = {folders[plan.name]: set(plan.sinks) for plan in plans}
    strays += [
        sink
        for folder, facts in known.queries.items()
        for sink, had in facts.sinks.items()
        if had >= 0 and sink not in here.get(folder, {sink})
    ]
    if strays:
        raise TopologyChangedError(
            f"the checkpoint has {', '.join(map(repr, strays))}, which this version of the pipeline does not have",
            remedy="go back with the version of the pipeline that wrote it, or declare what was renamed"
            " (build(renamed={'old': 'new'}))",
            pipeline=topology.name,
        )
    return known, folders

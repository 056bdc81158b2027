"""The sinks of a pipeline that goes back, or forward again: all are asked before the first of them acts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise

from rs_assets.checkpoint.manifest import Manifest, QueryFacts
from rs_assets.common.home import Home
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.compile.sink import writer_of
from rs_assets.connectors.dead_letters import DeadLetters
from rs_assets.connectors.generations import Lineage, Point
from rs_assets.connectors.sink import BatchMark, Closing, Rewinding
from rs_assets.errors import SinkError, TopologyChangedError
from rs_assets.runtime.identity import matched
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.upkeep.claims import Claimed
from rs_assets.topology.nodes.shuffle import ShuffleWrite
from rs_assets.topology.nodes.sink import Sink
from rs_assets.topology.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkReturn:
    """What one sink is asked to do."""

    name: str
    writer: Rewinding
    kept: BatchMark
    begun: BatchMark
    had: int

    def check(self) -> None:
        """SinkError if it cannot be done."""
        self.writer.check_rewind(self.kept, self.begun, self.had)

    def act(self) -> str:
        """Do it; says what was done."""
        return self.writer.rewind(self.kept, self.begun, self.had)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryReturn:
    """One query that goes to the end of a batch: its stored name, and what is known of it there."""

    plan: QueryPlan
    folder: str
    facts: QueryFacts
    batch: int

    @property
    def path(self) -> Mapping[int, int]:
        """The generations that lead to the batch, each with its last batch that counts."""
        return path_of(self.facts, self.batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """A pipeline that goes to the end of other batches, as `manifest` (that of then, by names of now) knew it."""

    topology: Topology
    options: RunOptions
    manifest: Manifest
    queries: tuple[QueryReturn, ...]
    claimed: Claimed

    @contextmanager
    def checked(self) -> Iterator[tuple[SinkReturn, ...]]:
        """The returns of all sinks, every one of which has said that it can; SinkError if one cannot."""
        with ExitStack() as stack:
            sinks = tuple(self._sinks(stack))
            for sink in sinks:
                sink.check()
            yield sinks

    def act(self, sinks: tuple[SinkReturn, ...]) -> Mapping[str, str]:
        """Let all sinks act, then the dead letters; says what each has done."""
        done = {sink.name: sink.act() for sink in sinks}
        home = self.options.home
        begun = BatchMark(self.manifest.pipeline_id, self.claimed.generation, "", -1, self.claimed.token)
        for query in self.queries:
            return_letters(self.topology, home, query.plan, query.folder, path=query.path, begun=begun)
        return done

    def _sinks(self, stack: ExitStack) -> Iterator[SinkReturn]:
        for query in self.queries:
            for name in query.plan.sinks:
                node = self.topology[name]
                assert isinstance(node, Sink)  # noqa: S101  plans name sinks
                if isinstance(node, ShuffleWrite):
                    # Its table is a part of the checkpoint, and goes back with that.
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
                kept = BatchMark(
                    self.manifest.pipeline_id,
                    query.facts.generation,
                    stored,
                    query.batch,
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


def undo_letters(topology: Topology, home: Home, folders: Iterable[str], begun: BatchMark) -> None:
    """Let no letter of the job count, whatever its query was called: all of them begin anew in `begun`'s generation."""
    for folder in folders:
        _lead_letters(topology, home, folder, path={}, begun=begun, names=None)


def return_letters(
    topology: Topology, home: Home, plan: QueryPlan, folder: str, *, path: Mapping[int, int], begun: BatchMark
) -> None:
    """Let those letters of a query count that lead along `path`; none does if it begins anew, in `begun`'s generation.

    A letter has the stored name of its query; one of an earlier release has the name that the query had just then.
    """
    old = {new: name for name, new in topology.renamed}
    names = [plan.name]
    while old.get(names[-1], names[0]) not in names:
        names.append(old[names[-1]])
    _lead_letters(topology, home, folder, path=path, begun=begun, names=tuple(dict.fromkeys((*names, folder))))


def _lead_letters(
    topology: Topology,
    home: Home,
    folder: str,
    *,
    path: Mapping[int, int],
    begun: BatchMark,
    names: tuple[str, ...] | None,
) -> None:
    mark = replace(begun, sink=f"{folder}.dead_letters")
    DeadLetters(home.dead_letters).go_to(path, mark, job=(topology.namespace, topology.job), names=names)


def path_of(facts: QueryFacts, batch: int) -> dict[int, int]:
    """The generations that lead to the end of `batch`, newest first, each with its last batch that counts."""
    chain = (*facts.path, (facts.generation, 0))
    began = {later[0]: Point(*before) for before, later in pairwise(chain)}
    return Lineage(began).path(Point(facts.generation, batch))


def begun_with(facts: QueryFacts, batch: int, generation: int) -> QueryFacts:
    """The facts of a query that begins `generation` at the end of `batch`; of its sinks none had more."""
    path = tuple(reversed(path_of(facts, batch).items()))
    sinks = {sink: min(had, batch) for sink, had in facts.sinks.items()}
    return replace(facts, generation=generation, path=path, sinks=sinks)


def matching(topology: Topology, manifest: Manifest) -> tuple[Manifest, Mapping[str, str]]:
    """`manifest` by the names of now, and the stored name of each query.

    TopologyChangedError if it knows a query or a sink that the topology has not: what that wrote would stay as it is.
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
            f"the checkpoint knows {', '.join(map(repr, strays))}, which this version of the pipeline has not",
            remedy="go back with the version of the pipeline that wrote it, or declare what was renamed"
            " (build(renamed={'old': 'new'}))",
            pipeline=topology.name,
        )
    return known, folders

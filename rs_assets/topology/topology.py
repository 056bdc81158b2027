"""A pipeline as data: its nodes, each after its inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rs_assets.common.loaded import note_modules
from rs_assets.common.names import checked_name
from rs_assets.common.node import Node, equal_names
from rs_assets.connectors.nodes import Sink, Source
from rs_assets.errors import TopologyError
from rs_assets.topology.branches import Merged, check_branches
from rs_assets.topology.chain import Link, links_of
from rs_assets.topology.closing import Closing, closings_of
from rs_assets.topology.nodes.shuffle import ShuffleRead, ShuffleWrite
from rs_assets.topology.rejoin import Rejoin, rejoins_of
from rs_assets.topology.targets import check_targets
from rs_assets.topology.updates import check_updates
from rs_assets.topology.user_code.code import digest_of
from rs_assets.topology.user_code.settings import settings_text
from rs_assets.topology.waiting import check_waits


@dataclass(frozen=True, slots=True)
class Topology:
    """A pipeline's name and nodes, checked when it is made.

    `renamed` are pairs of a step's earlier and current name: state and sinks continue under the current one.
    """

    namespace: str
    job: str
    nodes: tuple[Node, ...]
    renamed: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Check names, wiring, and that every path leads from a source to a sink."""
        checked_name(self.namespace, what="namespace")
        checked_name(self.job, what="job")
        seen: set[str] = set()
        for node in self.nodes:
            if node.name in seen:
                raise equal_names(node, job=self.job)
            missing = [i for i in node.inputs if i not in seen]
            if missing:
                raise TopologyError(f"step {node.name!r} reads from {missing[0]!r}, which does not precede it")
            seen.add(node.name)
        self._check_ends()
        self._check_shuffles()
        check_updates(self.nodes, self.ancestors)
        check_waits(self.nodes, self.ancestors)
        check_branches(self.nodes, self.ancestors, self.merged)
        _ = self.closings
        check_targets(self.sinks)
        self._check_renamed(seen)
        # Functions were just imported: workers have to import the same files.
        note_modules()

    def _check_renamed(self, here: set[str]) -> None:
        for old, new in self.renamed:
            checked_name(old, what="step")
            if old in here or new not in here:
                wrong = f"{old!r} is still there" if old in here else f"there is no step {new!r}"
                raise TopologyError(f"{old!r} cannot have been renamed to {new!r}: {wrong}", step=new)

    def _check_ends(self) -> None:
        if not any(isinstance(n, Source) for n in self.nodes):
            raise TopologyError(f"pipeline {self.job!r} has no source", remedy="begin with .from_file(...) or another")
        read = {name for node in self.nodes for name in node.inputs}
        loose = [n.name for n in self.nodes if not isinstance(n, Sink) and n.name not in read]
        if loose:
            raise TopologyError(
                f"the rows of step {loose[0]!r} go nowhere", remedy="end it with a sink such as .to_delta('table')"
            )

    def _check_shuffles(self) -> None:
        """The two halves of a durable shuffle belong together."""
        for node in self.nodes:
            if isinstance(node, ShuffleRead) and not isinstance(self[node.after], ShuffleWrite):
                raise TopologyError(f"step {node.name!r} reads what {node.after!r} does not write", step=node.name)

    def __iter__(self) -> Iterator[Node]:
        """The nodes, inputs first."""
        return iter(self.nodes)

    def __getitem__(self, name: str) -> Node:
        """The node called `name`; TopologyError lists the known names."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise TopologyError(f"there is no step {name!r}", remedy=f"use one of: {', '.join(n.name for n in self.nodes)}")

    @property
    def name(self) -> str:
        """Namespace and job with a dot between them: the pipeline's name everywhere."""
        return f"{self.namespace}.{self.job}"

    @property
    def label(self) -> str:
        """Namespace and job as one word: the name of the pipeline's graph, group, jobs and sensors in Dagster."""
        return f"{self.namespace}_{self.job}"

    @property
    def sources(self) -> tuple[Source, ...]:
        """The nodes without inputs."""
        return tuple(n for n in self.nodes if isinstance(n, Source))

    @property
    def origins(self) -> tuple[Source, ...]:
        """The sources that read from outside: all but the reading halves of durable shuffles."""
        return tuple(source for source in self.sources if not source.follows)

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """The nodes without readers."""
        return tuple(n for n in self.nodes if isinstance(n, Sink))

    @property
    def shuffled(self) -> bool:
        """Whether rows go from query to query through a durable shuffle."""
        return any(isinstance(node, ShuffleRead) for node in self.nodes)

    @property
    def savable(self) -> bool:
        """Whether savepoints can cover all of it: they cannot hold rows that wait in a topic between two queries."""
        return not any(isinstance(node, ShuffleRead) and node.strategy == "kafka" for node in self.nodes)

    @property
    def bounded(self) -> bool:
        """Whether every source has an end."""
        return all(source.bounded for source in self.sources)

    def ancestors(self, name: str) -> frozenset[str]:
        """The names of all nodes that `name` depends on, without itself."""
        found: set[str] = set()
        waiting = list(self[name].inputs)
        while waiting:
            current = waiting.pop()
            if current not in found:
                found.add(current)
                waiting.extend(self[current].inputs)
        return frozenset(found)

    @property
    def closings(self) -> Mapping[str, Closing]:
        """How the partitions by event time of its outputs close, by sink."""
        return closings_of(self.nodes, self.ancestors, self.links)

    @property
    def links(self) -> Mapping[str, Link]:
        """How stateful steps follow others in one query, by name; TopologyError for one that Spark cannot chain."""
        return links_of(self.nodes, self.ancestors)

    @property
    def rejoins(self) -> Mapping[str, Rejoin]:
        """The unions and joins whose branches of one step can be computed in one frame, by name."""
        return rejoins_of(self.nodes)

    @property
    def merged(self) -> Merged:
        """The inputs of those frames, by the name of the union."""
        return {name: rejoin.inputs for name, rejoin in self.rejoins.items()}

    def state_shape(self) -> tuple[str, ...]:
        """One line for each stateful node and each node upstream of one, sources too: what a checkpoint depends on."""
        stateful = [n.name for n in self.nodes if n.stateful]
        kept = set(stateful) | {a for name in stateful for a in self.ancestors(name)}
        kept |= {s.name for s in self.sources}
        return tuple(
            f"{n.kind} {n.name} <- {','.join(n.inputs)}: {' | '.join((*n.identity(), *n.reading, *n.further))}"
            for n in self.nodes
            if n.name in kept
        )

    @property
    def code(self) -> str:
        """A digest of all steps and their settings, with or without state: a different one is a different version.

        Settings without effect on rows are left out (NO_EFFECT). Secrets are, too.
        """
        return digest_of("\n".join(map(settings_text, self)))

    @property
    def fingerprint(self) -> str:
        """A digest of `state_shape`: equal fingerprints may share a checkpoint."""
        return digest_of("\n".join(self.state_shape()))

"""Which Spark queries a topology becomes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from rs_assets.engine.window.spec import SessionWindow
from rs_assets.errors import TopologyError
from rs_assets.pipeline.topology.base import Node
from rs_assets.pipeline.topology.branches import dominators, rejoined
from rs_assets.pipeline.topology.expression import calls_python
from rs_assets.pipeline.topology.sink import DeltaSink, Sink
from rs_assets.pipeline.topology.topology import Topology
from rs_assets.pipeline.topology.window import WindowAggregate

OutputMode = Literal["append", "update", "complete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """One Spark query: everything above and including `trunk` streams, what is below is applied to each batch.

    `name` keys the query's checkpoint: its stateful step, or its sources. `owns` are the sources whose rows count for
    the pipeline as this query counts them: a source that several queries read is owned by the first. `again` are the
    nodes that an earlier query has too.
    """

    name: str
    nodes: tuple[str, ...]
    trunk: str
    sinks: tuple[str, ...]
    sources: tuple[str, ...]
    owns: tuple[str, ...]
    again: frozenset[str] = frozenset()
    stateful: str | None = None
    output_mode: OutputMode = "append"

    def shared(self, topology: Topology) -> frozenset[str]:
        """The steps that refuse the same records in an earlier query, which counts them and writes their letters.

        A step in SQL is none: Spark computes only what a query needs, so a record may fail in one query alone.
        """
        nodes = (topology[name] for name in self.again)
        return frozenset(node.name for node in nodes if node.family != "step" or calls_python(node))

    def below_trunk(self, topology: Topology) -> tuple[Node, ...]:
        """The nodes that are applied to each batch, inputs first."""
        return tuple(topology[n] for n in self.nodes if self.trunk in topology.ancestors(n))


def plan_queries(topology: Topology) -> tuple[QueryPlan, ...]:
    """The queries of `topology`: sinks behind one stateful step share a query, sinks without state share their reads.

    TopologyError for what Spark cannot do in one query.
    """
    groups: dict[tuple[str, ...], list[Sink]] = {}
    for sink in topology.sinks:
        groups.setdefault(_group(topology, sink), []).append(sink)
    plans: list[QueryPlan] = []
    known: set[str] = set()
    for sinks in _splittable(topology, groups.values()):
        plan = _plan(topology, sinks, known, taken={p.name for p in plans})
        known |= set(plan.nodes)
        plans.append(plan)
    return tuple(plans)


def in_order(topology: Topology, plans: Iterable[QueryPlan]) -> tuple[tuple[QueryPlan, ...], ...]:
    """The queries in groups: each reads only what queries of the groups before it have written into shuffles."""
    waiting, groups = list(plans), list[tuple[QueryPlan, ...]]()
    while waiting:
        unwritten = {name for plan in waiting for name in plan.sinks}
        ready = tuple(p for p in waiting if not unwritten & {w for s in p.sources for w in topology[s].follows})
        groups.append(ready)
        waiting = [plan for plan in waiting if plan not in ready]
    return tuple(groups)


def _group(topology: Topology, sink: Sink) -> tuple[str, ...]:
    """Sinks of equal groups may share a query."""
    stateful = _stateful(topology, sink)
    if stateful is None:
        if _complete(sink):
            raise TopologyError(f"sink {sink.name!r} is complete, but no window stands before it", step=sink.name)
        return ("sources", *sorted(_sources(topology, sink.name)))
    return ("state", stateful.name, _mode(sink, stateful))


def _stateful(topology: Topology, sink: Sink) -> Node | None:
    """The stateful step above `sink`, which every row of it must have passed."""
    above = [topology[n] for n in topology.ancestors(sink.name) if topology[n].stateful]
    if not above:
        return None
    if len(above) > 1 or above[0].name not in dominators(topology)[sink.name]:
        names = ", ".join(sorted(n.name for n in above))
        raise TopologyError(
            f"the rows of sink {sink.name!r} pass the stateful steps {names}, or come from elsewhere, in one query",
            remedy="put .shuffle(n, strategy='delta') behind each of those steps: it parts the pipeline into queries",
            step=sink.name,
        )
    node = above[0]
    if _complete(sink) and isinstance(node, WindowAggregate) and isinstance(node.window, SessionWindow):
        raise TopologyError(f"sink {sink.name!r}: sessions merge, so they have no complete mode", remedy="use append")
    return node


def _splittable(topology: Topology, groups: Iterable[list[Sink]]) -> list[list[Sink]]:
    """Groups whose sinks have no common trunk become one query a sink."""
    return [part for group in groups for part in ([group] if _trunk(topology, group) else [[s] for s in group])]


def _plan(topology: Topology, sinks: list[Sink], known: set[str], *, taken: set[str]) -> QueryPlan:
    trunk = _trunk(topology, sinks)
    assert trunk is not None  # noqa: S101  a single sink always has one
    stateful = _stateful(topology, sinks[0])
    used = {s.name for s in sinks}.union(*(topology.ancestors(s.name) for s in sinks))
    sources = tuple(n.name for n in topology.sources if n.name in used)
    mode = _mode(sinks[0], stateful)
    name = (stateful.name if stateful else "_".join(sources)) + ("_complete" if mode == "complete" else "")
    return QueryPlan(
        name=name if name not in taken else f"{name}_{sinks[0].name}",
        nodes=tuple(n.name for n in topology if n.name in used),
        trunk=trunk,
        sinks=tuple(s.name for s in sinks),
        sources=sources,
        owns=tuple(s for s in sources if s not in known),
        again=frozenset(used & known),
        stateful=stateful.name if stateful else None,
        output_mode=mode,
    )


def _mode(sink: Sink, stateful: Node | None) -> OutputMode:
    if _complete(sink):
        return "complete"
    return "update" if isinstance(stateful, WindowAggregate) and stateful.updates else "append"


def _complete(sink: Sink) -> bool:
    return isinstance(sink, DeltaSink) and sink.mode == "complete"


def _sources(topology: Topology, name: str) -> set[str]:
    return {s.name for s in topology.sources} & topology.ancestors(name)


def _trunk(topology: Topology, sinks: list[Sink]) -> str | None:
    """The last node that every row of every sink passes, on one path."""
    passed, apart = dominators(topology), rejoined(topology)
    common = frozenset.intersection(*(passed[sink.name] for sink in sinks)) - apart
    shared = [n.name for n in topology if n.name in common]
    return shared[-1] if shared else None

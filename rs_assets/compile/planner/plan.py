"""Divides a topology into Spark queries."""

from __future__ import annotations

from collections.abc import Iterable

from rs_assets.common.node import Node
from rs_assets.compile.late_sinks import gets_late, with_late
from rs_assets.compile.planner.query_plan import OutputMode, QueryPlan
from rs_assets.connectors.delta.nodes import DeltaSink, DeltaSource
from rs_assets.connectors.files.nodes import FileSource
from rs_assets.connectors.nodes import Sink
from rs_assets.errors import TopologyError
from rs_assets.records.policy import OnFail
from rs_assets.topology.branches import dominators, rejoined
from rs_assets.topology.chain import DURABLE, entries
from rs_assets.topology.nodes.join import StreamJoin
from rs_assets.topology.nodes.process import Process
from rs_assets.topology.nodes.shuffle import ShuffleRead
from rs_assets.topology.nodes.step import Expect
from rs_assets.topology.nodes.table import TableChanges, ToTable
from rs_assets.topology.nodes.timed import TimedState
from rs_assets.topology.nodes.window import WindowAggregate
from rs_assets.topology.topology import Topology
from rs_assets.topology.waiting import awaited_sources, held_sources


def plan_queries(topology: Topology) -> tuple[QueryPlan, ...]:
    """The queries of `topology`: sinks of one stateful step share a query, sinks without state share their reads.

    TopologyError for what Spark cannot do in one query.
    """
    groups: dict[tuple[str, ...], list[Sink]] = {}
    for sink in topology.sinks:
        if not gets_late(sink):
            groups.setdefault(_group(topology, sink), []).append(sink)
    plans: list[QueryPlan] = []
    known: set[str] = set()
    for sinks in _splittable(topology, groups.values()):
        plan = _plan(topology, sinks, known, taken={p.name for p in plans})
        known |= set(plan.nodes)
        plans.append(plan)
    return with_late(topology, plans)


def in_order(topology: Topology, plans: Iterable[QueryPlan]) -> tuple[tuple[QueryPlan, ...], ...]:
    """The queries in groups: each reads only shuffles that queries of earlier groups have written."""
    waiting, groups = list(plans), list[tuple[QueryPlan, ...]]()
    while waiting:
        unwritten = {name for plan in waiting for name in plan.sinks}
        ready = tuple(p for p in waiting if not unwritten & {w for s in p.sources for w in topology[s].follows})
        groups.append(ready)
        waiting = [plan for plan in waiting if plan not in ready]
    return tuple(groups)


def _group(topology: Topology, sink: Sink) -> tuple[str, ...]:
    """The key of a sink's query: sinks with equal keys may share one."""
    states = _states(topology, sink)
    if not states:
        if _complete(sink):
            raise TopologyError(f"sink {sink.name!r} is complete, but no window precedes it", step=sink.name)
        return ("sources", *sorted(_sources(topology, sink.name)))
    return ("state", states[-1], _mode(topology, sink, states))


def _states(topology: Topology, sink: Sink) -> tuple[str, ...]:
    """The stateful steps upstream of `sink`, inputs first; every row of it must have passed the last of them."""
    above = topology.ancestors(sink.name)
    states = tuple(node.name for node in topology if node.stateful and node.name in above)
    if not states:
        return ()
    last = states[-1]
    apart = [name for name in states[:-1] if name not in topology.ancestors(last)]
    if apart or last not in dominators(topology)[sink.name]:
        raise TopologyError(
            f"the rows of sink {sink.name!r} pass the stateful steps {', '.join(states)}, on different paths or not all"
            " of them, in one query",
            remedy=f"put {DURABLE} after each of those steps: it divides the pipeline into queries",
            step=sink.name,
        )
    if _complete(sink):
        _check_complete(topology, sink, states)
    return states


def _check_complete(topology: Topology, sink: Sink, states: tuple[str, ...]) -> None:
    node = topology[states[-1]]
    if not isinstance(node, WindowAggregate):
        raise TopologyError(
            f"sink {sink.name!r} is complete, but {node.name!r} before it is not a window", step=sink.name
        )
    if node.window.merges or node.window.in_order:
        kind = "sessions merge" if node.window.merges else "Spark has no operator for such windows"
        raise TopologyError(f"sink {sink.name!r}: {kind}, so they have no complete mode", remedy="use append")
    if len(states) > 1:
        raise TopologyError(
            f"sink {sink.name!r} is complete, which Spark supports for a single stateful step, not for"
            f" {', '.join(states)}",
            remedy=f"use append or upsert, or put {DURABLE} before {node.name!r}",
            step=sink.name,
        )


def _splittable(topology: Topology, groups: Iterable[list[Sink]]) -> list[list[Sink]]:
    """Groups of sinks, with one group per sink where they share no last streaming step."""
    parts = []
    for group in groups:
        whole = _streaming_output(topology, group, _states(topology, group[0])) is not None
        parts += [group] if whole else [[sink] for sink in group]
    return parts


def _plan(topology: Topology, sinks: list[Sink], known: set[str], *, taken: set[str]) -> QueryPlan:
    states = _states(topology, sinks[0])
    output = _streaming_output(topology, sinks, states)
    assert output is not None  # a single sink always has one
    used = {s.name for s in sinks}.union(*(topology.ancestors(s.name) for s in sinks))
    sources = tuple(n.name for n in topology.sources if n.name in used)
    _check_splits(topology, states, sources)
    for table in map(topology.__getitem__, states):
        if isinstance(table, ToTable) and not table.order_by:
            _check_order(topology, table)
    _check_letters(topology, states, used)
    mode = _mode(topology, sinks[0], states)
    nodes = [node for node in map(topology.__getitem__, states) if isinstance(node, TimedState)]
    name = (states[-1] if states else "_".join(sources)) + ("_complete" if mode == "complete" else "")
    return QueryPlan(
        name=name if name not in taken else f"{name}_{sinks[0].name}",
        nodes=tuple(n.name for n in topology if n.name in used),
        streaming_output=output,
        sinks=tuple(s.name for s in sinks),
        sources=sources,
        counted_sources=tuple(s for s in sources if s not in known),
        shared_nodes=frozenset(used & known),
        states=states,
        watermark_steps=tuple(
            node.name for node in nodes if any(_fresh(topology, each, states) for each in node.inputs)
        ),
        watermark_inputs=tuple(side.gate for node in nodes for side in entries(node, set(states), topology.ancestors)),
        output_mode=mode,
        held=held_sources(topology.nodes, topology.ancestors, used),
        awaited=awaited_sources(topology.nodes, topology.ancestors, used),
    )


def _check_splits(topology: Topology, states: tuple[str, ...], sources: tuple[str, ...]) -> None:
    """Refuse a watermark per split where rows do not carry their split, or where the query has another watermark."""
    nodes = [node for node in map(topology.__getitem__, states) if isinstance(node, TimedState)]
    for node in nodes:
        if node.by_split is None:
            continue
        gates = [side.gate for each in nodes for side in entries(each, set(states), topology.ancestors)]
        if len(gates) > 1:
            raise TopologyError(
                f"step {node.name!r} has a watermark per split, and its query has others: {', '.join(gates)}",
                remedy=f"leave per='split' out, or put {DURABLE} after {node.name!r}",
                step=node.name,
            )
        shuffled = next((name for name in sources if isinstance(topology[name], ShuffleRead)), None)
        if shuffled is not None:
            raise TopologyError(
                f"step {node.name!r} has a watermark per split, but after the durable shuffle {shuffled!r} the split of"
                " a row is unknown",
                remedy="leave per='split' out, or the shuffle",
                step=node.name,
            )
        _check_places(topology, node, sources)


def _check_places(topology: Topology, node: TimedState, sources: tuple[str, ...]) -> None:
    """Refuse lateness by record where records have no order."""
    if node.by_split is None or not node.by_split.by_record:
        return
    read = map(topology.__getitem__, sources)
    unplaced = next(filter(_whole, read), None)
    if unplaced is not None:
        raise TopologyError(
            f"step {node.name!r} decides lateness by record, but {unplaced.name!r} reads whole files in"
            " parts, in no order",
            remedy="follow the files (tail=True), or leave lateness='record' out",
            step=node.name,
        )


def _check_order(topology: Topology, table: ToTable) -> None:
    """Refuse a table without an order of its rows."""
    above = [topology[name] for name in topology.ancestors(table.name)]
    # A retracted row comes before the one in its place.
    if any(isinstance(each, TableChanges) or (isinstance(each, StreamJoin) and each.early) for each in above):
        return
    unplaced = next((each for each in above if isinstance(each, ShuffleRead | Process) or _whole(each)), None)
    if unplaced is not None:
        raise TopologyError(
            f"step {table.name!r} takes the row of a key that was read last, but the rows of {unplaced.name!r} have no"
            " order of reading",
            remedy="name fields that grow: order_by='ts', or follow files (tail=True)",
            step=table.name,
        )


def _check_letters(topology: Topology, states: tuple[str, ...], used: set[str]) -> None:
    """Refuse dead letters of rows between two stateful steps, which cannot be read again."""
    above = set[str]().union(*(topology.ancestors(name) for name in states))
    for node in map(topology.__getitem__, sorted(used & above)):
        between = not topology.ancestors(node.name).isdisjoint(states)
        if isinstance(node, Expect) and node.on_fail is OnFail.DEAD_LETTER and between:
            raise TopologyError(
                f"the expectation {node.name!r} is between two steps with state, where a row has no record of its own",
                remedy=f"use on_fail='skip', 'warn' or 'fail', or put {DURABLE} before it",
                step=node.name,
            )


def _whole(node: Node) -> bool:
    """Whether a source reads tables or whole files in parts, in no order."""
    return isinstance(node, DeltaSource) or (isinstance(node, FileSource) and not node.tail)


def _fresh(topology: Topology, name: str, states: tuple[str, ...]) -> bool:
    """Whether the rows of step `name` have passed none of `states`."""
    return (topology.ancestors(name) | {name}).isdisjoint(states)


def _mode(topology: Topology, sink: Sink, states: tuple[str, ...]) -> OutputMode:
    if _complete(sink):
        return "complete"
    updates = any(isinstance(node, WindowAggregate) and node.updates for node in map(topology.__getitem__, states))
    return "update" if updates else "append"


def _complete(sink: Sink) -> bool:
    return isinstance(sink, DeltaSink) and sink.mode == "complete"


def _sources(topology: Topology, name: str) -> set[str]:
    return {s.name for s in topology.sources} & topology.ancestors(name)


def _streaming_output(topology: Topology, sinks: list[Sink], states: tuple[str, ...]) -> str | None:
    """The last node that every row of every sink passes, on one path, and downstream of all state.

    Branches are computed in one frame only if there is no such node otherwise.
    """
    passed = dominators(topology)
    common = frozenset.intersection(*(passed[sink.name] for sink in sinks))

    def last(apart: frozenset[str]) -> str | None:
        found = next((node.name for node in reversed(topology.nodes) if node.name in common - apart), None)
        return found if found is not None and set(states) <= topology.ancestors(found) | {found} else None

    return last(rejoined(topology)) or last(rejoined(topology, topology.merged))

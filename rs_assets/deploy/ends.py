"""Sources and outputs of a version under other names, which would double rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from rs_assets.checkpoint.manifest import QueryFacts
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.runtime.ends import beside, read_again
from rs_assets.topology.nodes.base import Node
from rs_assets.topology.nodes.sink import DeltaSink, FileSink, MemorySink, PrintSink, WriterSink
from rs_assets.topology.targets import target_of
from rs_assets.topology.topology import Topology


def place_of(end: Node) -> Mapping[str, Any]:
    """What tells one input or output from another, whatever it is called."""
    compared = {each.name for each in fields(end) if each.compare} - {"name", "schema", "inputs"}
    return {"kind": end.kind, **{name: getattr(end, name) for name in sorted(compared)}}


def afresh(plan: QueryPlan) -> str:
    """How a version begins a query from the beginning of its input, as a remedy."""
    step = plan.forgettable[-1]
    return (
        f"begin afresh: `reset` {step} (rs-assets deploy --reset {step}), which replaces the rows of"
        f" {', '.join(plan.sinks)}"
    )


def refuse_renamed(before: Topology, now: Topology) -> None:
    """TopologyChangedError if an output has a new name and the place of one that is gone.

    What outputs remember stands there by their names, so a new generation would add to the rows of the old name.
    """
    here, known = {sink.name for sink in now.sinks}, {sink.name for sink in before.sinks}
    gone = {sink.name: _target(sink) for sink in before.sinks if sink.name not in here}
    for sink in now.sinks:
        former = [name for name, place in gone.items() if place is not None and place == _target(sink)]
        if sink.name not in known and former:
            raise beside(now, sink.name, former[0], remedy=f"call it {former[0]} as before, or write to another place")


def refuse_reread(before: Topology, now: Topology, plan: QueryPlan, known: QueryFacts) -> None:
    """TopologyChangedError if a query would read again what its outputs have; `known` is what stands of it.

    It may have been read as a source that is still there and reads something else by now.
    """
    was = {source.name: place_of(source) for source in before.sources}
    for name in plan.sources:
        moved = name in was and was[name] != place_of(now[name])
        if name in (*known.sources, *known.left) and not moved:
            continue
        former = next(_read_by(before, now, now[name], plan, known), None)
        if former is not None:
            kept = f"let {former} and {name} read what each of them has read before"
            named = "leave the names of tables and the order of statements as they were"
            remedy = f"{kept if moved else named}; or {afresh(plan)}"
            raise read_again(now, plan, name, former, remedy=remedy)


def _read_by(before: Topology, now: Topology, source: Node, plan: QueryPlan, known: QueryFacts) -> Iterator[str]:
    """The sources of `before` that have read the same for the same state or outputs."""
    targets = [target for target in map(_target, map(now.__getitem__, plan.sinks)) if target is not None]
    for other in before.sources:
        fed = (sink for sink in before.sinks if other.name in before.ancestors(sink.name))
        if place_of(other) == place_of(source) and (
            other.name in known.sources or any(_target(sink) in targets for sink in fed)
        ):
            yield other.name


def _target(sink: Node) -> object:
    """Where an output lies, None for one that lies nowhere."""
    if isinstance(sink, DeltaSink | FileSink):
        return target_of(sink)
    return None if isinstance(sink, PrintSink | MemorySink | WriterSink) else place_of(sink)

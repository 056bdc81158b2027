"""Refuses renamed sources and outputs of a version, which would duplicate rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from rs_assets.checkpoint.manifest import QueryFacts
from rs_assets.common.node import Node
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.connectors.console.nodes import PrintSink
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.files.nodes import FileSink
from rs_assets.connectors.memory.nodes import MemorySink
from rs_assets.connectors.own.nodes import WriterSink
from rs_assets.connectors.store.nodes import StoreSink
from rs_assets.runtime.io_compatibility import beside, read_again
from rs_assets.topology.targets import target_of
from rs_assets.topology.topology import Topology


def place_of(end: Node) -> Mapping[str, Any]:
    """The identity of an input or output, without its name."""
    compared = {each.name for each in fields(end) if each.compare} - {"name", "schema", "inputs"}
    return {"kind": end.kind, **{name: getattr(end, name) for name in sorted(compared)}}


def afresh(plan: QueryPlan) -> str:
    """A remedy: how a version starts a query from the beginning of its input."""
    step = plan.forgettable[-1]
    return (
        f"start over: `reset` {step} (rs-assets deploy --reset {step}), which replaces the rows of"
        f" {', '.join(plan.sinks)}"
    )


def refuse_renamed(before: Topology, now: Topology) -> None:
    """TopologyChangedError if a new output writes to the location of a removed one.

    Outputs store their progress by output name, so a renamed output would write the old rows a second time.
    """
    here, known = {sink.name for sink in now.sinks}, {sink.name for sink in before.sinks}
    gone = {sink.name: _target(sink) for sink in before.sinks if sink.name not in here}
    for sink in now.sinks:
        former = [name for name, place in gone.items() if place is not None and place == _target(sink)]
        if sink.name not in known and former:
            raise beside(
                now, sink.name, former[0], remedy=f"name it {former[0]} as before, or write to another location"
            )


def refuse_reread(before: Topology, now: Topology, plan: QueryPlan, known: QueryFacts) -> None:
    """TopologyChangedError if a query would re-read rows that its outputs already have; `known` is its stored state.

    The input may have been read by a source that still exists and now reads something else.
    """
    was = {source.name: place_of(source) for source in before.sources}
    for name in plan.sources:
        moved = name in was and was[name] != place_of(now[name])
        if name in (*known.sources, *known.left) and not moved:
            continue
        former = next(_read_by(before, now, now[name], plan, known), None)
        if former is not None:
            kept = f"let {former} and {name} each read the same input as before"
            named = "keep the names of tables and the order of statements"
            remedy = f"{kept if moved else named}; or {afresh(plan)}"
            raise read_again(now, plan, name, former, remedy=remedy)


def _read_by(before: Topology, now: Topology, source: Node, plan: QueryPlan, known: QueryFacts) -> Iterator[str]:
    """The sources of `before` that have read the same input for the same state or outputs."""
    targets = [target for target in map(_target, map(now.__getitem__, plan.sinks)) if target is not None]
    for other in before.sources:
        fed = (sink for sink in before.sinks if other.name in before.ancestors(sink.name))
        if place_of(other) == place_of(source) and (
            other.name in known.sources or any(_target(sink) in targets for sink in fed)
        ):
            yield other.name


def _target(sink: Node) -> object:
    """Where an output writes, None for an output without a location."""
    if isinstance(sink, DeltaSink | FileSink | StoreSink):
        return target_of(sink)
    return None if isinstance(sink, PrintSink | MemorySink | WriterSink) else place_of(sink)

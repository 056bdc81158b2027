"""Which dead letters can be redriven: steps that refuse a record as a whole, and outputs that take its rows once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from rs_assets.common.node import Node
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.nodes import Sink, Source
from rs_assets.errors import TopologyError
from rs_assets.topology.branches import paths_from
from rs_assets.topology.nodes.step import (
    Expect,
    Filter,
    ForEach,
    Map,
    MapBatches,
    Select,
    SelectFields,
    Split,
    Union,
    WithFields,
)
from rs_assets.topology.topology import Topology
from rs_assets.topology.user_code.expression import SqlText

# Steps that make at most one row of a row.
GENERATORS: Final = re.compile(r"\b(?:pos)?explode|\binline|\bstack\b|\bjson_tuple\b", re.IGNORECASE)
ONE_ROW: Final = (Source, Map, MapBatches, Filter, Expect, ForEach, SelectFields, WithFields, Union, Split, Select)

EXPORT: Final = "correct their records, and let a source read them: rs-assets dead-letters NAME --export FILE"


def output_of(topology: Topology, source: str) -> DeltaSink:
    """The output that gets the rows of `source`; TopologyError if rows cannot be added to it once."""
    sinks = [sink for sink in topology.sinks if source in topology.ancestors(sink.name)]
    if len(sinks) != 1:
        raise TopologyError(
            f"rows of {source!r} go to several outputs: {', '.join(sink.name for sink in sinks)}",
            remedy=EXPORT,
            step=source,
        )
    (sink,) = sinks
    above = topology.ancestors(sink.name)
    _refuse_state(sink, next((node for node in topology if node.stateful and node.name in above), None))
    if isinstance(sink, DeltaSink) and sink.mode == "append":
        return sink
    kept = "its rows replace each other, so an old record might replace a newer one"
    raise TopologyError(
        f"rows of dead letters cannot be added to {sink.name!r}: "
        + (kept if isinstance(sink, DeltaSink) else "only a Delta table takes them once"),
        remedy=EXPORT,
        step=sink.name,
    )


def _refuse_state(sink: Sink, state: Node | None) -> None:
    """TopologyError for an output after a step with state, and for one that is computed again by partitions."""
    parted = isinstance(sink, DeltaSink) and sink.partitions is not None
    if state is None and not parted:
        return
    by_state = f"they would pass step {state.name!r}, whose state has gone on" if state is not None else ""
    raise TopologyError(
        f"rows of dead letters cannot be added to {sink.name!r}: "
        + (by_state or "its partitions by event time are computed again as a whole"),
        remedy="compute its closed partitions again, which takes the records: rs-assets backfill"
        if parted
        else "begin a new generation, which reads all input again: --new-generation",
        step=sink.name,
    )


def refusing_whole(topology: Topology) -> tuple[str, ...]:
    """The steps that get a record as at most one row, and that each way of it to an output passes."""
    return tuple(node.name for node in topology if not node.stateful and _whole(topology, node))


def _whole(topology: Topology, step: Node) -> bool:
    if isinstance(step, Source):
        return True
    above = [topology[name] for name in sorted(topology.ancestors(step.name))]
    sources = [node for node in above if isinstance(node, Source)]
    once = all(paths_from(topology, source.name)[step.name] == 1 for source in sources)
    ways = any(_passes_by(topology, source.name, step.name) for source in sources)
    return once and not ways and all(map(_makes_one_row, above))


def _makes_one_row(node: Node) -> bool:
    """Whether a step makes at most one row of a row; Spark's generators make several, where one may be."""
    columns: Iterable[object] = node.select if isinstance(node, Map) else ()
    columns = [each for _, each in node.columns] if isinstance(node, WithFields) else columns
    return isinstance(node, ONE_ROW) and all(
        isinstance(each, SqlText) and not GENERATORS.search(each.text) for each in columns
    )


def _passes_by(nodes: Iterable[Node], source: str, step: str) -> bool:
    """Whether rows of `source` reach an output without `step`."""
    reached = {source}
    nodes = tuple(nodes)
    for node in nodes:
        if node.name != step and not reached.isdisjoint(node.inputs):
            reached.add(node.name)
    read = {name for node in nodes for name in node.inputs}
    return any(name not in read for name in reached)

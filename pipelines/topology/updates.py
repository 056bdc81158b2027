"""What may stand behind a window that emits its row on each update."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pipelines.topology.base import Node
from pipelines.topology.shuffle import Shuffle, ShuffleWrite
from pipelines.topology.sink import DeltaSink
from pipelines.topology.step import Filter, ForEach, Select, SelectFields, Split
from pipelines.topology.window import WindowAggregate
from resources.errors import TopologyError

if TYPE_CHECKING:
    from pipelines.topology.topology import Topology

# Steps behind which a column is what it was before them.
PASSING = (Filter, ForEach, Select, SelectFields, Shuffle, Split)
# Either tells the windows of one size apart.
PLACES = frozenset({"start_time", "end_time"})


def check_updates(topology: Topology) -> None:
    """TopologyError names the first step that would take the updates of one window for rows of several."""
    for window in topology:
        if isinstance(window, WindowAggregate) and window.updates:
            for node in _behind(topology, window):
                _check(topology, window, node)


def _behind(topology: Topology, window: WindowAggregate) -> Iterator[Node]:
    return (node for node in topology if window.name in topology.ancestors(node.name))


def _check(topology: Topology, window: WindowAggregate, node: Node) -> None:
    if node.stateful or isinstance(node, ShuffleWrite):
        raise TopologyError(
            f"step {node.name!r} would take each update of window {window.name!r} for a row of its own",
            remedy="leave emit='on_window_update' out, or put a sink behind that window only",
            step=node.name,
        )
    if isinstance(node, DeltaSink) and node.mode == "upsert" and _untouched(topology, window, node):
        _check_keys(window, node)


def _untouched(topology: Topology, window: WindowAggregate, node: Node) -> bool:
    """Whether the columns of `node` are those of `window`: a step that computes others may make keys of any kind."""
    between = topology.ancestors(node.name) - topology.ancestors(window.name) - {window.name}
    return all(isinstance(topology[name], PASSING) for name in between)


def _check_keys(window: WindowAggregate, sink: DeltaSink) -> None:
    keys = set(sink.keys)
    changing = keys & {"fire_time", *(a.alias for a in window.aggregates)}
    if changing or not keys >= set(window.group_by) or not keys & PLACES:
        wanted = ", ".join(repr(name) for name in (*window.group_by, "start_time"))
        raise TopologyError(
            f"step {sink.name!r}: the keys {', '.join(sink.keys)} do not tell the windows of {window.name!r} apart,"
            " or change with each update",
            remedy=f"keys=[{wanted}]",
            step=sink.name,
        )

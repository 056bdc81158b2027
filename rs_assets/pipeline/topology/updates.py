"""What may stand behind a window that emits its row on each update."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet

from rs_assets.errors import TopologyError
from rs_assets.pipeline.topology.base import Node
from rs_assets.pipeline.topology.shuffle import Shuffle, ShuffleWrite
from rs_assets.pipeline.topology.sink import DeltaSink
from rs_assets.pipeline.topology.step import Filter, ForEach, Select, SelectFields, Split
from rs_assets.pipeline.topology.window import WindowAggregate

# Steps behind which a column is what it was before them.
PASSING = (Filter, ForEach, Select, SelectFields, Shuffle, Split)
# Either tells the windows of one size apart.
PLACES = frozenset({"start_time", "end_time"})


Ancestors = Callable[[str], AbstractSet[str]]


def check_updates(nodes: Iterable[Node], ancestors: Ancestors) -> None:
    """TopologyError names the first step that would take the updates of one window for rows of several.

    `nodes` are those of a topology in its order, `ancestors` gives the names of all that stand before a step.
    """
    known = {node.name: node for node in nodes}
    for window in known.values():
        if isinstance(window, WindowAggregate) and window.updates:
            for node in known.values():
                if window.name in ancestors(node.name):
                    between = ancestors(node.name) - ancestors(window.name) - {window.name}
                    _check(window, node, between=[known[name] for name in between])


def _check(window: WindowAggregate, node: Node, *, between: Iterable[Node]) -> None:
    if node.stateful or isinstance(node, ShuffleWrite):
        raise TopologyError(
            f"step {node.name!r} would take each update of window {window.name!r} for a row of its own",
            remedy="leave emit='on_window_update' out, or put a sink behind that window only",
            step=node.name,
        )
    # A step between them that computes other columns may make keys of any kind.
    if isinstance(node, DeltaSink) and node.mode == "upsert" and all(isinstance(step, PASSING) for step in between):
        _check_keys(window, node)


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

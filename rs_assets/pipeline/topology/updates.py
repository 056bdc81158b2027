"""What may stand behind a step that gives a row more than once, or takes one back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet

from rs_assets.errors import TopologyError
from rs_assets.pipeline.topology.base import Node
from rs_assets.pipeline.topology.fold import Fold
from rs_assets.pipeline.topology.join import StreamJoin
from rs_assets.pipeline.topology.shuffle import Shuffle, ShuffleWrite
from rs_assets.pipeline.topology.sink import DeltaSink
from rs_assets.pipeline.topology.step import Filter, ForEach, Select, SelectFields, Split
from rs_assets.pipeline.topology.window import WindowAggregate

# Steps behind which a column is what it was before them.
PASSING = (Filter, Fold, ForEach, Select, SelectFields, Shuffle, Split)
# Either tells the windows of one size apart.
PLACES = frozenset({"start_time", "end_time"})


Ancestors = Callable[[str], AbstractSet[str]]


def check_updates(nodes: Iterable[Node], ancestors: Ancestors) -> None:
    """TopologyError names the first step that would take the updates of one window for rows of several.

    `nodes` are those of a topology in its order, `ancestors` gives the names of all that stand before a step.
    """
    known = {node.name: node for node in nodes}
    for join in known.values():
        if isinstance(join, StreamJoin) and join.early:
            for node in known.values():
                if join.name in ancestors(node.name):
                    _check_early(join, node)
    for window in known.values():
        if isinstance(window, WindowAggregate) and window.often:
            for node in known.values():
                if window.name in ancestors(node.name):
                    between = ancestors(node.name) - ancestors(window.name) - {window.name}
                    _check(window, node, between=[known[name] for name in between])


def _check(window: WindowAggregate, node: Node, *, between: Iterable[Node]) -> None:
    if window.repeats and (node.stateful or isinstance(node, ShuffleWrite)):
        raise TopologyError(
            f"step {node.name!r} would take each update of window {window.name!r} for a row of its own",
            remedy="let that window fire once, when it closes, or put a sink behind it only",
            step=node.name,
        )
    # A step between them that computes other columns may make keys of any kind.
    if isinstance(node, DeltaSink) and node.mode == "upsert":
        if all(isinstance(step, PASSING) for step in between):
            _check_keys(window, node)
        _check_retractions(window, node)


def _check_early(join: StreamJoin, node: Node) -> None:
    """TopologyError for a step that would keep a row which the join takes back."""
    if node.stateful or isinstance(node, ShuffleWrite):
        raise TopologyError(
            f"step {node.name!r} would take rows that the join {join.name!r} takes back for rows of their own",
            remedy="leave early= out, or put a sink behind that join only",
            step=node.name,
        )
    if isinstance(node, DeltaSink) and node.mode == "upsert" and node.deletes is None:
        raise TopologyError(
            f"step {node.name!r} would keep rows that the join {join.name!r} takes back",
            remedy="deletes='retracted', a field that the steps between them must hand on",
            step=node.name,
        )


def _check_keys(window: WindowAggregate, sink: DeltaSink) -> None:
    keys, part = set(sink.keys), () if window.repeats else ("fire_time",)
    changing = keys & ({"fire_time", "final", "retracted", *window.values} - {*part})
    if changing or not keys >= {*window.row_keys, *part} or not keys & PLACES:
        wanted = ", ".join(repr(name) for name in (*window.row_keys, "start_time", *part))
        raise TopologyError(
            f"step {sink.name!r}: the keys {', '.join(sink.keys)} do not tell the windows of {window.name!r} apart,"
            " or change with each update",
            remedy=f"keys=[{wanted}]",
            step=sink.name,
        )


def _check_retractions(window: WindowAggregate, sink: DeltaSink) -> None:
    if window.retracts and sink.deletes is None:
        raise TopologyError(
            f"step {sink.name!r} would keep rows that sessions of {window.name!r} take back",
            remedy="deletes='retracted', a field that the steps between them must hand on",
            step=sink.name,
        )

"""Checks which steps may follow a step that updates or retracts its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet

from rs_assets.common.node import Node
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.errors import TopologyError
from rs_assets.operators.join.spec import OF_BOTH
from rs_assets.operators.window.spec import HoppingWindow
from rs_assets.topology.nodes.fold import Fold
from rs_assets.topology.nodes.join import StreamJoin
from rs_assets.topology.nodes.shuffle import Shuffle, ShuffleWrite
from rs_assets.topology.nodes.step import Filter, ForEach, Select, SelectFields, Split
from rs_assets.topology.nodes.window import PLACES, WindowAggregate

# Steps that pass a column on unchanged.
PASSING = (Filter, Fold, ForEach, Select, SelectFields, Shuffle, Split)

Ancestors = Callable[[str], AbstractSet[str]]


def check_updates(nodes: Iterable[Node], ancestors: Ancestors) -> None:
    """TopologyError names the first step that would count the updates of one window as rows of several.

    `nodes` are those of a topology in its order, `ancestors` gives the names of all steps upstream of a step.
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
            f"step {node.name!r} would count each update of window {window.name!r} as a new row",
            remedy="let that window fire once, when it closes, or let only a sink follow it",
            step=node.name,
        )
    # A step between them that computes other columns may make keys of any kind.
    if isinstance(node, DeltaSink) and node.mode == "upsert":
        if all(isinstance(step, PASSING) for step in between):
            _check_keys(window, node)
        _check_retractions(window, node)


def _check_early(join: StreamJoin, node: Node) -> None:
    """TopologyError for a step that would keep a row which the join retracts."""
    if node.stateful or isinstance(node, ShuffleWrite):
        raise TopologyError(
            f"step {node.name!r} would count rows that the join {join.name!r} retracts as new rows",
            remedy="leave early= out, or let only a sink follow that join",
            step=node.name,
        )
    if isinstance(node, DeltaSink) and node.mode == "upsert" and node.deletes is None:
        raise TopologyError(
            f"step {node.name!r} would keep rows that the join {join.name!r} retracts",
            remedy="deletes='retracted', a field that the steps between them must pass on",
            step=node.name,
        )
    if isinstance(node, DeltaSink) and node.mode == "upsert":
        _check_early_upsert(join, node)


def _check_early_upsert(join: StreamJoin, sink: DeltaSink) -> None:
    """TopologyError for a table in which the retraction of a row would delete another row.

    A row of a hopping window is retracted in one window and stays unmatched in the next. Without a prefix a pair has
    the times of the right side, so in an order by them it may sort before the row that it replaces.
    """
    if isinstance(join.place, HoppingWindow) and not PLACES & {*sink.keys}:
        raise TopologyError(
            f"step {sink.name!r}: the keys {', '.join(sink.keys)} do not distinguish"
            f" the windows of the join {join.name!r}",
            remedy=f"keys=[{', '.join(map(repr, (*sink.keys, 'start_time')))}]",
            step=sink.name,
        )
    if sink.order_by and join.prefix is None and join.how in OF_BOTH:
        raise TopologyError(
            f"step {sink.name!r} orders by {', '.join(sink.order_by)}, in which a pair of the join {join.name!r}"
            " may sort before the row that it replaces",
            remedy="leave order_by= out, or give that join a prefix, so that it keeps the fields of both sides",
            step=sink.name,
        )


def _check_keys(window: WindowAggregate, sink: DeltaSink) -> None:
    keys, part = set(sink.keys), () if window.repeats else ("fire_time",)
    changing = keys & ({"fire_time", "final", "retracted", *window.values} - {*part})
    if changing or not keys >= {*window.row_keys, *part} or (window.places and not keys & window.places):
        place = [max(window.places)] if window.places else []
        wanted = ", ".join(repr(name) for name in (*window.row_keys, *place, *part))
        raise TopologyError(
            f"step {sink.name!r}: the keys {', '.join(sink.keys)} do not distinguish the windows of {window.name!r},"
            " or change with each update",
            remedy=f"keys=[{wanted}]",
            step=sink.name,
        )


def _check_retractions(window: WindowAggregate, sink: DeltaSink) -> None:
    if window.retracts and sink.deletes is None:
        raise TopologyError(
            f"step {sink.name!r} would keep rows that the window {window.name!r} retracts",
            remedy="deletes='retracted', a field that the steps between them must pass on",
            step=sink.name,
        )

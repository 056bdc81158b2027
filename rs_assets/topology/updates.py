"""Checks which steps may follow a step that updates or retracts its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet

from rs_assets.common.node import Node
from rs_assets.connectors.database.nodes import DatabaseSink
from rs_assets.connectors.delta.nodes import KEYED, DeltaSink
from rs_assets.connectors.redis.nodes import RedisSink
from rs_assets.connectors.search.nodes import SearchSink
from rs_assets.connectors.store.nodes import StoreSink
from rs_assets.errors import TopologyError
from rs_assets.operators.join.spec import OF_BOTH
from rs_assets.topology.nodes.dim_join import DimJoin
from rs_assets.topology.nodes.fold import Fold
from rs_assets.topology.nodes.join import StreamJoin
from rs_assets.topology.nodes.shuffle import Shuffle, ShuffleWrite
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
from rs_assets.topology.nodes.table import TableChanges, TableState, ToTable
from rs_assets.topology.nodes.window import WindowAggregate
from rs_assets.topology.user_code.expression import chance_in, clock_in

# Steps that pass a column on unchanged.
PASSING = (Expect, Filter, Fold, ForEach, Select, SelectFields, Shuffle, Split)
# Steps that let each row pass, however they compute its fields.
KEEPING = (ForEach, Map, MapBatches, SelectFields, Shuffle, TableChanges, Union, WithFields)
# Sinks that may replace rows by key.
Upserting = DeltaSink | DatabaseSink | RedisSink | SearchSink | StoreSink
UPSERTS = (DeltaSink, DatabaseSink, RedisSink, SearchSink, StoreSink)

Ancestors = Callable[[str], AbstractSet[str]]


def check_updates(nodes: Iterable[Node], ancestors: Ancestors) -> None:
    """TopologyError names the first step that would count the updates of one window as rows of several.

    `nodes` are those of a topology in its order, `ancestors` gives the names of all steps upstream of a step.
    """
    known = {node.name: node for node in nodes}
    for first in known.values():
        check = _check_of(first)
        if check is not None:
            for node in _reached(first, known.values()):
                names = ancestors(node.name) - ancestors(first.name) - {first.name}
                between = [each for each in known.values() if each.name in names]
                check(node, between)
                if _removes(node):
                    _check_deciding(first, node, between)


def deciding(path: Iterable[Node]) -> list[Node]:
    """Of the steps of a path, in their order, those up to the last that may leave out a row."""
    steps = list(path)
    while steps and not leaves_out(steps[-1]):
        steps.pop()
    return steps


def leaves_out(step: Node) -> bool:
    """Whether a step may leave out a row."""
    return not isinstance(step, KEEPING) and not (isinstance(step, DimJoin) and step.how == "left")


def retracts(node: Node) -> bool:
    """Whether a row of `node` may be retracted, by a row with the same fields."""
    if isinstance(node, WindowAggregate):
        return node.retracts
    return isinstance(node, TableState) or (isinstance(node, StreamJoin) and node.early)


def _reached(first: Node, nodes: Iterable[Node]) -> Iterator[Node]:
    """The steps that rows of `first` come to, in their order; a table takes retractions out of its rows."""
    carrying = {first.name}
    for node in nodes:
        if not carrying.isdisjoint(node.inputs):
            yield node
            if not (isinstance(first, TableChanges | StreamJoin) and _takes_retractions(node)):
                carrying.add(node.name)


def _takes_retractions(node: Node) -> bool:
    """Whether it is a table of which retracted rows are removed."""
    return isinstance(node, ToTable) and node.deletes is not None and node.deletes.identity().strip("`") == "retracted"


def _removes(node: Node) -> bool:
    """Whether a retracted row removes one there."""
    return _takes_retractions(node) or (isinstance(node, UPSERTS) and node.deletes is not None)


def _check_deciding(first: Node, last: Node, between: Iterable[Node]) -> None:
    """TopologyError for a step by which a row may pass when it comes, and not when it goes: it would stay in `last`."""
    if isinstance(first, WindowAggregate) and not first.retracts:
        return
    for step in deciding(between):
        found = clock_in(step) or chance_in(step)
        if found is None and not isinstance(step, DimJoin):
            continue
        made = first.inputs[0] if isinstance(first, TableChanges) else first.name
        what = f"calls {found}" if found is not None else "looks up a dimension"
        other = "" if found is not None else ", or take dim_left_join without a filter after it"
        raise TopologyError(
            f"step {step.name!r} {what}, whose result may differ when a row of {made!r} goes: {last.name!r} would keep"
            " that row",
            remedy=f"put {step.name!r} before {made!r}{other}",
            step=step.name,
        )


def _check_of(node: Node) -> Callable[[Node, Iterable[Node]], None] | None:
    """The check of a step downstream of `node`, and of those between; None if `node` only adds rows."""
    if isinstance(node, TableChanges):
        return lambda each, _: _check_changes(node, each)
    if isinstance(node, StreamJoin) and node.early:
        return lambda each, _: _check_early(node, each)
    if isinstance(node, WindowAggregate) and node.often:
        return lambda each, between: _check(node, each, between=between)
    return None


def _check(window: WindowAggregate, node: Node, *, between: Iterable[Node]) -> None:
    if window.repeats and (node.stateful or isinstance(node, ShuffleWrite)):
        raise TopologyError(
            f"step {node.name!r} would count each update of window {window.name!r} as a new row",
            remedy="let that window fire once, when it closes, or let only a sink follow it",
            step=node.name,
        )
    # A step between them that computes other columns may make keys of any kind.
    if isinstance(node, UPSERTS) and node.mode in KEYED:
        if all(isinstance(step, PASSING) for step in between):
            _check_keys(window, node)
        _check_retractions(window, node)
        _check_order(window, node, between)


def _check_changes(changes: TableChanges, node: Node) -> None:
    """TopologyError for a step that would count a row that goes as a new one."""
    if _takes_retractions(node):
        return
    if node.stateful or isinstance(node, ShuffleWrite):
        raise TopologyError(
            f"step {node.name!r} would count retractions of the table of {changes.name!r} as new rows",
            remedy="use the methods of the table, or .to_table(..., deletes='retracted') after .to_stream()",
            step=node.name,
        )
    if isinstance(node, UPSERTS) and node.mode in KEYED and node.deletes is None:
        raise TopologyError(
            f"step {node.name!r} would keep rows that the table of {changes.name!r} retracts",
            remedy="write the table itself, .to_delta(...) without .to_stream(), or name deletes='retracted'",
            step=node.name,
        )


def _check_early(join: StreamJoin, node: Node) -> None:
    """TopologyError for a step that would keep a row which the join retracts."""
    if isinstance(node, ToTable) and _takes_retractions(node):
        _check_early_upsert(join, node)
        return
    if node.stateful or isinstance(node, ShuffleWrite):
        raise TopologyError(
            f"step {node.name!r} would count rows that the join {join.name!r} retracts as new rows",
            remedy="leave early= out, or make a table of that join: .to_table('id', deletes='retracted')",
            step=node.name,
        )
    if isinstance(node, UPSERTS) and node.mode in KEYED and node.deletes is None:
        raise TopologyError(
            f"step {node.name!r} would keep rows that the join {join.name!r} retracts",
            remedy="deletes='retracted', a field that the steps between them must pass on",
            step=node.name,
        )
    if isinstance(node, UPSERTS) and node.mode in KEYED:
        _check_early_upsert(join, node)


def _check_early_upsert(join: StreamJoin, sink: Upserting | ToTable) -> None:
    """TopologyError for a table in which the retraction of a row would delete another row.

    A row of a hopping window is retracted in one window and stays unmatched in the next. Without a prefix a pair has
    the times of the right side, so in an order by them it may sort before the row that it replaces.
    """
    if join.place is not None and join.place.overlap and not join.place.places & {*sink.keys}:
        raise TopologyError(
            f"step {sink.name!r}: the keys {', '.join(sink.keys)} do not distinguish"
            f" the windows of the join {join.name!r}",
            remedy=f"name these keys: {', '.join(map(repr, (*sink.keys, 'start_time')))}",
            step=sink.name,
        )
    if sink.order_by and join.prefix is None and join.how in OF_BOTH:
        raise TopologyError(
            f"step {sink.name!r} orders by {', '.join(sink.order_by)}, in which a pair of the join {join.name!r}"
            " may sort before the row that it replaces",
            remedy="leave order_by= out, or give that join a prefix, so that it keeps the fields of both sides",
            step=sink.name,
        )


def _check_keys(window: WindowAggregate, sink: Upserting) -> None:
    keys, part = set(sink.keys), () if window.repeats else ("fire_time",)
    changing = keys & ({"fire_time", "final", "retracted", *window.values} - {*part})
    # Of a session whose end moves within a batch each record would leave a row.
    ends = window.emit == "on_record" and window.retracts and "start_time" not in keys
    unlike = window.places and (ends or not keys & window.places)
    if changing or not keys >= {*window.row_keys, *part} or unlike:
        place = [max(window.places)] if window.places else []
        wanted = ", ".join(repr(name) for name in (*window.row_keys, *place, *part))
        raise TopologyError(
            f"step {sink.name!r}: the keys {', '.join(sink.keys)} do not distinguish the windows of {window.name!r},"
            " or change with each update",
            remedy=f"keys=[{wanted}]",
            step=sink.name,
        )


def _check_retractions(window: WindowAggregate, sink: Upserting) -> None:
    if window.retracts and sink.deletes is None:
        raise TopologyError(
            f"step {sink.name!r} would keep rows that the window {window.name!r} retracts",
            remedy="deletes='retracted', a field that the steps between them must pass on",
            step=sink.name,
        )


def _check_order(window: WindowAggregate, sink: Upserting, between: Iterable[Node]) -> None:
    """TopologyError for a shuffle of several rows of one window, of which the last one has to stay."""
    mixing = next((step for step in between if isinstance(step, Shuffle)), None)
    if window.emit == "on_record" and mixing is not None:
        raise TopologyError(
            f"step {mixing.name!r} loses the order of the rows that each record of the window {window.name!r} makes, so"
            f" {sink.name!r} could keep an earlier one",
            remedy="put the shuffle before that window, leave it out, or let the window have emit='on_window_update'",
            step=mixing.name,
        )

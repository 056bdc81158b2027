"""When the partitions of an output close: by the watermark of its query, or by the times in its table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from rs_assets.common.node import Node
from rs_assets.connectors.delta.files.event_partitions import EventTimePartitions
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.errors import TopologyError
from rs_assets.operators.window.durations import EPOCH
from rs_assets.topology.chain import Ancestors, Link, link_of, nearest_states
from rs_assets.topology.nodes.timed import NONE, Arrival, TimedState


@dataclass(frozen=True, slots=True)
class Closing:
    """How partitions of one output close.

    `arrivals`: until which watermark rows of a time may come, on each path to the sink. `held`: how far the watermark
    that reaches the sink lags that of the query. Without `arrivals` no step upstream has event time.
    """

    arrivals: tuple[Arrival, ...]
    held: timedelta = NONE
    settle: timedelta = NONE

    @property
    def by_watermark(self) -> bool:
        """Whether the watermark of the query closes partitions; else the greatest time in the table."""
        return bool(self.arrivals)

    def closes(self, end: datetime) -> datetime:
        """The watermark of the query, or the time in the table, from which on no row before `end` comes any more."""
        latest = [_last(end, each.grid) + each.bound for each in self.arrivals] or [end]
        return max(latest) + self.held + self.settle


def closings_of(nodes: Iterable[Node], ancestors: Ancestors, links: Mapping[str, Link]) -> Mapping[str, Closing]:
    """How the partitions of each output that has some close; TopologyError if they would never close."""
    known = {node.name: node for node in nodes}
    sinks = (node for node in known.values() if isinstance(node, DeltaSink))
    return {
        sink.name: _closing(sink, sink.partitions, known, ancestors, links)
        for sink in sinks
        if sink.partitions is not None
    }


def _closing(
    sink: DeltaSink,
    partitions: EventTimePartitions,
    known: Mapping[str, Node],
    ancestors: Ancestors,
    links: Mapping[str, Link],
) -> Closing:
    settle = partitions.settle or NONE
    above = [known[name] for name in ancestors(sink.name)]
    if not any(node.stateful for node in above):
        if partitions.settle is None:
            raise TopologyError(
                f"step {sink.name!r}: no step before it has event time, so its partitions need a time to settle",
                remedy="settle=Time.minutes(10): a partition closes when the table has a row that much later",
                step=sink.name,
            )
        return Closing((), settle=settle)
    for node in above:
        if isinstance(node, TimedState) and (node.untimed or node.endless):
            raise _never(sink, node, partitions.field)
    arrivals, held = [], [NONE]
    for state in nearest_states(sink, partitions.field, known, ancestors):
        link = link_of(links, state)
        arrivals.append(_arrival(sink, state, partitions.field, link.lag))
        held.append(link.held + state.holds)
    return Closing(tuple(arrivals), max(held), settle)


def _arrival(sink: DeltaSink, state: TimedState, field: str, lag: timedelta) -> Arrival:
    leaves = state.leaving(field, lag)
    if leaves is None:
        raise _never(sink, state, field)
    return leaves


def _never(sink: DeltaSink, state: TimedState, field: str) -> TopologyError:
    return TopologyError(
        f"step {sink.name!r}: no watermark says when {state.name!r} has emitted all rows with a {field!r}, so"
        " partitions by it would never close",
        remedy="use an event time of its rows: of a window 'start_time' or 'end_time', of a session 'end_time' (if"
        " it fires once), of a join a time that all its rows have; or partition_by=",
        step=sink.name,
    )


def _last(end: datetime, grid: timedelta | None) -> datetime:
    """The last time before `end`, or just that if any time is possible: starts of windows are multiples of `grid`."""
    if grid is None:
        return end
    return end - ((end - EPOCH) % grid or grid)

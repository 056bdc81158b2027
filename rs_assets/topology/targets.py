"""Where sinks write to: two of one pipeline may share a place only if neither takes the other's rows away."""

from __future__ import annotations

from collections.abc import Iterable

from rs_assets.errors import TopologyError
from rs_assets.topology.location import real_place, written_place
from rs_assets.topology.nodes.sink import DeltaSink, FileSink, Sink


def check_targets(sinks: Iterable[Sink]) -> None:
    """TopologyError names two sinks that would write to one folder, or to one table in ways that do not go together.

    Tables take appends of several sinks, late rows of several steps, and upserts by equal keys.
    """
    first: dict[str, Sink] = {}
    for sink in sinks:
        place = target_of(sink)
        if place is None:
            continue
        other = first.setdefault(real_place(place), sink)
        if other is not sink and (_way(other) is None or _way(other) != _way(sink)):
            raise TopologyError(
                f"sinks {other.name!r} and {sink.name!r} write to one place, {place}, and would undo each other's rows",
                remedy="give each a place of its own; a table takes several sinks that append, or upsert by equal keys",
                step=sink.name,
            )


def target_of(sink: Sink) -> str | None:
    """The folder of a sink, None for sinks without one; a table that is only named lies below RS_HOME."""
    if isinstance(sink, FileSink):
        return written_place(sink.path)
    if isinstance(sink, DeltaSink):
        return written_place(sink.table)
    return None


def _way(sink: Sink) -> tuple[object, ...] | None:
    """How a sink writes, as far as two that share a place must agree; None if it shares with nobody."""
    if not isinstance(sink, DeltaSink) or sink.mode == "complete":
        return None
    return sink.mode, frozenset(sink.keys), sink.deletes, sink.late

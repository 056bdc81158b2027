"""Where sinks write: two sinks of a pipeline may share a target only if neither removes the other's rows."""

from __future__ import annotations

from collections.abc import Iterable

from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.files.nodes import FileSink
from rs_assets.connectors.location import real_place, written_place
from rs_assets.connectors.nodes import Sink
from rs_assets.connectors.search.nodes import SearchSink
from rs_assets.connectors.store.nodes import StoreSink
from rs_assets.errors import TopologyError


def check_targets(sinks: Iterable[Sink]) -> None:
    """TopologyError names two sinks that would write to one folder, or to one table in incompatible ways.

    Tables take appends of several sinks, late rows of several steps, and upserts by equal keys. Those with partitions
    by event time take a single sink.
    """
    first: dict[str, Sink] = {}
    for sink in sinks:
        place = place_of(sink)
        if place is None:
            continue
        other = first.setdefault(place, sink)
        if other is not sink and (_parted(other) or _parted(sink)):
            raise TopologyError(
                f"sinks {other.name!r} and {sink.name!r} share the target {place}, whose partitions by event time close"
                " by the rows of a single sink",
                remedy="give each its own target",
                step=sink.name,
            )
        if other is not sink and (_way(other) is None or _way(other) != _way(sink)):
            raise TopologyError(
                f"sinks {other.name!r} and {sink.name!r} share the target {place}, and would undo each other's rows",
                remedy="give each its own target; a table takes several sinks that append, or upsert by equal keys",
                step=sink.name,
            )


def target_of(sink: Sink) -> str | None:
    """The folder or table of a sink, None for other sinks; a table given by name lies below RS_HOME."""
    if isinstance(sink, FileSink):
        return written_place(sink.path)
    if isinstance(sink, DeltaSink):
        return written_place(sink.table)
    if isinstance(sink, StoreSink):
        return f"store:{sink.store}"
    if isinstance(sink, SearchSink) and sink.mode == "upsert" and sink.version is None:
        # Versions by batch are those of one sink.
        return f"search:{sink.place}"
    return None


def place_of(sink: Sink) -> str | None:
    """The same with links resolved; a folder of files whose name has no slash lies in the project, as all others do."""
    target = target_of(sink)
    if target is None:
        return None
    return real_place(f"./{target}" if isinstance(sink, FileSink) and "/" not in target else target)


def _parted(sink: Sink) -> bool:
    return isinstance(sink, DeltaSink) and sink.partitions is not None


def _way(sink: Sink) -> tuple[object, ...] | None:
    """The settings in which sinks that share a target must agree; None if the sink cannot share one."""
    if not isinstance(sink, DeltaSink) or sink.mode == "complete":
        return None
    return sink.mode, frozenset(sink.keys), sink.deletes, sink.late

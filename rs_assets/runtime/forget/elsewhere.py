"""Places that may have rows of the keys and are not erased: sources, other systems, copies of tables, kept values."""

from __future__ import annotations

from collections.abc import Iterator

from rs_assets.connectors.console.nodes import PrintSink
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.files.nodes import FileSink
from rs_assets.connectors.memory.nodes import MemorySink
from rs_assets.connectors.store.nodes import StoreSink
from rs_assets.runtime.forget.report import ForgottenPlace
from rs_assets.runtime.forget.state import key_fields
from rs_assets.runtime.forget.world import World
from rs_assets.topology.nodes.versioned import VersionedTable
from rs_assets.topology.nodes.window import WindowAggregate
from rs_assets.topology.targets import target_of

# Aggregates that keep no value of their field.
COUNTED = frozenset({"count"})
# Where sources keep rows that a system gives only once: in the folder of a query, and of the job.
SPOOLED, LANDED = "own", "landed"


def elsewhere(world: World) -> Iterator[ForgottenPlace]:
    """They in words, each with what to do."""
    yield from _sources(world)
    yield from _recorded(world)
    yield from _outputs(world)
    yield from _former(world)
    yield from _dimensions(world)
    yield from _values(world)


def _left(place: str, name: str, said: str) -> ForgottenPlace:
    return ForgottenPlace(place=place, name=name, said=said, ours=False)


def _sources(world: World) -> Iterator[ForgottenPlace]:
    for source in world.topology.origins:
        detail = f" ({source.detail()})" if source.detail() else ""
        yield _left(
            "source",
            f"{source.name}{detail}",
            "its records are still there: remove them there, or wait for its retention; a new generation"
            " (--new-generation) reads them again",
        )


def _recorded(world: World) -> Iterator[ForgottenPlace]:
    topology, home = world.topology, world.options.home
    kept = [query.folder / SPOOLED for query in world.queries]
    kept += [world.job / LANDED, home.collected / topology.namespace / topology.job]
    for folder in (folder for folder in kept if folder.exists()):
        said = "records that were received once are kept here, and not searched: remove those of the keys by hand"
        yield _left("received records", str(folder), said)


def _outputs(world: World) -> Iterator[ForgottenPlace]:
    erased = (DeltaSink, StoreSink, MemorySink, PrintSink)
    for sink in world.topology.sinks:
        if sink.family != "sink" or isinstance(sink, erased):
            continue
        of = "its files" if isinstance(sink, FileSink) else "that system"
        yield _left("output", f"{sink.name} ({sink.detail()})", f"rows of the keys in {of} are yours to delete")
    for sink in (sink for sink in world.topology.sinks if isinstance(sink, DeltaSink)):
        columns = ", ".join(world.keys.at(sink.name, sink.table))
        yield _left("readers of output", sink.name, f"pipelines and copies that have read {columns} from it keep them")


def _former(world: World) -> Iterator[ForgottenPlace]:
    """Outputs that the pipeline had before."""
    here = {sink.name: target_of(sink) for sink in world.topology.sinks}
    known = ((facts, sink) for facts in world.manifest.queries.values() for sink in facts.targets)
    for facts, sink in known:
        target = facts.targets[sink]
        if sink not in here and target not in here.values():
            said = "the pipeline does not write it any more; rows of the keys in it are yours to delete"
            yield _left("former output", f"{sink} ({target})", said)


def _dimensions(world: World) -> Iterator[ForgottenPlace]:
    topology = world.topology
    for node in topology:
        folder = world.options.home.dimension(topology.namespace, topology.job, node.name)
        if isinstance(node, VersionedTable) and folder.exists():
            said = f"versions of its table are in {folder}: delete the keys in the table; older versions go in time"
            yield _left("dimension", node.name, said)


def _values(world: World) -> Iterator[ForgottenPlace]:
    """Steps whose state is by other keys: it keeps what the rows have added."""
    for step in dict.fromkeys(step for query in world.queries for step in query.plan.states):
        node, columns = world.topology[step], world.keys.at(step)
        keys = key_fields(node)
        if not keys.isdisjoint(columns):
            continue
        by = f" by {', '.join(sorted(keys))}" if keys else ""
        yield _left(
            "state", step, f"what it has computed{by} still contains the rows of the keys, as sums and counts do"
        )
        kept = _kept(node, columns) if isinstance(node, WindowAggregate) else ()
        for function, column in kept:
            said = f"{function} keeps values of {column!r}, which leave with its windows; they are not searched"
            yield _left("state", step, said)


def _kept(node: WindowAggregate, columns: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    aggregates = [each for each in node.aggregates if each.function not in COUNTED]
    return [(each.function, each.field) for each in aggregates if each.field is not None and each.field in columns]

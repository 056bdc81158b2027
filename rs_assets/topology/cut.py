"""One step of a pipeline as a pipeline of its own: given rows before it, its rows after it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial

from rs_assets.common.node import Node
from rs_assets.connectors.nodes import Sink, Source
from rs_assets.errors import TopologyError
from rs_assets.topology.nodes.join import StreamJoin
from rs_assets.topology.nodes.process import MAIN, Process, ProcessOutput
from rs_assets.topology.nodes.shuffle import ShuffleRead, ShuffleWrite
from rs_assets.topology.nodes.step import Select, Split
from rs_assets.topology.nodes.table import TableChanges, TableState
from rs_assets.topology.topology import Topology

# Makes the source that stands for a step upstream, and the sink after a step.
Stand = Callable[[Node], Source]
End = Callable[[str], Sink]


def rows_before(topology: Topology, step: str) -> tuple[str, ...]:
    """The nearest steps upstream of `step` whose rows can be given: neither tables nor labelled rows."""
    return tuple(dict.fromkeys(_nearest(topology, topology[step])))


def _nearest(topology: Topology, node: Node) -> Iterator[str]:
    for name in node.follows:
        if _plain(topology, name):
            yield name
        else:
            yield from _nearest(topology, topology[name])


def _plain(topology: Topology, name: str) -> bool:
    node = topology[name]
    labelled = isinstance(node, Split) or (isinstance(node, Process) and node.outputs)
    return not (labelled or isinstance(node, ShuffleWrite) or changes(topology, name))


def changes(topology: Topology, name: str) -> bool:
    """Whether the rows after a step are those of a table, which may go again."""
    node = topology[name]
    if isinstance(node, TableChanges):
        return False
    stateless = not node.stateful and not isinstance(node, Source)
    return isinstance(node, TableState) or (stateless and any(changes(topology, each) for each in node.inputs))


def cut_out(topology: Topology, step: str, given: Collection[str], *, stand: Stand, end: End) -> Topology:
    """`step` with all that lies between it and the steps `given`.

    TopologyError for one that is not upstream, and if a source upstream is not among them nor upstream of them.

    `stand(node)` replaces a given step, `end(name)` is the sink after the step `name`. A sink is its own end.
    """
    above = _between(topology, step, ()) - {step}
    strays = sorted(set(given) - above)
    if strays:
        raise TopologyError(
            f"{strays[0]!r} is not upstream of step {step!r}",
            remedy=f"give rows for: {', '.join(rows_before(topology, step)) or 'none: it is a source'}",
            step=step,
        )
    kept = _between(topology, step, given)
    _check_given(topology, step, kept - {*given} - {step})
    nodes = [stand(node) if node.name in given else node for node in topology if node.name in kept]
    made = (*map(partial(_apart, topology, given), nodes), *_ends(topology, topology[step], end))
    return Topology(topology.namespace, topology.job, made)


def _check_given(topology: Topology, step: str, run: Collection[str]) -> None:
    """TopologyError for a source among the steps that are `run`: its rows must be given."""
    source = next((node.name for node in topology.origins if node.name in run), None)
    if source is not None:
        near = rows_before(topology, step)
        raise TopologyError(
            f"step {step!r} needs the rows of: {', '.join(near)}; no rows are given for the source {source!r}",
            remedy=f"inputs={{{', '.join(f'{name!r}: [...]' for name in near)}}}",
            step=step,
        )


def _apart(topology: Topology, given: Collection[str], node: Node) -> Node:
    """`node`; a join whose sides come from one step, but are given apart, as a join of two streams."""
    if not (isinstance(node, StreamJoin) and node.shared):
        return node
    left, right = (_between(topology, side, given) for side in node.inputs)
    return node if left & right else replace(node, shared=False)


def _between(topology: Topology, step: str, given: Collection[str]) -> set[str]:
    """`step`, and the steps upstream of it up to those `given`."""
    found, waiting = set[str](), [step]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += topology[name].follows if name not in given else ()
    return found


def _ends(topology: Topology, node: Node, end: End) -> Iterator[Node]:
    """The sinks after `node`, and the steps before them that make plain rows."""
    if isinstance(node, ShuffleWrite):
        reads = next(each for each in topology if isinstance(each, ShuffleRead) and each.after == node.name)
        yield from (reads, end(reads.name))
    elif isinstance(node, Sink):
        return
    elif isinstance(node, Split):
        for branch in [each for each in topology if isinstance(each, Select) and node.name in each.inputs]:
            yield from (branch, end(branch.name))
    elif isinstance(node, Process) and node.outputs:
        for name, schema in ((MAIN, node.function.schema or ""), *node.outputs):
            output = ProcessOutput(
                name=f"{node.name}_{name or 'main'}", inputs=(node.name,), output=name, schema=schema
            )
            yield from (output, end(output.name))
    elif changes(topology, node.name):
        keys = _table_of(topology, node).keys
        yield from (TableChanges(name="changes_out", inputs=(node.name,), keys=keys), end("changes_out"))
    else:
        yield end(node.name)


def _table_of(topology: Topology, node: Node) -> TableState:
    while not isinstance(node, TableState):
        node = topology[next(name for name in node.inputs if changes(topology, name))]
    return node

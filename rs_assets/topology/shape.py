"""The steps that a query's state was made with, and how another version of the pipeline differs from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from rs_assets.common.node import Node
from rs_assets.records.fields import same_fields
from rs_assets.topology.nodes.step import Expect, Union
from rs_assets.topology.nodes.timed import TimedState
from rs_assets.topology.topology import Topology
from rs_assets.topology.user_code.code import same_code


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShape:
    """A stateful step or one upstream of it. `inputs` skip steps that change no row, as unions; `sources` feed it.

    `sides` are the inputs of each side of a join; () for other steps, and in manifests of earlier releases, which have
    no `reading` or no `further` either. `marks` say how its watermark follows its rows; state does not depend on them.
    """

    name: str
    kind: str
    identity: tuple[str, ...]
    inputs: tuple[str, ...]
    sources: tuple[str, ...]
    sides: tuple[tuple[str, ...], ...] = ()
    reading: tuple[str, ...] | None = None
    further: tuple[str, ...] | None = None
    marks: tuple[str, ...] | None = None

    def __str__(self) -> str:
        """One line for people."""
        inputs = " with ".join(", ".join(side) for side in self.sides) or ", ".join(self.inputs) or "input"
        return f"{self.kind} {self.name} <- {inputs}: {' | '.join(self.parts(self))}"

    def parts(self, other: NodeShape) -> tuple[str, ...]:
        """The settings of the kinds that `other` has."""
        reading = self.reading if other.reading is not None else None
        further = self.further if other.further is not None else None
        return (*self.identity, *(reading or ()), *(further or ()))


Shape = tuple[NodeShape, ...]
# Parts of an identity that say where state lies; state elsewhere cannot be used.
LAG, KEPT_BY, BUCKETS = "lag=", "kept by ", "buckets="
# The parts of an identity with the watermark delay, and with those of the two sides of a join.
DELAYS = ("water_mark=", "water_marks=")


def shape_of(topology: Topology, stateful: str | None, *, through: bool = True) -> Shape:
    """The nodes that the state of the step `stateful` depends on, itself last; () for a query without state.

    With `through` also those upstream of a durable shuffle, in other queries.
    """
    if stateful is None:
        return ()
    known = (upstream_of(topology, stateful) if through else topology.ancestors(stateful)) | {stateful}
    return tuple(
        NodeShape(
            name=node.name,
            kind=node.kind,
            identity=(*node.identity(), *_lag(topology, node), *_keeper(node)),
            reading=node.reading,
            further=(*node.further, *(() if node.name == stateful else node.emitting)),
            marks=(f"{node.delay}", f"{node.by_split}") if isinstance(node, TimedState) else (),
            inputs=tuple(_seen_through(topology, node.inputs)),
            sides=tuple(tuple(_seen_through(topology, [name])) for name in node.inputs) if len(node.inputs) > 1 else (),
            sources=tuple(sorted(s.name for s in topology.sources if s.name in topology.ancestors(node.name))),
        )
        for node in topology
        if node.name in known and not _changes_no_row(node)
    )


def looks_through(shape: Shape) -> bool:
    """Whether a stored shape includes the steps upstream of durable shuffles; older shapes end at the shuffle."""
    kinds = {node.kind for node in shape}
    return "shuffle_read" not in kinds or "shuffle_write" in kinds


def upstream_of(topology: Topology, name: str) -> set[str]:
    """The steps that `name` depends on, also through durable shuffles."""
    found: set[str] = set()
    waiting = [*topology[name].follows]
    while waiting:
        current = waiting.pop()
        if current not in found:
            found.add(current)
            waiting.extend(topology[current].follows)
    return found


def _lag(topology: Topology, node: Node) -> tuple[str, ...]:
    """How long after their end the windows of a chained step close: their times in state depend on it."""
    link = topology.links.get(node.name)
    return (f"{LAG}{link.lag}",) if link is not None and link.lag else ()


def _keeper(node: Node) -> tuple[str, ...]:
    """Which processor keeps the state, if it is not an operator of Spark's."""
    return (f"{KEPT_BY}{node.keeper}",) if isinstance(node, TimedState) and node.keeper is not None else ()


def lags(shape: Shape) -> Mapping[str, str]:
    """The parts of each step's identity that place its windows or keys in state; state with others cannot be used."""
    return _parts(shape, (LAG, KEPT_BY, BUCKETS))


def judged_otherwise(was: Shape, now: Shape) -> str | None:
    """The first step of both whose watermark, by which late records are judged, would not be the same; None for none.

    It differs by the delay, by how long windows are held open after it, and by how it follows the splits of the input.
    """
    delays, before = _parts(was, DELAYS), {node.name: node for node in was}
    for step, delay in _parts(now, DELAYS).items():
        if delays.get(step, delay) != delay:
            return step
    marked = (node for node in now if node.name in before and before[node.name].marks is not None)
    return next((node.name for node in marked if node.marks != before[node.name].marks), None)


def _parts(shape: Shape, beginnings: tuple[str, ...]) -> Mapping[str, str]:
    return {node.name: " ".join(part for part in node.identity if part.startswith(beginnings)) for node in shape}


def renamed(shape: Iterable[NodeShape], names: Mapping[str, str]) -> Shape:
    """`shape` with the names of another version: `names` maps old to new."""

    def new(every: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(names.get(name, name) for name in every)

    return tuple(
        replace(
            n,
            name=names.get(n.name, n.name),
            inputs=new(n.inputs),
            sources=tuple(sorted(new(n.sources))),
            sides=tuple(map(new, n.sides)),
        )
        for n in shape
    )


def names_between(old: Shape, new: Shape) -> Mapping[str, str]:
    """The names by which alone `new` differs from `old`, old to new; {} if more has changed, or nothing."""
    names = {was.name: now.name for was, now in zip(old, new, strict=False) if was.name != now.name}
    alike = len(old) == len(new) and not changes(renamed(old, names), new)
    return names if alike else {}


def changes(old: Shape, new: Shape) -> tuple[str, ...]:
    """The difference between the state as it was made and as the pipeline would use it, as lines of `-` and `+`.

    Sources may come and go, with the steps that only they feed, and may be in another order: the meaning of the state
    stays the same. On a join each source stays at its side.
    """
    before, after = {n.name: n for n in old}, {n.name: n for n in new}
    gone, fresh = _sources(old) - _sources(new), _sources(new) - _sources(old)
    lines: list[str] = []
    for name in [*before, *(n for n in after if n not in before)]:
        was, now = before.get(name), after.get(name)
        if was is not None and now is not None:
            same = _trimmed(was, gone, after) == _trimmed(now, fresh, before) and _same(was, now)
            if not same or not _same_sides(was, now):
                lines += [f"- {was}", f"+ {now}"]
        elif was is not None and not _only_from(was, gone):
            lines.append(f"- {was}")
        elif now is not None and not _only_from(now, fresh):
            lines.append(f"+ {now}")
    return tuple(lines)


def _same_sides(was: NodeShape, now: NodeShape) -> bool:
    """Whether the inputs that a join had and has are at the same sides."""
    places = [{name: at for at, side in enumerate(node.sides) for name in side} for node in (was, now)]
    return all(places[0][name] == places[1][name] for name in places[0].keys() & places[1].keys())


def _seen_through(topology: Topology, inputs: Iterable[str]) -> Iterator[str]:
    """The `inputs` of a step, with a union replaced by its inputs."""
    for name in inputs:
        if _changes_no_row(topology[name]):
            yield from _seen_through(topology, topology[name].inputs)
        else:
            yield name


def _changes_no_row(node: Node) -> bool:
    """Whether the rows after a step are those before it."""
    return isinstance(node, Union) or (isinstance(node, Expect) and not node.on_fail.removes)


def _sources(shape: Shape) -> set[str]:
    return {n.name for n in shape if not n.sources}


def _only_from(node: NodeShape, sources: set[str]) -> bool:
    """Whether all rows of `node` come from `sources`."""
    return set(node.sources or (node.name,)) <= sources


def _trimmed(node: NodeShape, sources: set[str], others: Mapping[str, NodeShape]) -> tuple[object, ...]:
    """The parts that must be equal besides the identity: without inputs that came or went with a source."""
    kept = sorted(name for name in node.inputs if name in others or not sources)
    return node.kind, kept


def _same(stored: NodeShape, now: NodeShape) -> bool:
    """Whether a node does what it did; older versions stored less of some functions, and of how records are read."""
    was, here = stored.parts(stored), now.parts(stored)
    return len(was) == len(here) and all(map(_same_part, was, here))


def _same_part(stored: str, now: str) -> bool:
    """Whether two parts of an identity are equal, or schemas that are written in another way, also after a function."""
    if same_code(stored, now) or same_fields(stored, now):
        return True
    (was, _, fields), (here, _, others) = stored.partition(" "), now.partition(" ")
    return same_code(was, here) and same_fields(fields, others)

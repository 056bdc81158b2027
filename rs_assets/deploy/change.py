"""What a version keeps, starts from scratch and drops, as decided before its start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from rs_assets.catalog.deployments import EVERYTHING, Version
from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.manifest import Manifest, QueryFacts
from rs_assets.common.node import Node
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.deploy.beginning import refuse_missed, refuse_moved, refuse_used
from rs_assets.deploy.io_compatibility import place_of, refuse_renamed, refuse_reread
from rs_assets.deploy.progress import position_of
from rs_assets.errors import TopologyChangedError
from rs_assets.runtime.identity import matched, queries_of_now, resumed
from rs_assets.runtime.options import RunOptions
from rs_assets.topology.nodes.versioned import VersionedTable
from rs_assets.topology.topology import Topology

CHOICES = (
    "leave stateful steps, the steps upstream of them, and how outputs replace rows, as they are; or drop state:"
    f" `reset` with the names of steps (rs-assets deploy --reset STEP), or {EVERYTHING!r} to start over"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is kept, started from scratch and dropped, as text for people.

    >>> print(Change(kept=("state of hourly", "offsets of clicks", "offsets of clicks"), begun=("output late",)))
    keeps state of hourly, offsets of clicks; begins output late
    >>> print(Change())
    begins everything: nothing was committed before
    """

    kept: tuple[str, ...] = ()
    begun: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    # Sources that keep their offsets but read other input, outputs that write elsewhere or in another way, steps that
    # look rows up in another table.
    moved: tuple[str, ...] = ()
    # The stored state is that of another version that has never committed a batch: there is nothing to lose.
    afresh: bool = False

    @property
    def steady(self) -> bool:
        """Whether the previous version could go on from any state that this one leaves."""
        return not self.begun and not self.left and not self.moved

    def __str__(self) -> str:
        """One line."""
        parts = {"keeps": self.kept, "begins": self.begun, "leaves": self.left, "moves": self.moved}
        # Several queries may read one source.
        told = [f"{verb} {', '.join(dict.fromkeys(what))}" for verb, what in parts.items() if what]
        return "; ".join(told) or "begins everything: nothing was committed before"


def options_of(version: Version, change: Change, options: RunOptions) -> RunOptions:
    """The options of a version's first start, with the state that it drops."""
    everything = EVERYTHING in version.reset
    return replace(options, new_generation=everything or change.afresh, reset_steps=() if everything else version.reset)


def change_of(topology: Topology, version: Version, options: RunOptions, before: Topology | None = None) -> Change:
    """What `version` would keep of the stored state; `before` is the version that ran last, if there is one.

    TopologyChangedError, with the difference and the choices, if state would be read with another meaning, or rows
    would be missing or duplicated in outputs.
    """
    folder = options.home.job(topology.namespace, topology.job)
    stored = manifests.load(folder)
    if stored is None or not stored.queries:
        return Change()
    if before is not None:
        refuse_renamed(before, topology)
    asked = options_of(version, Change(), options)
    if asked.new_generation:
        return Change(begun=("everything, as a new generation",))
    plans = plan_queries(topology)
    try:
        now, folders = resumed(topology, plans, stored, asked)
    except TopologyChangedError as error:
        if not position_of(folder).begun:
            return Change(afresh=True)
        _refuse_reread(before, topology, tuple(p for p in plans if not {*p.forgettable} & {*asked.reset_steps}), stored)
        raise TopologyChangedError(error.what, remedy=CHOICES, **error.facts) from error
    known = {plan.name: _known(stored, now, folders[plan.name]) for plan in plans}
    for plan in plans:
        facts, stands = known[plan.name], folders[plan.name]
        if facts is not None and before is not None:
            refuse_reread(before, topology, plan, facts)
        # The two halves of a durable shuffle start together or not at all; only a start knows where they are stored.
        if topology.shuffled:
            continue
        if facts is None:
            refuse_used(topology, plan, now, stands, options)
        else:
            refuse_missed(topology, plan, now, facts, options)
            refuse_moved(topology, plan, now, queries_of_now(topology, stored)[stands], options)
    return Change(
        kept=tuple(what for plan in plans for what in _kept(plan, known[plan.name])),
        begun=tuple(what for plan in plans for what in _begun(plan, known[plan.name])),
        left=tuple(_left(stored, now)),
    )


def moved_ends(before: Topology, now: Topology) -> tuple[str, ...]:
    """The sources, outputs and dimensions of both versions that differ in location or settings.

    A batch planned by one version must not be computed from another input by the other, nor may its rows be missing in
    an output. The fields of a source may change: its input does not. A batch that is computed again looks rows up in
    the dimension version recorded for it, which must not belong to another table.
    """
    known = {end.name: end for end in (*before.sources, *before.sinks)}
    sources = (f"source {end.name}" for end in now.sources if _differs(end, known.get(end.name)))
    sinks = (f"output {end.name}" for end in now.sinks if _differs(end, known.get(end.name)))
    tables, looked_up = _looked_up(before), _looked_up(now)
    dimensions = (f"dimension of {name}" for name in looked_up if tables.get(name, looked_up[name]) != looked_up[name])
    return (*sources, *sinks, *dimensions)


def _looked_up(topology: Topology) -> Mapping[str, tuple[object, ...]]:
    """The identity of the dimension of each lookup step."""
    return {
        node.name: (node.dimension.origin, node.dimension.schema, node.keys)
        for node in topology
        if isinstance(node, VersionedTable)
    }


def _differs(end: Node, before: Node | None) -> bool:
    return before is not None and place_of(end) != place_of(before)


def _refuse_reread(before: Topology | None, topology: Topology, plans: tuple[QueryPlan, ...], stored: Manifest) -> None:
    """Refuse a renamed source with a remedy of its own, which is more precise than the general choices."""
    known, folders = matched(topology, plan_queries(topology), stored)
    for plan in plans:
        if before is not None and folders[plan.name] in known.queries:
            refuse_reread(before, topology, plan, known.queries[folders[plan.name]])


def _known(stored: Manifest, now: Manifest, folder: str) -> QueryFacts | None:
    """The stored state of a query that continues; None for a query that starts from scratch."""
    before = stored.queries.get(folder)
    return before if before is not None and before.generation == now.queries[folder].generation else None


def _kept(plan: QueryPlan, known: QueryFacts | None) -> Iterator[str]:
    if known is not None:
        yield from (f"state of {name}" for name in plan.states)
        yield from (f"offsets of {name}" for name in plan.sources if name in known.sources or name in known.left)


def _begun(plan: QueryPlan, known: QueryFacts | None) -> Iterator[str]:
    if known is None:
        yield from (f"state of {name}" for name in plan.states)
    # An output that is added to a query gets no rows of earlier batches.
    since = "" if known is None else " with the rows from here on"
    had = () if known is None else (*known.sources, *known.left)
    yield from (f"offsets of {name}" for name in plan.sources if name not in had)
    yield from (f"output {name}{since}" for name in plan.sinks if known is None or name not in known.sinks)


def _left(stored: Manifest, now: Manifest) -> Iterator[str]:
    for folder, before in stored.queries.items():
        after = now.queries.get(folder)
        yield from (f"offsets of {name}" for name in before.sources if after is None or name not in after.sources)
        yield from (f"output {name}" for name in before.sinks if after is None or name not in after.sinks)

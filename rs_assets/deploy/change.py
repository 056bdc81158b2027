"""What a version of a pipeline goes on with, and what it begins anew, as a start of it decides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from rs_assets.catalog.deployments import EVERYTHING, Version
from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.manifest import Manifest, QueryFacts
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.deploy.beginning import refuse_missed, refuse_used
from rs_assets.deploy.ends import place_of, refuse_renamed, refuse_reread
from rs_assets.deploy.progress import position_of
from rs_assets.errors import TopologyChangedError
from rs_assets.runtime.identity import matched, resumed
from rs_assets.runtime.options import RunOptions
from rs_assets.topology.nodes.base import Node
from rs_assets.topology.nodes.dim_join import DimJoin
from rs_assets.topology.topology import Topology

CHOICES = (
    "leave the steps at and above state, and how outputs replace rows, as they are; or let the version say what it"
    f" forgets: `reset` with the names of steps (rs-assets deploy --reset STEP), or {EVERYTHING!r} to begin afresh"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What goes on, what begins anew and what is left, as words for people.

    >>> print(Change(kept=("state of hourly", "offsets of clicks", "offsets of clicks"), begun=("output late",)))
    keeps state of hourly, offsets of clicks; begins output late
    >>> print(Change())
    begins everything: nothing was committed before
    """

    kept: tuple[str, ...] = ()
    begun: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    # Sources that go on with their offsets and read other input, outputs that are written elsewhere or otherwise, steps
    # that look rows up in another table.
    moved: tuple[str, ...] = ()
    # What stands is of another version that has never committed a batch: there is nothing to lose.
    afresh: bool = False

    @property
    def steady(self) -> bool:
        """Whether the version before may go on with whatever this one leaves behind."""
        return not self.begun and not self.left and not self.moved

    def __str__(self) -> str:
        """One line."""
        parts = {"keeps": self.kept, "begins": self.begun, "leaves": self.left, "moves": self.moved}
        # Several queries may read one source.
        told = [f"{verb} {', '.join(dict.fromkeys(what))}" for verb, what in parts.items() if what]
        return "; ".join(told) or "begins everything: nothing was committed before"


def options_of(version: Version, change: Change, options: RunOptions) -> RunOptions:
    """The options of a version's first start: with what it forgets."""
    everything = EVERYTHING in version.reset
    return replace(options, new_generation=everything or change.afresh, reset_steps=() if everything else version.reset)


def change_of(topology: Topology, version: Version, options: RunOptions, before: Topology | None = None) -> Change:
    """What `version` would keep of what stands in the home; `before` is the version that ran last, if one did.

    TopologyChangedError, with the difference and the choices, if it would read state with another meaning, or rows
    would be missing in its outputs or stand there twice.
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
        # Halves of a durable shuffle, whose places only a start knows, begin together or not at all.
        if topology.shuffled:
            continue
        if facts is None:
            refuse_used(topology, plan, now, stands, options)
        else:
            refuse_missed(topology, plan, now, facts, options)
    return Change(
        kept=tuple(what for plan in plans for what in _kept(plan, known[plan.name])),
        begun=tuple(what for plan in plans for what in _begun(plan, known[plan.name])),
        left=tuple(_left(stored, now)),
    )


def moved_ends(before: Topology, now: Topology) -> tuple[str, ...]:
    """The sources, outputs and dimensions that both versions have and that are elsewhere, or otherwise, in one of them.

    What was planned of one input must not be computed by another version of it, nor what one output had be missing in
    the other. The fields of a source may come and go: the input stays what it is. A batch that is computed again looks
    rows up in the version of a dimension that was noted for it, which must not be one of another table.
    """
    known = {end.name: end for end in (*before.sources, *before.sinks)}
    sources = (f"source {end.name}" for end in now.sources if _differs(end, known.get(end.name)))
    sinks = (f"output {end.name}" for end in now.sinks if _differs(end, known.get(end.name)))
    tables, looked_up = _looked_up(before), _looked_up(now)
    dimensions = (f"dimension of {name}" for name in looked_up if tables.get(name, looked_up[name]) != looked_up[name])
    return (*sources, *sinks, *dimensions)


def _looked_up(topology: Topology) -> Mapping[str, tuple[object, ...]]:
    """What tells the versions of one dimension from those of another, for each step that looks rows up."""
    return {
        node.name: (node.dimension.origin, node.dimension.schema, tuple(key for _, key in node.on))
        for node in topology
        if isinstance(node, DimJoin)
    }


def _differs(end: Node, before: Node | None) -> bool:
    return before is not None and place_of(end) != place_of(before)


def _refuse_reread(before: Topology | None, topology: Topology, plans: tuple[QueryPlan, ...], stored: Manifest) -> None:
    """What is to be done about a source of another name is more than the choices that there always are."""
    known, folders = matched(topology, plan_queries(topology), stored)
    for plan in plans:
        if before is not None and folders[plan.name] in known.queries:
            refuse_reread(before, topology, plan, known.queries[folders[plan.name]])


def _known(stored: Manifest, now: Manifest, folder: str) -> QueryFacts | None:
    """What stands of a query that goes on with it."""
    before = stored.queries.get(folder)
    return before if before is not None and before.generation == now.queries[folder].generation else None


def _kept(plan: QueryPlan, known: QueryFacts | None) -> Iterator[str]:
    if known is not None:
        yield from (f"state of {name}" for name in plan.states)
        yield from (f"offsets of {name}" for name in plan.sources if name in known.sources or name in known.left)


def _begun(plan: QueryPlan, known: QueryFacts | None) -> Iterator[str]:
    if known is None:
        yield from (f"state of {name}" for name in plan.states)
    # What the query had before is not computed again for an output that comes to it.
    since = "" if known is None else " with the rows from here on"
    had = () if known is None else (*known.sources, *known.left)
    yield from (f"offsets of {name}" for name in plan.sources if name not in had)
    yield from (f"output {name}{since}" for name in plan.sinks if known is None or name not in known.sinks)


def _left(stored: Manifest, now: Manifest) -> Iterator[str]:
    for folder, before in stored.queries.items():
        after = now.queries.get(folder)
        yield from (f"offsets of {name}" for name in before.sources if after is None or name not in after.sources)
        yield from (f"output {name}" for name in before.sinks if after is None or name not in after.sinks)

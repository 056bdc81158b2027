"""Matches queries with stored checkpoints, and decides whether they may continue: names, shapes, generations."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.manifest import Manifest, QueryFacts
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.connectors.location import written_place
from rs_assets.errors import ConfigurationError, TopologyChangedError
from rs_assets.runtime.io_compatibility import (
    origins_of,
    refuse_partial,
    refuse_renamed,
    refuse_reread,
    refuse_ruled,
    rules_of,
    targets_of,
)
from rs_assets.runtime.options import RunOptions
from rs_assets.topology.shape import (
    NodeShape,
    Shape,
    changes,
    lags,
    looks_through,
    names_between,
    renamed,
    shape_of,
)
from rs_assets.topology.topology import Topology

# Each one compiles functions in another way, and functions are compared as they are compiled.
PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
# Of a step that is gone there is nothing to reset; it may come back.
CHOICES_OF_REMOVED = (
    "go back to that version; or let the state lie, from which the step goes on if it comes back (--keep-state); or"
    " begin a new generation (--new-generation)"
)
CHOICES = (
    "go back to that version; or drop the state of a step (--reset-step NAME); or use the state as it is, if you know"
    " that it still fits (--keep-state); or begin a new generation (--new-generation)"
)
# What was planned is nowhere, but a source may begin at another place by then.
UNCOMMITTED = "begin a new generation (--new-generation), as no batch was committed; or go back to that version"
OF_PYTHON = "if only Python has changed, use the state as it is (--keep-state); else "


def resumed(
    topology: Topology, plans: tuple[QueryPlan, ...], stored: Manifest, options: RunOptions
) -> tuple[Manifest, Mapping[str, str]]:
    """The manifest to continue with, and the folder of each query.

    TopologyChangedError, with the difference and the choices, if state would be read with another meaning.
    """
    stored = _with_returned(plans, stored)
    known = queries_of_now(topology, stored)
    refuse_renamed(topology, known)
    names = _renames(topology, stored)
    folders = _folders(topology, plans, stored, names)
    _check_resets(plans, options)
    shapes = _shapes(topology, plans, stored, folders, names, options)
    if options.keep_state:
        _refuse_moved(topology, shapes)
    else:
        used = set(folders.values())
        gone = [renamed(stored_shape(facts), names) for folder, facts in stored.queries.items() if folder not in used]
        new = [shape_of(topology, plan.stateful) for plan in plans if folders[plan.name] not in stored.queries]
        between = [names_between(was, now) for was, now in (*shapes, *product(gone, new))]
        undeclared = {old: name for found in between for old, name in found.items()}
        lost, committed = _removed(stored, used, names, options), partial(_has_committed, topology, stored, options)
        _refuse_changes(topology, shapes, lost, undeclared, python=stored.python, committed=committed)
    aliases = _aliases(topology, stored, names)
    for plan in plans:
        facts = known.get(folders[plan.name])
        if facts is not None and not _is_reset(plan, options):
            refuse_reread(topology, plan, facts)
            if not options.keep_state:
                refuse_ruled(topology, plan, facts)
                refuse_partial(topology, plan, facts)
    queries = {
        folders[plan.name]: _facts(topology, plan, stored, known.get(folders[plan.name]), options) for plan in plans
    }
    before = {
        folder: facts
        for folder, facts in stored.queries.items()
        if facts.stateful is not None and names.get(facts.stateful, facts.stateful) not in options.reset_steps
    }
    removed = {folder: facts for folder, facts in {**stored.removed, **before}.items() if folder not in queries}
    # Queries that begin now are to read the input that has ended, too.
    begun = all(folders[plan.name] in stored.queries and not _is_reset(plan, options) for plan in plans)
    sealed = stored.sealed and begun
    made = replace(stored, sealed=sealed, aliases=aliases, queries=queries, removed=removed, python=PYTHON)
    return made, folders


def _with_returned(plans: tuple[QueryPlan, ...], stored: Manifest) -> Manifest:
    """`stored` with the removed queries whose steps are there again: their checkpoints are continued, or refused."""
    fresh = [plan for plan in plans if folder_of(stored, plan) is None]
    back = {
        folder: facts
        for folder, facts in stored.removed.items()
        if folder not in stored.queries and any(_same(plan, facts, {}) for plan in fresh)
    }
    left = {folder: facts for folder, facts in stored.removed.items() if folder not in back}
    return replace(stored, queries={**stored.queries, **back}, removed=left) if back else stored


def matched(topology: Topology, plans: tuple[QueryPlan, ...], stored: Manifest) -> tuple[Manifest, Mapping[str, str]]:
    """`stored` with the current names of its sources and sinks, and the folder of each query; nothing is refused."""
    names = _renames(topology, stored)
    known = replace(stored, aliases=_aliases(topology, stored, names), queries=queries_of_now(topology, stored))
    return known, _folders(topology, plans, stored, names)


def queries_of_now(topology: Topology, stored: Manifest) -> Mapping[str, QueryFacts]:
    """The stored queries with current source and sink names, and locations as `written_place`.

    Earlier releases stored a location as written in the code: `file:///data/t`, `s3://bucket/t/`.
    """
    names = _renames(topology, stored)
    return {
        folder: replace(
            facts,
            sinks={names.get(sink, sink): batch for sink, batch in facts.sinks.items()},
            origins={names.get(source, source): origin for source, origin in facts.origins.items()},
            targets={names.get(sink, sink): written_place(target) for sink, target in facts.targets.items()},
            rules=_rules_of_now(facts.rules, names),
            ruled=tuple((last, _rules_of_now(rules, names)) for last, rules in facts.ruled),
        )
        for folder, facts in stored.queries.items()
    }


def _rules_of_now(rules: Mapping[str, tuple[str, ...]], names: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    return {names.get(sink, sink): (*map(written_place, rule[:1]), *rule[1:]) for sink, rule in rules.items()}


def _renames(topology: Topology, stored: Manifest) -> Mapping[str, str]:
    """Old and new names of renamed steps that the checkpoint still has by the old name."""
    known = {n for f in stored.queries.values() for n in (*f.sources, *f.sinks, *(node["name"] for node in f.shape))}
    here = {node.name for node in topology}
    return {old: new for old, new in topology.renamed if old in known and old not in here and new in here}


def _folders(
    topology: Topology, plans: Sequence[QueryPlan], stored: Manifest, names: Mapping[str, str]
) -> Mapping[str, str]:
    """The folder of each query: that of the stored query with the same stateful step, or with a common sink.

    A query whose sinks were split up continues in the query with its name.
    """
    free = dict(stored.queries)
    found: dict[str, str] = {}
    for plan in sorted(plans, key=lambda plan: plan.name not in stored.queries):
        alike = [folder for folder, facts in free.items() if _same(plan, facts, names)]
        match = plan.name if plan.name in alike else next(iter(alike), None)
        if match is not None:
            del free[match]
        found[plan.name] = match or plan.name
    for name, folder in found.items():
        if folder in free or list(found.values()).count(folder) > 1:
            plan = next(plan for plan in plans if plan.name == name)
            raise _taken(topology, plan, stored.queries[folder], names)
    return found


def _taken(topology: Topology, plan: QueryPlan, facts: QueryFacts, names: Mapping[str, str]) -> TopologyChangedError:
    """The error for a query in the folder of another one: only a name distinguishes them, or nothing connects them."""
    before = renamed(stored_shape(facts), names)
    declared = _declared(names_between(before, shape_of(topology, plan.stateful, through=looks_through(before))))
    was = f"the state of {facts.stateful!r}" if facts.stateful else f"what was read for {', '.join(facts.sinks)}"
    return TopologyChangedError(
        f"the query of {', '.join(plan.sinks)} would use the checkpoint of another query, which has {was}",
        remedy=f"{declared}go back to the version with that; or give the step {plan.name!r} another name (name=...), or"
        " begin a new generation (--new-generation): both read the input from its beginning",
        pipeline=topology.name,
    )


def _declared(names: Mapping[str, str]) -> str:
    return f"declare what was renamed: .build(renamed={dict(names)}); or " if names else ""


def folder_of(manifest: Manifest, plan: QueryPlan) -> str | None:
    """The stored name of the query of `plan` at its last run, None before its first start.

    Matched by stateful step or common sink, as at a start; after a rename the pipeline must run once first.
    """
    alike = [name for name, facts in manifest.queries.items() if _same(plan, facts, {})]
    return plan.name if plan.name in alike else next(iter(alike), None)


def log_of(manifest: Manifest | None, plan: QueryPlan, job: Path) -> CheckpointLog | None:
    """Spark's log of the query of `plan`, in the folder of the job; None before its first start."""
    name = folder_of(manifest, plan) if manifest is not None else None
    if manifest is None or name is None:
        return None
    return CheckpointLog(manifest.place(job, name) / "checkpoint", manifest.aliases)


def _same(plan: QueryPlan, facts: QueryFacts, names: Mapping[str, str]) -> bool:
    if plan.stateful is not None:
        return (
            facts.stateful is not None
            and names.get(facts.stateful, facts.stateful) == plan.stateful
            # Append or update belongs to the window's shape, which is compared later; complete is another query.
            and (facts.mode == "complete") == (plan.output_mode == "complete")
        )
    return facts.stateful is None and bool({names.get(s, s) for s in facts.sinks} & set(plan.sinks))


def _check_resets(plans: tuple[QueryPlan, ...], options: RunOptions) -> None:
    known = list(dict.fromkeys(name for plan in plans for name in plan.forgettable))
    for step in options.reset_steps:
        if step not in known:
            raise ConfigurationError(f"there is no state of a step {step!r}", remedy=f"use one of: {', '.join(known)}")


def _shapes(
    topology: Topology,
    plans: tuple[QueryPlan, ...],
    stored: Manifest,
    folders: Mapping[str, str],
    names: Mapping[str, str],
    options: RunOptions,
) -> list[tuple[Shape, Shape]]:
    """The shapes that made the state of each query and that would use it, except for state to be dropped."""
    kept = [(plan, stored.queries.get(folders[plan.name])) for plan in plans if not _is_reset(plan, options)]
    stood = [(plan, renamed(stored_shape(facts), names)) for plan, facts in kept if facts is not None and facts.shape]
    return [(shape, shape_of(topology, plan.stateful, through=looks_through(shape))) for plan, shape in stood]


def _refuse_changes(
    topology: Topology,
    shapes: list[tuple[Shape, Shape]],
    removed: Iterable[tuple[str, str]],
    undeclared: Mapping[str, str],
    *,
    python: str,
    committed: Callable[[], bool],
) -> None:
    # Queries that share a step have its difference in common.
    changed, gone = list(dict.fromkeys(line for before, now in shapes for line in changes(before, now))), dict(removed)
    if changed or gone:
        here = {node.name for node in topology}
        choices = CHOICES if changed or not here.isdisjoint(gone) else CHOICES_OF_REMOVED
        choices = choices if committed() else UNCOMMITTED
        another = bool(changed) and python not in ("", PYTHON)
        only = f", or only by Python {python}, which compiles functions otherwise than {PYTHON}" if another else ""
        lines = "\n    ".join([*changed, *gone.values()])
        raise TopologyChangedError(
            f"the state on disk was made by another version of the pipeline{only}:\n    {lines}",
            remedy=_declared(undeclared) + (OF_PYTHON if another else "") + choices,
            pipeline=topology.name,
            state=", ".join(dict.fromkeys([*(now[-1].name for was, now in shapes if changes(was, now)), *gone])),
        )


def _has_committed(topology: Topology, stored: Manifest, options: RunOptions) -> bool:
    """Whether a batch of any query was ever committed."""
    job = options.home.job(topology.namespace, topology.job)
    logs = (CheckpointLog(stored.place(job, name) / "checkpoint", stored.aliases) for name in stored.queries)
    return any(log.last_committed() >= 0 for log in logs)


def _refuse_moved(topology: Topology, shapes: list[tuple[Shape, Shape]]) -> None:
    """Windows with another state layout cannot be used, whatever a person knows about them."""
    for before, now in ((lags(before), lags(now)) for before, now in shapes):
        moved = [step for step in before if step in now and before[step] != now[step]]
        if moved:
            raise TopologyChangedError(
                f"the state of {', '.join(moved)} was written with another watermark delay or number of buckets, or by"
                " another operator, and cannot be read by this version",
                remedy=f"drop that state (--reset-step {moved[0]}), or begin a new generation (--new-generation)",
                pipeline=topology.name,
            )


def _removed(
    stored: Manifest, used: set[str], names: Mapping[str, str], options: RunOptions
) -> Iterator[tuple[str, str]]:
    """Stored stateful queries that the new version of the pipeline lacks, except for steps that are reset."""
    for folder, facts in stored.queries.items():
        if folder in used or facts.stateful is None:
            continue
        step = names.get(facts.stateful, facts.stateful)
        if step not in options.reset_steps:
            yield step, f"- {stored_shape(facts)[-1] if facts.shape else facts.stateful}"


def _aliases(topology: Topology, stored: Manifest, names: Mapping[str, str]) -> Mapping[str, str]:
    """The stored names of the sources and sinks that were renamed, now or before."""
    kept = {names.get(new, new): old for new, old in stored.aliases.items()}
    fresh = {new: stored.stored_name(old) for old, new in names.items()}
    ends = {node.name for node in (*topology.sources, *topology.sinks)}
    ends |= {sink for facts in stored.queries.values() for sink in (*facts.sinks, *facts.absent)}
    return {new: old for new, old in {**kept, **fresh}.items() if new in ends and new != old}


def _facts(
    topology: Topology, plan: QueryPlan, stored: Manifest, facts: QueryFacts | None, options: RunOptions
) -> QueryFacts:
    known = facts or QueryFacts(generation=stored.generation)
    # A new query may find rows of another query in its sinks: a reset has a generation of its own then too.
    if stored.queries and _is_reset(plan, options):
        known = QueryFacts(generation=stored.last_generation + 1)
    return replace(
        known,
        stateful=plan.stateful,
        mode=plan.output_mode,
        sinks={sink: known.sinks.get(sink, -1) for sink in plan.sinks},
        absent=known.without(plan.sinks),
        sources=plan.sources,
        origins={**known.origins, **origins_of(topology, plan)},
        targets={**known.targets, **targets_of(topology, plan)},
        rules={**known.rules, **rules_of(topology, plan)},
        shape=tuple(asdict(node) for node in shape_of(topology, plan.stateful)),
    )


def kept_steps(topology: Topology, stored: Manifest, facts: QueryFacts, before: QueryFacts, *, last: int) -> QueryFacts:
    """`facts` with the former steps of a query, up to the batch `last`, if the current ones make another state."""
    if not before.shape or not changes(renamed(stored_shape(before), _renames(topology, stored)), stored_shape(facts)):
        return facts
    return replace(facts, shaped=(*facts.shaped, (last, before.shape)))


def _is_reset(plan: QueryPlan, options: RunOptions) -> bool:
    """Whether the state of one of its steps is to be dropped: the state of later steps is then invalid too."""
    return not set(plan.forgettable).isdisjoint(options.reset_steps)


def stored_shape(facts: QueryFacts) -> Shape:
    """The steps that made the state of a query, as the manifest has them."""
    return tuple(
        NodeShape(
            name=node["name"],
            kind=node["kind"],
            identity=tuple(node["identity"]),
            inputs=tuple(node["inputs"]),
            sources=tuple(node["sources"]),
            sides=tuple(map(tuple, node.get("sides", ()))),
            reading=_told(node, "reading"),
            further=_told(node, "further"),
            marks=_told(node, "marks"),
        )
        for node in facts.shape
    )


def _told(node: Mapping[str, Any], part: str) -> tuple[str, ...] | None:
    """A part of a step in a manifest; None in one of an earlier release."""
    return tuple(node[part]) if node.get(part) is not None else None

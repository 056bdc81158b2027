"""How many rows of a batch a query read and refused, by the counters of its gates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.compile.planner.wiring import Wiring
from rs_assets.compile.source import POISON
from rs_assets.connectors.source import Watch
from rs_assets.runtime.batch.execution import BatchExecution
from rs_assets.topology.topology import Topology


class NotPlainError(Exception):
    """A batch was read by halves, and cannot stand: there may be a bad record in it that nobody has seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Rows that one batch of one query read and refused.

    `in_again` are those of `rows_in`, and `dead_again` those of `rows_dead`, that an earlier query counts as well;
    `sources` are those that rows came from, `clean` the gates that refused no row but those.
    """

    rows_in: int = 0
    in_again: int = 0
    shuffled: int = 0
    dead: int = 0
    dead_again: int = 0
    sources: frozenset[str] = frozenset()
    clean: frozenset[str] = field(default=frozenset(), compare=False)


def counts_of(
    execution: BatchExecution,
    topology: Topology,
    plan: QueryPlan,
    wiring: Wiring,
    watches: Mapping[str, Watch],
) -> Counts:
    """The counts of the batch that `execution` has computed; waits for what `watches` count beside Spark."""
    found = {gate: execution.observed(gate) for gate in _gates(topology, plan, wiring)}
    plain = plain_rows(wiring, watches)
    rows_in = in_again = shuffled = 0
    for source in plan.sources:
        watch, observed = watches.get(source), found[source]
        rows = plain.get(source, observed.rows if observed else 0)
        if topology[source].family == "shuffle":
            shuffled += rows
        else:
            rows_in += rows
            in_again += 0 if source in plan.owns else rows
        if watch:
            watch.computed()
    gates = {name: gate for name, gate in found.items() if gate is not None}
    return Counts(
        rows_in=rows_in,
        in_again=in_again,
        shuffled=shuffled,
        dead=sum(gate.dead for gate in gates.values()),
        dead_again=sum(gate.shared for gate in gates.values()),
        sources=frozenset(
            name for name in plan.sources if plain.get(name) or ((gate := found[name]) is not None and gate.rows)
        ),
        clean=frozenset(name for name, gate in gates.items() if gate.dead == gate.shared),
    )


def acts_at_once(topology: Topology, plan: QueryPlan) -> bool:
    """Whether somebody sees rows of a batch before it is committed: those of one that cannot stand must not be seen."""
    return any(topology[name].at_once for name in plan.nodes)


def plain_rows(wiring: Wiring, watches: Mapping[str, Watch]) -> Mapping[str, int]:
    """The records of each source that is pruned; waits for its watch.

    NotPlainError if that cannot answer for all of them.
    """
    found = {source: watches[source].plain() for source in wiring.pruned}
    known = {source: rows for source, rows in found.items() if rows is not None}
    if len(known) < len(found):
        raise NotPlainError(sorted(found.keys() - known.keys()))
    return known


def _gates(topology: Topology, plan: QueryPlan, wiring: Wiring) -> list[str]:
    """The names of all gates that the query may have."""
    gates = [*plan.sources, *plan.entries]
    if wiring.quarantines:
        gates += [name for name in plan.nodes if topology[name].family == "step"]
    if wiring.poisons:
        gates += [f"{name}{POISON}" for name in plan.sources]
    return gates

"""Row counts of a batch: rows read and bad rows, by the counters of its gates. Late rows are counted by a replay."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from rs_assets.common.node import Node
from rs_assets.compile.planner.context import CompileContext
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.connectors.source import Watch
from rs_assets.records.policy import OnFail
from rs_assets.runtime.batch.execution import BatchExecution
from rs_assets.topology.nodes.step import Expect
from rs_assets.topology.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Rows that one batch of one query read and rejected.

    `in_again` is the part of `rows_in`, and `dead_again` the part of `rows_dead`, that an earlier query counts as well;
    `sources` are those with rows, `clean` the gates that rejected no other rows. `gates` are the rows that came to each
    gate, and those that it rejected. `expectations` are the rows that each expectation judged, and those that failed;
    `unmet`: some of these become dead letters.
    """

    rows_in: int = 0
    in_again: int = 0
    shuffled: int = 0
    dead: int = 0
    dead_again: int = 0
    sources: frozenset[str] = frozenset()
    clean: frozenset[str] = field(default=frozenset(), compare=False)
    gates: Mapping[str, tuple[int, int]] = field(default_factory=dict, compare=False)
    expectations: Mapping[str, tuple[int, int]] = field(default_factory=dict, compare=False)
    unmet: bool = field(default=False, compare=False)

    def dead_at(self, gates: Collection[str]) -> int:
        """The rows that these gates rejected."""
        return sum(dead for gate, (_, dead) in self.gates.items() if gate in gates)


def counts_of(
    execution: BatchExecution,
    topology: Topology,
    plan: QueryPlan,
    context: CompileContext,
    watches: Mapping[str, Watch],
    judged: Mapping[str, tuple[int, int]],
) -> Counts:
    """The counts of the batch that `execution` has computed; waits for the counts of `watches`.

    `judged` are the rows of expectations among the steps that are applied to each batch.
    """
    found = {gate: execution.observed(gate) for gate in sorted({*context.record_filter.gates, *plan.sources})}
    shared = plan.shared(topology)
    for source in plan.sources:
        found[source] = found[source] or execution.judged(
            context.spark, context.stored_name(source), shared=source in shared
        )
    rows_in = in_again = shuffled = 0
    for source in plan.sources:
        watch, observed = watches.get(source), found[source]
        rows = observed.rows if observed else 0
        if topology[source].family == "shuffle":
            shuffled += rows
        else:
            rows_in += rows
            in_again += 0 if source in plan.counted_sources else rows
        if watch:
            watch.computed()
    gates = {name: gate for name, gate in found.items() if gate is not None}
    expectations = {**_observed(execution, topology, plan), **judged}
    failed = {name for name, (_, rows) in expectations.items() if rows}
    return Counts(
        rows_in=rows_in,
        in_again=in_again,
        shuffled=shuffled,
        dead=sum(gate.dead for gate in gates.values()),
        dead_again=sum(gate.shared for gate in gates.values()),
        sources=frozenset(name for name in plan.sources if (gate := found[name]) is not None and gate.rows),
        clean=frozenset(name for name, gate in gates.items() if gate.dead == gate.shared)
        | (expectations.keys() - failed),
        gates={name: (gate.rows, gate.dead) for name, gate in gates.items()},
        expectations={name: rows for name, rows in expectations.items() if name not in shared},
        unmet=any(_has_letters(topology[name]) for name in failed - shared),
    )


def _has_letters(node: Node) -> bool:
    return isinstance(node, Expect) and node.on_fail is OnFail.DEAD_LETTER


def _observed(execution: BatchExecution, topology: Topology, plan: QueryPlan) -> Mapping[str, tuple[int, int]]:
    """The rows that each streaming expectation judged, and those that failed."""
    names = [name for name in plan.nodes if isinstance(topology[name], Expect)]
    return {name: (seen.rows, seen.dead) for name in names if (seen := execution.observed(name)) is not None}


def acts_at_once(topology: Topology, plan: QueryPlan) -> bool:
    """Whether rows of a batch are visible before it is committed: a batch that may be discarded must not be."""
    return any(topology[name].at_once for name in plan.nodes)

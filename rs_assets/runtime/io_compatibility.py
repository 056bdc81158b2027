"""Refuses renamed inputs and outputs, and outputs with changed rules for replacing or parting rows.

Sources are identified by what they read, outputs by where they write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from rs_assets.checkpoint.manifest import QueryFacts
from rs_assets.common.node import Node
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.connectors.database.nodes import DatabaseSink
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.kafka.nodes import KafkaSink
from rs_assets.connectors.location import written_place
from rs_assets.connectors.nodes import Sink, Source
from rs_assets.connectors.redis.nodes import RedisSink
from rs_assets.connectors.search.nodes import SearchSink
from rs_assets.connectors.sqlite.nodes import SqliteSink
from rs_assets.connectors.store.nodes import StoreSink
from rs_assets.errors import TopologyChangedError
from rs_assets.topology.nodes.table import TableState
from rs_assets.topology.nodes.window import WindowAggregate
from rs_assets.topology.targets import target_of
from rs_assets.topology.topology import Topology
from rs_assets.topology.updates import deciding, leaves_out, retracts

# Where the first batch of a new generation replaces all rows.
REPLACED: Final = (DeltaSink, StoreSink)


def origins_of(topology: Topology, plan: QueryPlan) -> Mapping[str, tuple[str, ...]]:
    """The input of each source of a query, as far as it can be identified."""
    return {name: origin for name in plan.sources if (origin := _origin(topology, name))}


def targets_of(topology: Topology, plan: QueryPlan) -> Mapping[str, str]:
    """The location of each file or table output of a query; late rows are not an output of their own."""
    return {name: target for name in plan.sinks if (target := _target(topology, name)) is not None}


def rules_of(topology: Topology, plan: QueryPlan) -> Mapping[str, tuple[str, ...]]:
    """The place of each output of a query, how its rows replace others there and are parted, as text.

    Of rows that come and go, as those of a table, also which of them it has. Outputs outside of Delta whose rows only
    come have no rules.
    """
    return {name: rule for name in plan.sinks if (rule := _rule(topology, name))}


def refuse_reread(topology: Topology, plan: QueryPlan, facts: QueryFacts) -> None:
    """TopologyChangedError for a source that would re-read input of a continuing query under another name.

    The other name may be that of a source that still exists and now reads something else.
    """
    here = {node.name for node in topology}
    now = {name: _origin(topology, name) for name in here}
    left = {origin: name for name, origin in facts.origins.items() if now.get(name) != origin}
    for name in plan.sources:
        former = left.get(now[name])
        known = name in facts.origins or name not in (*facts.sources, *facts.left)
        if former is None or not known or facts.origins.get(name) == now[name]:
            continue
        declared = _declared(former, name) if former in facts.sources else ""
        remedy = f"name it {former} as before{declared}"
        if former in here:
            remedy = f"let {former} and {name} each read the same input as before"
        raise read_again(topology, plan, name, former, remedy=f"{remedy}; or {_afresh(plan)}")


def refuse_elsewhere(topology: Topology, plan: QueryPlan, facts: QueryFacts) -> None:
    """TopologyChangedError if recorded batches of a query would be read from another place than that of their records.

    At the same offsets there are other records. A start checks whether it may go on there.
    """
    for name, origin, former in _elsewhere(topology, plan, facts):
        raise TopologyChangedError(
            f"the source {name!r} reads another place than the recorded batches: {origin}, not {former}",
            remedy="use code that reads the former place; or, if the same records have moved, run the pipeline with"
            " this code first",
            pipeline=topology.name,
        )


def moved_sources(topology: Topology, plan: QueryPlan, facts: QueryFacts) -> Iterable[str]:
    """A warning for each source of a continuing query that reads another place, at the position of the former one."""
    for name, origin, former in _elsewhere(topology, plan, facts):
        if name in facts.sources:
            yield (
                f"the source {name!r} reads {origin}, and goes on after what it has read of {former}: what is there"
                " up to that position is taken for the same records, and is not read"
            )


def moved_files(topology: Topology, plan: QueryPlan, facts: QueryFacts) -> Iterable[str]:
    """The sources of a continuing query that read another place, and know what they have read by itself, as files."""
    return (name for name, _, _ in _elsewhere(topology, plan, facts, self_contained=True))


def _elsewhere(
    topology: Topology, plan: QueryPlan, facts: QueryFacts, *, self_contained: bool = False
) -> Iterable[tuple[str, str, str]]:
    """The sources of a query that read another place than before: name, place now, and then.

    Either those whose positions are of that place, or those that are self-contained.
    """
    for name, origin in origins_of(topology, plan).items():
        source, former = topology[name], facts.origins.get(name, origin)
        if former != origin and (isinstance(source, Source) and source.self_contained) is self_contained:
            yield name, " ".join(origin), " ".join(former)


def refuse_renamed(topology: Topology, queries: Mapping[str, QueryFacts]) -> None:
    """TopologyChangedError for an output that writes to the location of a removed output."""
    here = {node.name for node in topology}
    known = {sink for facts in queries.values() for sink in (*facts.sinks, *facts.targets)}
    gone = {
        target: (sink, sink in facts.sinks)
        for facts in queries.values()
        for sink, target in facts.targets.items()
        if sink not in here
    }
    for sink in topology.sinks:
        target = _target(topology, sink.name)
        if sink.name in known or target is None or target not in gone:
            continue
        former, stands = gone[target]
        declared = _declared(former, sink.name) if stands else ""
        remedy = f"name it {former} as before{declared}; or write to another location"
        raise beside(topology, sink.name, former, remedy=remedy)


def refuse_ruled(topology: Topology, plan: QueryPlan, facts: QueryFacts) -> None:
    """TopologyChangedError for an output of a continuing query with changed rules for replacing or parting rows.

    So is one whose rows come and go, with another filter.

    Outputs that were last written by an earlier release are not checked; outputs without rows have none to replace.
    """
    for name in (name for name in plan.sinks if _has_rows(topology[name], facts)):
        was, rule = facts.rules.get(name, ()), _rule(topology, name)
        # Partitions of one version alone are other columns, which the table refuses.
        if was and rule and was[0] == rule[0] and any(old != new for old, new in zip(was, rule, strict=False)):
            raise TopologyChangedError(
                f"the output {name!r} would {', '.join(rule[1:])}, but has rows of a version that did"
                f" {', '.join(was[1:])}",
                remedy=f"{_ways_on(topology, plan, name)}; or leave the rows as they are, if you know that they still"
                " fit (--keep-state)",
                pipeline=topology.name,
            )


def refuse_partial(topology: Topology, plan: QueryPlan, facts: QueryFacts) -> None:
    """TopologyChangedError for a new output of current rows in a continuing query: it would lack those that stay."""
    if facts.rows_open == 0 and facts.catalogued < 0 and max(facts.sinks.values(), default=-1) < 0:
        return
    for name in (name for name in plan.sinks if name not in facts.sinks):
        step = current_of(topology, name)
        if step is not None:
            raise TopologyChangedError(
                f"the output {name!r} would have the changes of {step!r} from now on, and lack rows that do not change",
                remedy=f"{_afresh(plan)}, which writes all rows; or take only those that change from now on, if that is"
                " meant (--keep-state)",
                pipeline=topology.name,
            )


def refuse_taken_over(topology: Topology, plan: QueryPlan, begun: QueryFacts, others: Iterable[QueryFacts]) -> None:
    """TopologyChangedError for an output of a query that begins, if another query has written it in its generation.

    Its first batches would be taken for those of the other query.
    """
    rows = {
        sink: other
        for other in others
        for sink, batch in other.sinks.items()
        if sink in plan.sinks and batch >= 0 and other.generation == begun.generation
    }
    for sink, other in rows.items():
        former = f"the step {other.stateful!r}" if other.stateful else "a version without state"
        replaced = all(isinstance(topology[name], REPLACED) for name in plan.sinks)
        over = f"which replaces the rows of {', '.join(plan.sinks)}" if replaced else "and remove the rows there first"
        raise TopologyChangedError(
            f"the output {sink!r} has rows of {former}, and {plan.name!r} would read the input from its beginning:"
            " its first batches would be taken for those that are there",
            remedy=f"start over (--keep-state --reset-step {plan.forgettable[-1]}, or --new-generation), {over}; or"
            " write to another place under another name",
            pipeline=topology.name,
        )


def current_of(topology: Topology, name: str) -> str | None:
    """The step whose current rows an output has; None for an output of changes, or of rows that only come."""
    sink = topology[name]
    path = _path(topology, name) if isinstance(sink, Sink) and sink.flag is not None else []
    for step in path[:1]:
        if isinstance(step, TableState) or (isinstance(step, WindowAggregate) and step.endless):
            return step.name
    return None


def _ways_on(topology: Topology, plan: QueryPlan, name: str) -> str:
    """What else can be done where the rules of an output have changed."""
    where, afresh = "table", f"{_afresh(plan)}, which replaces the rows of {', '.join(plan.sinks)}"
    if not isinstance(topology[name], REPLACED):
        where, afresh = "place", f"remove its rows there, and {_afresh(plan)}"
    # Without a common step or output it would be another query, with the same checkpoint. A new output of current rows
    # would lack some.
    if (plan.stateful or len(plan.sinks) > 1) and current_of(topology, name) is None:
        return f"write the rows from now on to another {where} under another name; or {afresh}"
    return afresh


def read_again(topology: Topology, plan: QueryPlan, source: str, former: str, *, remedy: str) -> TopologyChangedError:
    """The error for a source that would re-read input which was read as `former`, which may be its own name."""
    called = f", as those of {former!r}" if former != source else ""
    return TopologyChangedError(
        f"the source {source!r} would be read from its beginning for {', '.join(plan.sinks)}, where its rows are"
        f" already{called}",
        remedy=remedy,
        pipeline=topology.name,
    )


def beside(topology: Topology, output: str, former: str, *, remedy: str) -> TopologyChangedError:
    """The error for an output at the location of `former`, which was removed."""
    return TopologyChangedError(
        f"the output {output!r} writes to the location of the removed output {former!r}",
        remedy=remedy,
        pipeline=topology.name,
    )


def _afresh(plan: QueryPlan) -> str:
    return f"start over (--reset-step {plan.forgettable[-1]}, or --new-generation)"


def _declared(former: str, name: str) -> str:
    return f", or declare that it was renamed: .build(renamed={{{former!r}: {name!r}}})"


def _origin(topology: Topology, name: str) -> tuple[str, ...]:
    source = topology[name]
    return source.origin if isinstance(source, Source) else ()


def _target(topology: Topology, name: str) -> str | None:
    sink = topology[name]
    if not isinstance(sink, Sink) or (isinstance(sink, DeltaSink) and sink.late):
        return None
    if isinstance(sink, DatabaseSink):
        return written_place(sink.where)
    if isinstance(sink, RedisSink):
        return written_place(sink.place)
    if isinstance(sink, SqliteSink):
        # SQLite table names ignore case.
        return f"{sink.path}:{sink.table.lower()}"
    return target_of(sink)


def _has_rows(sink: Node, facts: QueryFacts) -> bool:
    """Whether an output has rows; one that stores no batches may have some once its query had a batch."""
    forgetful = isinstance(sink, SearchSink) or (isinstance(sink, KafkaSink) and sink.delivery == "at_least_once")
    return facts.sinks.get(sink.name, -1) >= 0 or (forgetful and facts.catalogued >= 0)


def _rule(topology: Topology, name: str) -> tuple[str, ...]:
    """The place of an output and its rule; empty if its rows replace no others."""
    sink = topology[name]
    if not isinstance(sink, DeltaSink):
        removing = isinstance(sink, Sink) and sink.flag is not None
        place = sink.topic if isinstance(sink, KafkaSink) else _target(topology, name)
        passing = _passing(topology, name) if removing else ()
        return (place, *passing) if place is not None and passing else ()
    keys = f" by {', '.join(sorted(sink.keys))}" if sink.keys else ""
    newest = f", the newest by {', '.join(sink.order_by)}" if sink.order_by else ""
    gone = f", without those that are {sink.deletes}" if sink.deletes else ""
    since = f", valid from {sink.time_field}" if sink.time_field else ""
    parted = (f"in partitions by {sink.partitions.field} in {sink.partitions.zone}",) if sink.partitions else ()
    more = parted or (_passing(topology, name) if sink.keys else ())
    return str(target_of(sink)), f"{'take late rows' if sink.late else sink.mode}{keys}{newest}{gone}{since}", *more


def _passing(topology: Topology, name: str) -> tuple[str, ...]:
    """Which rows an output has of a step that retracts rows; empty for rows that only come.

    With another filter, or other fields that it reads, a row that goes would not reach the output that has it.
    """
    path = _path(topology, name)
    if not path:
        return ()
    steps = deciding(path[1:])
    if not steps:
        return ("have all rows",)
    conditions = " and ".join(" | ".join(step.identity()) for step in steps if leaves_out(step))
    computed = " and ".join(text for step in steps if not leaves_out(step) for text in step.identity())
    return (f"have rows for which {conditions}" + (f" with {computed}" if computed else ""),)


def _path(topology: Topology, name: str) -> list[Node]:
    """The step that retracts rows upstream of an output, and the steps between; empty if no single path leads there."""
    path, node = list[Node](), topology[name]
    while not retracts(node):
        if len(node.inputs) != 1:
            return []
        node = topology[node.inputs[0]]
        path.insert(0, node)
    return path

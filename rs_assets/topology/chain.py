"""Chained stateful steps in one query: how the event time of a step follows from the steps upstream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import Any, Final

from rs_assets.common.node import Node
from rs_assets.connectors.nodes import Source
from rs_assets.errors import TopologyError
from rs_assets.operators.window.bounds import EventTimeBounds
from rs_assets.records.policy import BadRecords
from rs_assets.topology.nodes.dim_join import DimJoin
from rs_assets.topology.nodes.fold import Fold
from rs_assets.topology.nodes.join import StreamJoin
from rs_assets.topology.nodes.match import MatchRules
from rs_assets.topology.nodes.process import Process
from rs_assets.topology.nodes.shuffle import Shuffle
from rs_assets.topology.nodes.step import Expect, Filter, ForEach, Map, Select, SelectFields, Split, Union, WithFields
from rs_assets.topology.nodes.table import ToTable
from rs_assets.topology.nodes.timed import NONE, Arrival, Side, TimedState
from rs_assets.topology.nodes.window import WindowAggregate, accumulators_of
from rs_assets.topology.user_code.expression import SqlText, calls_python

Ancestors = Callable[[str], AbstractSet[str]]
DURABLE = ".shuffle(n, strategy='delta')"
# Why a step without an event time cannot follow another, and what to do, by its family.
TIMELESS: Final[Mapping[str, tuple[str, str]]] = {
    "window": ("goes by the time of arrival", "name its time field, such as 'end_time'"),
    "join": ("has no bound in time", "give it one, such as within=Time.minutes(10)"),
}


@dataclass(frozen=True, slots=True)
class Link:
    """How a step follows the stateful steps upstream: none of their rows is ever late for it.

    Its windows close `lag` after their end, by the watermark that reaches it: the greatest event time seen less
    `water_mark`, the delay of the first step (the longest of several). The steps between hold back `held` of that.
    """

    lag: timedelta
    water_mark: timedelta
    held: timedelta = NONE


def link_of(links: Mapping[str, Link], node: TimedState) -> Link:
    """The link of `node`. A step that follows no other has its own watermark delay and no lag."""
    return links.get(node.name, Link(NONE, max((side.water_mark for side in node.sides), default=NONE)))


def links_of(nodes: Iterable[Node], ancestors: Ancestors) -> Mapping[str, Link]:
    """The links of all stateful steps downstream of another stateful step, by name.

    `nodes` are those of a topology in its order, `ancestors` gives the names of all steps upstream of a step.
    TopologyError for a step that Spark cannot chain, with what to write instead.
    """
    known = {node.name: node for node in nodes}
    found: dict[str, Link] = {}
    for node in known.values():
        if not node.stateful or not any(known[name].stateful for name in ancestors(node.name)):
            continue
        if isinstance(node, TimedState) and node.untimed:
            _check_untimed(node, known, ancestors)
        else:
            found[node.name] = _link(_chainable(node, known, ancestors), known, ancestors, found)
    return found


def nearest_states(node: Node, field: str, known: Mapping[str, Node], ancestors: Ancestors) -> tuple[TimedState, ...]:
    """The nearest steps with state on all paths to `node`; TopologyError if one does not pass `field` on unchanged."""
    return tuple(dict.fromkeys(each for name in node.inputs for each in _nearest(node, name, field, known, ancestors)))


def entries(node: TimedState, states: AbstractSet[str], ancestors: Ancestors) -> tuple[Side, ...]:
    """The sides of `node` whose rows have passed none of the steps `states`: there a watermark begins."""
    fresh = (side for side, above in inputs_of(node) if states.isdisjoint(ancestors(above) | {above}))
    return tuple(dict.fromkeys(fresh))


def inputs_of(node: TimedState) -> Iterator[tuple[Side, str]]:
    """Each side of `node` with the step that feeds it; all inputs may share one side."""
    sides = node.sides if len(node.sides) == len(node.inputs) else node.sides * len(node.inputs)
    yield from zip(sides, node.inputs, strict=False)


def _link(node: TimedState, known: Mapping[str, Node], ancestors: Ancestors, found: Mapping[str, Link]) -> Link:
    fresh = entries(node, {name for name, each in known.items() if each.stateful}, ancestors)
    lags, held = [NONE], [NONE]
    delays = [NONE, *(side.water_mark for side in fresh)]
    for side, name in inputs_of(node):
        field = side.time_field or ""
        for step in () if side in fresh else _nearest(node, name, field, known, ancestors):
            link = link_of(found, step)
            lags.append(node.lag(_arrival(node, step, field, link.lag)))
            delays.append(link.water_mark + step.holds)
            held.append(link.held + step.holds)
    return Link(max(lags), max(delays), max(held))


def _arrival(node: TimedState, step: TimedState, field: str, lag: timedelta) -> Arrival:
    arrival = step.leaving(field, lag)
    if arrival is None:
        raise _refused(
            node,
            step,
            f"takes its event time from {field!r}, which is not an event time of the rows of {step.name!r}",
            remedy="name one of its times (of a window 'start_time' or 'end_time', of a session 'end_time', of a join"
            " one that all its rows have)",
        )
    return arrival


def _check_untimed(node: TimedState, known: Mapping[str, Node], ancestors: Ancestors) -> None:
    """Refuse a step without event time downstream of one whose rows the watermark emits."""
    above = [each for name, each in known.items() if name in ancestors(node.name)]
    by_time = (each for each in above if isinstance(each, TimedState) and not each.untimed)
    timed = next((each for each in by_time if not _changing(each)), None)
    if timed is not None:
        raise _refused(node, timed, "keeps state without event time")
    first = next(each for each in above if each.stateful)
    _refuse_python(node, first, [each for each in above if first.name in ancestors(each.name)], above)


def _changing(node: TimedState) -> bool:
    """Whether it emits changes, as any table: one whose rows expire, and a join that retracts early rows."""
    return isinstance(node, ToTable) or (isinstance(node, StreamJoin) and node.early)


def _chainable(node: Node, known: Mapping[str, Node], ancestors: Ancestors) -> TimedState:
    """`node`, if it may follow a stateful step in one query."""
    assert isinstance(node, TimedState)  # all steps with state are, so far
    above = [known[name] for name in known if name in ancestors(node.name)]
    first = next(each for each in above if each.stateful)
    table = next((each for each in above if isinstance(each, TimedState) and each.untimed), None)
    if table is not None:
        raise _refused(node, table, "goes by event time, and no watermark passes through a table")
    alone = next((each for each in (node, *above) if isinstance(each, TimedState) and each.solitary), None)
    if alone is not None:
        what = "the timers of " if isinstance(alone, Process) else ""
        raise _refused(node, first, f"shares it with {what}{alone.name!r}, which needs a watermark of its own")
    if node.event_time is None:
        why, remedy = TIMELESS[node.family]
        raise _refused(node, first, why, remedy=remedy)
    linked = not entries(node, {each.name for each in above if each.stateful}, ancestors)
    if linked and (node.own_delay or node.by_split or node.bounds != EventTimeBounds()):
        raise _refused(
            node,
            first,
            "has a watermark or event-time bounds of its own, but rows of a stateful step are never late",
            remedy="leave water_mark() and event_time() out",
        )
    if isinstance(node, StreamJoin) and node.shared:
        why = "joins a stream with itself, so its records must come from a source with no stateful step between"
        raise _refused(node, first, why)
    if isinstance(node, WindowAggregate) and node.in_order:
        raise _refused(node, first, "takes rows in their order, which is supported for a single stateful step only")
    if isinstance(node, WindowAggregate) and node.often:
        raise _refused(node, first, "fires more than once, which is supported for a single stateful step only")
    often = next((each for each in above if isinstance(each, WindowAggregate) and each.fired), None)
    if often is not None:
        why = "would get several rows of a window, and not know which one is the last"
        raise _refused(node, often, "would not know when its rows come" if often.in_order else why)
    lossy = next((each for each in (*above, node) if isinstance(each, StreamJoin) and each.lossy), None)
    if lossy is not None:
        why = f"shares it with the semi join {lossy.name!r}, where Spark loses rows that are expired on arrival"
        raise _refused(node, first, why, remedy=f"give {lossy.name!r} processor=True")
    _refuse_python(node, first, [each for each in above if first.name in ancestors(each.name)], above)
    return node


def _refuse_python(node: Node, first: Node, between: Iterable[Node], above: Iterable[Node]) -> None:
    """Under quarantine a failed row of a window becomes a dead letter, which needs a place outside the query."""
    quarantines = any(isinstance(each, Source) and each.bad_records is BadRecords.QUARANTINE for each in above)
    # An accumulator is begun for each row before the window.
    begun = (each.step for each in accumulators_of(node))
    python = next(chain((each.name for each in between if calls_python(each)), begun), None)
    if quarantines and python is not None:
        raise _refused(node, first, f"follows the Python step {python!r}, whose failing rows could not be quarantined")


def _nearest(
    node: Node, name: str, field: str, known: Mapping[str, Node], ancestors: Ancestors
) -> Iterator[TimedState]:
    """The nearest stateful steps on all paths over `name`, an input of `node`, which pass `field` on unchanged."""
    above = known[name]
    if isinstance(above, TimedState):
        yield above
        return
    if not any(known[each].stateful for each in ancestors(name)):
        raise TopologyError(
            f"step {node.name!r} mixes rows of {name!r}, which have passed no stateful step, with rows that have",
            remedy=f"put {DURABLE} after each stateful step that is united here",
            step=node.name,
        )
    if not HANDS_ON.get(type(above), _nothing)(above, field):
        raise TopologyError(
            f"the event time {field!r} is computed by step {above.name!r}, so Spark cannot know which rows are still to"
            " come",
            remedy=f"pass the field on as it is, or put {DURABLE} after {above.name!r}",
            step=above.name,
        )
    for each in above.inputs:
        yield from _nearest(above, each, field, known, ancestors)


def _everything(_node: Node, _field: str) -> bool:
    return True


def _nothing(_node: Node, _field: str) -> bool:
    return False


def _beside(node: Fold, field: str) -> bool:
    return field not in node.made


def _selected(node: SelectFields, field: str) -> bool:
    return field in node.fields


def _kept(node: WithFields, field: str) -> bool:
    return field.casefold() not in {name.casefold() for name, _ in node.columns}


def _listed(node: Map, field: str) -> bool:
    return any(isinstance(each, SqlText) and each.text.strip().strip("`") == field for each in node.select)


def _beside_columns(node: DimJoin, field: str) -> bool:
    prefix, names = (node.prefix or "").casefold(), node.dimension.names
    if names is None:
        return bool(prefix) and not field.casefold().startswith(prefix)
    return field.casefold() not in {f"{prefix}{name.casefold()}" for name in names}


def _beside_rules(node: MatchRules, field: str) -> bool:
    return field.casefold() not in {name.casefold() for name in node.added}


# Whether a step passes a field on unchanged.
HANDS_ON: Final[Mapping[type[Node], Callable[[Any, str], bool]]] = {
    Filter: _everything,
    Expect: _everything,
    Fold: _beside,
    ForEach: _everything,
    Select: _everything,
    Split: _everything,
    Shuffle: _everything,
    Union: _everything,
    SelectFields: _selected,
    WithFields: _kept,
    Map: _listed,
    DimJoin: _beside_columns,
    MatchRules: _beside_rules,
}


def _refused(node: Node, first: Node, why: str, *, remedy: str = "") -> TopologyError:
    ways = [remedy] if remedy else []
    return TopologyError(
        f"step {node.name!r} cannot follow {first.name!r} in one query: it {why}",
        remedy=", or ".join([*ways, f"put {DURABLE} before {node.name!r}"]),
        step=node.name,
    )

"""Stateful steps that several clauses share: global windows, firings, durable shuffles."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from rs_assets.common.node import Node
from rs_assets.operators.window.global_window import GlobalWindow
from rs_assets.operators.window.spec import TumblingWindow, Window
from rs_assets.operators.window.trigger import ONCE
from rs_assets.sql.plan.planner import Planner, QueryContext
from rs_assets.sql.plan.relation import Relation
from rs_assets.stream.draft import StepRef
from rs_assets.topology.nodes.shuffle import ShuffleWrite
from rs_assets.topology.nodes.timed import TimedState
from rs_assets.topology.nodes.window import WindowAggregate

# The size of a window for all rows: a hundred years from 1970 on.
ALL_TIME: Final = timedelta(days=36_500)
# The fields that a value is computed from.
_NAMED: Final = re.compile(r"`((?:[^`]|``)+)`")


def all_time(relation: Relation) -> TumblingWindow:
    """One window for all rows, by their event time if they have one."""
    times = [c.value.field for c in relation.columns if c.value.role == "rowtime" and c.value.field is not None]
    return TumblingWindow.of(ALL_TIME, times[0] if times else None)


def for_ever(relation: Relation) -> GlobalWindow:
    """A global window, which emits only changes, and retracts earlier results."""
    return GlobalWindow.of(all_time(relation).time_field)


def fired(stream: Any, context: QueryContext, *, often: bool) -> Any:
    """The stream of a window's rows, fired by EMIT."""
    if not often and context.firing != ONCE:
        stream = replace(stream, firing=context.firing)
    return stream.to_data_stream()


def fires_often(context: QueryContext) -> bool:
    """Whether windows fire more than once by EMIT."""
    return context.firing != ONCE


def place_field(window: Window | None) -> str:
    """The field that identifies a window of a group: the end if windows begin together, else the start."""
    return "start_time" if window is None or "start_time" in window.places else "end_time"


def before_table(planner: Planner, relation: Relation, context: QueryContext, at: Any) -> Relation:
    """The rows of a stream as a step of a table takes them: after a step by event time in a query of their own."""
    alone = (relation.stateful or relation.apart) and not relation.untimed
    return shuffled(planner, relation, context, at) if alone else relation


def shuffled(planner: Planner, relation: Relation, context: QueryContext, at: Any) -> Relation:
    """The rows through a durable shuffle: downstream steps are a separate query, which may fire more than once."""
    fields = (c.value.field for c in relation.columns if c.value.field is not None)
    computed = (c.value.text for c in relation.columns if c.value.field is None and not c.value.role)
    inside = (name.replace("``", "`") for text in computed for name in _NAMED.findall(text))
    needed = tuple(dict.fromkeys([*fields, *(name for name in inside if name in relation.fields)]))
    stream = relation.stream
    if needed and set(needed) != set(relation.fields):
        stream = stream.select_fields(*needed, name=planner.name(context, "fields", at))
    stream = stream.shuffle(1, strategy="delta", name=planner.name(context, "shuffle", at))
    # Rows joined with a table are out of order as before; other stateful steps left no delay.
    return replace(
        relation, stream=stream, fields=needed or relation.fields, stateful=False, apart=False, untimed=False
    )


def last_states(step: str) -> frozenset[str]:
    """The steps with state that rows have passed last before `step`, in its query; an empty text for rows without."""
    above = list(_in_query(step))
    none = {""} if any(not node.stateful and not node.inputs for node in above) else set()
    return frozenset({node.name for node in above if node.stateful} | none)


def lacks_one_state(step: str) -> bool:
    """Whether rows of `step`, or those that a query before writes for it, have not all passed one state last."""
    above = step.upstream() if isinstance(step, StepRef) else ()
    written = (name for each in above if isinstance(each.node, ShuffleWrite) for name in each.node.inputs)
    return any(len(last_states(each)) > 1 for each in (step, *written))


def is_read_by_time(step: str, unions: Container[str]) -> bool:
    """Whether a step by event time reads one of `unions`, for which the rows of a query that lags would be late."""
    above = (each.node for each in (step.upstream() if isinstance(step, StepRef) else ()))
    timed = (node for node in above if isinstance(node, TimedState) and node.event_time is not None)
    ends = (node for node in timed if not (isinstance(node, WindowAggregate) and node.window.longest >= ALL_TIME))
    return any(read.name in unions for node in ends for name in node.inputs for read in _in_query(name))


def _in_query(step: str) -> Iterator[Node]:
    """The step and those upstream of it, up to the first ones with state and the begin of the query."""
    waiting, seen = [step], set[str]()
    while waiting:
        current = waiting.pop()
        if isinstance(current, StepRef) and current not in seen:
            seen.add(current)
            yield current.node
            waiting += () if current.node.stateful else current.node.inputs

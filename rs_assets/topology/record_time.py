"""The fields that may hold the time of a row, by the steps upstream: Kafka sinks send it as the record's timestamp."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from rs_assets.common.node import Node
from rs_assets.connectors.kafka.nodes import KafkaSource
from rs_assets.topology.nodes.join import StreamJoin
from rs_assets.topology.nodes.rule_windows import RuleWindows
from rs_assets.topology.nodes.step import Map, SelectFields
from rs_assets.topology.nodes.timed import TimedState
from rs_assets.topology.nodes.window import WindowAggregate
from rs_assets.topology.user_code.expression import SqlText

Times = tuple[str, ...]
END: Final = "end_time"
OF_RECORD: Final = "kafka_timestamp"
# A field in a select list, perhaps cast to another type of time or under another name.
LISTED: Final = re.compile(
    r"(?:cast\()?`?(?P<field>\w+)`?(?:\s+as\s+timestamp\w*\))?(?:\s+as\s+`?(?P<name>\w+)`?)?", re.IGNORECASE
)


def times_of(nodes: Iterable[Node], step: str) -> Times:
    """The fields of the rows of `step` that may hold their time, by precedence.

    `nodes` are `step` and all steps upstream, inputs first. A row of a window has its end; other rows have the event
    times of the steps before that still exist, the last step's first, else the timestamp of the Kafka record they were
    read from. A Python function may have dropped a field that is listed here.

    >>> from rs_assets import StreamBuilder
    >>> read = StreamBuilder.data_stream("shop", "copy").from_kafka("host:1", "in", format="raw", name="read")
    >>> nodes = read.map("value", "timestamp AS at", name="row").to_kafka("host:1", "out").build().topology.nodes
    >>> times_of(nodes, "read"), times_of(nodes, "row")
    (('timestamp',), ('at',))
    """
    found: dict[str, Times] = {}
    for node in nodes:
        above = dict.fromkeys(time for name in node.follows for time in found.get(name, ()))
        found[node.name] = tuple(dict.fromkeys(_of_node(node, tuple(above))))
    return found.get(step, ())


def _of_node(node: Node, above: Times) -> Times:
    rule = next((RULES[kind] for kind in type(node).__mro__ if kind in RULES), None)
    return rule(node, above) if rule is not None else above


def _read(node: KafkaSource, _above: Times) -> Times:
    return ("timestamp",) if node.format == "raw" else (OF_RECORD,) if "timestamp" in node.metadata else ()


def _windowed(node: WindowAggregate, _above: Times) -> Times:  # rows of windows come from many records
    own = node.event_time
    return (*(() if node.endless else (END,)), *((own,) if own in {*node.kept, *node.group_by} else ()))


def _alerted(_node: RuleWindows, _above: Times) -> Times:  # an alert comes from many records
    return (END,)


def _joined(node: StreamJoin, above: Times) -> Times:
    end = (END,) if node.place is not None else ()
    left, right = node.time_fields or ("", "")
    return (*end, *((left, f"{node.prefix or ''}{right}") if left else ()), *above)


def _timed(node: TimedState, above: Times) -> Times:
    return (*((node.event_time,) if node.event_time else ()), *above)


def _selected(node: SelectFields, above: Times) -> Times:
    return tuple(time for time in above if time in node.fields)


def _mapped(node: Map, above: Times) -> Times:
    """The fields that a select list keeps, by their new names; other maps may keep all."""
    if not node.select or not all(isinstance(each, SqlText) for each in node.select):
        return above
    listed = [LISTED.fullmatch(each.text.strip()) for each in node.select if isinstance(each, SqlText)]
    names = {each["field"]: each["name"] or each["field"] for each in listed if each is not None}
    return (
        above if any("*" in each.identity() for each in node.select) else tuple(names[t] for t in above if t in names)
    )


RULES: Final[Mapping[type[Node], Callable[[Any, Times], Times]]] = MappingProxyType(
    {
        KafkaSource: _read,
        WindowAggregate: _windowed,
        RuleWindows: _alerted,
        StreamJoin: _joined,
        TimedState: _timed,
        SelectFields: _selected,
        Map: _mapped,
    }
)

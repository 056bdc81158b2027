"""The check of a whole pipeline, in milliseconds and without Spark."""

from __future__ import annotations

from collections.abc import Mapping

from rs_assets.records.fields import UNKNOWN, Fields
from rs_assets.topology.check.rules import RULES
from rs_assets.topology.topology import Topology


def check_fields(topology: Topology) -> Mapping[str, Fields]:
    """The fields after each step, by its name, as far as they are known.

    UserError for the first step that is certainly wrong. Spark analyses each step before it reads a row, and may reject
    a pipeline that passes here.
    """
    known: dict[str, Fields] = {}
    for node in topology:
        rule = RULES.get(type(node))
        inputs = tuple(known[name] for name in node.follows)
        known[node.name] = rule(node, inputs) if rule else UNKNOWN
    return known

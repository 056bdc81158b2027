"""The steps of which a replay finds the record that ends a batch."""

from __future__ import annotations

from rs_assets.records.policy import BadRecords
from rs_assets.topology.topology import Topology


def located(topology: Topology) -> frozenset[str]:
    """The steps without state before them, of a pipeline that does not quarantine records.

    A replay of a batch computes these steps again, in Python, and has the position of each record.
    """
    if any(source.bad_records is BadRecords.QUARANTINE for source in topology.origins):
        return frozenset()
    states = frozenset(node.name for node in topology if node.stateful)
    return frozenset(
        node.name for node in topology if node.name not in states and states.isdisjoint(topology.ancestors(node.name))
    )

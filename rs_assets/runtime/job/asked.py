"""What a run asks of all sources of its pipeline, in place of their own settings."""

from __future__ import annotations

from dataclasses import replace

from rs_assets.common.node import Node
from rs_assets.connectors.nodes import Source
from rs_assets.records.policy import BadRecords
from rs_assets.runtime.options import RunOptions
from rs_assets.topology.topology import Topology


def as_asked(topology: Topology, options: RunOptions) -> Topology:
    """`topology` with the batch limits and the policy for bad records of a run; itself if the run asks for none.

    TopologyError for a setting that a source does not take, and for an unknown policy.
    """
    policy = None if options.bad_records is None else BadRecords.of(options.bad_records)
    rows, files = options.max_rows_per_batch, options.max_files_per_batch

    def asked(node: Node) -> Node:
        return node.in_a_run(rows=rows, files=files, policy=policy) if isinstance(node, Source) else node

    nodes = tuple(map(asked, topology))
    changed = any(new is not old for new, old in zip(nodes, topology, strict=True))
    return replace(topology, nodes=nodes) if changed else topology

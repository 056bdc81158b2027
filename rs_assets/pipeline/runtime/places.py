"""Where the durable shuffles of a pipeline lie: chosen before the first row goes through them, and kept for good.

A topic is shared by all who reach its cluster, so its name holds the id of the pipeline: another home that runs a
pipeline of the same name has another id.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rs_assets.engine.checkpoint.manifest import Manifest
from rs_assets.engine.connect.kafka.names import SHUFFLES
from rs_assets.pipeline.topology.shuffle import ShuffleRead, ShuffleWrite
from rs_assets.pipeline.topology.topology import Topology

# What the topics of shuffles began with when their names had no id.
FORMER = "rs."


def placed(topology: Topology, manifest: Manifest, begun: Callable[[str], bool]) -> tuple[Topology, Manifest]:
    """`topology` with the places of its durable shuffles, and the manifest that knows them.

    `begun` tells whether the query that writes into a step has planned a batch. Before it has, the place is made anew:
    nothing is known of what it holds.
    """
    places, inputs = dict(manifest.places), dict(manifest.inputs)
    nodes = {node.name: node for node in topology}
    for read in (node for node in topology if isinstance(node, ShuffleRead)):
        write = nodes[read.after]
        assert isinstance(write, ShuffleWrite)  # noqa: S101  the two are made together
        key, is_begun = manifest.stored_name(write.name), begun(write.name)
        if not is_begun:
            inputs.pop(read.name, None)
        place = places.setdefault(key, _place(write, manifest, begun=is_begun))
        nodes[read.name], nodes[write.name] = replace(read, place=place), replace(write, place=place)
    made = replace(topology, nodes=tuple(nodes[node.name] for node in topology))
    return made, replace(manifest, places=places, inputs=inputs)


def _place(write: ShuffleWrite, manifest: Manifest, *, begun: bool) -> str:
    if write.strategy == "delta":
        return write.place
    return write.place.replace(SHUFFLES, FORMER, 1) if begun else f"{write.place}.{manifest.pipeline_id}"

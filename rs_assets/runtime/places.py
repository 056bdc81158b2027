"""Locations of the durable shuffles of a pipeline: chosen before the first row, and never changed.

A table is stored next to the checkpoint of the query that writes it, and shares its fate: savepoints, rollbacks, forks.
A topic is visible to all clients of its cluster, so its name contains the id of the pipeline: another home that runs a
pipeline of the same name has another id.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rs_assets.checkpoint.manifest import Manifest
from rs_assets.common.home import Home
from rs_assets.connectors.kafka.client.names import SHUFFLES
from rs_assets.recovery.savepoints.listing import SHUFFLES as TABLES
from rs_assets.topology.nodes.shuffle import ShuffleRead, ShuffleWrite
from rs_assets.topology.topology import Topology

# The prefix of shuffle topics when their names had no id.
FORMER = "rs."
# The query that writes into a step: its stored name, and whether it has planned a batch.
Writer = tuple[str, bool]


def placed(
    topology: Topology, manifest: Manifest, home: Home, writer: Callable[[str], Writer]
) -> tuple[Topology, Manifest]:
    """`topology` with the locations of its durable shuffles, and the manifest with them.

    Until the writing query has planned a batch, the location is chosen again, and its content counts as unknown. A
    table that an earlier release created elsewhere is moved to its current location.
    """
    places, inputs = dict(manifest.places), dict(manifest.inputs)
    nodes = {node.name: node for node in topology}
    for read in (node for node in topology if isinstance(node, ShuffleRead)):
        write = nodes[read.after]
        assert isinstance(write, ShuffleWrite)  # the two are made together
        key, (query, begun) = manifest.stored_name(write.name), writer(write.name)
        if not begun:
            inputs.pop(read.name, None)
        if write.strategy == "kafka":
            place = places.setdefault(key, _topic(write, manifest, begun=begun))
            nodes[read.name], nodes[write.name] = replace(read, place=place), replace(write, place=place)
            continue
        known = places.get(key, "")
        places[key] = known if begun and _query(known) in manifest.queries else f"{query}/{TABLES}/{key}"
        job = home.job(topology.namespace, topology.job)
        folder = table_at(job, manifest, places[key])
        if begun and not _query(known):
            _move(home.shuffles / (known or write.place).replace(".", "/"), folder)
        # Its split has the name of the first step that read it.
        split = f"{topology.name}.{manifest.stored_name(read.name)}"
        nodes[read.name] = replace(read, place=split, folder=str(folder))
        nodes[write.name] = replace(write, place=split, folder=str(folder))
    made = replace(topology, nodes=tuple(nodes[node.name] for node in topology))
    return made, replace(manifest, places=places, inputs=inputs)


def table_at(job: Path, manifest: Manifest, place: str) -> Path:
    """The folder of a table, in the current generation of the query that writes it."""
    query, _, inside = place.partition("/")
    return manifest.place(job, query) / inside


def _query(place: str) -> str:
    """The stored name of the query of a table, "" for other locations."""
    query, found, _ = place.partition("/")
    return query if found else ""


def _move(former: Path, folder: Path) -> None:
    if former.is_dir() and not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        former.rename(folder)


def _topic(write: ShuffleWrite, manifest: Manifest, *, begun: bool) -> str:
    return write.place.replace(SHUFFLES, FORMER, 1) if begun else f"{write.place}.{manifest.pipeline_id}"

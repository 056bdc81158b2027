"""The datasets of a pipeline, named as OpenLineage names them: what its sources and dimensions read, what it writes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rs_assets.common.home import Home
from rs_assets.compile.sink import writer_of
from rs_assets.connectors.database.place import place_of
from rs_assets.connectors.nodes import Source
from rs_assets.connectors.registry import SOURCES
from rs_assets.operators.dimension.spec import DatabaseOrigin, DeltaOrigin, Dimension, FileOrigin
from rs_assets.topology.nodes.shuffle import ShuffleWrite
from rs_assets.topology.nodes.versioned import VersionedTable
from rs_assets.topology.topology import Topology

_URI = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://([^/ ]*)/?(.*)$", re.DOTALL)
# The names that OpenLineage has for kinds of systems, where SQLAlchemy has others.
_SCHEMES: Mapping[str, str] = {"postgresql": "postgres", "mariadb": "mysql", "s3a": "s3", "s3n": "s3"}
# Places that no other job can read.
_NO_PLACE = frozenset({"memory", "standard output", ""})


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset of OpenLineage: the system that has it, and its name there."""

    namespace: str
    name: str


def dataset_at(place: str) -> Dataset | None:
    """The dataset at a path or URI, or at the URL of a database followed by a blank and its table.

    None for a place that no other job can read. Of several servers the first one names the system.

    >>> dataset_at("/data/hits"), dataset_at("s3://lake/hits"), dataset_at("kafka://a:9092,b:9092/hits")
    (Dataset(namespace='file', name='/data/hits'), Dataset(namespace='s3://lake', name='hits'), \
Dataset(namespace='kafka://a:9092', name='hits'))
    >>> dataset_at("postgresql://db:5432/shop orders"), dataset_at("standard output")
    (Dataset(namespace='postgres://db:5432', name='shop.orders'), None)
    """
    if place in _NO_PLACE:
        return None
    found = _URI.match(place)
    if found is None:
        return Dataset("file", place) if place.startswith("/") else Dataset("rs-assets", place)
    scheme, servers, name = found.groups()
    server = re.split("[,;]", servers)[0]
    return Dataset(f"{_SCHEMES.get(scheme, scheme)}://{server}", name.replace(" ", "."))


def datasets_read(topology: Topology, home: Home) -> Mapping[str, tuple[Dataset, ...]]:
    """What the sources and the dimensions of a pipeline read, by step; steps whose place is not known are left out."""
    places = {node.name: SOURCES[type(node)].places(node, home) for node in topology if _is_read(node)}
    places |= {
        node.name: _dimension_places(node.dimension, home, topology.namespace, step=node.name)
        for node in topology
        if isinstance(node, VersionedTable) and isinstance(node.dimension, Dimension)
    }
    made = {step: tuple(filter(None, map(dataset_at, found))) for step, found in places.items()}
    return {step: found for step, found in made.items() if found}


def datasets_written(topology: Topology, home: Home) -> Mapping[str, Dataset]:
    """What the sinks of a pipeline write, by step; those that only this pipeline reads are left out."""
    made = {
        sink.name: dataset_at(writer_of(sink, home, topology.namespace).location())
        for sink in topology.sinks
        if not isinstance(sink, ShuffleWrite)
    }
    return {step: found for step, found in made.items() if found is not None}


def _is_read(node: object) -> bool:
    """Whether it is a source of another system, and not the reading half of a shuffle."""
    return isinstance(node, Source) and not node.follows and type(node) in SOURCES


def _dimension_places(dimension: Dimension, home: Home, namespace: str, *, step: str) -> tuple[str, ...]:
    match dimension.origin:
        case FileOrigin(path=path):
            return (path,)
        case DeltaOrigin(table=table):
            return (home.table(namespace, table),)
        case DatabaseOrigin(url=url, table=table) if table is not None:
            return (place_of(url, table, step=step),)
        case _:
            return ()

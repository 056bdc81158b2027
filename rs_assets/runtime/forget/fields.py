"""The fields that a pipeline has: a misspelt one must not be taken for one of which nothing was found."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.delta.rows import dataset_of
from rs_assets.connectors.delta.table import open_table
from rs_assets.connectors.store.nodes import StoreSink
from rs_assets.errors import ConfigurationError, UserError
from rs_assets.records.types import Type
from rs_assets.runtime.forget.keys import Keys
from rs_assets.runtime.forget.nested import field_names
from rs_assets.runtime.forget.tables import dead_letters
from rs_assets.runtime.forget.world import World
from rs_assets.runtime.job.analysis import schemas_of
from rs_assets.topology.check.build import check_fields


def check_named(world: World) -> None:
    """ConfigurationError for a field that no step, output or dead letter has, and for a place that is unknown."""
    _check_places(world)
    known = {*_declared(world), *_stored(world)}
    if not _missing(world, known):
        return
    analysed = _analysed(world)
    if analysed is None:
        return
    known |= analysed
    for name in _missing(world, known):
        if not _in_letters(world, name):
            raise _unknown(world, name, known)


def _missing(world: World, known: set[str]) -> list[str]:
    """The fields that are unknown under their own name and under those of places."""
    keys = world.keys
    names = {name: {name, *(column for (_, column), of in keys.columns.items() if of == name)} for name in keys.values}
    return [name for name, columns in names.items() if not any(_has(known, column) for column in columns)]


def _has(known: set[str], column: str) -> bool:
    """A path is known by the names of its parts: the search itself goes by their order."""
    return column in known or all(part in known for part in column.split("."))


def _check_places(world: World) -> None:
    topology = world.topology
    tables = [node.table for node in topology if isinstance(node, DeltaSink)]
    stores = [node.store for node in topology if isinstance(node, StoreSink)]
    places = list(dict.fromkeys([*(node.name for node in topology), *tables, *stores]))
    for place, column in world.keys.columns:
        if place not in places:
            raise ConfigurationError(
                f"{place!r} of the column {column!r} is not a place of {topology.name}",
                remedy=f"{_near(place, places)}name a step, an output or its table: {', '.join(places)}",
            )


def _declared(world: World) -> Iterator[str]:
    """The fields of steps that are known without Spark, and those of inferred schemas."""
    for fields in check_fields(world.topology).values():
        yield from _parts(fields.types)
    for schema in world.manifest.schemas.values():
        yield from field_names(to_arrow_schema(StructType.fromJson(json.loads(schema)), timezone="UTC"))


def _parts(types: Mapping[str, Type | None]) -> Iterator[str]:
    for name, kind in types.items():
        yield name
        if kind is not None:
            yield from _parts(dict(kind.parts))


def _stored(world: World) -> Iterator[str]:
    """The columns of outputs."""
    topology = world.topology
    for sink in (node for node in topology.sinks if isinstance(node, DeltaSink)):
        path = world.options.home.table(topology.namespace, sink.table)
        table = open_table(path)
        if table is not None:
            yield from field_names(dataset_of(table, path).schema)


def _analysed(world: World) -> set[str] | None:
    """The fields of steps as Spark knows them; None for state of a pipeline that it cannot analyse before a start."""
    if all(fields.whole for fields in check_fields(world.topology).values()):
        return set()
    try:
        schemas = schemas_of(world.topology, world.options.driver)
    except UserError:
        return None if any(query.plan.states for query in world.queries) else set()
    return {name for schema in schemas.values() for name in field_names(to_arrow_schema(schema, timezone="UTC"))}


def _in_letters(world: World, name: str) -> bool:
    """Whether a dead letter has it: records have fields that the pipeline does not read."""
    alone = Keys({name: world.keys.values[name]})
    return bool(dead_letters(replace(world, keys=alone)).found().rows)


def _unknown(world: World, name: str, known: set[str]) -> ConfigurationError:
    names = sorted(known)
    return ConfigurationError(
        f"{world.topology.name} has no field {name!r} in a step, an output or a dead letter",
        remedy=f"{_near(name, names)}name one of: {', '.join(names)}; a column of another name is written"
        f" PLACE:COLUMN={name}",
        pipeline=world.topology.name,
    )


def _near(name: str, names: list[str]) -> str:
    near = [each for each in names if each.casefold() == name.casefold()] or get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}? " if near else ""

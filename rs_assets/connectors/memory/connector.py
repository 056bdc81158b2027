"""`CONNECTOR` for rows of the program: its nodes, with what compiler and Dagster need of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from rs_assets.common.home import Home
from rs_assets.common.plural import count_of
from rs_assets.connectors.connector import (
    Connector,
    SinkConnector,
    SourceConnector,
    declared_fields,
)
from rs_assets.connectors.memory.nodes import ArraySource, MemorySink, MemorySource
from rs_assets.records.fields import Fields
from rs_assets.records.schema import DDL_TYPES
from rs_assets.records.types import Type

if TYPE_CHECKING:
    from rs_assets.connectors.sink import SinkWriter
    from rs_assets.connectors.source import SourceReader

# Of larger inputs only the names are checked.
TYPED_ROWS: Final = 10_000
# The digits of a decimal are counted when the pipeline starts.
PYTHON_TYPES: Final[Mapping[object, Type]] = {k: Type(text) for k, text in DDL_TYPES.items() if k is not Decimal}


def _array_reader(node: ArraySource, _home: Home) -> SourceReader:
    from rs_assets.connectors.memory.array import ArrayReader

    return ArrayReader(name=node.name, rows=node.rows)


def _reader(node: MemorySource, _home: Home) -> SourceReader:
    from rs_assets.connectors.memory.reader import MemoryReader

    return MemoryReader(name=node.name, channel=node.channel)


def _writer(node: MemorySink, _home: Home, _namespace: str) -> SinkWriter:
    from rs_assets.connectors.memory.writer import MemoryWriter

    return MemoryWriter(node.name, node.channel)


def _array_fields(node: ArraySource) -> Fields:
    if node.schema is not None:
        return declared_fields(node)
    names = dict.fromkeys(name for row in node.rows for name in row)
    if len(node.rows) > TYPED_ROWS:
        return Fields(dict.fromkeys(names))
    return Fields({name: _type_of_values(node, name) for name in names})


def _type_of_values(node: ArraySource, name: str) -> Type | None:
    kinds = {type(row.get(name)) for row in node.rows} - {type(None)}
    return PYTHON_TYPES.get(kinds.pop()) if len(kinds) == 1 else None


CONNECTOR = Connector(
    sources=(
        SourceConnector(
            node=ArraySource,
            reader=_array_reader,
            describe=lambda node: f"Reads {count_of(len(node.rows), 'row')} of the program",
            fields=_array_fields,
            shortened=lambda node, rows, _folder: replace(node, rows=node.rows[:rows]),
        ),
        SourceConnector(
            node=MemorySource,
            reader=_reader,
            describe=lambda _: "Reads the rows that the process puts into a memory channel",
        ),
    ),
    sinks=(
        SinkConnector(
            node=MemorySink,
            writer=_writer,
            describe=lambda _: "Collects rows in a memory channel of the process",
        ),
    ),
)

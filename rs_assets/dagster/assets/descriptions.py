"""Descriptions of assets: a sentence of Markdown on what a step does, shown below the asset's name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from rs_assets.topology.nodes.base import Node
from rs_assets.topology.nodes.custom import CustomSource
from rs_assets.topology.nodes.delta import DeltaSource
from rs_assets.topology.nodes.dim_join import DimJoin
from rs_assets.topology.nodes.distinct import Distinct
from rs_assets.topology.nodes.join import StreamJoin
from rs_assets.topology.nodes.sink import DeltaSink, FileSink, KafkaSink, MemorySink, PrintSink, WriterSink
from rs_assets.topology.nodes.source import ArraySource, FileSource, KafkaSource, MemorySource
from rs_assets.topology.nodes.sqlite import SqliteSink, SqliteSource
from rs_assets.topology.nodes.window import WindowAggregate

# Names of formats in a sentence; the others are written in capitals.
FORMATS = MappingProxyType({"text": "text", "parquet": "Parquet"})
# What a Delta sink does, by mode; `keys` are those of the node.
DELTA = MappingProxyType(
    {
        "append": "Appends rows to the Delta table {table}",
        "upsert": "Keeps one row for each {keys} in the Delta table {table}",
        "complete": "Holds the current rows of all windows in the Delta table {table}",
    }
)


def describe_step(node: Node) -> str:
    """What `node` does.

    >>> describe_step(FileSource(name="clicks", path="clicks.jsonl"))
    'Reads the JSON of `clicks.jsonl`.'
    """
    return f"{SENTENCES[type(node)](node)}."


def _files(node: FileSource) -> str:
    form = FORMATS.get(node.format, node.format.upper())
    text = "Follows the {} of {} as it grows" if node.tail else "Reads the {} of {}"
    return text.format(form, _code(node.written))


def _topics(node: KafkaSource) -> str:
    named = f"{_listed(node.topics)} of Kafka" if node.topics else f"Kafka topics that match {_code(str(node.pattern))}"
    return f"Reads the records ({node.format}) of {named}"


def _to_delta(node: DeltaSink) -> str:
    table = _code(node.table)
    text = DELTA[node.mode].format(table=table, keys=_listed(node.keys))
    if node.late:
        text = f"Appends late rows to the Delta table {table}"
    gone = f"; a row whose {_code(node.deletes)} is true deletes it" if node.deletes else ""
    return f"{text}{gone}{', partitioned by ' + _listed(node.partition_by) if node.partition_by else ''}"


def _to_kafka(node: KafkaSink) -> str:
    where = _code(node.topic) if node.topic else f"in its {_code(str(node.topic_field))}"
    return f"Sends each row to the Kafka topic {where}, {node.delivery.replace('_', ' ')}"


def _code(name: str) -> str:
    return f"`{name}`"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(_code, names))


# One entry for each kind of step that is an asset.
SENTENCES: Mapping[type[Node], Callable[[Any], str]] = MappingProxyType(
    {
        ArraySource: lambda node: f"Reads {len(node.rows):,} rows of the program",
        MemorySource: lambda _: "Reads the rows that the process puts into a memory channel",
        FileSource: _files,
        KafkaSource: _topics,
        DeltaSource: lambda node: (
            f"Reads {'all changes of' if node.changes else 'rows added to'} the Delta table {_code(node.table)}"
        ),
        SqliteSource: lambda node: f"Reads the SQLite table {_code(node.table)} of {_code(node.path)}",
        CustomSource: lambda node: f"Reads rows with {_code(node.detail())}, a source of this project",
        DimJoin: lambda node: f"The dimension of `{node.name}`, from {_code(node.dimension.text)}",
        WindowAggregate: lambda node: f"Aggregates rows in windows, {node.detail()}",
        Distinct: lambda node: (
            f"Passes on the first row of each {_listed(node.fields)}, and remembers it for {node.within}"
        ),
        StreamJoin: lambda node: f"Joins two streams, {node.detail()}",
        PrintSink: lambda _: "Shows each batch on standard output",
        FileSink: lambda node: f"Writes rows as JSON lines below {_code(node.path)}",
        MemorySink: lambda _: "Collects rows in a memory channel of the process",
        DeltaSink: _to_delta,
        KafkaSink: _to_kafka,
        WriterSink: lambda node: f"Writes rows with {_code(node.detail())}, a sink of this project",
        SqliteSink: lambda node: f"Adds rows to the SQLite table {_code(node.table)} of {_code(node.path)}",
    }
)

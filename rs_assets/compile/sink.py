"""Sinks: the frame to write, and its writer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, BooleanType, MapType, StructType

from rs_assets.common.home import Home
from rs_assets.common.project import anchored
from rs_assets.compile.planner.context import CompileContext, Flow
from rs_assets.compile.shuffle import place_of
from rs_assets.connectors.console import ConsoleWriter
from rs_assets.connectors.delta.partitions import may_partition
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.connectors.files.writer import FileWriter
from rs_assets.connectors.kafka.sink.at_least_once import KafkaWriter
from rs_assets.connectors.kafka.sink.exactly_once import TransactionalWriter
from rs_assets.connectors.kafka.sink.records import records
from rs_assets.connectors.memory.writer import MemoryWriter
from rs_assets.connectors.messages import no_condition
from rs_assets.connectors.sink import SinkWriter
from rs_assets.connectors.sqlite.writer import SqliteWriter
from rs_assets.errors import TopologyError
from rs_assets.records.columns import ORDER, check_fields, hidden, visible
from rs_assets.topology.nodes import sink as nodes
from rs_assets.topology.nodes.base import Node
from rs_assets.topology.nodes.shuffle import ShuffleWrite
from rs_assets.topology.nodes.sqlite import SqliteSink

# Types whose values are compared by their parts, or not at all.
NESTED = (ArrayType, MapType, StructType)


def compile_sink(context: CompileContext, node: nodes.Sink, inputs: tuple[Flow, ...]) -> Flow:  # noqa: ARG001  the table's form
    """The rows without hidden columns."""
    df = inputs[0].df
    if isinstance(node, nodes.DeltaSink):
        check_columns(df, node)
    if isinstance(node, nodes.KafkaSink):
        _ = records(df, node.shape, step=node.name)
    return Flow(shown(df, node))


def shown(df: DataFrame, node: Node) -> DataFrame:
    """`df` without hidden columns, except those by which an upsert finds the row that was read last."""
    kept = ORDER if isinstance(node, nodes.DeltaSink) and node.read_order else ()
    return df.drop(*(name for name in hidden(df.columns) if name not in kept))


def check_columns(df: DataFrame, node: nodes.DeltaSink) -> None:
    """TopologyError if a field that the sink names is missing or has an unsuitable type, or a field has no type."""
    check_fields(df, node.named, step=node.name)
    kinds = {field.name: field.dataType for field in df.schema.fields}
    if node.deletes is not None and not isinstance(kinds[node.deletes], BooleanType):
        raise no_condition(node.deletes, kinds[node.deletes].simpleString(), step=node.name)
    wrong = [
        *(f"the key {n!r} is {kinds[n].simpleString()}" for n in node.keys if isinstance(kinds[n], NESTED)),
        *(f"{n!r} of order_by is {kinds[n].simpleString()}" for n in node.order_by if isinstance(kinds[n], NESTED)),
        *(
            f"{n!r} of partition_by is {kinds[n].simpleString()}"
            for n in node.partition_by
            if not may_partition(kinds[n])
        ),
    ]
    if wrong:
        raise TopologyError(
            f"step {node.name!r}: {wrong[0]}, which is not a plain value",
            remedy="name fields of texts, whole numbers or times",
            step=node.name,
        )
    void = [name for name, kind in kinds.items() if "void" in kind.simpleString()]
    if void:
        raise TopologyError(
            f"step {node.name!r}: the field {void[0]!r} is null in all rows, so it has no type",
            remedy="give the source a schema, or cast it with with_fields",
            step=node.name,
        )
    quote = [name for name in kinds if "`" in name]
    if quote and node.mode == "upsert" and node.connector == "native":
        raise TopologyError(
            f"step {node.name!r}: delta-rs cannot merge a field with a backtick in its name, {quote[0]!r}",
            remedy="rename it before the sink, or use connector='jvm'",
            step=node.name,
        )
    if node.partition_by and not set(visible(df.columns)) - set(node.partition_by):
        raise TopologyError(f"step {node.name!r}: partition_by leaves no field for the files", step=node.name)


def _delta(node: nodes.DeltaSink, home: Home, namespace: str) -> SinkWriter:
    return DeltaWriter(
        name=node.name,
        path=home.table(namespace, node.table),
        mode=node.mode,
        keys=node.keys,
        connector=node.connector,
        order_by=node.order_by,
        deletes=node.deletes,
        partition_by=node.partition_by,
    )


def _kafka(node: nodes.KafkaSink, home: Home, namespace: str) -> SinkWriter:  # noqa: ARG001  the table's form
    made = KafkaWriter if node.delivery == "at_least_once" else TransactionalWriter
    return made(name=node.name, cluster=node.cluster, shape=node.shape, options=node.options)


WRITERS: Mapping[type[nodes.Sink], Callable[[Any, Home, str], SinkWriter]] = MappingProxyType(
    {
        nodes.PrintSink: lambda node, _home, _ns: ConsoleWriter(node.name, node.max_rows),
        nodes.FileSink: lambda node, _home, _ns: FileWriter(node.name, anchored(node.path)),
        nodes.MemorySink: lambda node, _home, _ns: MemoryWriter(node.name, node.channel),
        nodes.DeltaSink: _delta,
        nodes.KafkaSink: _kafka,
        SqliteSink: lambda node, _home, _ns: SqliteWriter(node.name, node.path, node.table),
        nodes.WriterSink: lambda node, _home, _ns: node.writer,
        ShuffleWrite: lambda node, home, _ns: place_of(node, home).writer(node.name),
    }
)


def writer_of(node: nodes.Sink, home: Home, namespace: str) -> SinkWriter:
    """The writer of a sink node."""
    return WRITERS[type(node)](node, home, namespace)

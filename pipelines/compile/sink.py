"""Sinks: the frame as it is written, and the writer that writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from pipelines.compile.shuffle import place_of
from pipelines.compile.wiring import Flow, Wiring
from pipelines.topology import sink as nodes
from pipelines.topology.shuffle import ShuffleWrite
from resources.home import Home
from resources.sink.base import SinkWriter
from resources.sink.console import ConsoleWriter
from resources.sink.delta import DeltaWriter
from resources.sink.files import FileWriter
from resources.sink.kafka.at_least_once import KafkaWriter
from resources.sink.kafka.exactly_once import TransactionalWriter
from resources.sink.kafka.records import records
from resources.sink.memory import MemoryWriter
from resources.source.columns import hidden
from resources.window.aggregate import check_fields


def compile_sink(wiring: Wiring, node: nodes.Sink, inputs: tuple[Flow, ...]) -> Flow:  # noqa: ARG001  the table's form
    """The rows without hidden columns."""
    df = inputs[0].df
    if isinstance(node, nodes.DeltaSink):
        check_fields(df, node.keys, step=node.name)
    if isinstance(node, nodes.KafkaSink):
        _ = records(df, node.shape, step=node.name)
    return Flow(df.drop(*hidden(df.columns)))


def _delta(node: nodes.DeltaSink, home: Home, namespace: str) -> SinkWriter:
    return DeltaWriter(
        name=node.name,
        path=home.table(namespace, node.table),
        mode=node.mode,
        keys=node.keys,
        connector=node.connector,
    )


def _kafka(node: nodes.KafkaSink, home: Home, namespace: str) -> SinkWriter:  # noqa: ARG001  the table's form
    made = KafkaWriter if node.delivery == "at_least_once" else TransactionalWriter
    return made(name=node.name, cluster=node.cluster, shape=node.shape, options=node.options)


WRITERS: Mapping[type[nodes.Sink], Callable[[Any, Home, str], SinkWriter]] = MappingProxyType(
    {
        nodes.PrintSink: lambda node, _home, _ns: ConsoleWriter(node.name, node.max_rows),
        nodes.FileSink: lambda node, _home, _ns: FileWriter(node.name, node.path),
        nodes.MemorySink: lambda node, _home, _ns: MemoryWriter(node.name, node.channel),
        nodes.DeltaSink: _delta,
        nodes.KafkaSink: _kafka,
        nodes.WriterSink: lambda node, _home, _ns: node.writer,
        ShuffleWrite: lambda node, home, _ns: place_of(node, home).writer(node.name),
    }
)


def writer_of(node: nodes.Sink, home: Home, namespace: str) -> SinkWriter:
    """The writer behind a sink node."""
    return WRITERS[type(node)](node, home, namespace)

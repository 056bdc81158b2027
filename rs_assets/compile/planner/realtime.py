"""Pipelines for Spark's real-time mode: stateless JVM steps, from Kafka to one Kafka topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from rs_assets.common.node import Node
from rs_assets.connectors.kafka.nodes import KafkaSink
from rs_assets.connectors.nodes import Source
from rs_assets.errors import ConfigurationError, TopologyError
from rs_assets.topology.nodes.versioned import VersionedTable
from rs_assets.topology.topology import Topology
from rs_assets.topology.user_code.expression import calls_by_name, calls_python

REMEDY = "start it without latency='real-time'"


def check_real_time(topology: Topology) -> None:
    """TopologyError names the first step that real-time mode does not support, and why."""
    for node in topology:
        reason = _stateful(node) or RULES.get(node.family, _step)(node)
        if reason:
            raise TopologyError(
                f"step {node.name!r} cannot be run in real time: {reason}", remedy=REMEDY, step=node.name
            )
    if len(topology.sinks) != 1:
        raise TopologyError("real-time mode writes to one topic: this pipeline has several sinks", remedy=REMEDY)


def check_slots(partitions: int, cores: int) -> None:
    """ConfigurationError if Spark could not read all partitions at once: it would silently leave some out."""
    if partitions > cores:
        raise ConfigurationError(
            f"real-time mode needs a slot for each of the {partitions} partitions, Spark has {cores}",
            remedy=f"RS_SPARK_MASTER='local[{partitions}]', or SparkSettings(master=...): slots may outnumber cores",
        )


def _stateful(node: Node) -> str:
    return "it keeps state" if node.stateful else ""


def _source(node: Node) -> str:
    if not (isinstance(node, Source) and node.real_time):
        return "only Kafka sources are supported"
    if node.bad_records.keeps_dead_letters:
        return f"bad_records={node.bad_records.value!r} reads batches again; use 'fail' or 'skip'"
    return ""


def _sink(node: Node) -> str:
    if not isinstance(node, KafkaSink):
        return "only Kafka sinks are supported"
    return "it supports at-least-once delivery only" if node.delivery != "at_least_once" else ""


def _step(node: Node) -> str:
    if isinstance(node, VersionedTable):
        return "the version of its dimension is recorded for each batch"
    called = calls_python(node) or calls_by_name(node)
    return "a Python function holds rows back until the end of the batch" if called else ""


def _shuffle(_node: Node) -> str:
    return "a shuffle waits for the end of the batch"


RULES: Mapping[str, Callable[[Node], str]] = MappingProxyType({"source": _source, "sink": _sink, "shuffle": _shuffle})

"""The compiler: one function a node type. A type without one fails here, when the project is imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from pyspark.errors import AnalysisException

from rs_assets.engine.source.columns import visible
from rs_assets.errors import RsError, TopologyError, UnknownFieldError
from rs_assets.pipeline.compile.shuffle import compile_shuffle, compile_shuffle_read, compile_shuffle_write
from rs_assets.pipeline.compile.sink import WRITERS, compile_sink
from rs_assets.pipeline.compile.source import compile_source
from rs_assets.pipeline.compile.step import (
    compile_filter,
    compile_flat_map,
    compile_for_each,
    compile_map,
    compile_select,
    compile_select_fields,
    compile_split,
    compile_union,
    compile_with_fields,
)
from rs_assets.pipeline.compile.window import compile_window
from rs_assets.pipeline.compile.wiring import Flow, Wiring
from rs_assets.pipeline.topology import shuffle, sink, source, step, window
from rs_assets.pipeline.topology.base import Node

CompileFunction = Callable[[Wiring, Any, tuple[Flow, ...]], Flow]

COMPILE: Mapping[type[Node], CompileFunction] = MappingProxyType(
    {
        source.ArraySource: compile_source,
        source.MemorySource: compile_source,
        source.FileSource: compile_source,
        source.KafkaSource: compile_source,
        step.Map: compile_map,
        step.FlatMap: compile_flat_map,
        step.Filter: compile_filter,
        step.ForEach: compile_for_each,
        step.SelectFields: compile_select_fields,
        step.WithFields: compile_with_fields,
        step.Union: compile_union,
        step.Split: compile_split,
        step.Select: compile_select,
        shuffle.Shuffle: compile_shuffle,
        shuffle.ShuffleWrite: compile_shuffle_write,
        shuffle.ShuffleRead: compile_shuffle_read,
        window.WindowAggregate: compile_window,
        sink.PrintSink: compile_sink,
        sink.WriterSink: compile_sink,
        sink.FileSink: compile_sink,
        sink.MemorySink: compile_sink,
        sink.DeltaSink: compile_sink,
        sink.KafkaSink: compile_sink,
    }
)


def compile_node(wiring: Wiring, node: Node, inputs: tuple[Flow, ...]) -> Flow:
    """The flow behind `node`; what Spark's analysis refuses becomes an error that names the step."""
    try:
        flow = COMPILE[type(node)](wiring, node, inputs)
        _ = flow.df.schema
    except AnalysisException as error:
        raise _refused(node, inputs, error) from error
    return flow


def _refused(node: Node, inputs: tuple[Flow, ...], error: AnalysisException) -> RsError:
    known = tuple(dict.fromkeys(name for flow in inputs for name in visible(flow.df.columns)))
    parameters = error.getMessageParameters() or {}
    condition = error.getCondition() or ""
    if condition.startswith("UNRESOLVED_COLUMN"):
        return UnknownFieldError(parameters.get("objectName", "?").strip("`"), step=node.name, known=known)
    return TopologyError(
        f"Spark does not accept step {node.name!r}: {str(error).strip().splitlines()[0]}",
        remedy=f"its fields are: {', '.join(known)}",
        step=node.name,
    )


# Node types that only gather what their children have in common.
ABSTRACT = frozenset({Node, source.Source, sink.Sink})


def _check_complete() -> None:
    """Every concrete node type needs a compile function, every sink a writer."""
    kinds = {
        k for module in (source, step, shuffle, window, sink) for k in vars(module).values() if isinstance(k, type)
    }
    concrete = {k for k in kinds if issubclass(k, Node)} - ABSTRACT
    missing = [k.__name__ for k in concrete if k not in COMPILE]
    missing += [k.__name__ for k in concrete if issubclass(k, sink.Sink) and k not in WRITERS]
    if missing:
        raise NotImplementedError(f"node types without a compile function: {', '.join(sorted(missing))}")


_check_complete()

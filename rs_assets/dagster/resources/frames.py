"""Steps of the fluent API over frames: stored, and read by the queries of a pipeline of its own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rs_assets.compile.late_sinks import gets_late
from rs_assets.connectors.nodes import Source
from rs_assets.errors import TopologyError
from rs_assets.records.columns import PREFIX, hidden
from rs_assets.records.schema import schema_text
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.run.bounded import RESULT, bounded_result, result_sink, store_frame
from rs_assets.spark.driver import SparkDriver
from rs_assets.stream.builder import StreamBuilder
from rs_assets.stream.data_stream import DataStream
from rs_assets.topology.check.build import check_fields
from rs_assets.topology.nodes.shuffle import ShuffleWrite
from rs_assets.topology.topology import Topology

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAMESPACE = "ops"


def computed(
    steps: Callable[..., Any],
    frames: Mapping[str, DataFrame],
    folder: Path,
    *,
    check: Callable[[Topology], None],
    **options: Any,
) -> DataFrame:
    """The rows after `steps` over `frames`; `check` sees the topology before anything is computed.

    `options` are those of `RunOptions`; its home has the tables that are given by name.
    """
    if not frames:
        raise TopologyError("there is no frame", remedy="give the frames before the steps: keep(frame, steps=...)")
    source = StreamBuilder.data_stream(NAMESPACE, f"frames_{uuid.uuid4().hex[:12]}")
    driver = SparkDriver.of(next(iter(frames.values())).sparkSession)
    streams = [
        source.from_file(folder / name, "parquet", schema=fields_of(frame, name), name=name)
        for name, frame in frames.items()
    ]
    made = steps(*streams)
    if not hasattr(made, "to_delta"):
        raise TopologyError(
            f"the steps must return a stream or a table, not a {type(made).__name__}",
            remedy="lambda rows: rows.filter(...)",
        )
    topology = made.to_delta(str(folder / RESULT), name=RESULT).build().topology
    _check_sinks(topology)
    check(topology)
    for name, frame in frames.items():
        store_frame(frame, folder / name, driver)
    return bounded_result(topology, folder, RunOptions(driver=driver, **options))


def fields_of(frame: DataFrame, name: str) -> str:
    """The fields of a frame as DDL text; TopologyError for a name like those of hidden columns, which go nowhere."""
    inner = next(iter(hidden(frame.columns)), None)
    if inner is not None:
        raise TopologyError(
            f"the frame {name!r} has a column {inner!r}, and such names are those of hidden columns",
            remedy=f"rename it: frame.withColumnRenamed({inner!r}, {inner.removeprefix(PREFIX)!r})",
        )
    return schema_text(frame.schema, step=name) or ""


def read(stream: DataStream, folder: Path, **options: Any) -> DataFrame:
    """The rows of a source, and of stateless steps after it, to the present end of the input."""
    nodes = [node.apart() if isinstance(node, Source) else node for node in stream.draft.preview(stream.step)]
    topology = Topology(stream.draft.namespace, stream.draft.job, (*nodes, result_sink(str(stream.step), folder)))
    _check_read(topology)
    check_fields(topology)
    return bounded_result(topology, folder, RunOptions(**options))


def _check_read(topology: Topology) -> None:
    """TopologyError for steps that keep something: state, rows in a shuffle, a position at the system of a source."""
    for node in topology:
        if node.stateful or isinstance(node, ShuffleWrite):
            what = "keeps state" if node.stateful else "stores its rows"
            raise TopologyError(
                f"read takes a source and stateless steps; step {node.name!r} {what}",
                remedy="read the source, then compute the step with the resource of its family",
                step=node.name,
            )
        if isinstance(node, Source) and node.reserves:
            raise TopologyError(
                f"step {node.name!r} reserves {node.reserves}, which would remain there after the read",
                remedy="read the table itself by from_database(..., column=...), or what a pipeline with this source"
                " has written by from_delta",
                step=node.name,
            )


def _check_sinks(topology: Topology) -> None:
    """TopologyError for a sink in the steps: their rows are the result."""
    written = next((sink for sink in topology.sinks if sink.name != RESULT), None)
    if written is not None:
        raise TopologyError(
            f"the steps have the sink {written.name!r}, but their rows are a frame",
            remedy="no row is late here: leave late_to= out"
            if gets_late(written)
            else "leave it out, and write the frame by rs_sink.write(context, frame, ...)",
            step=written.name,
        )

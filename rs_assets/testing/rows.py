"""Rows in, rows out: stateless steps, computed over a table instead of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rs_assets.connectors.console.nodes import PrintSink
from rs_assets.connectors.memory import Record
from rs_assets.connectors.memory.nodes import ArraySource
from rs_assets.errors import TopologyError
from rs_assets.runtime.run.rows import computed
from rs_assets.spark.driver import SparkDriver
from rs_assets.stream.data_stream import DataStream
from rs_assets.topology.check.build import check_fields
from rs_assets.topology.nodes.shuffle import ShuffleRead
from rs_assets.topology.nodes.versioned import VersionedTable
from rs_assets.topology.topology import Topology

Rows = Iterable[Mapping[str, Any]]
# The sink after the tested steps; nothing is written to it.
SINK = "rows_out"


def run_rows(
    stream: DataStream, rows: Rows | Mapping[str, Rows] | None = None, *, spark: SparkDriver | None = None
) -> list[Record]:
    """The output of `stream` for `rows`, in their order: one Spark job, no query, no checkpoint, no sink.

    `rows`: those of the only source, or a dict from the name of each source to its rows; None for sources that have
    their own rows (`from_array`). `spark`: the driver to use (default: the process's own).

    The steps are those of a query: SQL, Columns, Python functions, scripts, unions, splits. Stateful steps (windows,
    joins, distinct) and lookups in dimensions need batches: TopologyError names `PipelineDriver`. A row that does not
    fit the schema of its source raises SchemaError. A function that raises ends in StepError; under
    `bad_records="quarantine"` its record is left out. There are no counts, dead letters and late rows.

    >>> from rs_assets import StreamBuilder
    >>> hits = StreamBuilder.data_stream("shop", "slow").from_file("hits.jsonl", schema="page string, ms bigint")
    >>> run_rows(
    ...     hits.filter("ms > 100").with_fields(s="ms / 1000"), [{"page": "/", "ms": 12}, {"page": "/a", "ms": 150}]
    ... )
    [{'page': '/a', 'ms': 150, 's': 0.15}]
    """
    nodes = stream.draft.leading_to(stream.step)
    end = PrintSink(name=SINK, inputs=(str(stream.step),))
    topology = Topology(stream.draft.namespace, stream.draft.job, (*nodes, end))
    _check(topology)
    check_fields(topology)
    return computed(spark or SparkDriver.shared(), topology, given_rows(topology, rows))


def _check(topology: Topology) -> None:
    """TopologyError for the first step whose rows depend on more than one row of input."""
    for node in topology:
        if node.stateful or isinstance(node, VersionedTable | ShuffleRead):
            raise TopologyError(
                f"step {node.name!r} needs batches: run_rows computes stateless steps only",
                remedy="use rs_assets.testing.PipelineDriver",
                step=node.name,
            )


def given_rows(topology: Topology, rows: Rows | Mapping[str, Rows] | None) -> Mapping[str, list[Mapping[str, Any]]]:
    """The rows of each source; TopologyError if a source has none or an unknown one is named."""
    names = [source.name for source in topology.origins]
    own = {source.name: list(source.rows) for source in topology.origins if isinstance(source, ArraySource)}
    if rows is None or isinstance(rows, Mapping):
        named = {name: list(each) for name, each in (rows or {}).items()}
    elif len(names) == 1:
        named = {names[0]: list(rows)}
    else:
        raise TopologyError(f"which source? there are {', '.join(names)}", remedy=f"rows={{{names[0]!r}: [...], ...}}")
    given = {**own, **named}
    if set(given) != set(names):
        wrong = sorted(set(given) ^ set(names))
        raise TopologyError(
            f"rows must be given for each source, and for no other: {', '.join(wrong)}",
            remedy=f"the sources are: {', '.join(names)}",
        )
    return given

"""The rows of one step for the first records of the input; nothing is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq

from rs_assets.common.home import Home
from rs_assets.common.scratch import scratch_folder
from rs_assets.connectors.delta.rows import dataset_of
from rs_assets.connectors.delta.table import open_table
from rs_assets.connectors.files.header import check_header
from rs_assets.connectors.files.lines.files import BOM, opened
from rs_assets.connectors.files.lines.offsets import LineRange
from rs_assets.connectors.files.lines.reading import first_line
from rs_assets.connectors.files.listing import existing_files
from rs_assets.connectors.files.whole.spark_files import has_input
from rs_assets.connectors.memory.channel import Record
from rs_assets.errors import ConfigurationError, TopologyError
from rs_assets.runtime.run.trial import collected
from rs_assets.spark.driver import SparkDriver
from rs_assets.topology.nodes.base import Node
from rs_assets.topology.nodes.delta import DeltaSource
from rs_assets.topology.nodes.source import ArraySource, FileSource, Source
from rs_assets.topology.topology import Topology


def preview(topology: Topology, records: int, driver: SparkDriver) -> Mapping[str, list[Record]]:
    """The rows of each sink for the first `records` of each source, to the end of all windows."""
    if records < 1:
        raise TopologyError("a preview needs at least one record")
    with scratch_folder("rs-preview-") as folder:
        nodes = tuple(_shortened(node, records, folder) for node in topology)
        return collected(replace(topology, nodes=nodes), driver)


def _shortened(node: Node, records: int, folder: Path) -> Node:
    if not isinstance(node, Source) or node.follows:
        return node
    shorten = SHORTENED.get(type(node))
    if shorten is None:
        raise _not_alone(node)
    return shorten(node, records, folder)


def _not_alone(node: Source) -> TopologyError:
    return TopologyError(
        f"step {node.name!r}: only files, arrays and the rows of tables can be previewed by themselves",
        remedy="give rows: .preview([{...}])",
        step=node.name,
    )


def _array(node: ArraySource, records: int, folder: Path) -> Node:  # noqa: ARG001  the table's form
    return replace(node, rows=node.rows[:records])


def _files(node: FileSource, records: int, folder: Path) -> Node:
    """The first lines, unabridged, by file name; lines with the same header make one file."""
    place = folder / f"records of {node.name}"
    if node.format == "parquet":
        pq.write_table(ds.dataset(existing_files(node.path), format="parquet").head(records), place)
        return replace(node, path=str(place))
    found = _first_lines(node, records)
    if len(found) > 1:
        place.mkdir()
    for number, (header, lines) in enumerate(found.items()):
        (place / f"{number:06}" if len(found) > 1 else place).write_bytes(header + b"".join(lines))
    # A followed file would wait for more, and a line is a record for both readers.
    return replace(node, path=str(place), tail=False, max_rows_per_batch=None)


def _delta(node: DeltaSource, records: int, folder: Path) -> Node:
    """The first rows of the table as it is now, as a Parquet file."""
    table = None if node.changes else open_table(path := Home.default().table(node.namespace, node.table))
    if table is None:
        raise _not_alone(node)
    place = folder / f"rows of {node.name}"
    pq.write_table(dataset_of(table, path).head(records), place)
    return FileSource(name=node.name, path=str(place), format="parquet", schema=node.schema, policy=node.policy)


def _first_lines(node: FileSource, records: int) -> Mapping[bytes, list[bytes]]:
    """By header, or all under none; ConfigurationError for a missing file, SourceReadError for a header."""
    with_header = node.format == "csv" and node.header
    found: dict[bytes, list[bytes]] = {}
    left = records
    if not has_input(node.path):
        raise ConfigurationError(f"there is no file at {node.path}", remedy="check the path", step=node.name)
    for file in existing_files(node.path, follow=node.tail):
        head = first_line(LineRange(file=str(file), split=file.name)) if with_header else None
        if head:
            # Checked here, since the error should name the original file.
            check_header(file, node.schema)
        header, skipped = (head.text + b"\n", head.number) if head else (b"", 0)
        with opened(file) as content:
            kept = list(islice(content, skipped, skipped + left))
        if kept and not skipped:
            kept[0] = kept[0].removeprefix(BOM)
        if head or not with_header:
            found.setdefault(header, []).extend(line.rstrip(b"\n") + b"\n" for line in kept)
            left -= len(kept)
        if not left:
            break
    return found or {b"": []}


SHORTENED: Mapping[type[Source], Callable[[Any, int, Path], Node]] = MappingProxyType(
    {ArraySource: _array, FileSource: _files, DeltaSource: _delta}
)

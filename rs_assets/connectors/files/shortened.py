"""The first rows of files, as files of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pyarrow.parquet as pq

from rs_assets.connectors.files.header import check_header
from rs_assets.connectors.files.lines.files import BOM, opened
from rs_assets.connectors.files.lines.offsets import LineRange
from rs_assets.connectors.files.lines.reading import first_line
from rs_assets.connectors.files.listing import existing_files
from rs_assets.connectors.files.nodes import FileSource
from rs_assets.connectors.files.whole.spark_files import has_input
from rs_assets.errors import ConfigurationError


def first_rows(node: FileSource, rows: int, folder: Path) -> FileSource:
    """The first rows of a source, unabridged, by file name; lines with the same header make one file."""
    place = folder / f"records of {node.name}"
    if node.format == "parquet":
        import pyarrow.dataset as ds

        pq.write_table(ds.dataset(existing_files(node.path), format="parquet").head(rows), place)
        return replace(node, path=str(place))
    found = _first_lines(node, rows)
    if len(found) > 1:
        place.mkdir()
    for number, (header, lines) in enumerate(found.items()):
        (place / f"{number:06}" if len(found) > 1 else place).write_bytes(header + b"".join(lines))
    # A followed file would wait for more, and a line is a record for both readers.
    return replace(node, path=str(place), tail=False, max_rows_per_batch=None)


def _first_lines(node: FileSource, rows: int) -> Mapping[bytes, list[bytes]]:
    """By header, or all under none; ConfigurationError for a missing file, SourceReadError for a header."""
    with_header = node.format == "csv" and node.header
    found: dict[bytes, list[bytes]] = {}
    left = rows
    if not has_input(node.path):
        raise ConfigurationError(f"there is no file at {node.path}", remedy="check the path", step=node.name)
    for file in existing_files(node.path, follow=node.tail):
        head = first_line(LineRange(file=str(file), split=file.name)) if with_header else None
        if head:
            # Checked here, since the error should name the original file.
            check_header(file, node.schema, delimiter=node.delimiter)
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

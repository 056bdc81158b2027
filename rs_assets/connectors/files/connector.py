"""What the project knows of files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from rs_assets.common.home import Home
from rs_assets.common.project import anchored
from rs_assets.connectors.connector import Connector, SinkConnector, SourceConnector, code
from rs_assets.connectors.files.nodes import FileSink, FileSource

if TYPE_CHECKING:
    from rs_assets.connectors.sink import SinkWriter
    from rs_assets.connectors.source import SourceReader

# Names of formats in a sentence; the others are written in capitals.
FORMATS: Final = {"text": "text", "parquet": "Parquet"}


def _reader(node: FileSource, home: Home) -> SourceReader:  # noqa: ARG001  the connector's form
    from rs_assets.connectors.files.lines.reader import LinesReader
    from rs_assets.connectors.files.parquet import ParquetReader
    from rs_assets.connectors.files.parse import LineFormat
    from rs_assets.connectors.files.whole.reader import FilesReader

    if node.format == "parquet":
        most = node.max_files_per_batch
        return ParquetReader(name=node.name, path=node.path, schema=node.schema, max_files_per_batch=most)
    form = LineFormat(node.format, pattern=node.pattern, time_format=node.time_format, header=node.header)
    if node.tail:
        rows = node.max_rows_per_batch
        return LinesReader(name=node.name, path=node.path, form=form, schema=node.schema, max_rows_per_batch=rows)
    return FilesReader(
        name=node.name,
        path=node.path,
        form=form,
        schema=node.schema,
        in_parser=node.in_parser,
        max_files_per_batch=node.max_files_per_batch,
    )


def _writer(node: FileSink, home: Home, namespace: str) -> SinkWriter:  # noqa: ARG001  the connector's form
    from rs_assets.connectors.files.writer import FileWriter

    return FileWriter(node.name, anchored(node.path))


def _reads(node: FileSource) -> str:
    form = FORMATS.get(node.format, node.format.upper())
    text = "Follows the {} of {} as it grows" if node.tail else "Reads the {} of {}"
    return text.format(form, code(node.written))


def _shortened(node: FileSource, rows: int, folder: Path) -> FileSource:
    from rs_assets.connectors.files.shortened import first_rows

    return first_rows(node, rows, folder)


CONNECTOR = Connector(
    name="filesystem",
    sources=(SourceConnector(node=FileSource, reader=_reader, describe=_reads, shortened=_shortened),),
    sinks=(
        SinkConnector(
            node=FileSink,
            writer=_writer,
            describe=lambda node: f"Writes rows as JSON lines below {code(node.path)}",
        ),
    ),
)

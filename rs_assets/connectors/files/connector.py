"""What the project knows of files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rs_assets.common.home import Home
from rs_assets.common.project import anchored
from rs_assets.connectors.connector import Connector, SinkConnector, SourceConnector, SqlSink, SqlSource, code
from rs_assets.connectors.files.nodes import FileSink, FileSource

if TYPE_CHECKING:
    from rs_assets.connectors.sink import SinkWriter
    from rs_assets.connectors.source import SourceReader
    from rs_assets.sql.connectors.sinks import SinkTable
    from rs_assets.sql.connectors.sources import SourceTable
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table

# Names of formats in a sentence; the others are written in capitals.
FORMATS: Final = {"text": "text", "parquet": "Parquet"}
SQL_FORMATS: Final = {"json": "json", "csv": "csv", "raw": "text", "text": "text"}


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


def _read_table(table: SourceTable) -> DataStream | Table:
    options = table.options
    form: Any = options.choice("format", SQL_FORMATS, "json")
    follow = options.flag("follow")
    stream = table.begin.from_file(
        options.need("path", "/data/clicks").removeprefix("file://"),
        form,
        schema=None if form == "text" else table.schema,
        tail=follow,
        header=form != "csv" or options.flag("csv.header"),
        bad_records=table.bad_records,
        max_files_per_batch=options.number("max-files-per-batch"),
        max_rows_per_batch=options.number("max-rows-per-batch"),
        name=table.name,
    )
    return table.rows(stream, placed=follow)


def _write_table(table: SinkTable) -> DataStream:
    table.options.choice("format", {"json": "json"}, "json")
    return table.stream.to_file(table.options.need("path", "/data/out").removeprefix("file://"), name=table.name)


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
    sql_source=SqlSource(read=_read_table),
    sql_sink=SqlSink(write=_write_table, keys=True),
)

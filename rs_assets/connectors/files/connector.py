"""`CONNECTOR` for files: its nodes, with what compiler and Dagster need of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from rs_assets.common.home import Home
from rs_assets.common.project import anchored
from rs_assets.connectors.connector import (
    Connector,
    SinkConnector,
    SourceConnector,
    code,
    listed,
)
from rs_assets.connectors.files.form import NAMES, Kinds, first_word
from rs_assets.connectors.files.nodes import FileSink, FileSource
from rs_assets.errors import TopologyError
from rs_assets.records.fields import Fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rs_assets.connectors.sink import SinkWriter
    from rs_assets.connectors.source import SourceReader

# Names of formats in a sentence; the others are written in capitals.
FORMATS: Final = {"text": "text", "parquet": "Parquet"}


def _reader(node: FileSource, _home: Home) -> SourceReader:
    from rs_assets.connectors.files.lines.reader import LinesReader
    from rs_assets.connectors.files.parquet import ParquetReader
    from rs_assets.connectors.files.parse import LineFormat
    from rs_assets.connectors.files.whole.reader import FilesReader

    if node.format == "parquet":
        most = node.max_files_per_batch
        return ParquetReader(name=node.name, path=node.path, schema=node.schema, max_files_per_batch=most)
    form = LineFormat(
        node.format, pattern=node.pattern, time_format=node.time_format, header=node.header, delimiter=node.delimiter
    )
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


def _writer(node: FileSink, _home: Home, _namespace: str) -> SinkWriter:
    from rs_assets.connectors.files.writer import FileWriter

    return FileWriter(node.name, anchored(node.path), node.form)


def _check(node: FileSink, fields: Fields) -> None:
    fields.check(node.form.partition_by, step=node.name)
    _refuse(
        node, {name: first_word(kind.name) if kind else None for name, kind in fields.types.items()}, whole=fields.whole
    )


def _check_rows(node: FileSink, rows: DataFrame) -> None:
    from rs_assets.records.columns import check_fields, visible

    check_fields(rows, node.form.partition_by, step=node.name)
    _refuse(node, {name: first_word(rows.schema[name].dataType.simpleString()) for name in visible(rows.columns)})


def _refuse(node: FileSink, kinds: Kinds, *, whole: bool = True) -> None:
    for what, remedy in node.form.unwritable(kinds, whole=whole):
        raise TopologyError(f"step {node.name!r}: {what}", remedy=remedy, step=node.name)


def _writes(node: FileSink) -> str:
    form = node.form
    folders = f", in folders by {listed(form.partition_by)}" if form.partition_by else ""
    return f"Writes rows as {NAMES[form.format]} below {code(node.path)}{folders}"


def _reads(node: FileSource) -> str:
    form = FORMATS.get(node.format, node.format.upper())
    text = "Follows the {} of {} as it grows" if node.tail else "Reads the {} of {}"
    return text.format(form, code(node.written))


def _shortened(node: FileSource, rows: int, folder: Path) -> FileSource:
    from rs_assets.connectors.files.shortened import first_rows

    return first_rows(node, rows, folder)


CONNECTOR = Connector(
    sources=(
        SourceConnector(
            node=FileSource,
            reader=_reader,
            describe=_reads,
            shortened=_shortened,
            places=lambda node, _home: (node.path,),
        ),
    ),
    sinks=(
        SinkConnector(
            node=FileSink,
            writer=_writer,
            describe=_writes,
            check=_check,
            check_rows=_check_rows,
        ),
    ),
)

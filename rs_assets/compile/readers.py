"""The reader of each kind of source, for a stream or for one batch read again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.source_log import SourceLog
from rs_assets.common.home import Home
from rs_assets.compile.planner.context import CompileContext
from rs_assets.compile.shuffle import place_of
from rs_assets.connectors.delta.reader import DeltaReader
from rs_assets.connectors.files.lines.reader import LinesReader
from rs_assets.connectors.files.parquet import ParquetReader
from rs_assets.connectors.files.parse import LineFormat
from rs_assets.connectors.files.whole.reader import FilesReader
from rs_assets.connectors.kafka.source.reader import TopicsReader
from rs_assets.connectors.kafka.source.reading import KafkaReader
from rs_assets.connectors.memory.array import ArrayReader
from rs_assets.connectors.memory.reader import MemoryReader
from rs_assets.connectors.source import Ordered, Positioned, Reading, SourceReader
from rs_assets.connectors.sqlite.reader import SqliteReader
from rs_assets.operators.shuffle.reader import ShuffleReader
from rs_assets.records.columns import ADDRESS, LINE, ORDER, ORIGIN, PLACE, SPLIT, origin_of
from rs_assets.topology.nodes import source as nodes
from rs_assets.topology.nodes.custom import CustomSource
from rs_assets.topology.nodes.delta import DeltaSource
from rs_assets.topology.nodes.shuffle import ShuffleRead
from rs_assets.topology.nodes.sqlite import SqliteSource


def _files(node: nodes.FileSource) -> SourceReader:
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


def _kafka(node: nodes.KafkaSource) -> SourceReader:
    read = KafkaReader(
        cluster=node.cluster,
        topics=node.topics,
        pattern=node.pattern,
        form=node.format,
        metadata=node.metadata,
        tombstones=node.tombstones,
        read_committed=node.read_committed,
        on_data_loss=node.on_data_loss,
        max_rows_per_batch=node.max_rows_per_batch,
        min_partitions=node.min_partitions,
        avro_schema=node.schema if node.format in nodes.AVRO else None,
    )
    letters = node.dead_letter_topic
    return TopicsReader(name=node.name, read=read, starting=node.starting, group=node.group, dead_letter_topic=letters)


def _delta(node: DeltaSource, home: Home | None) -> SourceReader:
    path = (home or Home.default()).table(node.namespace, node.table)
    return DeltaReader(name=node.name, path=path, changes=node.changes, starting=node.starting)


def _shuffle(node: ShuffleRead, home: Home | None) -> SourceReader:
    return ShuffleReader(name=node.name, after=node.after, place=place_of(node, home or Home.default()))


READERS: Mapping[type[nodes.Source], Callable[[Any, Home | None], SourceReader]] = MappingProxyType(
    {
        nodes.ArraySource: lambda node, _home: ArrayReader(name=node.name, rows=node.rows),
        nodes.MemorySource: lambda node, _home: MemoryReader(name=node.name, channel=node.channel),
        nodes.FileSource: lambda node, _home: _files(node),
        nodes.KafkaSource: lambda node, _home: _kafka(node),
        DeltaSource: _delta,
        CustomSource: lambda node, _home: node.reader(),
        ShuffleRead: _shuffle,
        SqliteSource: lambda node, _home: SqliteReader(
            name=node.name, path=node.path, table=node.table, max_rows_per_batch=node.max_rows_per_batch
        ),
    }
)


def reader_of(node: nodes.Source, home: Home | None = None) -> SourceReader:
    """The reader of a source node; `home` has the tables of shuffles (None: the default home)."""
    return READERS[type(node)](node, home)


def stream(context: CompileContext, node: nodes.Source) -> DataFrame:
    """The rows of `node` as a stream: its fields and, unless it is pruned, REASON."""
    reader = reader_of(node, context.home)
    rows = reader.stream(reading_of(context, node))
    rows = rows.withColumns(_order(reader)) if context.ordered else rows
    return rows.withColumns(_origin(context, node, reader)).drop(*ADDRESS) if context.by_split else rows


def positioned(node: nodes.Source) -> bool:
    """Whether the rows of `node` are distinguished by their split; else it counts as a single split."""
    return isinstance(reader_of(node), Positioned)


def batch_reader(log: CheckpointLog, batch_id: int) -> Callable[[CompileContext, nodes.Source], DataFrame]:
    """A reader that reads the rows of one planned batch again, with REASON and ADDRESS."""

    def read(context: CompileContext, node: nodes.Source) -> DataFrame:
        batch = SourceLog(log, node.name).batch(batch_id)
        reader = reader_of(node, context.home)
        rows = reader.batch(reading_of(context, node), batch)
        return rows.withColumns(_origin(context, node, reader)) if context.by_record else rows

    return read


def _origin(context: CompileContext, node: nodes.Source, reader: SourceReader) -> dict[str, Column]:
    """The split of a row, and its position in the split if that counts."""
    split = F.col(SPLIT) if isinstance(reader, Positioned) else F.lit("")
    origin = F.concat(F.lit(origin_of(node.name)), split)
    return {ORIGIN: origin, PLACE: F.col(LINE)} if context.by_record else {ORIGIN: origin}


def reading_of(context: CompileContext, node: nodes.Source) -> Reading:
    """The settings of the query for the reader of `node`."""
    return Reading(
        spark=context.spark,
        name=context.stored_name(node.name),
        folder=context.folder,
        schema_of=partial(context.schema_of, node),
        written_by=context.behind,
        max_line_bytes=context.max_line_bytes,
        pruned=node.name in context.pruned,
        positioned=context.by_split,
    )


def _order(reader: SourceReader) -> dict[str, Column]:
    """The read position of a row, for sinks that keep the last one: most sources return rows in their order."""
    places = reader.order() if isinstance(reader, Ordered) else (F.lit(None),) * len(ORDER)
    kinds = ("timestamp", "string", "bigint")
    return {name: column.cast(kind) for name, column, kind in zip(ORDER, places, kinds, strict=True)}

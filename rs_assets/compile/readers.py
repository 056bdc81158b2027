"""The reader of each kind of source, for a stream or for one batch read again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.source_log import SourceLog
from rs_assets.common.home import Home
from rs_assets.compile.planner.context import CompileContext
from rs_assets.compile.shuffle import place_of
from rs_assets.connectors.nodes import Source
from rs_assets.connectors.registry import SOURCES
from rs_assets.connectors.source import Ordered, Positioned, Reading, SourceReader
from rs_assets.operators.shuffle.reader import ShuffleReader
from rs_assets.records.columns import ADDRESS, LINE, ORDER, ORIGIN, PLACE, SOURCE, SPLIT, origin_of
from rs_assets.topology.nodes.shuffle import ShuffleRead


def reader_of(node: Source, home: Home | None = None) -> SourceReader:
    """The reader of a source node; `home` has the tables of shuffles (None: the default home)."""
    home = home or Home.default()
    if isinstance(node, ShuffleRead):
        return ShuffleReader(name=node.name, after=node.after, place=place_of(node, home))
    return SOURCES[type(node)].reader(node, home)


def stream(context: CompileContext, node: Source) -> DataFrame:
    """The rows of `node` as a stream: its fields and REASON, if there is one."""
    reader = reader_of(node, context.home)
    rows = reader.stream(reading_of(context, node))
    rows = rows.withColumns(_order(reader)) if context.ordered else rows
    return rows.withColumns(_origin(context, node, reader, rows)).drop(*ADDRESS) if context.by_split else rows


def positioned(node: Source) -> bool:
    """Whether the rows of `node` are distinguished by their split; else it counts as a single split."""
    return isinstance(reader_of(node), Positioned)


def batch_reader(log: CheckpointLog, batch_id: int) -> Callable[[CompileContext, Source], DataFrame]:
    """A reader that reads the rows of one planned batch again, with REASON, ADDRESS and SOURCE."""

    def read(context: CompileContext, node: Source) -> DataFrame:
        batch = SourceLog(log, node.name).batch(batch_id)
        reader = reader_of(node, context.home)
        rows = reader.batch(reading_of(context, node), batch).withColumn(SOURCE, F.lit(node.name))
        return rows.withColumns(_origin(context, node, reader, rows)) if context.by_record else rows

    return read


def _origin(context: CompileContext, node: Source, reader: SourceReader, rows: DataFrame) -> dict[str, Column]:
    """The split of a row, and its position in the split if that counts: null where a source reads in no order."""
    split = F.col(SPLIT) if isinstance(reader, Positioned) and SPLIT in rows.columns else F.lit("")
    origin = F.concat(F.lit(origin_of(node.name)), split)
    place = F.col(LINE) if LINE in rows.columns else F.lit(None).cast("bigint")
    return {ORIGIN: origin, PLACE: place} if context.by_record else {ORIGIN: origin}


def reading_of(context: CompileContext, node: Source) -> Reading:
    """The settings of the query for the reader of `node`."""
    return Reading(
        spark=context.spark,
        name=context.stored_name(node.name),
        folder=context.folder,
        schema_of=partial(context.schema_of, node),
        written_by=context.behind,
        max_line_bytes=context.max_line_bytes,
        bad_records=node.bad_records,
        positioned=context.by_split,
    )


def _order(reader: SourceReader) -> dict[str, Column]:
    """The read position of a row, for sinks that keep the last one: most sources return rows in their order."""
    return order_columns(reader.order() if isinstance(reader, Ordered) else None)


def order_columns(places: tuple[Column, Column, Column] | None = None) -> dict[str, Column]:
    """The columns of ORDER with `places`; None: null, for rows that have no other order than the one they come in."""
    kinds = ("timestamp", "string", "bigint")
    columns = places or (F.lit(None),) * len(ORDER)
    return {name: column.cast(kind) for name, column, kind in zip(ORDER, columns, kinds, strict=True)}

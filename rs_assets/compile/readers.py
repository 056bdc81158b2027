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
from rs_assets.operators.shuffle.memory import no_row, task_row
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
    origin = _origin(context, node, reader, rows) if context.by_split else {}
    order = _order(context, node, reader, rows) if context.ordered else {}
    return rows.withColumns(origin | order).drop(*(ADDRESS if reading_of(context, node).positioned else ()))


def positioned(node: Source) -> bool:
    """Whether the rows of `node` are distinguished by their split; else it counts as a single split."""
    return isinstance(reader_of(node), Positioned)


def batch_reader(log: CheckpointLog, batch_id: int) -> Callable[[CompileContext, Source], DataFrame]:
    """A reader of the rows of one planned batch again, with REASON, ADDRESS and SOURCE.

    Without `CompileContext.addressed` none has an ADDRESS, and those of some sources no REASON.
    """

    def read(context: CompileContext, node: Source) -> DataFrame:
        batch = SourceLog(log, node.name).batch(batch_id)
        reader = reader_of(node, context.home)
        reading = reading_of(context, node)
        rows = reader.batch(reading, batch).withColumn(SOURCE, F.lit(node.name))
        # The rows of all sources have the same hidden columns: they may be united.
        rows = rows if reading.addressed else rows.drop(*ADDRESS)
        return rows.withColumns(_origin(context, node, reader, rows)) if context.by_record else rows

    return read


def _origin(context: CompileContext, node: Source, reader: SourceReader, rows: DataFrame) -> dict[str, Column]:
    """The split of a row, and its position in the split if that counts: null where a source reads in no order."""
    origin = _split_of(node, reader, rows)
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
        positioned=context.by_split or context.scattered,
        # The place of a record in its split is its line.
        addressed=context.addressed or context.by_record,
        ordered=context.ordered,
    )


def _split_of(node: Source, reader: SourceReader, rows: DataFrame) -> Column:
    split = F.col(SPLIT) if isinstance(reader, Positioned) and SPLIT in rows.columns else F.lit("")
    return F.concat(F.lit(origin_of(node.name)), split)


def _order(context: CompileContext, node: Source, reader: SourceReader, rows: DataFrame) -> dict[str, Column]:
    """The read position of a row, for sinks that keep the last one: most sources return rows in their order."""
    if context.scattered and isinstance(reader, Positioned) and LINE in rows.columns:
        return order_by_place(_split_of(node, reader, rows), F.col(LINE))
    known = order_columns(*(reader.order() if isinstance(reader, Ordered) else ()))
    return known | dict(zip(ORDER[3:], (task_row(rows), no_row()), strict=True)) if context.scattered else known


def order_by_place(origin: Column, place: Column) -> dict[str, Column]:
    """ORDER by split, and by position in it; split NAME@2 comes before NAME@10."""
    split = F.concat(F.lpad(F.octet_length(origin).cast("string"), 6, "0"), origin)
    return order_columns(F.lit(None), split, place) | dict.fromkeys(ORDER[3:], no_row())


def order_columns(*places: Column) -> dict[str, Column]:
    """The first columns of ORDER with `places`; without any null, for rows that have no other order than their own."""
    kinds = ("timestamp", "string", "bigint")
    columns = places or (F.lit(None),) * len(kinds)
    return {name: column.cast(kind) for name, column, kind in zip(ORDER, columns, kinds, strict=False)}

"""How each kind of source is read: as a stream, and one batch of it again with the address of every record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rs_assets.engine.checkpoint.log import CheckpointLog
from rs_assets.engine.source import native, spool
from rs_assets.engine.source.columns import ORDER
from rs_assets.engine.source.kafka.infer import infer_schema as infer_kafka_schema
from rs_assets.engine.source.kafka.offsets import Offsets, initial_offsets, parse_offsets
from rs_assets.engine.source.kafka.reading import KafkaReader, starting_options
from rs_assets.engine.source.kafka.starting import resolved
from rs_assets.engine.source.lines.offsets import ranges_between
from rs_assets.engine.source.memory import MEMORY_SPLIT, checked_channel
from rs_assets.engine.source.parse import LineFormat, parse_lines
from rs_assets.engine.source.rows import infer_schema
from rs_assets.engine.source.tail import FORMAT as LINES
from rs_assets.engine.source.tail import register
from rs_assets.errors import CheckpointError, TopologyChangedError
from rs_assets.pipeline.compile.shuffle import place_of
from rs_assets.pipeline.compile.wiring import Wiring
from rs_assets.pipeline.topology.shuffle import ShuffleRead
from rs_assets.pipeline.topology.source import ArraySource, FileSource, KafkaSource, MemorySource, Source

ARRAY_SPLIT = "array"


def line_format(wiring: Wiring, node: FileSource) -> LineFormat:
    """How the lines of `node` are read, with its schema declared, inferred or pinned."""
    form = LineFormat(
        node.format,
        pattern=node.pattern,
        time_format=node.time_format,
        header=node.header,
        max_line_bytes=wiring.max_line_bytes,
    )
    if node.format == "text" and node.pattern is None:
        return form
    schema = wiring.schema_of(
        node, lambda: native.infer_schema(wiring.spark, step=node.name, path=node.path, form=form)
    )
    return replace(form, schema=schema)


def stream(wiring: Wiring, node: Source) -> DataFrame:
    """The rows of `node` as a stream: its fields and REASON."""
    rows = STREAM[type(node)](wiring, node)
    return rows.withColumns(_order(node)) if wiring.ordered else rows


def _order(node: Source) -> dict[str, Column]:
    """Where a row was read, for sinks that keep the last one: other sources hand out rows in their order."""
    whole = isinstance(node, FileSource) and not node.tail
    spool = isinstance(node, ArraySource | MemorySource)
    file = "file_path" if whole else "file_name"
    told = (
        F.col("_metadata.file_modification_time") if whole else F.lit(None),
        F.col(f"_metadata.{file}") if whole or spool else F.lit(None),
        F.col("_metadata.file_block_start") if whole or spool else F.lit(None),
    )
    kinds = ("timestamp", "string", "bigint")
    return {name: column.cast(kind) for name, column, kind in zip(ORDER, told, kinds, strict=True)}


def _file_stream(wiring: Wiring, node: FileSource) -> DataFrame:
    form = line_format(wiring, node)
    if not node.tail:
        return native.read_stream(
            wiring.spark,
            name=wiring.stored_name(node.name),
            path=node.path,
            form=form,
            in_parser=node.in_parser,
            max_files_per_batch=node.max_files_per_batch,
        )
    register(wiring.spark)
    reader = wiring.spark.readStream.name(wiring.stored_name(node.name)).format(LINES).option("path", node.path)
    reader = reader.option("max_line_bytes", form.max_line_bytes)
    if node.max_rows_per_batch:
        reader = reader.option("max_rows_per_batch", node.max_rows_per_batch)
    return parse_lines(reader.load(), form)


def _spool_stream(wiring: Wiring, node: Source) -> DataFrame:
    schema = _rows_schema(wiring, node)
    return native.read_spool(
        wiring.spark, name=wiring.stored_name(node.name), folder=_spool_folder(wiring, node, schema), schema=schema
    )


def _rows_schema(wiring: Wiring, node: Source) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    if isinstance(node, MemorySource):
        checked_channel(node.channel, step=node.name)
    return wiring.schema_of(node, lambda: from_arrow_schema(infer_schema(getattr(node, "rows", ()), step=node.name)))


def _spool_folder(wiring: Wiring, node: Source, schema: StructType) -> Path:
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow = to_arrow_schema(schema, timezone="UTC")
    if isinstance(node, MemorySource):
        return node.channel.bind(arrow)
    assert isinstance(node, ArraySource)  # noqa: S101  the table says so
    folder = wiring.folder / "arrays" / node.name
    spool.write_array(folder, node.rows, arrow)
    return folder


def kafka_reader(wiring: Wiring, node: KafkaSource) -> KafkaReader:
    """How the records of `node` are read, with its schema declared, inferred or pinned."""
    reader = KafkaReader(
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
    )
    if node.format.endswith("avro"):
        return replace(reader, avro_schema=node.schema)
    if node.format != "json":
        return reader
    schema = wiring.schema_of(node, lambda: infer_kafka_schema(wiring.spark, reader, step=node.name))
    return replace(reader, schema=schema)


def _kafka_stream(wiring: Wiring, node: KafkaSource) -> DataFrame:
    name = wiring.stored_name(node.name)
    # Spark looks at it once; later starts need not ask the brokers.
    begun = bool(initial_offsets(wiring.folder / "checkpoint", name))
    starting = "earliest" if begun else resolved(node.cluster, node.topics, node.pattern, node.group, node.starting)
    return kafka_reader(wiring, node).stream(wiring.spark, name=name, starting=starting_options(starting))


def _shuffle_stream(wiring: Wiring, node: ShuffleRead) -> DataFrame:
    place, schema = place_of(node, wiring.home), wiring.behind(node.after)
    if wiring.pinned(node, lambda: schema) != schema:
        raise TopologyChangedError(
            f"the rows of the durable shuffle {node.name!r} have other fields than those that wait in it",
            remedy="begin a new generation (--new-generation)",
            step=node.name,
        )
    if not CheckpointLog(wiring.folder / "checkpoint").begun and not place.whole():
        raise CheckpointError(
            f"the query behind the shuffle {node.name!r} begins anew, but rows of it were purged",
            remedy="begin a new generation (--new-generation)",
            step=node.name,
        )
    return place.stream(wiring.spark, schema, name=wiring.stored_name(node.name))


STREAM: Mapping[type[Source], Callable[[Wiring, Any], DataFrame]] = MappingProxyType(
    {
        FileSource: _file_stream,
        MemorySource: _spool_stream,
        ArraySource: _spool_stream,
        KafkaSource: _kafka_stream,
        ShuffleRead: _shuffle_stream,
    }
)


def batch_reader(log: CheckpointLog, batch_id: int) -> Callable[[Wiring, Source], DataFrame]:
    """A reader that gives the rows of one planned batch again, with REASON and ADDRESS."""

    def read(wiring: Wiring, node: Source) -> DataFrame:
        return BATCH[type(node)](wiring, node, log, batch_id)

    return read


def _file_batch(wiring: Wiring, node: FileSource, log: CheckpointLog, batch_id: int) -> DataFrame:
    ranges = _tail_ranges(node, log, batch_id) if node.tail else _whole_files(node, log, batch_id)
    register(wiring.spark)
    form = line_format(wiring, node)
    reader = wiring.spark.read.format(LINES).option("ranges", orjson.dumps(ranges).decode())
    return parse_lines(reader.option("max_line_bytes", form.max_line_bytes).load(), form, addressed=True)


def _tail_ranges(node: FileSource, log: CheckpointLog, batch_id: int) -> list[dict[str, Any]]:
    end, start = log.offsets(batch_id), log.offsets(batch_id - 1)
    until = end.sources.get(node.name) if end else None
    since = start.sources.get(node.name) if start else None
    return [] if until in (None, "-") else ranges_between(None if since == "-" else since, str(until))


def _whole_files(node: FileSource, log: CheckpointLog, batch_id: int) -> list[dict[str, Any]]:
    planned = log.planned_files(node.name, batch_id)
    return [{"file": str(f.local), "start_line": 1, "start_byte": 0, "end_byte": None} for f in planned]


def _spool_batch(wiring: Wiring, node: Source, log: CheckpointLog, batch_id: int) -> DataFrame:
    files = [str(f.local) for f in log.planned_files(node.name, batch_id)]
    split = MEMORY_SPLIT if isinstance(node, MemorySource) else ARRAY_SPLIT
    return native.read_spool_files(wiring.spark, files=files, schema=_rows_schema(wiring, node), split=split)


def kafka_range(source: str, log: CheckpointLog, batch_id: int) -> tuple[Offsets, Offsets]:
    """Where the partitions of the source stood before a planned batch, and where they stand behind it."""
    planned, before = log.offsets(batch_id), log.offsets(batch_id - 1)
    end, start = (offsets.sources.get(source, "-") if offsets else "-" for offsets in (planned, before))
    first = initial_offsets(log.folder, log.aliases.get(source, source)) if start == "-" else parse_offsets(start)
    return first, ({} if end == "-" else parse_offsets(end))


def _kafka_batch(wiring: Wiring, node: KafkaSource, log: CheckpointLog, batch_id: int) -> DataFrame:
    return kafka_reader(wiring, node).batch(wiring.spark, *kafka_range(node.name, log, batch_id))


def _shuffle_batch(wiring: Wiring, node: ShuffleRead, log: CheckpointLog, batch_id: int) -> DataFrame:
    schema = wiring.pinned(node, lambda: wiring.behind(node.after))
    planned, before = log.offsets(batch_id), log.offsets(batch_id - 1)
    end, start = (o.sources.get(node.name, "-") if o else "-" for o in (planned, before))
    place = place_of(node, wiring.home)
    return place.batch(wiring.spark, schema, start=None if start == "-" else start, end=end)


BATCH: Mapping[type[Source], Callable[[Wiring, Any, CheckpointLog, int], DataFrame]] = MappingProxyType(
    {
        FileSource: _file_batch,
        MemorySource: _spool_batch,
        ArraySource: _spool_batch,
        KafkaSource: _kafka_batch,
        ShuffleRead: _shuffle_batch,
    }
)

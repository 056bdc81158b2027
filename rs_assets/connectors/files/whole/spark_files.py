"""Files that no longer change, read by Spark's own file source, and the checks around it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from rs_assets.common.errors_wire import wired
from rs_assets.connectors.files.codecs import PACK_AGAIN, codec_of, is_foreign
from rs_assets.connectors.files.lines.offsets import LineRange
from rs_assets.connectors.files.lines.records import read_records
from rs_assets.connectors.files.lines.spark_source import RECORDS_DDL
from rs_assets.connectors.files.listing import existing_files, located
from rs_assets.connectors.files.parse import LineFormat, is_blank, parse_lines, parsed_text, text_reason, typed_fields
from rs_assets.connectors.files.zstd import is_cut
from rs_assets.errors import ConfigurationError, SourceReadError
from rs_assets.records.columns import ADDRESS, CORRUPT, ORDER, REASON
from rs_assets.records.json_text import WITHOUT_DATE
from rs_assets.records.poison import exact_text
from rs_assets.records.schema import quoted
from rs_assets.spark.processor.session import package_in

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.readwriter import DataFrameReader
    from pyspark.sql.streaming.readwriter import DataStreamReader

# Spark ignores files that are older than the newest by more than `maxFileAge` (7 days) and would never read them: as
# those of 1970 after one that a clock has set to 2106.
MAX_FILE_AGE = "365000d"
# Files that are as old as each other are taken in the order in which they are listed.
LISTED_BY_NAME = {
    "fs.file.impl": "org.apache.spark.sql.rsassets.FilesByName",
    "fs.file.impl.disable.cache": "true",
}
# Java's decoder replaces invalid UTF-8 by this character; the CSV parser gives no other sign of it.
REPLACEMENT = "\ufffd"
# Hadoop's reader silently skips lines of this size, including newline and carriage return.
LINE_LIMIT, LINE_SLACK_BYTES = "mapreduce.input.linerecordreader.line.maxlength", 2
# The facts that Spark has about a file without opening it, and the content, for which it opens the file.
BINARY_FILE = "path string, modificationTime timestamp, length bigint, content binary"
# The types of the columns of `line_order`.
ORDER_KINDS = ("timestamp", "string", "bigint")
# Special characters of a Hadoop glob.
GLOB_CHARACTERS = re.compile(r"[\[\]{}*?,\\]")


def read_stream(
    spark: SparkSession,
    *,
    name: str,
    path: str,
    form: LineFormat,
    in_parser: bool = True,
    max_files_per_batch: int | None = None,
    ordered: bool = False,
) -> DataFrame:
    """Fields and REASON of the records below `path`, as a stream. `name` is the source's key in the checkpoint.

    Without `in_parser` CSV is parsed line by line: Spark's own reader does not report an unclosed quote, and maps
    columns by position. If it is `ordered` the columns of `line_order` are there. JSON is read by `json_lines`.
    """
    reader = file_stream(spark, name=name, path=path, max_files_per_batch=max_files_per_batch)
    if form.format == "csv" and not in_parser:
        lines = _lines(reader, as_glob(path), form, ordered=ordered)
        return parse_lines(lines, form, extra=line_order() if ordered else ())
    return _with_reason(_load(reader, as_glob(path), form), form)


def file_stream(
    spark: SparkSession, *, name: str, path: str, max_files_per_batch: int | None = None
) -> DataStreamReader:
    """A reader of files that no longer change, oldest first; ConfigurationError if there is nothing at `path`.

    Files of the same millisecond are taken by name, those of a folder before those of its subfolders; a session without
    the project's own jar takes them in the order in which the folder lists them.
    """
    check_path(path, step=name)
    # Without the lookup Spark reads files twice if another one of the batch has a name like a glob, and reads folders
    # called `a=1` as columns.
    reader = spark.readStream.name(name).option("maxFileAge", MAX_FILE_AGE).option("recursiveFileLookup", value=True)
    if package_in(spark) is not None:
        reader = reader.options(**LISTED_BY_NAME)
    return reader.option("maxFilesPerTrigger", max_files_per_batch) if max_files_per_batch else reader


def file_order() -> tuple[Column, Column, Column]:
    """The order of the rows of files: the time of the file, its path, and the part of it."""
    return (
        F.col("_metadata.file_modification_time"),
        F.col("_metadata.file_path"),
        F.col("_metadata.file_block_start"),
    )


def line_order() -> tuple[Column, Column, Column]:
    """The order of the rows of files that are read line by line: the time of the file, its path, the line's place."""
    time, path, place = map(F.col, ORDER[:3])
    return time, path, place


def _lines(reader: DataStreamReader, path: str, form: LineFormat, *, ordered: bool) -> DataFrame:
    """The lines of the files, read by our own reader; Spark only lists the files."""
    kept = ("path", "modificationTime") if ordered else ("path",)
    listed = reader.format("binaryFile").schema(BINARY_FILE).load(path).select(*kept)
    names = form.schema.names if form.schema is not None and form.header else None
    order = "".join(f", {name} {kind}" for name, kind in zip(ORDER, ORDER_KINDS, strict=False)) if ordered else ""
    return listed.mapInArrow(
        partial(_read_files, names=names, max_line_bytes=form.max_line_bytes, delimiter=form.delimiter),
        RECORDS_DDL + order,
    )


def _read_files(
    paths: Iterable[pa.RecordBatch], *, names: Sequence[str] | None, max_line_bytes: int, delimiter: str
) -> Iterator[pa.RecordBatch]:
    """Runs in Spark's Python workers. With the times of the files the columns of `line_order` follow."""
    for batch in paths:
        for number, path in enumerate(batch.column(0).to_pylist()):
            file = Path("/", path.removeprefix("file:").lstrip("/"))
            with wired():
                planned = LineRange(file=str(file), split=file.name)
                for lines in read_records(planned, names, max_line_bytes=max_line_bytes, delimiter=delimiter):
                    yield _placed(lines, path, batch.column(1)[number]) if batch.num_columns > 1 else lines


def _placed(lines: pa.RecordBatch, path: str, time: pa.Scalar) -> pa.RecordBatch:
    import pyarrow as pa

    placed = lines.append_column(ORDER[0], pa.repeat(time, len(lines))).append_column(
        ORDER[1], pa.repeat(path, len(lines))
    )
    return placed.append_column(ORDER[2], lines["offset"])


def as_glob(path: str) -> str:
    """`path` as a Spark glob; a single file always becomes a glob, otherwise Spark takes it for a folder.

    >>> as_glob("/no/such/folder")
    '/no/such/folder'
    """
    path = located(path)
    place = Path(path)
    if not place.exists():
        return path
    escaped = GLOB_CHARACTERS.sub(r"\\\g<0>", path)
    return str(place.parent / f"[{place.name[0]}]{place.name[1:]}") if place.is_file() and escaped == path else escaped


def read_spool(spark: SparkSession, *, name: str, folder: Path, schema: StructType) -> DataFrame:
    """The rows of a spool folder as a stream; they were checked when they were written, so there is no REASON."""
    stream = spark.readStream.name(name).schema(schema).option("maxFileAge", MAX_FILE_AGE)
    return stream.parquet(str(folder)).withColumn(REASON, F.lit(None).cast("string"))


def read_spool_files(spark: SparkSession, *, files: list[str], schema: StructType, split: str) -> DataFrame:
    """The rows of some spool files with their ADDRESS; the line is the row's number, from 1."""
    frame = spark.read.schema(schema).parquet(*files) if files else spark.createDataFrame([], schema)
    nothing = dict(zip(ADDRESS, (F.lit(""), *[F.lit(0).cast("bigint")] * 2, F.lit("")), strict=True))
    address = spool_address(schema, split=split) if files else nothing
    fields = [F.col(quoted(n)) for n in schema.names]
    return frame.select(*fields, F.lit(None).cast("string").alias(REASON), *(c.alias(n) for n, c in address.items()))


def spool_address(schema: StructType, *, split: str) -> dict[str, Column]:
    """The ADDRESS of a row of a spool file."""
    first = F.regexp_extract(F.col("_metadata.file_name"), r"rows-(\d+)", 1).cast("bigint")
    row = first + F.col("_metadata.row_index") + 1
    return dict(zip(ADDRESS, (F.lit(split), row, row, exact_text(schema.names)), strict=True))


def infer_schema(spark: SparkSession, *, step: str, path: str, form: LineFormat) -> StructType:
    """The schema of the first file below `path`; ConfigurationError if there is nothing to infer it from."""
    sample = sample_file(path, step=step)
    reader = spark.read.options(**form.reader_options)
    if form.format == "csv":
        return _inferred_csv(reader.option("header", form.header), str(sample))
    inferred = reader.json(str(sample)).schema
    fields = [field for field in inferred.fields if field.name != CORRUPT]
    if not fields:
        raise ConfigurationError(f"no line of {sample} is JSON", remedy="pass schema='...'", step=step)
    return StructType(fields)


def _inferred_csv(reader: DataFrameReader, sample: str) -> StructType:
    """The schema of a CSV file, in which Spark takes times of day for times of today: here they are texts."""
    found = reader.option("inferSchema", "true").csv(sample).schema
    times = [field.name for field in found.fields if isinstance(field.dataType, TimestampType)]
    if not times:
        return found
    texts = StructType([StructField(field.name, StringType()) for field in found.fields])
    rows = reader.option("inferSchema", "false").schema(texts).csv(sample)
    undated = rows.select([F.bool_or(WITHOUT_DATE.holds(F.col(quoted(n)), TimestampType())).alias(n) for n in times])
    row = undated.first()
    assert row is not None  # an aggregate has one row
    return StructType([texts[f.name] if f.name in times and row[f.name] else f for f in found.fields])


def sample_file(path: str, *, step: str) -> Path:
    """The first non-empty file below `path`; ConfigurationError if there is none."""
    sample = next((file for file in existing_files(path, follow=True) if file.stat().st_size), None)
    if sample is None:
        raise ConfigurationError(
            f"step {step!r} has no schema and no input to infer one from", remedy="pass schema='...'", step=step
        )
    return sample


def check_name(file: Path) -> None:
    """Raise SourceReadError for a file that Spark cannot read, or that needs an unsupported codec."""
    remedy = "rename it"
    if ":" in file.name:
        what = "Spark cannot read a file with a colon in its name"
    elif not file.name.isprintable() and any("\ud800" <= char <= "\udfff" for char in file.name):
        what = "Spark cannot read a file whose name is not UTF-8"
    elif is_foreign(file.suffix):
        what, remedy = f"files ending in {file.suffix} are not read", PACK_AGAIN
    else:
        return
    raise SourceReadError(what, remedy=remedy, file=file)


def check_whole_frames(file: Path) -> None:
    """Raise SourceReadError for a zstd file that is cut short: Spark's reader does not report it of a later frame."""
    if codec_of(file) == "zstd" and is_cut(file):
        raise SourceReadError(
            "a zstd file is cut short", remedy="replace it by a complete one, or move it away", file=file
        )


def check_path(path: str, *, step: str) -> None:
    """ConfigurationError if `path` is not a glob and no file or folder exists there."""
    if not has_input(path):
        raise ConfigurationError(f"there is no file at {path}", remedy="check the path of the source", step=step)


def has_input(path: str) -> bool:
    """Whether `path` is a file, a folder, or a glob (which may match nothing yet)."""
    return Path(path).exists() or any(c in path for c in "*?[")


def _load(reader: DataStreamReader | DataFrameReader, path: str, form: LineFormat) -> DataFrame:
    # Spark would hold a whole line in memory, however long; the runtime counts skipped lines.
    reader = reader.option(LINE_LIMIT, form.max_line_bytes + LINE_SLACK_BYTES)
    if form.format == "text":
        # A lone carriage return does not end a line; only CSV's parser has to find the ends by itself.
        lines = reader.option("lineSep", "\n").text(path)
        value = F.col("value")
        return lines.select(
            F.when(value.endswith("\r"), F.left(value, F.length(value) - 1)).otherwise(value).alias("value")
        )
    made = reader.options(**form.reader_options).schema(form.reader_schema)
    # Spark itself refuses a file with another header, whenever it arrives.
    return made.option("header", form.header).option("enforceSchema", "false").csv(path)


def _with_reason(frame: DataFrame, form: LineFormat) -> DataFrame:
    """The fields of `form` and REASON; blank lines are not records."""
    if form.format == "text":
        text = F.col("value")
        if form.pattern is None:
            return frame.filter(~is_blank(text)).withColumn(REASON, text_reason(text))
        return parsed_text(frame, form)
    assert form.schema is not None  # given or inferred before
    malformed = F.when(F.col(CORRUPT).isNotNull(), F.lit("malformed CSV"))
    fields, wrong = typed_fields(form, lambda name: F.col(quoted(name)))
    return frame.select(*fields, F.coalesce(malformed, _replaced(form.schema), wrong).alias(REASON))


def _replaced(schema: StructType) -> Column:
    texts = [F.col(quoted(f.name)).contains(REPLACEMENT) for f in schema.fields if isinstance(f.dataType, StringType)]
    if not texts:
        return F.lit(None).cast("string")
    found = texts[0]
    for other in texts[1:]:
        found = found | other
    return F.when(found, F.lit("invalid UTF-8"))

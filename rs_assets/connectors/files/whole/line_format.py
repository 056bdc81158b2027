"""The line format once the schema is known, and the sizes of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
from pyspark.sql import DataFrame, SparkSession

from rs_assets.connectors.files.lines.spark_source import FORMAT as LINES
from rs_assets.connectors.files.lines.spark_source import register
from rs_assets.connectors.files.listing import existing_files
from rs_assets.connectors.files.parse import LineFormat, parse_lines
from rs_assets.connectors.files.whole import spark_files as native
from rs_assets.connectors.source import Ends, Reading


def form_with_schema(form: LineFormat, reading: Reading, *, step: str, path: str) -> LineFormat:
    """`form` with the limits of the run, and with the declared, inferred or pinned schema."""
    made = replace(form, max_line_bytes=reading.max_line_bytes)
    if made.format == "text" and made.pattern is None:
        return made
    schema = reading.schema_of(lambda: native.infer_schema(reading.spark, step=step, path=path, form=made))
    return replace(made, schema=schema)


def read_ranges(spark: SparkSession, form: LineFormat, ranges: Sequence[Mapping[str, Any]]) -> DataFrame:
    """The records in ranges of files, with REASON and ADDRESS."""
    register(spark)
    reader = spark.read.format(LINES).option("ranges", orjson.dumps(ranges).decode())
    return parse_lines(reader.options(**form.line_options).load(), form, addressed=True)


def read_files(spark: SparkSession, form: LineFormat, files: Sequence[str]) -> DataFrame:
    """The records of whole files, line by line, with REASON and ADDRESS."""
    whole = [{"file": file, "start_line": 1, "start_byte": 0, "end_byte": None} for file in files]
    return read_ranges(spark, form, whole)


def file_sizes(path: str, *, follow: bool = False) -> Ends:
    """The files below `path`, with their sizes; `follow` includes those below links to folders."""
    return {str(file): file.stat().st_size for file in existing_files(path, follow=follow)}


def file_states(path: str, *, follow: bool = False) -> Mapping[str, tuple[int, int]]:
    """The same files, with their sizes and the times at which they were last written, in nanoseconds."""
    stats = ((str(file), file.stat()) for file in existing_files(path, follow=follow))
    return {file: (stat.st_size, stat.st_mtime_ns) for file, stat in stats}

"""JSON lines of whole files, read by the project's own format in Spark's JVM (JsonLines.scala)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rs_assets.common.errors_wire import to_wire
from rs_assets.connectors.files.parse import LineFormat
from rs_assets.connectors.files.whole.counting import too_long
from rs_assets.connectors.source import Reading
from rs_assets.errors import BadRecordError
from rs_assets.records.policy import BadRecords
from rs_assets.spark.processor.session import processors_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

FORMAT: Final = "org.apache.spark.sql.rsassets.JsonLines"
# The format puts the path of the file here.
FILE: Final = "@file"
# Spark's own option with which its streams read the files that they have listed.
AS_NAMED: Final = "__globPaths__"


def json_lines(files: DataStreamReader, path: str, form: LineFormat, reading: Reading) -> DataFrame:
    """The fields of the good records below `path`, without REASON.

    Under FAIL a bad record ends the batch with BadRecordError; under the other policies it is left out. Both are
    counted (`BatchExecution.judged`), by the name of `reading`. A line beyond the length limit always ends the batch.
    """
    assert form.schema is not None  # given or inferred before
    options = _options(reading.spark, form, name=reading.name, bad_records=reading.bad_records)
    return files.format(FORMAT).options(**options).schema(form.schema).load(path)


def json_lines_of(
    spark: SparkSession, files: Sequence[str], form: LineFormat, *, name: str, bad_records: BadRecords
) -> DataFrame:
    """The same of some files, at least one, as a bounded frame; `name` is that of the source."""
    assert form.schema is not None  # as above
    # A name of a file is not taken for a pattern, nor a folder called `a=1` for a column.
    reader = spark.read.options(**{"recursiveFileLookup": "true", AS_NAMED: "false"})
    options = _options(spark, form, name=name, bad_records=bad_records)
    return reader.format(FORMAT).options(**options).schema(form.schema).load([*files])


def _options(spark: SparkSession, form: LineFormat, *, name: str, bad_records: BadRecords) -> Mapping[str, str]:
    processors_in(spark)
    options = {
        "rs.source": name,
        "rs.cap": str(form.max_line_bytes),
        "rs.beyond": to_wire(too_long(form.max_line_bytes, file=FILE)),
    }
    if bad_records is BadRecords.FAIL:
        # Which one, and why, is found by a replay of the batch.
        refusal = to_wire(BadRecordError("a record cannot be used", step=name))
        options |= {"rs.bad": refusal, "rs.beyond": refusal}
    if form.time_format:
        options["timestampFormat"] = form.time_format
    return options

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
    from pyspark.sql import DataFrame
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
    assert form.schema is not None  # noqa: S101  given or inferred before
    return files.format(FORMAT).options(**_options(form, reading)).schema(form.schema).load(path)


def json_lines_of(files: Sequence[str], form: LineFormat, reading: Reading) -> DataFrame:
    """The same of some files, at least one, as a bounded frame."""
    assert form.schema is not None  # noqa: S101  as above
    # A name of a file is not taken for a pattern, nor a folder called `a=1` for a column.
    reader = reading.spark.read.options(**{"recursiveFileLookup": "true", AS_NAMED: "false"})
    return reader.format(FORMAT).options(**_options(form, reading)).schema(form.schema).load([*files])


def _options(form: LineFormat, reading: Reading) -> Mapping[str, str]:
    processors_in(reading.spark)
    options = {
        "rs.source": reading.name,
        "rs.cap": str(form.max_line_bytes),
        "rs.beyond": to_wire(too_long(form.max_line_bytes, file=FILE)),
    }
    if reading.bad_records is BadRecords.FAIL:
        # Which one, and why, is found by a replay of the batch.
        refusal = to_wire(BadRecordError("a record cannot be used", step=reading.name))
        options |= {"rs.bad": refusal, "rs.beyond": refusal}
    if form.time_format:
        options["timestampFormat"] = form.time_format
    return options

"""Writes a batch as files by Spark, each value exactly, and counts the rows of each file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, StringType

from rs_assets.connectors.files.form import FileForm
from rs_assets.errors import SinkError
from rs_assets.records.poison import EXACT
from rs_assets.records.schema import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# As in RFC 4180, and with the white space around a value; `""` is an empty text, nothing is null.
CSV: Mapping[str, str] = {
    "escape": '"',
    "emptyValue": '""',
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
}
# The folder of null and of the empty text. Spark writes a text of this name and a null to one file, and fails.
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
BLOCK_BYTES = 1 << 20
# The bytes of a name in file systems, and what Spark escapes in it by two more of them.
NAME_BYTES, ESCAPED = 255, r"""[\x01-\x1f"#%'*/:=?\\{\[\]^\x7f]"""
BROKEN = "a text with a line break would be more than one line"
UNNAMED = "a value of partition_by has too many bytes for the name of a folder, or a character of code 0"
REFUSED = (
    (BROKEN, "replace it: with_fields(line=\"replace(line, '\\n', ' ')\"), or use format='json'"),
    (UNNAMED, "shorten it: with_fields(start='left(replace(page, char(0)), 50)') and partition_by=['start']"),
)


def write_files(batch: DataFrame, folder: Path, form: FileForm, *, step: str) -> Mapping[Path, int]:
    """Compute `batch` and write it below `folder`; the files and their sizes.

    SinkError for a value that has no place in them.
    """
    writer = _prepared(batch, form).write.options(**_options(batch, form))
    if form.partition_by:
        writer = writer.partitionBy(*form.partition_by)
    try:
        getattr(writer, form.format)(str(folder))
    except (Py4JJavaError, PySparkException) as error:
        refused = next(((what, remedy) for what, remedy in REFUSED if what in str(error)), None)
        if refused is None:
            raise
        raise SinkError(refused[0], remedy=refused[1], step=step) from error
    files = sorted(file for file in folder.rglob("part-*") if file.is_file())
    if form.packed == ".zst":
        # Spark's writers of lines cannot.
        files = [_packed(file, form) for file in files]
    return {file: file.stat().st_size for file in files}


def rows_in(file: Path, form: FileForm) -> int:
    """The number of rows of a file."""
    if form.format == "parquet":
        return int(pq.read_metadata(file).num_rows)
    lines, inside = 0, False
    with pa.input_stream(str(file)) as stream:
        while block := stream.read(BLOCK_BYTES):
            if form.format != "csv" or not (inside or b'"' in block):
                lines += block.count(b"\n")
                continue
            # A line break within quotes is part of a value.
            parts = block.split(b'"')
            lines += sum(part.count(b"\n") for part in parts[inside::2])
            inside ^= len(parts) % 2 == 0
    return max(lines - (form.format == "csv" and form.header), 0)


def _options(batch: DataFrame, form: FileForm) -> dict[str, str]:
    options = dict(EXACT)
    if form.format == "csv":
        options |= {**CSV, "header": str(form.header).lower(), "sep": form.delimiter}
        if len(batch.columns) - len(form.partition_by) == 1:
            # Spark leaves an empty line out, and so do readers.
            options["quoteAll"] = "true"
    if form.compression is not None and form.packed != ".zst":
        options["compression"] = form.compression
    return options


def _prepared(batch: DataFrame, form: FileForm) -> DataFrame:
    """The rows with values of which Spark's writers make what they mean."""
    if form.format in ("json", "parquet") and not form.partition_by:
        return batch
    made = [_value(batch, name, form).alias(name) for name in batch.columns]
    return batch.select(*made)


def _value(batch: DataFrame, name: str, form: FileForm) -> Column:
    column, kind = F.col(quoted(name)), batch.schema[name].dataType
    if name in form.partition_by:
        return _folder(column, name) if isinstance(kind, StringType) else column
    if form.format == "csv" and isinstance(kind, DecimalType):
        # Digits without an exponent.
        return column.cast("string")
    if form.format == "text":
        return _refused_if(column.contains("\n") | column.contains("\r"), column, BROKEN)
    return column


def _folder(column: Column, name: str) -> Column:
    """A text as a partition: null for those that Spark and Hive read as null."""
    bytes_left = NAME_BYTES - len(f"{name}=".encode())
    length = F.octet_length(F.regexp_replace(column, ESCAPED, "%00"))
    valued = F.when(column != NO_VALUE, column)
    return _refused_if((length > bytes_left) | column.contains("\0"), valued, UNNAMED)


def _refused_if(wrong: Column, column: Column, why: str) -> Column:
    return F.when(wrong, F.raise_error(F.lit(why))).otherwise(column)


def _packed(file: Path, form: FileForm) -> Path:
    """The file packed as a whole, in its place."""
    target = file.with_name(f"{file.name}{form.packed}")
    with pa.input_stream(str(file)) as plain, pa.output_stream(str(target)) as packed:
        while block := plain.read(BLOCK_BYTES):
            packed.write(block)
    file.unlink()
    return target

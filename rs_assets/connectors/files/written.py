"""Writes a batch as files by Spark, each value exactly, and counts the rows of each file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, StringType

from rs_assets.connectors.files.form import FileForm
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


def write_files(batch: DataFrame, folder: Path, form: FileForm) -> Mapping[Path, int]:
    """Compute `batch` and write it below `folder`; the files and their sizes."""
    writer = _prepared(batch, form).write.options(**_options(batch, form))
    if form.partition_by:
        writer = writer.partitionBy(*form.partition_by)
    getattr(writer, form.format)(str(folder))
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
        return F.when(column != NO_VALUE, column) if isinstance(kind, StringType) else column
    if form.format == "csv" and isinstance(kind, DecimalType):
        # Digits without an exponent.
        return column.cast("string")
    if form.format == "text":
        broken = F.lit(
            "a text with a line break is more than one line: replace it before the sink, or use format='json'"
        )
        return F.when(column.contains("\n") | column.contains("\r"), F.raise_error(broken)).otherwise(column)
    return column


def _packed(file: Path, form: FileForm) -> Path:
    """The file packed as a whole, in its place."""
    target = file.with_name(f"{file.name}{form.packed}")
    with pa.input_stream(str(file)) as plain, pa.output_stream(str(target)) as packed:
        while block := plain.read(BLOCK_BYTES):
            packed.write(block)
    file.unlink()
    return target

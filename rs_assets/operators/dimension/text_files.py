"""The rows of a dimension's files of JSON or CSV: their records are judged as those of a source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from rs_assets.connectors.files.header import check_header
from rs_assets.connectors.files.parse import LineFormat
from rs_assets.connectors.files.whole.json_lines import json_lines_of
from rs_assets.connectors.files.whole.line_format import read_files
from rs_assets.connectors.files.whole.spark_files import check_name, check_whole_frames
from rs_assets.errors import SourceReadError
from rs_assets.records.columns import LINE, REASON, SPLIT
from rs_assets.records.policy import BadRecords
from rs_assets.records.schema import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def rows_of(spark: SparkSession, files: Sequence[Path], form: LineFormat) -> pa.Table:
    """The rows of `files`, at least one; SourceReadError names a record that cannot be used, its line and its file."""
    assert form.schema is not None  # such a dimension has one
    declared = ", ".join(f"{quoted(field.name)} {field.dataType.simpleString()}" for field in form.schema)
    names = [str(file) for file in files]
    for file in files:
        check_name(file)
        check_whole_frames(file)
        if form.format == "csv":
            check_header(file, declared, header=form.header)
    try:
        return _rows(spark, names, form)
    except Exception as error:
        refused = _first_bad(read_files(spark, form, names))
        raise (refused or error) from error


def _rows(spark: SparkSession, files: Sequence[str], form: LineFormat) -> pa.Table:
    if form.format == "json":
        return json_lines_of(spark, files, form, name="dimension", bad_records=BadRecords.FAIL).toArrow()
    assert form.schema is not None  # as above
    lines = read_files(spark, form, files)
    good = lines.filter(F.assert_true(F.col(REASON).isNull()).isNull())
    return good.select(*map(quoted, form.schema.names)).toArrow()


def _first_bad(lines: DataFrame) -> SourceReadError | None:
    """The error for the first record that cannot be used, by its file and line."""
    found = lines.filter(F.col(REASON).isNotNull()).select(SPLIT, LINE, REASON).orderBy(SPLIT, LINE).first()
    if found is None:
        return None
    return SourceReadError(
        f"line {found[LINE]} of {found[SPLIT]} cannot be used: {found[REASON]}",
        remedy="correct the line, or replace the file by one without it",
        file=found[SPLIT],
        line=found[LINE],
    )

"""Texts of JSON as fields, by Spark's parser: numbers, lists and objects in a field of text are as they are written."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import StructType

from rs_assets.spark.processor.session import processors_of


def json_fields(frame: DataFrame, text: Column, schema: StructType, options: Mapping[str, str]) -> Column:
    """A struct of the fields of `schema` for each text, as of Spark's `from_json` with these options.

    A column of `frame`. Where a field of text has another value in JSON, it gets the text of that value: `1.50`, of
    which Spark makes 1.5. Null for null.
    """
    parsed = processors_of(frame).JsonFields.column(text._jc, schema.json(), dict(options))  # noqa: SLF001
    return ClassicColumn(parsed)

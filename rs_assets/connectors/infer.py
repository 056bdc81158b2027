"""The schema of JSON texts, as Spark infers it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from rs_assets.errors import ConfigurationError
from rs_assets.records.columns import CORRUPT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def json_schema(spark: SparkSession, texts: Sequence[str], *, step: str, where: str) -> StructType:
    """The schema of `texts`; ConfigurationError, which says `where` they are from, if none of them is JSON."""
    # Spark infers from files and from RDDs of lines only.
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    found = spark.read.options(**options).json(spark.sparkContext.parallelize(texts, 1)) if texts else None
    fields = [field for field in found.schema.fields if field.name != CORRUPT] if found is not None else []
    if not fields:
        raise ConfigurationError(
            f"step {step!r} has no schema, and {where} no JSON to infer one from",
            remedy="pass schema='...'",
            step=step,
        )
    return StructType(fields)

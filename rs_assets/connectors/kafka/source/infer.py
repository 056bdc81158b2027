"""Infers the schema of JSON records from the first ones in the topics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rs_assets.connectors.infer import json_schema
from rs_assets.connectors.kafka.client.admin import connected, partitions_of
from rs_assets.connectors.kafka.source.reading import KafkaReader
from rs_assets.errors import SourceReadError

# How many records of each partition are read.
SAMPLE = 200


def infer_schema(spark: SparkSession, reader: KafkaReader, *, step: str) -> StructType:
    """The schema of the first records of each partition.

    ConfigurationError if there are no records or none is JSON, SourceReadError if Spark cannot read them.
    """
    with connected(reader.cluster) as admin:
        partitions = partitions_of(admin.topics(reader.topics, reader.pattern))
        first, last = admin.earliest(partitions), admin.latest(partitions, read_committed=reader.read_committed)
    until = {p: min(first[p] + SAMPLE, last[p]) for p in partitions}
    values = reader.records(spark, first, until).select(F.col("value").cast("string")).dropna()
    with _spark_errors(step):
        texts = values.toArrow()
    lines = [str(text) for text in texts.column(0).to_pylist()]
    return json_schema(spark, lines, step=step, where="the topics contain")


@contextmanager
def _spark_errors(step: str) -> Iterator[None]:
    """Turn Spark's errors in the block into SourceReadError, with the innermost cause."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        causes = re.findall(r"Caused by: ([^\n]{1,200})", str(error)) or [str(error)[:200]]
        raise SourceReadError(
            f"the records to infer a schema from cannot be read: {causes[-1]}",
            remedy="let this user read the topics",
            step=step,
        ) from error

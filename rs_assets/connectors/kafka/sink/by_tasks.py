"""Sends records from Spark's tasks through the writer of its Kafka connector, and counts them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rs_assets.connectors.kafka.sink.record_time import TIMESTAMP

# The metric that counts the rows in the plan of a frame.
SENT = "rs_sent"
# The interceptor that sets a record's time from this header (scala/RecordTimes.scala).
TIMES, TIME_HEADER = "org.apache.spark.sql.rsassets.RecordTimes", "rs-assets-time"
INTERCEPTORS = "interceptor.classes"
HEADERS_TYPE = "array<struct<key:string,value:binary>>"
CONNECTOR = "org.apache.spark.sql.kafka010"


def send_by_tasks(records: DataFrame, options: Mapping[str, str]) -> int:
    """Send `records` (from `records.records`) with these options of Spark's connector; returns their number.

    The connector's writer is called directly. With `records.write` the options, credentials included, would become a
    node of a plan, and Spark's event log and its REST interface show whole plans.
    """
    jvm: Any = records.sparkSession._jvm  # noqa: SLF001  pyspark has no public way to its JVM
    query = timed(records).observe(SENT, F.count(F.lit(1)).alias("rows"))._jdf.queryExecution()  # noqa: SLF001
    scala_object(jvm, f"{CONNECTOR}.KafkaWriter").write(query, producer_params(jvm, options), jvm.scala.Option.empty())
    return int(query.observedMetrics().apply(SENT).getLong(0))


def timed(records: DataFrame) -> DataFrame:
    """`records` with their times in a header, which the producer's interceptor TIMES turns into the record time."""
    if TIMESTAMP not in records.columns:
        return records
    time = F.struct(F.lit(TIME_HEADER).alias("key"), F.col(TIMESTAMP).cast("string").cast("binary").alias("value"))
    own = F.col("headers") if "headers" in records.columns else F.lit(None).cast(HEADERS_TYPE)
    more = F.concat(F.coalesce(own, F.array().cast(HEADERS_TYPE)), F.array(time))
    made = F.when(F.col(TIMESTAMP).isNull(), own).otherwise(more)
    return records.withColumn("headers", made).drop(TIMESTAMP)


def intercepted(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings of a producer with TIMES before the user's interceptors."""
    own = settings.get(INTERCEPTORS)
    return {**settings, INTERCEPTORS: f"{TIMES},{own}" if own else TIMES}


def producer_params(jvm: Any, options: Mapping[str, str]) -> Any:
    """The settings of the tasks' producers, made by the connector itself; they are the key of its producer pool."""
    made = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(dict(options))
    caseless = scala_object(jvm, "org.apache.spark.sql.catalyst.util.CaseInsensitiveMap").apply(made)
    return scala_object(jvm, f"{CONNECTOR}.KafkaSourceProvider").kafkaParamsForProducer(caseless)


def scala_object(jvm: Any, name: str) -> Any:
    """A Scala object."""
    return getattr(reduce(getattr, f"{name}$".split("."), jvm), "MODULE$")

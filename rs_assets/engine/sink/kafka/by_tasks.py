"""Records sent by Spark's tasks through the writer of its Kafka connector, and counted."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

# The name under which the plan of a frame counts its rows.
SENT = "rs_sent"
CONNECTOR = "org.apache.spark.sql.kafka010"


def send_by_tasks(records: DataFrame, options: Mapping[str, str]) -> int:
    """Send `records` (topic, key, value, ...) with these options of Spark's connector; how many there were.

    The connector's writer is called as such. Through `records.write` the options, credentials among them, would become
    a node of a plan, and Spark's event log and its REST interface show plans as they are.
    """
    jvm: Any = records.sparkSession._jvm  # noqa: SLF001  pyspark has no public way to its JVM
    query = records.observe(SENT, F.count(F.lit(1)).alias("rows"))._jdf.queryExecution()  # noqa: SLF001
    scala_object(jvm, f"{CONNECTOR}.KafkaWriter").write(query, producer_params(jvm, options), jvm.scala.Option.empty())
    return int(query.observedMetrics().apply(SENT).getLong(0))


def producer_params(jvm: Any, options: Mapping[str, str]) -> Any:
    """The settings of the tasks' producers, made by the connector itself; its pool of producers goes by them."""
    made = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(dict(options))
    caseless = scala_object(jvm, "org.apache.spark.sql.catalyst.util.CaseInsensitiveMap").apply(made)
    return scala_object(jvm, f"{CONNECTOR}.KafkaSourceProvider").kafkaParamsForProducer(caseless)


def scala_object(jvm: Any, name: str) -> Any:
    """An object of Scala."""
    return getattr(reduce(getattr, f"{name}$".split("."), jvm), "MODULE$")

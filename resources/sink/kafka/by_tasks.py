"""Records sent by Spark's own Kafka sink, from its tasks, and counted."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

# Which formats Spark writes by its first interface, in which nothing can be observed: all but Kafka here.
FIRST_WRITERS, OTHERS = "spark.sql.sources.useV1SourceList", "avro,csv,json,orc,parquet,text"


def send_by_tasks(records: DataFrame, options: Mapping[str, str]) -> int:
    """Send `records` (topic, key, value, ...) with these options of Spark's connector; how many there were."""
    counted = Observation()
    made = records.observe(counted, F.count(F.lit(1)).alias("rows"))
    # The session is the query's own copy. Only this writer runs inside the plan that counts.
    records.sparkSession.conf.set(FIRST_WRITERS, OTHERS)
    made.write.format("kafka").options(**options).mode("append").save()
    return int(counted.get["rows"])

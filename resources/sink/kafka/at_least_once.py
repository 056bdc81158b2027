"""Records by Spark's own Kafka sink: quick and parallel; a batch that is repeated is sent again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from resources.kafka.cluster import KafkaCluster
from resources.sink.base import BatchMark, Staged
from resources.sink.kafka.records import records
from resources.sink.kafka.shape import RecordShape

if TYPE_CHECKING:
    from collections.abc import Mapping


# Which formats Spark writes by its first interface, in which nothing can be observed: all but Kafka here.
FIRST_WRITERS, OTHERS = "spark.sql.sources.useV1SourceList", "avro,csv,json,orc,parquet,text"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaWriter:
    """Sends batches from Spark's tasks; remembers nothing. `options` are settings of Kafka's producer."""

    name: str
    cluster: KafkaCluster
    shape: RecordShape
    options: Mapping[str, str] = field(default_factory=dict)

    def location(self) -> str:
        """The brokers and the topic."""
        return f"kafka://{','.join(self.cluster.servers)}/{self.shape.topic or self.shape.topic_field}"

    def committed(self, mark: BatchMark) -> bool:  # noqa: ARG002  the protocol's form
        """Nobody knows."""
        return False

    def last_committed(self, mark: BatchMark) -> int | None:  # noqa: ARG002  the protocol's form
        """Nothing: this sink forgets."""
        return None

    def rewind(self, kept: BatchMark, begun: BatchMark) -> str:  # noqa: ARG002  the protocol's form
        """Nothing: what was sent stays."""
        return "delivers rows again"

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:  # noqa: ARG002  the protocol's form
        """Send the batch: Spark's sink has no way to hold it back until the commit."""
        counted = Observation()
        made = records(batch, self.shape, step=self.name).observe(counted, F.count(F.lit(1)).alias("rows"))
        # The session is the query's own copy. Only this writer runs inside the plan that counts.
        batch.sparkSession.conf.set(FIRST_WRITERS, OTHERS)
        options = {f"kafka.{name}": value for name, value in self.options.items()}
        made.write.format("kafka").options(**self.cluster.for_spark(), **options).mode("append").save()
        rows = int(counted.get["rows"])
        return Staged(lambda: rows)

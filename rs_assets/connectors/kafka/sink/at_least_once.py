"""The at-least-once sink, by Spark's own Kafka sink: fast and parallel; a repeated batch is sent again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.registry.registration import SchemaIds
from rs_assets.connectors.kafka.sink.by_tasks import intercepted, send_by_tasks
from rs_assets.connectors.kafka.sink.failures import refusal, sent_again
from rs_assets.connectors.kafka.sink.records import records
from rs_assets.connectors.kafka.sink.settings import BATCHING
from rs_assets.connectors.kafka.sink.shape import RecordShape
from rs_assets.connectors.kafka.sink.target import check_topic, known_partitions
from rs_assets.connectors.sink import BatchMark, Staged

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(slots=True, kw_only=True)
class KafkaWriter:
    """Sends batches from Spark's tasks and stores nothing about them. `options` are settings of Kafka's producer."""

    name: str
    cluster: KafkaCluster
    shape: RecordShape
    options: Mapping[str, str] = field(default_factory=dict)
    _ids: SchemaIds | None = field(default=None, repr=False)

    def location(self) -> str:
        """The brokers and the topic."""
        return f"kafka://{','.join(self.cluster.servers)}/{self.shape.topic or self.shape.topic_field}"

    def committed(self, mark: BatchMark) -> bool:  # noqa: ARG002  the protocol's form
        """Unknown, hence False."""
        return False

    def last_committed(self, mark: BatchMark) -> int | None:  # noqa: ARG002  the protocol's form
        """None: this sink has no memory."""
        return None

    def check_begin(self, begun: BatchMark) -> str:
        """A warning for each generation but the first: records of earlier ones stay, and are sent again."""
        return sent_again(self.name, self.location()) if begun.generation > 1 else ""

    def check_rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> None:
        """Always possible."""

    def rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> str:  # noqa: ARG002  the protocol's form
        """Does nothing: sent records stay."""
        return "delivers rows again"

    def check_start(self) -> None:
        """Check that the brokers accept the login, and that the topic exists."""
        check_topic(self.cluster, self.shape, step=self.name)

    def prepare(self, rows: DataFrame) -> None:
        """Register the schema of Avro and Protobuf values."""
        _ = records(rows, self.shape, step=self.name, ids=self._schemas())

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:
        """Send the batch: Spark's sink cannot hold it back until the commit."""
        settings = intercepted({**BATCHING, **self.options})
        options = {f"kafka.{name}": value for name, value in settings.items()}
        partitions = known_partitions(self.cluster, self.shape, self.name)
        made = records(batch, self.shape, step=self.name, partitions=partitions, ids=self._schemas())
        try:
            rows = send_by_tasks(made, {**self.cluster.for_spark(), **options})
        except Exception as error:
            refused = refusal(str(error), made, mark, topic=self.shape.topic or self.shape.topic_field)
            raise refused or error from error
        return Staged(lambda: rows)

    def _schemas(self) -> SchemaIds | None:
        """The ids of schemas, which are registered once a run."""
        if self._ids is None and self.shape.subject is not None:
            self._ids = SchemaIds(self.shape.subject, self.name)
        return self._ids

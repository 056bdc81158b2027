"""Records by Spark's own Kafka sink: quick and parallel; a batch that is repeated is sent again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from rs_assets.engine.connect.kafka.cluster import KafkaCluster
from rs_assets.engine.connect.kafka.login import check_login
from rs_assets.engine.sink.base import BatchMark, Staged
from rs_assets.engine.sink.kafka.by_tasks import send_by_tasks
from rs_assets.engine.sink.kafka.failures import sent_again
from rs_assets.engine.sink.kafka.producer import cannot_be_written
from rs_assets.engine.sink.kafka.records import records
from rs_assets.engine.sink.kafka.settings import BATCHING
from rs_assets.engine.sink.kafka.shape import RecordShape
from rs_assets.errors import SourceReadError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(slots=True, kw_only=True)
class KafkaWriter:
    """Sends batches from Spark's tasks; remembers nothing of them. `options` are settings of Kafka's producer."""

    name: str
    cluster: KafkaCluster
    shape: RecordShape
    options: Mapping[str, str] = field(default_factory=dict)
    _let_in: bool = False

    def location(self) -> str:
        """The brokers and the topic."""
        return f"kafka://{','.join(self.cluster.servers)}/{self.shape.topic or self.shape.topic_field}"

    def committed(self, mark: BatchMark) -> bool:  # noqa: ARG002  the protocol's form
        """Nobody knows."""
        return False

    def last_committed(self, mark: BatchMark) -> int | None:  # noqa: ARG002  the protocol's form
        """Nothing: this sink forgets."""
        return None

    def check_begin(self, begun: BatchMark) -> str:
        """A warning for each generation but the first: what earlier ones sent stays, and comes again."""
        return sent_again(self.name, self.location()) if begun.generation > 1 else ""

    def check_rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> None:
        """Nothing stands in the way."""

    def rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> str:  # noqa: ARG002  the protocol's form
        """Nothing: what was sent stays."""
        return "delivers rows again"

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:  # noqa: ARG002  the protocol's form
        """Send the batch: Spark's sink has no way to hold it back until the commit."""
        self._log_in()
        settings = {**BATCHING, **self.options}
        options = {f"kafka.{name}": value for name, value in settings.items()}
        rows = send_by_tasks(records(batch, self.shape, step=self.name), {**self.cluster.for_spark(), **options})
        return Staged(lambda: rows)

    def _log_in(self) -> None:
        """Ask the brokers once whether they let us in: Spark's sink would find out after a minute, and not say why."""
        if self._let_in:
            return
        try:
            check_login(self.cluster)
        except SourceReadError as refused:
            raise cannot_be_written(refused, step=self.name) from refused
        self._let_in = True

"""The committed end of a durable shuffle's topic: recorded by the writer, respected by readers.

Brokers end a transaction partition by partition. Meanwhile a reader sees a batch in one partition and not in another;
its watermark would pass rows that it has not seen. So the writer records the ends of all partitions after each batch,
and no batch of a reader goes beyond them.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from tenacity import RetryError, Retrying, retry_if_exception_type, retry_if_result, stop_after_delay, wait_fixed

from rs_assets.common.files import write_atomically
from rs_assets.connectors.kafka.client.admin import Admin, connected, partitions_of
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.source.offsets import dump_offsets
from rs_assets.errors import SinkError, SourceReadError

# The longest wait for the end of a transaction, and the polling interval, in seconds.
PATIENCE_S, LOOK_S = 30.0, 0.02


@dataclass(slots=True, kw_only=True)
class NotedEnd:
    """The file at `path` holds the offsets after the last complete batch in `topic`; connected until `close`."""

    topic: str
    cluster: KafkaCluster
    path: Path
    _admin: Admin | None = field(default=None, repr=False)
    _stack: ExitStack = field(default_factory=ExitStack, repr=False)

    def note(self) -> None:
        """Record the end of the batch committed just now; SinkError if its transaction does not end."""
        if not self.noted_within(PATIENCE_S):
            raise SinkError(
                f"a transaction in the topic {self.topic!r} does not end",
                remedy="check that the brokers are healthy, then run again: nothing is lost",
                topic=self.topic,
            )

    def noted_within(self, seconds: float) -> bool:
        """Record the end of the topic as soon as no transaction is open in it; whether that was within `seconds`.

        SourceReadError if no broker answered.
        """
        looking: Retrying = Retrying(
            retry=retry_if_result(lambda whole: not whole) | retry_if_exception_type(SourceReadError),
            stop=stop_after_delay(seconds),
            wait=wait_fixed(LOOK_S),
        )
        try:
            return bool(looking(self._note_if_whole))
        except RetryError as given_up:
            if given_up.last_attempt.failed:
                given_up.reraise()
            return False

    def forget(self) -> None:
        """Record that no batch of the topic is complete."""
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the connection; may be called twice, and the next record opens another."""
        self._admin = None
        self._stack.close()

    def _note_if_whole(self) -> bool:
        try:
            admin = self._connected()
            partitions = admin.answered(lambda: partitions_of(admin.topics([self.topic])))
            seen = admin.answered(lambda: admin.latest(partitions, read_committed=True))
            whole = seen == admin.answered(lambda: admin.latest(partitions))
        except SourceReadError:
            self.close()
            raise
        if whole:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, dump_offsets(seen).encode())
        return whole

    def _connected(self) -> Admin:
        if self._admin is None:
            self._admin = self._stack.enter_context(connected(self.cluster, patience=timedelta(seconds=PATIENCE_S)))
        return self._admin

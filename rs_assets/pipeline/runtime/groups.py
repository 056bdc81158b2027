"""Committed offsets, shown in the consumer groups that Kafka's own tools look at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta

from rs_assets.engine.checkpoint.messages import CheckPoint
from rs_assets.engine.connect.kafka.admin import Admin, connected
from rs_assets.engine.source.kafka.offsets import Partition
from rs_assets.errors import RsError
from rs_assets.pipeline.runtime.journal import JournalEntry
from rs_assets.pipeline.topology.source import KafkaSource
from rs_assets.pipeline.topology.topology import Topology

NOT_SHOWN = "no offsets are shown in the consumer group"
# Only a picture for people: a broker that is away must not hold up the catalog.
PATIENCE = timedelta(seconds=5)


@dataclass(slots=True)
class GroupMirror:
    """Follows the journal: what Spark and the catalog have of a batch becomes the committed offsets of its group.

    The groups are for looking only; a start goes by Spark's log. `failure` is the last error, None after a success.
    """

    topology: Topology
    failure: RsError | None = None
    _stack: ExitStack = field(default_factory=ExitStack)
    _admins: dict[str, Admin] = field(default_factory=dict)
    _owed: dict[str, dict[Partition, int]] = field(default_factory=dict)

    def __call__(self, entries: Sequence[JournalEntry]) -> None:
        """Commit the offsets of the last of these batches; RsError if a broker has not taken them.

        They are owed then, and go along with the next ones.
        """
        for source in self.topology.sources:
            if not isinstance(source, KafkaSource) or source.group is None:
                continue
            self._owed.setdefault(source.name, {}).update(_last_offsets(source.name, entries))
            self._commit(source)
        self._raise()

    def finish(self) -> None:
        """Commit what a broker that was busy has not taken, and close; RsError if it still does not take it."""
        self.close()
        self._raise()

    def close(self) -> None:
        """Commit what a broker that was busy has not taken, and give the connections back."""
        for source in self.topology.sources:
            if isinstance(source, KafkaSource):
                self._commit(source)
        self._disconnect()

    def _raise(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _commit(self, source: KafkaSource) -> None:
        offsets = self._owed.get(source.name)
        if not offsets:
            return
        try:
            admin = self._admin(source)
            admin.answered(lambda: admin.commit(str(source.group), offsets))
        except RsError as error:
            self.failure = error
            self._disconnect()
        else:
            self.failure = None
            del self._owed[source.name]

    def _disconnect(self) -> None:
        self._admins.clear()
        self._stack.close()

    def _admin(self, source: KafkaSource) -> Admin:
        if source.name not in self._admins:
            self._admins[source.name] = self._stack.enter_context(connected(source.cluster, patience=PATIENCE))
        return self._admins[source.name]


def _last_offsets(source: str, entries: Iterable[JournalEntry]) -> dict[Partition, int]:
    found: dict[Partition, int] = {}
    for entry in entries:
        for message in entry.messages:
            if isinstance(message, CheckPoint) and message.source == source:
                for split, offset in message.offsets.items():
                    topic, _, number = split.rpartition("-")
                    found[topic, int(number)] = int(offset)
    return found

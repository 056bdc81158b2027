"""Mirrors committed offsets to consumer groups, where Kafka's own tools show them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta

from rs_assets.connectors.kafka.client.admin import Admin, connected
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.source.offsets import Partition, parse_offsets
from rs_assets.errors import RsError

NOT_SHOWN = "no offsets are shown in the consumer group"
# For display only: an unreachable broker must not delay the catalog.
PATIENCE = timedelta(seconds=5)


@dataclass(slots=True)
class GroupMirror:
    """Commits the offsets that Spark and the catalog have of a source to its group.

    The group is for display only; a start uses Spark's log. `failure` is the last error, None after a success.
    """

    cluster: KafkaCluster
    group: str
    effect: str = NOT_SHOWN
    failure: RsError | None = None
    _stack: ExitStack = field(default_factory=ExitStack)
    _admin: Admin | None = None
    _owed: dict[Partition, int] = field(default_factory=dict)
    _shown: dict[Partition, int] = field(default_factory=dict)

    def committed(self, ends: Sequence[str | None]) -> None:
        """Commit the offsets that all queries have read; RsError if a broker rejects it: the next call retries."""
        found: dict[Partition, int] = {}
        for end in ends:
            for partition, offset in parse_offsets(end).items() if end is not None else ():
                found[partition] = min(found.get(partition, offset), offset)
        self._owed.update({p: offset for p, offset in found.items() if self._shown.get(p) != offset})
        self._commit()
        self._raise()

    def finish(self, ends: Sequence[str | None]) -> None:  # noqa: ARG002  `committed` had them before
        """Commit offsets that a busy broker has not accepted, and close; RsError if it still does not accept them."""
        self.close()
        self._raise()

    def close(self) -> None:
        """Commit offsets that a busy broker has not accepted, and close the connection."""
        self._commit()
        self._disconnect()

    def _raise(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _commit(self) -> None:
        if not self._owed:
            return
        try:
            admin = self._admin or self._stack.enter_context(connected(self.cluster, patience=PATIENCE))
            self._admin = admin
            admin.answered(lambda: admin.commit(self.group, self._owed))
        except RsError as error:
            self.failure = error
            self._disconnect()
        else:
            self.failure = None
            self._shown.update(self._owed)
            self._owed = {}

    def _disconnect(self) -> None:
        self._admin = None
        self._stack.close()

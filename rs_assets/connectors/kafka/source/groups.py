"""Mirrors committed offsets to consumer groups, where Kafka's own tools show them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from rs_assets.connectors.kafka.client.admin import Admin, connected
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.source.offsets import Partition, parse_offsets
from rs_assets.connectors.offset_mirror import PATIENCE, OffsetMirror


@dataclass(slots=True)
class GroupMirror(OffsetMirror[Partition]):
    """Commits the offsets of a source to its group in Kafka."""

    cluster: KafkaCluster
    group: str
    _stack: ExitStack = field(default_factory=ExitStack)
    _admin: Admin | None = None

    def offsets(self, end: str) -> Mapping[Partition, int]:
        """The next offset of each partition."""
        return parse_offsets(end)

    def show(self, offsets: Mapping[Partition, int]) -> None:
        """Commit `offsets` to the group."""
        admin = self._admin or self._stack.enter_context(connected(self.cluster, patience=PATIENCE))
        self._admin = admin
        admin.answered(lambda: admin.commit(self.group, offsets))

    def disconnect(self) -> None:
        """Close the connection, if there is one."""
        self._admin = None
        self._stack.close()

"""Mirrors committed offsets to a consumer group, where RocketMQ's own tools show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rs_assets.connectors.offset_mirror import PATIENCE, OffsetMirror
from rs_assets.connectors.own.plan import loaded
from rs_assets.connectors.rocketmq.client.client import Client, rocketmq_errors
from rs_assets.connectors.rocketmq.client.cluster import Access, RocketMQCluster
from rs_assets.connectors.rocketmq.client.names import Queue
from rs_assets.errors import SourceReadError

# The topic by which RocketMQ's tools find a group: that of messages that a consumer has refused.
RETRY = "%RETRY%"


@dataclass(slots=True)
class GroupMirror(OffsetMirror[str]):
    """Commits the offsets of a source to its consumer group in RocketMQ."""

    cluster: RocketMQCluster
    topic: str
    group: str
    _client: Client | None = None

    def offsets(self, end: str) -> Mapping[str, int]:
        """The next offset of each queue."""
        return {split: at.next for split, at in loaded(end).items()}

    def show(self, offsets: Mapping[str, int]) -> None:
        """Commit `offsets` to the group."""
        access = self.cluster.access()
        with rocketmq_errors(access, SourceReadError):
            client = self._connected(access)
            for split, offset in offsets.items():
                client.commit(self.group, self.topic, Queue.of(split), offset)

    def disconnect(self) -> None:
        """Close the connection, if there is one."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self, access: Access) -> Client:
        if self._client is None:
            client = Client(access, patience=PATIENCE)
            route = client.route(self.topic)
            if route is not None and client.route(RETRY + self.group) is None:
                client.create_topic(RETRY + self.group, queues=1, brokers=route.brokers)
            self._client = client
        return self._client

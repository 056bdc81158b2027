"""Mirrors committed offsets to a consumer group, where RocketMQ's own tools show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from rs_assets.connectors.own.plan import loaded
from rs_assets.connectors.rocketmq.client.client import Client, rocketmq_errors
from rs_assets.connectors.rocketmq.client.cluster import Access, RocketMQCluster
from rs_assets.connectors.rocketmq.client.names import Queue
from rs_assets.errors import RsError, SourceReadError

NOT_SHOWN = "no offsets are shown in the consumer group"
# For display only: a broker that is away must not delay the catalog.
PATIENCE = timedelta(seconds=5)
# The topic by which RocketMQ's tools find a group: that of messages that a consumer has refused.
RETRY = "%RETRY%"


@dataclass(slots=True)
class GroupMirror:
    """Commits the offsets that Spark and the catalog have of a source to its consumer group.

    The group is for display only; a start uses Spark's log. `failure` is the last error, None after a success.
    """

    cluster: RocketMQCluster
    topic: str
    group: str
    effect: str = NOT_SHOWN
    failure: RsError | None = None
    _client: Client | None = None
    _owed: dict[str, int] = field(default_factory=dict)
    _shown: dict[str, int] = field(default_factory=dict)

    def committed(self, ends: Sequence[str | None]) -> None:
        """Commit the offsets that all queries have read; RsError if a broker rejects it: the next call retries."""
        found: dict[str, int] = {}
        for end in ends:
            for split, at in loaded(end).items():
                found[split] = min(found.get(split, at.next), at.next)
        self._owed.update({split: offset for split, offset in found.items() if self._shown.get(split) != offset})
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
            access = self.cluster.access()
            with rocketmq_errors(access, SourceReadError):
                client = self._connected(access)
                for split, offset in self._owed.items():
                    client.commit(self.group, self.topic, Queue.of(split), offset)
        except RsError as error:
            self.failure = error
            self._disconnect()
        else:
            self.failure = None
            self._shown.update(self._owed)
            self._owed = {}

    def _connected(self, access: Access) -> Client:
        if self._client is None:
            client = Client(access, patience=PATIENCE)
            route = client.route(self.topic)
            if route is not None and client.route(RETRY + self.group) is None:
                client.create_topic(RETRY + self.group, queues=1, brokers=route.brokers)
            self._client = client
        return self._client

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

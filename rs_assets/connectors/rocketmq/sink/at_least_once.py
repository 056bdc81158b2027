"""The at-least-once sink: the driver sends a batch when it is committed; a repeated batch is sent again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame

from rs_assets.connectors.rocketmq.client.client import connected
from rs_assets.connectors.rocketmq.nodes import RocketmqSink
from rs_assets.connectors.rocketmq.sink.rows import Outgoing, as_messages, outgoing
from rs_assets.connectors.rocketmq.sink.sending import by_queue, send_all, target_of
from rs_assets.connectors.sink import BatchMark, Staged
from rs_assets.errors import SinkError


@dataclass(frozen=True, slots=True)
class RocketmqWriter:
    """Sends batches and stores nothing about them. A batch passes through the driver, so limit its rows."""

    node: RocketmqSink

    @property
    def name(self) -> str:
        """The name of the step."""
        return self.node.name

    def location(self) -> str:
        """The name servers and the topic."""
        return location_of(self.node)

    def committed(self, mark: BatchMark) -> bool:  # noqa: ARG002  the protocol's form
        """Unknown, hence False."""
        return False

    def last_committed(self, mark: BatchMark) -> int | None:  # noqa: ARG002  the protocol's form
        """None: this sink has no memory."""
        return None

    def check_begin(self, begun: BatchMark) -> str:
        """A warning for each generation but the first: messages of earlier ones stay, and are sent again."""
        return sent_again(self.node) if begun.generation > 1 else ""

    def check_rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> None:
        """Always possible."""

    def rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> str:  # noqa: ARG002  the protocol's form
        """Does nothing: sent messages stay."""
        return "delivers rows again"

    def check_start(self) -> None:
        """Check that the servers accept the login, and that the topic exists."""
        check_topic(self.node)

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:  # noqa: ARG002  the protocol's form
        """Compute the rows; they wait in memory."""
        rows = as_messages(batch, self.node).toArrow()
        return Staged(partial(self._commit, [*outgoing(rows, self.node)]))

    def _commit(self, rows: Sequence[Outgoing]) -> int:
        with connected(self.node.cluster, SinkError) as client:
            queues = target_of(client, self.node.topic, self.name).write
            found = by_queue(rows, queues)
            # A request without an answer may have been stored: it is sent again.
            send_all(self.node.topic, found, lambda *sent: client.patiently(partial(client.send, *sent)))
        return len(rows)


def location_of(node: RocketmqSink) -> str:
    """The name servers and the topic of a sink."""
    return f"rocketmq://{';'.join(node.cluster.servers)}/{node.topic}"


def check_topic(node: RocketmqSink) -> None:
    """SinkError if no server answers, or the topic does not exist, or this user may not ask for it."""
    with connected(node.cluster, SinkError) as client:
        queue = target_of(client, node.topic, node.name).write[0]
        client.end(node.topic, queue)


def sent_again(node: RocketmqSink) -> str:
    """The warning for a generation that sends to a topic in which the messages of earlier ones stay."""
    return (
        f"a new generation sends all rows of {node.name!r} again, and {location_of(node)} keeps messages of earlier"
        " ones: its readers may start at the current offsets, or name another topic"
    )

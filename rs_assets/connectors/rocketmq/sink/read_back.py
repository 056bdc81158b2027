"""The exactly-once sink: what a batch has sent before a crash is read back, and only the rest is sent.

Each message has an identity made of its batch and its content. A note in the commit topic says which batch was sent
whole, and where the queues ended. A batch without a note may have been sent in part: its messages lie after these ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial

from pyspark.sql import DataFrame

from rs_assets.connectors.commits import NOTHING, noted, noted_return, refuse_return
from rs_assets.connectors.rocketmq.client.client import Client, connected
from rs_assets.connectors.rocketmq.client.connection import Unreachable
from rs_assets.connectors.rocketmq.client.messages import properties_of
from rs_assets.connectors.rocketmq.client.names import Queue
from rs_assets.connectors.rocketmq.client.pulling import Reach, messages
from rs_assets.connectors.rocketmq.client.route import Route
from rs_assets.connectors.rocketmq.nodes import RocketmqSink
from rs_assets.connectors.rocketmq.sink.at_least_once import check_topic, location_of, sent_again
from rs_assets.connectors.rocketmq.sink.notes import (
    Note,
    await_shown,
    create_commits,
    last_note,
    last_writer_of,
    write_note,
)
from rs_assets.connectors.rocketmq.sink.rows import ROW_ID, Outgoing, as_messages, outgoing, row_ids
from rs_assets.connectors.rocketmq.sink.sending import by_queue, send_all, target_of
from rs_assets.connectors.sink import BatchMark, LastWriter, Staged
from rs_assets.errors import SinkError


@dataclass(slots=True)
class ReadBackWriter:
    """Exactly once while one driver writes, for rows that are the same when their batch is computed again.

    A batch passes through the driver, so limit its rows. It is not atomic: readers see parts of it.
    """

    node: RocketmqSink
    # The last note, and whether nothing was sent after it; neither is known before the first batch, or after an error.
    _last: Note | None = field(default=None, repr=False)
    _settled: bool = False

    @property
    def name(self) -> str:
        """The name of the step."""
        return self.node.name

    def location(self) -> str:
        """The name servers and the topic."""
        return location_of(self.node)

    def committed(self, mark: BatchMark) -> bool:
        """Whether this batch, or a later one, was sent whole; LeaseLostError if another driver has written since."""
        with connected(self.node.cluster, SinkError) as client:
            note = last_note(client, self.node.topic, mark)
        return note is not None and note.last_batch(mark) >= mark.batch_id

    def last_committed(self, mark: BatchMark) -> int | None:
        """The last batch of the mark's generation, -1 for none."""
        with connected(self.node.cluster, SinkError) as client:
            note = last_note(client, self.node.topic, mark)
        return note.batch_id if note is not None and note.generation == mark.generation else -1

    def last_writer(self, mark: BatchMark) -> LastWriter:
        """Token and claim in the commit topic."""
        with connected(self.node.cluster, SinkError) as client:
            return last_writer_of(client, self.node.topic, mark)

    def raise_fence(self, mark: BatchMark) -> None:
        """Does nothing: messages cannot be removed, and brokers accept those of any driver."""

    def check_start(self) -> None:
        """Check that the servers accept the login, and that the topic exists."""
        check_topic(self.node)

    def check_begin(self, begun: BatchMark) -> str:
        """A warning if earlier generations have sent to the topic: their messages stay, and are sent again."""
        with connected(self.node.cluster, SinkError) as client:
            last = last_note(client, self.node.topic, begun)
        earlier = last is not None and last.generation < begun.generation and last.batch_id >= 0
        return sent_again(self.node) if earlier else ""

    def check_rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> None:
        """SinkError if the topic has other messages than those of the batches up to `kept`; read-only."""
        with connected(self.node.cluster, SinkError) as client:
            last = last_note(client, self.node.topic, kept)
        if last is not None:
            last.last_batch(begun)
        refuse_return(last, kept, had, step=self.name)

    def rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> str:
        """Only records the new generation: sent messages stay."""
        self.check_rewind(kept, begun, had)
        with connected(self.node.cluster, SinkError) as client:
            route = target_of(client, self.node.topic, self.name)
            create_commits(client, self.node.topic, route)
            last = last_note(client, self.node.topic, kept)
            made = noted_return(last, kept, begun, self.node.topic)
            ends = last.ends if last is not None else _ends(client, self.node.topic, route)
            write_note(client, self.node.topic, route, begun, Note(**{**asdict(made), "ends": ends}))
        self._settled = False
        return "had nothing to undo"

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:
        """Compute the messages; they wait in memory."""
        rows = as_messages(batch, self.node).toArrow()
        return Staged(partial(self._commit, [*outgoing(rows, self.node, mark)], mark))

    def _commit(self, found: Sequence[Outgoing], mark: BatchMark) -> int:
        topic = self.node.topic
        with connected(self.node.cluster, SinkError) as client:
            route = target_of(client, topic, self.name)
            settled, self._settled = self._settled, False
            last = self._last if settled and self._last is not None else self._begun(client, route, mark)
            if last.last_batch(mark) >= mark.batch_id:
                return 0
            there = set() if settled else self._sent_before(client, route, mark, last)
            missing = [message for message in found if message.id not in there]
            ends = send_all(topic, by_queue(missing, route.write), client.send)
            made = asdict(noted(mark, len(found), topic))
            note = Note(**{**made, "ends": {**last.ends, **{str(queue): end for queue, end in ends.items()}}})
            write_note(client, topic, route, mark, note)
        self._last, self._settled = note, True
        return len(found)

    def _begun(self, client: Client, route: Route, mark: BatchMark) -> Note:
        """The last note, when everything that was sent can be read; a sink without one writes it before it sends."""
        create_commits(client, self.node.topic, route)
        await_shown(client, self.node.topic, route)
        last = last_note(client, self.node.topic, mark)
        if last is None:
            made = {**asdict(noted(mark, 0, self.node.topic)), "batch_id": -1, "sent": NOTHING}
            last = Note(**{**made, "ends": _ends(client, self.node.topic, route)})
            write_note(client, self.node.topic, route, mark, last)
        return last

    def _sent_before(self, client: Client, route: Route, mark: BatchMark, last: Note) -> set[str]:
        """The identities of the messages of this batch that are in the topic."""
        topic, wanted, found = self.node.topic, row_ids(mark), set[str]()
        queues = {*route.read, *map(Queue.of, last.ends)}
        away = sorted({queue.broker for queue in queues} - set(route.brokers))
        if away:
            raise Unreachable(away[0], "the name servers do not know this broker now")
        for queue in sorted(queues):
            begin = max(client.begin(topic, queue), last.ends.get(str(queue), 0))
            for part in messages(client, Reach(topic, queue, begin, max(begin, client.end(topic, queue)))):
                ids = (properties_of(message.properties).get(ROW_ID, "") for message in part)
                found.update(each for each in ids if each.startswith(wanted))
        return found


def _ends(client: Client, topic: str, route: Route) -> dict[str, int]:
    return {str(queue): client.end(topic, queue) for queue in {*route.read, *route.write}}

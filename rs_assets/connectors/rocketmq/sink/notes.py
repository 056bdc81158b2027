"""The commit topic of a topic: each message names a committed batch, and where the queues ended after it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import orjson

from rs_assets.connectors.commits import Commit, key_of
from rs_assets.connectors.rocketmq.client.client import LOOK_S, Client
from rs_assets.connectors.rocketmq.client.messages import KEYS, dump_properties, properties_of, sent
from rs_assets.connectors.rocketmq.client.names import Queue, commits_of
from rs_assets.connectors.rocketmq.client.pulling import Reach, messages
from rs_assets.connectors.rocketmq.client.route import Route
from rs_assets.connectors.sink import BatchMark, LastWriter
from rs_assets.errors import SinkError

# A message that only shows that all before it can be read.
BARRIER: Final = "barrier"
# How many messages are looked at first for the last note.
FIRST_LOOK: Final = 32
# How long a broker may take to show a message that it has accepted, in seconds.
SHOWN_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Note(Commit):
    """A commit with the offsets after its last messages, by queue; rows of later batches lie after them."""

    ends: Mapping[str, int] = field(default_factory=dict)


def create_commits(client: Client, topic: str, route: Route) -> None:
    """Create the commit topic of `topic` on all of its brokers that lack it; it has one queue on each."""
    name = commits_of(topic)
    known = client.route(name)
    lacking = {b: at for b, at in route.brokers.items() if known is None or Queue(b, 0) not in known.read}
    if lacking:
        client.create_topic(name, queues=1, brokers=lacking)


def write_note(client: Client, topic: str, route: Route, mark: BatchMark, note: Note) -> None:
    """Write the commit of a batch to every broker, so that any one of them has it."""
    content = sent(note.dumped(), dump_properties({KEYS: _key(mark)}))
    for broker in route.brokers:
        client.send(commits_of(topic), Queue(broker, 0), content)


def await_shown(client: Client, topic: str, route: Route) -> None:
    """Return when all messages that the brokers have accepted can be read; SinkError if that takes too long.

    A broker shows messages of all topics in the order in which it accepted them.
    """
    name = commits_of(topic)
    for broker in route.brokers:
        queue, until = Queue(broker, 0), time.monotonic() + SHOWN_S
        last = client.send(name, queue, sent(BARRIER.encode(), dump_properties({KEYS: BARRIER})))
        while client.end(name, queue) <= last:
            if time.monotonic() > until:
                raise SinkError(
                    f"the broker {broker!r} has accepted messages and not shown them for {SHOWN_S:g} s",
                    remedy="start again when it has less to do",
                    topic=name,
                )
            time.sleep(LOOK_S / 10)


def last_note(client: Client, topic: str, mark: BatchMark) -> Note | None:
    """The last commit of the mark's sink."""
    name = commits_of(topic)
    route = client.route(name)
    own: list[Note] = []
    for queue in route.read if route is not None else ():
        begin, end, most = client.begin(name, queue), client.end(name, queue), FIRST_LOOK
        found: list[Note] = []
        # Backwards, since the last one is wanted.
        while end > begin and not found:
            start = max(begin, end - most)
            found = [n for key, n in _notes(client, Reach(name, queue, start, end)) if key == _key(mark)]
            end, most = start, most * 4
        own += found
    return max(own, key=lambda note: note.place, default=None)


def last_writer_of(client: Client, topic: str, mark: BatchMark) -> LastWriter:
    """The last writer of the mark's pipeline: by its id, or by its name, as for a home that was lost."""
    found, name = LastWriter(), commits_of(topic)
    route = client.route(name)
    ranges = [Reach(name, q, client.begin(name, q), client.end(name, q)) for q in (route.read if route else ())]
    for key, note in (each for reach in ranges for each in _notes(client, reach)):
        if key == _key(mark) or (mark.claim is not None and note.claimed == mark.claimed):
            token = max(found.token, note.token)
            found = LastWriter(token=token, claim=note.claim, pipeline_id=note.pipeline_id, home=note.home)
    return found


def _key(mark: BatchMark) -> str:
    return key_of(mark).decode()


def _notes(client: Client, reach: Reach) -> Iterator[tuple[str, Note]]:
    for part in messages(client, reach):
        for message in part:
            key = properties_of(message.properties).get(KEYS, "")
            if key != BARRIER:
                yield key, _parsed(message.body, reach.topic)


def _parsed(body: bytes, topic: str) -> Note:
    try:
        return Note(**orjson.loads(body))
    except (orjson.JSONDecodeError, TypeError) as error:
        raise SinkError(
            f"a message of the topic {topic!r} is damaged",
            remedy="another program writes to that topic: it is reserved for this project",
            topic=topic,
        ) from error

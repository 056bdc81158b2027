"""Reads a queue from one offset up to another: the next pull is under way while a reply is used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from rs_assets.connectors.rocketmq.client.client import Client, Refused, answered
from rs_assets.connectors.rocketmq.client.connection import Connection, Unreachable
from rs_assets.connectors.rocketmq.client.frames import Answers, Codes, Frame
from rs_assets.connectors.rocketmq.client.messages import TAGS, Damaged, Message, properties_of, stored
from rs_assets.connectors.rocketmq.client.names import TOOLS, Queue, tags_in
from rs_assets.errors import DataLossError, SourceReadError

# The flag of a pull with its filter in the request: the client need not register it before.
WITH_FILTER: Final = 4
# How many messages a pull asks for; a broker has its own limits (maxTransferCountOnMessageInMemory...).
MOST: Final = 2_000
# Answers to a pull that are not refusals.
ANSWERS: Final = frozenset({Answers.NOT_FOUND, Answers.NOTHING_MATCHED, Answers.OFFSET_MOVED})


class Filter(NamedTuple):
    """Which messages a broker selects: those with tags such as "a || b", or by a condition of SQL92."""

    kind: Literal["TAG", "SQL92"] = "TAG"
    expression: str = "*"

    @property
    def tags(self) -> frozenset[str] | None:
        """The selected tags, None for all messages. A broker compares only hash codes of tags.

        >>> sorted(Filter("TAG", "a || b").tags)
        ['a', 'b']
        """
        if self.kind != "TAG" or self.expression.strip() in ("", "*"):
            return None
        return tags_in(self.expression)

    @property
    def selects_all(self) -> bool:
        """Whether every message is selected."""
        return self.kind == "TAG" and self.tags is None


ALL = Filter()


class Reach(NamedTuple):
    """A part of a queue: its offsets `start` up to `end`, without `end`."""

    topic: str
    queue: Queue
    start: int
    end: int

    def lost(self, why: str) -> DataLossError:
        """The error for messages that are not there any more."""
        return DataLossError(
            f"messages of the topic {self.topic!r} were lost before they were read: {why}",
            remedy=LOST,
            queue=str(self.queue),
            range=f"offsets {self.start} to {self.end - 1}",
        )


def messages(client: Client, reach: Reach, selected: Filter = ALL, group: str = TOOLS) -> Iterator[Sequence[Message]]:
    """The selected messages of `reach`, in order.

    DataLossError if the broker does not have all of them any more: without a filter no offset may be missing, with one
    the first message must still be there after the last one was read.
    """
    pull, at, tags = Pull(client, reach, selected, group), reach.start, selected.tags
    while at < reach.end:
        frame = pull.take(at)
        following = _next(frame, at, reach)
        if following < reach.end:
            pull.ask(following)
        found = [message for message in _stored(frame, reach) if at <= message.offset < reach.end]
        if selected.selects_all:
            _check_whole(found, at, min(following, reach.end), reach)
        elif tags is not None:
            found = [message for message in found if _tag(message) in tags]
        if found:
            yield found
        at = following
    if not selected.selects_all and reach.start < reach.end:
        _check_first(client, reach, group)


class Pull:
    """Pulls of one queue: at most one is under way."""

    def __init__(self, client: Client, reach: Reach, selected: Filter, group: str) -> None:
        self._client, self._reach, self._selected, self._group = client, reach, selected, group
        self._under_way: tuple[int, Connection, int] | None = None

    def ask(self, offset: int) -> None:
        """Ask for what begins at `offset`; an error shows when it is taken."""
        try:
            with self._client.connection(self._reach.topic, self._reach.queue.broker) as connection:
                self._under_way = offset, connection, connection.send(Codes.PULL, self._fields(offset))
        except Unreachable:
            self._under_way = None

    def take(self, offset: int) -> Frame:
        """The answer for `offset`; asked again while the broker is away."""
        return self._client.patiently(lambda: self._take(offset))

    def _take(self, offset: int) -> Frame:
        under_way, self._under_way = self._under_way, None
        with self._client.connection(self._reach.topic, self._reach.queue.broker) as connection:
            if under_way is not None and under_way[:2] == (offset, connection):
                opaque = under_way[2]
            else:
                opaque = connection.send(Codes.PULL, self._fields(offset))
            frame = answered(connection, opaque, ANSWERS)
        if frame.code == Answers.NOT_FOUND:
            end = self._client.end(self._reach.topic, self._reach.queue)
            if end < self._reach.end:
                raise self._reach.lost(f"the queue ends at {end}")
            raise Unreachable(connection.address, f"{self._reach.queue} does not show offset {offset} yet")
        return frame

    def _fields(self, offset: int) -> dict[str, str]:
        return {
            "consumerGroup": self._group,
            "topic": self._reach.topic,
            "queueId": str(self._reach.queue.number),
            "queueOffset": str(offset),
            "maxMsgNums": str(min(MOST, self._reach.end - offset)),
            "sysFlag": str(WITH_FILTER),
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subscription": self._selected.expression,
            "expressionType": self._selected.kind,
            "subVersion": "0",
        }


def _next(frame: Frame, at: int, reach: Reach) -> int:
    if frame.code == Answers.OFFSET_MOVED:
        raise reach.lost(f"the queue has no offset {at}")
    following = frame.number("nextBeginOffset")
    if following <= at:
        raise reach.lost(f"the queue goes on at {following} after {at}")
    return following


def _stored(frame: Frame, reach: Reach) -> Iterator[Message]:
    if frame.code != Answers.DONE:
        return
    try:
        yield from stored(frame.body)
    except Damaged as error:
        raise SourceReadError(
            f"messages of the topic {reach.topic!r} cannot be read: {error}",
            remedy="read another topic; brokers store such messages only if they are sent so",
            queue=str(reach.queue),
        ) from error


def _check_whole(found: Sequence[Message], at: int, end: int, reach: Reach) -> None:
    offsets = [message.offset for message in found]
    if offsets != list(range(at, end)):
        missing = next((n for n, offset in enumerate(offsets, at) if offset != n), at + len(offsets))
        raise reach.lost(f"the message with offset {missing} is missing")


def _check_first(client: Client, reach: Reach, group: str) -> None:
    """The oldest messages are deleted first: if the first one is there, all others were, too."""
    frame = Pull(client, reach._replace(end=reach.start + 1), ALL, group).take(reach.start)
    found = [message.offset for message in _stored(frame, reach)]
    if not found or found[0] != reach.start:
        raise reach.lost(f"the message with offset {reach.start} is missing")


def _tag(message: Message) -> str:
    return properties_of(message.properties).get(TAGS, "")


LOST = "begin a new generation (--new-generation), and let the brokers keep messages longer (fileReservedTime)"
__all__ = ["ALL", "LOST", "Filter", "Pull", "Reach", "Refused", "messages"]

"""A client of one cluster: routes, offsets, pulling and sending. It belongs to one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Final, TypeVar

import orjson
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from rs_assets.connectors.rocketmq.client.cluster import Access, RocketMQCluster
from rs_assets.connectors.rocketmq.client.connection import Connection, Unreachable
from rs_assets.connectors.rocketmq.client.frames import Answers, Codes, Frame
from rs_assets.connectors.rocketmq.client.names import Queue
from rs_assets.connectors.rocketmq.client.route import Route
from rs_assets.errors import RsError

# How long servers may be away before a start fails.
PATIENCE: Final = timedelta(seconds=30)
# How often a server that is away is tried again, in seconds.
LOOK_S: Final = 0.2
# The producer group of sinks. Brokers only store it.
PRODUCER: Final = "rs-assets"
# Refusals that another try may not get.
TEMPORARY: Final = frozenset({Answers.BUSY, Answers.NOT_AVAILABLE})
Answer = TypeVar("Answer")


class Refused(Exception):
    """An answer that is a refusal, with its code."""

    def __init__(self, address: str, code: int, remark: str) -> None:
        super().__init__(f"{address}: {remark[:300] or 'without a reason'} (code {code})")
        self.code = code


class Client:
    """Asks the servers of `access`. Unreachable or Refused after `patience`, in which requests are repeated.

    Messages are sent only once: after Unreachable it is unknown whether they were stored.
    """

    def __init__(self, access: Access, *, patience: timedelta = PATIENCE) -> None:
        self.access = access
        self.patience = patience
        self._open: dict[str, Connection] = {}
        self._brokers: dict[str, str] = {}

    def close(self) -> None:
        """Close all connections; may be called twice, and requests may follow."""
        while self._open:
            self._open.popitem()[1].close()

    def route(self, topic: str) -> Route | None:
        """The queues of a topic; None if no broker has it."""
        return self.patiently(lambda: self._route(topic))

    def begin(self, topic: str, queue: Queue) -> int:
        """The offset of the first message that a queue still has."""
        return self._ask(topic, queue, Codes.MIN_OFFSET).number("offset")

    def end(self, topic: str, queue: Queue) -> int:
        """The offset that the next message of a queue will get. It may trail messages that were just sent."""
        return self._ask(topic, queue, Codes.MAX_OFFSET).number("offset")

    def offset_at(self, topic: str, queue: Queue, moment_ms: int) -> int:
        """The offset of the first message that was stored at a moment or later."""
        return self._ask(topic, queue, Codes.OFFSET_OF_TIME, timestamp=str(moment_ms)).number("offset")

    def group_offset(self, group: str, topic: str, queue: Queue) -> int | None:
        """The offset that a consumer group has committed; None for none."""
        wanted = {"consumerGroup": group, "setZeroIfNotFound": "false"}
        try:
            return self._ask(topic, queue, Codes.QUERY_GROUP_OFFSET, **wanted).number("offset")
        except Refused as refusal:
            if refusal.code == Answers.NO_OFFSET:
                return None
            raise

    def commit(self, group: str, topic: str, queue: Queue, offset: int) -> None:
        """Set the committed offset of a consumer group, which is created if it does not exist."""
        wanted = {"consumerGroup": group, "commitOffset": str(offset)}
        try:
            self._ask(topic, queue, Codes.UPDATE_GROUP_OFFSET, **wanted)
        except Refused as refusal:
            if refusal.code != Answers.NO_GROUP:
                raise
            with self.connection(topic, queue.broker) as connection:
                body = orjson.dumps({"groupName": group})
                answered(connection, connection.send(Codes.CREATE_GROUP, {}, body))
            self._ask(topic, queue, Codes.UPDATE_GROUP_OFFSET, **wanted)

    def send(self, topic: str, queue: Queue, batch: bytes) -> int:
        """Send messages (see `messages.sent`), once; the offset of the first one."""
        fields = {
            "a": PRODUCER,
            "b": topic,
            # The topic whose settings a broker copies to one that it does not know: so it creates none.
            "c": topic,
            "d": "1",
            "e": str(queue.number),
            "f": "0",
            "g": str(time.time_ns() // 1_000_000),
            "h": "0",
            "i": "",
            "j": "0",
            "k": "false",
            "m": "true",
        }
        with self.connection(topic, queue.broker) as connection:
            return answered(connection, connection.send(Codes.SEND_BATCH, fields, batch)).number("queueOffset")

    def create_topic(self, topic: str, *, queues: int, brokers: Mapping[str, str]) -> None:
        """Create a topic on these brokers (addresses by name), or give it that many queues, and wait for its route."""
        fields = {
            "topic": topic,
            "defaultTopic": topic,
            "readQueueNums": str(queues),
            "writeQueueNums": str(queues),
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
        }
        for address in brokers.values():
            self.patiently(partial(self.call, address, Codes.CREATE_TOPIC, fields))
        wanted = {Queue(broker, number) for broker in brokers for number in range(queues)}
        self.patiently(lambda: self._known(topic, wanted))

    @contextmanager
    def connection(self, topic: str, broker: str) -> Iterator[Connection]:
        """The connection to a broker of a topic, for a block; a broken one is closed."""
        if broker not in self._brokers:
            self._route(topic)
        address = self._brokers.get(broker)
        if address is None:
            raise Unreachable(broker, "the name servers do not know this broker now")
        with self._connected(address) as connection:
            yield connection

    def patiently(self, call: Callable[[], Answer]) -> Answer:
        """The result of `call`, which is repeated while a server is away, or busy."""
        retrying: Retrying = Retrying(
            retry=retry_if_exception(_may_pass),
            stop=stop_after_delay(self.patience),
            wait=wait_fixed(LOOK_S),
            reraise=True,
        )
        return retrying(call)

    def _ask(self, topic: str, queue: Queue, code: int, **fields: str) -> Frame:
        wanted = {"topic": topic, "queueId": str(queue.number), **fields}

        def ask() -> Frame:
            with self.connection(topic, queue.broker) as connection:
                return answered(connection, connection.send(code, wanted))

        return self.patiently(ask)

    def call(self, address: str, code: int, fields: Mapping[str, str]) -> Frame:
        """The answer of the server at an address, asked once."""
        with self._connected(address) as connection:
            return answered(connection, connection.send(code, fields))

    def _route(self, topic: str) -> Route | None:
        """The answer of the first name server that gives one."""
        fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
        failed: Unreachable | None = None
        for server in self.access.servers:
            try:
                route = Route.load(self.call(server, Codes.ROUTE, fields).body)
            except Unreachable as error:
                failed = error
                continue
            except Refused as refusal:
                if refusal.code == Answers.NO_TOPIC:
                    return None
                raise
            self._brokers.update(route.brokers)
            return route
        raise failed or Unreachable("RocketMQ", "no name server is named")

    def _known(self, topic: str, wanted: set[Queue]) -> None:
        route = self._route(topic)
        if route is None or not wanted <= set(route.read):
            raise Unreachable(self.access.servers[0], f"the topic {topic!r} is not registered yet")

    @contextmanager
    def _connected(self, address: str) -> Iterator[Connection]:
        connection = self._open.get(address)
        if connection is None:
            connection = self._open[address] = self._dialled(address)
        try:
            yield connection
        except Unreachable:
            self._drop(address)
            raise

    def _dialled(self, address: str) -> Connection:
        try:
            return Connection(address, self.access.credentials)
        except Unreachable:
            self._drop(address)
            raise

    def _drop(self, address: str) -> None:
        """Forget a broken connection, and the address: the broker may come back at another one."""
        connection = self._open.pop(address, None)
        if connection is not None:
            connection.close()
        self._brokers = {name: known for name, known in self._brokers.items() if known != address}


def answered(connection: Connection, opaque: int, allowed: frozenset[int] = frozenset()) -> Frame:
    """The answer to a request; Refused unless its code is DONE or one of `allowed`."""
    frame = connection.receive(opaque)
    if frame.code != Answers.DONE and frame.code not in allowed:
        raise Refused(connection.address, frame.code, frame.remark)
    return frame


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, Unreachable) or (isinstance(error, Refused) and error.code in TEMPORARY)


SERVERS = "check that the name servers and brokers run and the addresses are right, then start again"
LOGIN = "check access_key and secret_key, and what the brokers' access control lets this user do"
# The remedies by the code of a refusal.
REMEDIES: Mapping[int, str] = MappingProxyType(
    {
        Answers.NO_PERMISSION: LOGIN,
        Answers.ILLEGAL: "send less in one message, or raise maxMessageSize of the brokers",
        Answers.NO_TOPIC: "create the topic, or correct its name, and start again",
        Answers.NO_GROUP: "create the consumer group, or correct its name, and start again",
        Answers.BAD_FILTER: "correct the expression; sql= needs enablePropertyFilter=true in the brokers' settings",
    }
)


@contextmanager
def connected(
    access: Access | RocketMQCluster, failure: type[RsError], *, patience: timedelta = PATIENCE
) -> Iterator[Client]:
    """A client for the block; errors of servers in it become `failure`, with a remedy."""
    known = access.access() if isinstance(access, RocketMQCluster) else access
    with rocketmq_errors(known, failure), closing(Client(known, patience=patience)) as client:
        yield client


@contextmanager
def rocketmq_errors(access: Access, failure: type[RsError]) -> Iterator[None]:
    """Turn errors of a client in the block into `failure`; project errors pass."""
    servers = ";".join(access.servers)
    try:
        yield
    except Unreachable as error:
        raise failure(f"RocketMQ cannot be reached: {error}", remedy=SERVERS, name_server=servers) from error
    except Refused as error:
        what = f"RocketMQ refuses a request: {error}"
        raise failure(what, remedy=REMEDIES.get(error.code, SERVERS), name_server=servers) from error

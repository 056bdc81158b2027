"""A real RocketMQ name server and broker for tests, demonstrations and benchmarks: on loopback, without a container.

Run as a module it downloads their jars (60 MB), as the first server otherwise does.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Self

from rs_assets.common.chunks import in_chunks
from rs_assets.connectors.rocketmq.client.client import Client, connected
from rs_assets.connectors.rocketmq.client.cluster import RocketMQCluster
from rs_assets.connectors.rocketmq.client.connection import Unreachable
from rs_assets.connectors.rocketmq.client.frames import Codes
from rs_assets.connectors.rocketmq.client.messages import (
    KEYS,
    TAGS,
    dump_properties,
    properties_of,
    queue_of,
    sent,
)
from rs_assets.connectors.rocketmq.client.names import Queue
from rs_assets.connectors.rocketmq.client.pulling import Reach, messages
from rs_assets.errors import ConfigurationError
from rs_assets.spark.jars import main
from rs_assets.testing.servers.process import ServerContext, ServerProcess, free_ports, settle
from rs_assets.testing.servers.rocketmq_node import BROKER_NAME, ROCKETMQ, RocketMQNode, replication

# A broker answers after 4 s, on a busy machine after 20; one that needs longer has failed.
START_TIMEOUT_S = 180
# How many messages are sent by one request.
_CHUNK = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RocketMQMessage:
    """A message to send, or one that was read: then `queue` and `offset` are set.

    Without a `queue` the key's hash chooses it, as in Java's clients; without a key they take turns.
    """

    body: bytes
    key: str | None = None
    tags: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    queue: int | None = None
    offset: int | None = None


class RocketMQServer(ServerContext):
    """A RocketMQ name server and one broker; a context manager that starts and removes them.

    `settings` are settings of the broker in addition to those that make it small. The data is in `folder`, which is
    kept, else in a temporary one, which is removed with the servers: at `close()`, or when this process ends in any
    other way. With `access_key` and `secret_key` clients log in as that user, the superuser.

        with RocketMQServer() as server:
            server.create_topic("clicks", queues=2)
            server.send("clicks", [b"one", RocketMQMessage(body=b"two", key="k", tags="a")])
            server.read("clicks")
    """

    def __init__(
        self,
        *,
        settings: Mapping[str, str] | None = None,
        folder: Path | None = None,
        access_key: str | None = None,
        secret_key: str | None = None,
    ) -> None:
        self._settings = {**(settings or {}), **_login(access_key, secret_key)}
        self._login = (access_key, secret_key)
        self._kept, self._folder = folder, folder
        self._node: RocketMQNode | None = None
        self._servers: tuple[ServerProcess, ServerProcess] | None = None

    @property
    def name_server(self) -> str:
        """The address for clients, as `host:port`; the same after restarts."""
        if self._node is None:
            raise ConfigurationError("the RocketMQ server was not started", remedy="use it in a with statement")
        return self._node.name_server

    @property
    def cluster(self) -> RocketMQCluster:
        """The access for clients, with the login if there is one."""
        access_key, secret_key = self._login
        return RocketMQCluster(name_server=self.name_server, access_key=access_key, secret_key=secret_key)

    @property
    def pid(self) -> int | None:
        """The process id of the broker while it runs."""
        return self._servers[1].pid if self._servers is not None else None

    def start(self) -> Self:
        """Start the servers and wait until they answer; ConfigurationError with the end of a log if they do not.

        Does nothing if they run.
        """
        if self._servers is None:
            try:
                self._servers = self._prepared()
                self._run()
            except BaseException:
                self.close()
                raise
        elif not all(server.running for server in self._servers):
            self._run()
        return self

    def kill(self) -> None:
        """Kill the broker by SIGKILL, as a crash would; the name server goes on, and the data stays for `restart()`."""
        if self._servers is not None:
            self._servers[1].kill()

    def restart(self) -> None:
        """Kill the broker and start it again at the same address over the same data; wait until it answers."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """Freeze the broker (SIGSTOP): connections stay open and nothing answers."""
        if self._servers is not None:
            self._servers[1].send(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume a paused broker (SIGCONT)."""
        if self._servers is not None:
            self._servers[1].send(signal.SIGCONT)

    def close(self) -> None:
        """Stop the servers and remove their data, unless `folder` was given; may be called twice."""
        servers, self._servers = self._servers, None
        for server in reversed(servers or ()):
            # After SIGTERM a broker waits ten seconds for its clients.
            server.kill()
            server.close()
        if self._kept is None and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def create_topic(self, name: str, queues: int = 1) -> None:
        """Create the topic `name`, or give it more queues, and wait until it can be used."""
        with self._client() as client:
            client.create_topic(name, queues=queues, brokers=self._brokers)

    def delete_topic(self, name: str) -> None:
        """Delete the topic `name` and its messages, and wait until no name server knows it."""
        with self._client() as client:
            for address, code in (
                (self._brokers[BROKER_NAME], Codes.DELETE_TOPIC),
                (self.name_server, Codes.FORGET_TOPIC),
            ):
                client.call(address, code, {"topic": name})
            settle(lambda: client.route(name) is None, "the topic is still there")

    def send(self, topic: str, messages: Iterable[RocketMQMessage | bytes]) -> int:
        """Send `messages`, in order within a queue; return their number, when all can be read.

        Bytes alone are a body.
        """
        made = [each if isinstance(each, RocketMQMessage) else RocketMQMessage(body=each) for each in messages]
        with self._client() as client:
            route = client.route(topic)
            if route is None:
                raise ConfigurationError(f"there is no topic {topic!r}", remedy="create_topic(...)")
            parts: dict[Queue, list[bytes]] = {}
            for number, message in enumerate(made):
                queue = _queue(message, route.write, number)
                parts.setdefault(queue, []).append(_packed(message))
            for queue, packed in parts.items():
                for chunk in in_chunks(packed, _CHUNK):
                    end = client.send(topic, queue, b"".join(chunk)) + len(chunk)
                settle(partial(_reaches, client, topic, queue, end), "the messages cannot be read")
        return len(made)

    def read(self, topic: str) -> list[RocketMQMessage]:
        """All messages in `topic` now, by queue and offset."""
        found: list[RocketMQMessage] = []
        with self._client() as client:
            route = client.route(topic)
            for queue in route.read if route is not None else ():
                reach = Reach(topic, queue, client.begin(topic, queue), client.end(topic, queue))
                for part in messages(client, reach):
                    for message in part:
                        properties = properties_of(message.properties)
                        key, tags = properties.pop(KEYS, None), properties.pop(TAGS, None)
                        found.append(
                            RocketMQMessage(
                                body=message.body, key=key, tags=tags, properties=properties,
                                queue=queue.number, offset=message.offset,
                            )
                        )  # fmt: skip
        return found

    def group_offsets(self, group: str, topic: str) -> dict[int, int]:
        """The committed offsets of a consumer group by queue."""
        with self._client() as client:
            route = client.route(topic)
            found = {queue: client.group_offset(group, topic, queue) for queue in (route.read if route else ())}
        return {queue.number: offset for queue, offset in found.items() if offset is not None}

    @contextmanager
    def _client(self) -> Iterator[Client]:
        with connected(self.cluster, ConfigurationError) as client:
            yield client

    @property
    def _brokers(self) -> dict[str, str]:
        if self._node is None:
            raise ConfigurationError("the RocketMQ server was not started", remedy="use it in a with statement")
        return {BROKER_NAME: self._node.broker}

    def _prepared(self) -> tuple[ServerProcess, ServerProcess]:
        ROCKETMQ.fetch()
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="rs-rocketmq-"))
        if self._node is None:
            name_server, broker, _ = free_ports()
            self._node = RocketMQNode(folder=self._folder, ports=(name_server, broker), settings=self._settings)
        return self._node.name_server_process(scratch=self._kept is None), self._node.broker_process()

    def _run(self) -> None:
        assert self._servers is not None  # the caller made them
        began = time.monotonic()
        # The broker registers when it starts, and again only after a while.
        for server, answers in zip(self._servers, (self._has_name_server, self._has_broker), strict=True):
            server.answering(answers, name="a RocketMQ server", within_s=START_TIMEOUT_S, since=began)

    def _has_name_server(self) -> bool:
        with suppress(Unreachable), self._asking() as client:
            client.route("-")
            return True
        return False

    def _has_broker(self) -> bool:
        with suppress(Unreachable), self._asking() as client:
            # A broker has a topic of its own name.
            route = client.route(BROKER_NAME)
            return route is not None and client.end(BROKER_NAME, Queue(BROKER_NAME, 0)) >= 0
        return False

    def _asking(self) -> closing[Client]:
        return closing(Client(self.cluster.access(), patience=timedelta(0)))


def _login(access_key: str | None, secret_key: str | None) -> dict[str, str]:
    """The settings of a broker that asks for a login."""
    if access_key is None:
        return {}
    providers = "org.apache.rocketmq.auth.authentication.provider"
    return {
        "authenticationEnabled": "true",
        "authenticationProvider": f"{providers}.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": f"{providers}.LocalAuthenticationMetadataProvider",
        "initAuthenticationUser": f'{{"username":"{access_key}","password":"{secret_key}"}}',
        "innerClientAuthenticationCredentials": f'{{"accessKey":"{access_key}","secretKey":"{secret_key}"}}',
    }


def _queue(message: RocketMQMessage, queues: tuple[Queue, ...], number: int) -> Queue:
    if message.queue is not None:
        return next(queue for queue in queues if queue.number == message.queue)
    return queues[number % len(queues) if message.key is None else queue_of(message.key, len(queues))]


def _packed(message: RocketMQMessage) -> bytes:
    named = {KEYS: message.key, TAGS: message.tags}
    properties = {**message.properties, **{name: value for name, value in named.items() if value is not None}}
    return sent(message.body, dump_properties(properties))


def _reaches(client: Client, topic: str, queue: Queue, end: int) -> bool:
    return client.end(topic, queue) >= end


if __name__ == "__main__":
    main(ROCKETMQ)
    replication()

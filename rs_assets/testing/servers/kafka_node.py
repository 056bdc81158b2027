"""The process of a Kafka broker: its jars, its settings, its folder and the Java that runs it."""

from __future__ import annotations

import base64
import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rs_assets.spark.jars import JarList
from rs_assets.spark.java import java_home
from rs_assets.testing.servers.kafka_security import BrokerSecurity
from rs_assets.testing.servers.process import ServerProcess

KAFKA = JarList.read(
    Path(__file__).with_name("kafka.lock"),
    place="brokers/kafka",
    variable="RS_KAFKA_JARS",
    remedy="run `python -m rs_assets.testing.servers.kafka`",
)

# A broker answers after 1 to 3 s, on a busy machine after 10; one that needs longer has failed.
START_TIMEOUT_S = 180


_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    # One node keeps one copy of everything.
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # Records of tests have old times, and are kept.
    "log.retention.ms": "-1",
    # 50 of each are the default, and the first user of a group or of a transaction waits for all.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    # After kill -9 a broker is admitted again only when its old session is over: 9 s by default.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "num.network.threads": "2",
    "num.io.threads": "2",
    # 128 MB of the heap by default.
    "log.cleaner.dedupe.buffer.size": "16777216",
    # The files of deleted topics are removed after a minute by default.
    "file.delete.delay.ms": "1000",
    "auto.create.topics.enable": "false",
}

_LOG_SETTINGS = """status = error
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %-5p %c{1}: %m%n
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaNode:
    """One node over `folder`, listening on the `ports` of loopback: for clients, as controller, for itself if secured.

    `settings` are broker settings in addition to those that make one node quick, `heap_mb` is its Java heap,
    `java_options` are passed to Java after ours, and `security` is the access of clients.
    """

    folder: Path
    ports: tuple[int, int, int]
    settings: Mapping[str, str]
    heap_mb: int
    java_options: tuple[str, ...] = ()
    security: BrokerSecurity | None = None

    @property
    def log_file(self) -> Path:
        """The output of the formatter and the broker."""
        return self.folder / "broker.log"

    def prepare(self, *, scratch: bool) -> ServerProcess:
        """The process, not started: writes the settings and, once, formats the storage.

        `scratch`: the folder is removed when this process ends. ConfigurationError if the formatter rejects the
        settings.
        """
        properties_file = self.folder / "server.properties"
        (self.folder / "tmp").mkdir(parents=True, exist_ok=True)
        (self.folder / "log4j2.properties").write_text(_LOG_SETTINGS)
        properties_file.write_text(properties(self._all_settings()))
        java = self._java()
        if not (self.folder / "data" / "meta.properties").is_file():
            self._format(java, properties_file)
        command = [*java, "kafka.Kafka", str(properties_file)]
        return ServerProcess(command, log_file=self.log_file, scratch=self.folder if scratch else None)

    def _all_settings(self) -> dict[str, str]:
        clients = f"PLAINTEXT://127.0.0.1:{self.ports[0]}"
        return {
            **_SETTINGS,
            "listeners": f"{clients},CONTROLLER://127.0.0.1:{self.ports[1]}",
            "advertised.listeners": clients,
            "controller.quorum.voters": f"1@127.0.0.1:{self.ports[1]}",
            "log.dirs": str(self.folder / "data"),
            **(self.security.settings(self.folder, self.ports) if self.security is not None else {}),
            **self.settings,
        }

    def _java(self) -> list[str]:
        archive = class_archive()
        # An archive of another Java, or of other jars, is ignored silently.
        shared = [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        return [
            str(java_home() / "bin" / "java"),
            f"-Xmx{self.heap_mb}m",
            "-XX:+UseSerialGC",
            # Only the quick compiler: most brokers live for seconds.
            "-XX:TieredStopAtLevel=1",
            "-XX:-UsePerfData",
            *(shared if archive.is_file() else ()),
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
            f"-Djava.io.tmpdir={self.folder / 'tmp'}",
            *self.java_options,
            *("-cp", os.pathsep.join(str(path) for path in KAFKA.paths())),
        ]

    def _format(self, java: list[str], properties_file: Path) -> None:
        # A leading dash would be parsed as an option.
        cluster = "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:].rstrip("=")
        command = [*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties_file)]
        command += self.security.format_options() if self.security is not None else ()
        formatter = ServerProcess(command, log_file=self.log_file)
        try:
            formatter.start()
            ended = formatter.ended_within(START_TIMEOUT_S)
        finally:
            formatter.close()
        if not ended or not (self.folder / "data" / "meta.properties").is_file():
            raise formatter.refused("the Kafka broker could not format its storage")


def class_archive() -> Path:
    """The archive of a broker's loaded classes; it exists if it was prepared."""
    return KAFKA.folder() / "classes.jsa"


def properties(settings: Mapping[str, str]) -> str:
    r"""Java's properties file of `settings`.

    >>> properties({"a.b": "C:\\data"})
    'a.b=C:\\\\data\n'
    """
    return "".join(f"{json.dumps(key)[1:-1]}={json.dumps(value)[1:-1]}\n" for key, value in settings.items())

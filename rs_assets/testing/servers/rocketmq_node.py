"""The processes of a RocketMQ name server and broker: their jars, settings and folders, and the Java that runs them."""

from __future__ import annotations

import os
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rs_assets.errors import ConfigurationError
from rs_assets.spark.jars import JarList, jars_of_pyspark
from rs_assets.spark.java import java_home
from rs_assets.testing.servers.process import ServerProcess

ROCKETMQ = JarList.read(
    Path(__file__).with_name("rocketmq.lock"),
    place="brokers/rocketmq",
    variable="RS_ROCKETMQ_JARS",
    remedy="run `python -m rs_assets.testing.servers.rocketmq`",
)
# The replication of the broker (scala/NoReplicas.scala), and the file by which the broker finds it.
REPLICATION = "org.apache.rocketmq.store.rsassets.NoReplicas"
SERVICE = "META-INF/service/org.apache.rocketmq.store.ha.HAService"
SOURCE = Path(__file__).parent / "scala" / "NoReplicas.scala"
COMPILE_TIMEOUT_S = 300
NAME_SERVER = "org.apache.rocketmq.namesrv.NamesrvStartup"
BROKER = "org.apache.rocketmq.broker.BrokerStartup"
BROKER_NAME = "broker-a"

_NAME_SERVER_SETTINGS = {"bindAddress": "127.0.0.1"}
_BROKER_SETTINGS = {
    "brokerClusterName": "DefaultCluster",
    "brokerName": BROKER_NAME,
    "brokerId": "0",
    "bindAddress": "127.0.0.1",
    # The address that clients get; by default that of an interface.
    "brokerIP1": "127.0.0.1",
    # Topics are created on purpose; groups at their first use.
    "autoCreateTopicEnable": "false",
    "autoCreateSubscriptionGroup": "true",
    # Filters in SQL92.
    "enablePropertyFilter": "true",
    # Files of 1 GB by default, and those of queues of 6 MB each.
    "mappedFileSizeCommitLog": str(64 << 20),
    "mappedFileSizeConsumeQueue": str(20 * 30_000),
    "maxHashSlotNum": "4000",
    "maxIndexNum": "1000",
    # A reply has 32 messages by default.
    "maxTransferCountOnMessageInMemory": "4000",
    "maxTransferBytesOnMessageInMemory": str(1 << 20),
    "maxTransferCountOnMessageInDisk": "4000",
    "maxTransferBytesOnMessageInDisk": str(1 << 20),
    # Messages that a test expects must not expire meanwhile.
    "fileReservedTime": "720",
    # A busy machine lets messages wait longer than the 200 ms after which a broker refuses them.
    "waitTimeMillsInSendQueue": "10000",
    "osPageCacheBusyTimeOutMills": "10000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RocketMQNode:
    """A name server and a broker over `folder`, on loopback. `settings` are settings of the broker besides ours.

    `ports`: of the name server, of the broker, and of the broker's second listener, which is two below the broker's.
    """

    folder: Path
    ports: tuple[int, int]
    settings: Mapping[str, str] = field(default_factory=dict)
    heap_mb: int = 256

    @property
    def name_server(self) -> str:
        """The address of the name server."""
        return f"127.0.0.1:{self.ports[0]}"

    @property
    def broker(self) -> str:
        """The address of the broker."""
        return f"127.0.0.1:{self.ports[1]}"

    def name_server_process(self, *, scratch: bool) -> ServerProcess:
        """The process of the name server, not started; `scratch`: the folder is removed when this process ends."""
        settings = {**_NAME_SERVER_SETTINGS, "listenPort": str(self.ports[0])}
        settings |= {"configStorePath": str(self.folder / "namesrv.properties")}
        settings |= {"kvConfigPath": str(self.folder / "kv.json")}
        command = [*self._java(96), NAME_SERVER, "-c", str(self._written("namesrv.conf", settings))]
        return ServerProcess(command, log_file=self.folder / "namesrv.log", scratch=self.folder if scratch else None)

    def broker_process(self) -> ServerProcess:
        """The process of the broker, not started."""
        settings = {
            **_BROKER_SETTINGS,
            "listenPort": str(self.ports[1]),
            "namesrvAddr": self.name_server,
            "storePathRootDir": str(self.folder / "store"),
            "storePathCommitLog": str(self.folder / "store" / "commitlog"),
            **self.settings,
        }
        command = [*self._java(self.heap_mb), BROKER, "-c", str(self._written("broker.conf", settings))]
        return ServerProcess(command, log_file=self.folder / "broker.log")

    def _java(self, heap_mb: int) -> list[str]:
        return [
            str(java_home() / "bin" / "java"),
            f"-Xmx{heap_mb}m",
            "-XX:MaxDirectMemorySize=256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:-UsePerfData",
            "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
            "--add-opens=java.base/java.lang=ALL-UNNAMED",
            # Logs and defaults of files go there; both servers end without the second.
            f"-Duser.home={self.folder}",
            f"-Drocketmq.home.dir={self.folder}",
            f"-Djava.io.tmpdir={self.folder}",
            *("-cp", os.pathsep.join(str(path) for path in (replication(), *ROCKETMQ.paths()))),
        ]

    def _written(self, name: str, settings: Mapping[str, str]) -> Path:
        path = self.folder / name
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
        return path


def replication() -> Path:
    """The jar with the replication of a broker without replicas, compiled at the first use (6 s)."""
    jar = ROCKETMQ.folder() / "rs-no-replicas.jar"
    if not jar.is_file():
        with tempfile.TemporaryDirectory(prefix=".compile-", dir=jar.parent) as folder:
            made = Path(folder) / jar.name
            _compile(made)
            with zipfile.ZipFile(made, "a") as content:
                content.writestr(SERVICE, REPLICATION)
            made.replace(jar)
    return jar


def _compile(jar: Path) -> None:
    against = os.pathsep.join(
        map(str, (*jars_of_pyspark("scala-*.jar"), *jars_of_pyspark("jline*.jar"), *ROCKETMQ.paths()))
    )
    command = [str(java_home() / "bin" / "java"), "-Xss4m", "-cp", against, "scala.tools.nsc.Main"]
    command += ["-usejavacp", "-nowarn", "-d", str(jar), str(SOURCE)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMPILE_TIMEOUT_S)
    if run.returncode != 0:
        raise ConfigurationError(
            f"a part of the RocketMQ broker for tests does not compile: {(run.stdout + run.stderr)[-500:]}",
            remedy=ROCKETMQ.remedy,
        )

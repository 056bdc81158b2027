"""Kafka Streams on the same records: its jars fetched, the program beside this file compiled, run and measured."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.by_hand import WATER_MARK_S
from benchmarks.data import WINDOW_S
from rs_assets.spark.jars import JarList
from rs_assets.spark.java import java_home

PEER = JarList.read(
    Path(__file__).with_name("peer.lock"),
    place="peers/kafka-streams",
    variable="RS_PEER_JARS",
    remedy="run `python -m benchmarks kafka`",
)
SOURCE = Path(__file__).with_name("KafkaPeer.java")
VERSION = next(jar.version for jar in PEER.jars if jar.name == "kafka-streams")
NO_COMPILER = "Kafka Streams is left out: this Java has no compiler (javac)"
HEAP = "1g"
# By default 30 s, and 100 ms with exactly once: transactions so short cost it half of its speed.
COMMIT_MS = 1000
TIMEOUT_S = 900

Mode = Literal["filter", "windows", "table"]
Guarantee = Literal["at_least_once", "exactly_once_v2"]


class PeerError(RuntimeError):
    """The peer did not compile, or did not get through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRun:
    """`seconds` go from the first record to the commit of the last; Java's start and the joining of the group do not
    count.
    """

    consumed: int
    seconds: float

    @property
    def rows_per_s(self) -> float:
        """Records a second."""
        return self.consumed / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The compiled program in `folder`, where its state goes too."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Peer | None:
        """Fetch the jars and compile into `folder`; None without a compiler."""
        compiler = javac()
        if compiler is None:
            return None
        PEER.fetch()
        command = [str(compiler), "-d", str(folder), "-cp", _class_path(), str(SOURCE)]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise PeerError(f"javac: {made.stderr.strip()}")
        return cls(folder=folder)

    def run(self, mode: Mode, guarantee: Guarantee, settings: Mapping[str, object]) -> PeerRun:
        """Consume all; `settings` are the program's other arguments (see its remark). PeerError if it fails."""
        state = self.folder / "state"
        own = {"mode": mode, "guarantee": guarantee, "state": state, "commit_ms": COMMIT_MS}
        arguments = [f"{name}={value}" for name, value in (own | dict(settings)).items()]
        java = [str(java_home() / "bin" / "java"), f"-Xmx{HEAP}", "-cp", f"{self.folder}{os.pathsep}{_class_path()}"]
        try:
            ended = subprocess.run(
                [*java, "KafkaPeer", *arguments], capture_output=True, text=True, check=False, timeout=TIMEOUT_S
            )
        finally:
            shutil.rmtree(state, ignore_errors=True)
        if ended.returncode != 0:
            raise PeerError(f"Kafka Streams ended with {ended.returncode}: {ended.stderr.strip()[-2000:]}")
        told = json.loads(ended.stdout)
        return PeerRun(consumed=told["consumed"], seconds=told["seconds"])


def settings_of(servers: str, topic: str, output: str, *, rows: int) -> dict[str, object]:
    """What every run is told: `output`, which is its own, names the application, too."""
    return {
        "servers": servers, "input": topic, "output": output, "application": output, "rows": rows,
        "window": WINDOW_S, "grace": WATER_MARK_S,
    }  # fmt: skip


def javac() -> Path | None:
    """The compiler of the Java that Spark runs on, else the one on the path, else None."""
    own = java_home() / "bin" / "javac"
    found = str(own) if own.exists() else shutil.which("javac")
    return Path(found) if found else None


def _class_path() -> str:
    return os.pathsep.join(str(path) for path in PEER.paths())

"""PyFlink on the same files: its wheel in an environment of its own, our program in there, run and measured.

The environment is made by the first run of the benchmark, beside this project's packages and not among them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from types import MappingProxyType, TracebackType
from typing import Any, Self

import psutil

from benchmarks.peers.peer import PeerError
from rs_assets.spark.java import java_home

LOCK = Path(__file__).with_name("flink.lock")
PROGRAM = Path(__file__).with_name("flink_query.py")
VARIABLE = "RS_PEER_FLINK"
# As the driver's, which has what RocksDB takes beside its heap, too.
HEAP = os.environ.get("RS_DRIVER_MEMORY", "1g")
PARALLELISM = 2
SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "parallelism.default": str(PARALLELISM),
        "table.local-time-zone": "UTC",
        # State on disk, as ours; a checkpoint each second, as Kafka Streams commits here.
        "state.backend.type": "rocksdb",
        "taskmanager.memory.managed.size": "512m",
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.incremental": "true",
        # As Nexmark is published for Flink.
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "2 s",
        "table.exec.mini-batch.size": "50000",
        "table.optimizer.distinct-agg.split.enabled": "true",
        # What fails is to be seen, not repeated.
        "restart-strategy.type": "none",
    }
)
TIMEOUT_S = 900
STOP_TIMEOUT_S = 30
_TOLD = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkRun:
    """`seconds` go from before the job is planned to its end, `cpu_s` are of Flink's processes meanwhile.

    `value` is the first field of the newest row, of a query that gives rows.
    """

    seconds: float
    cpu_s: float
    value: int | None = None


def version(lock: str) -> str:
    """Flink's version in the text of a lock file.

    >>> version("# a remark\\napache-flink==9.8.7 --hash=sha256:0\\n")
    '9.8.7'
    """
    found = re.search(r"^apache-flink==(\S+)", lock, flags=re.MULTILINE)
    if found is None:
        raise ValueError("the lock file has no apache-flink")
    return found[1]


VERSION = version(LOCK.read_text(encoding="utf-8"))


def folder() -> Path:
    """Where the environment lies, there or not: the folder that RS_PEER_FLINK names, else beside this Python."""
    named = os.environ.get(VARIABLE)
    place = Path(sys.prefix) / "share" / "rs_assets" / "peers" / f"flink-{VERSION}"
    return Path(named).expanduser().absolute() if named else place


def install() -> Path:
    """The Python of the environment, which is made if it is not there; PeerError with a sentence if it cannot be.

    By pip, which reads the mirror, certificates and proxy that the user configured for it; checked by hash.
    """
    place = folder()
    python = place / "bin" / "python"
    done = place / "flink.lock"
    if done.is_file() and done.read_bytes() == LOCK.read_bytes():
        return python
    shutil.rmtree(place, ignore_errors=True)
    try:
        venv.create(place, with_pip=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise PeerError(left_out(f"no virtual environment can be made in {place.name}: {error}")) from error
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--require-hashes", "--requirement", str(LOCK)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        why = (ended.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise PeerError(left_out(f"pip could not install its wheel: {why}"))
    shutil.copy(LOCK, done)
    return python


def left_out(why: str) -> str:
    """The sentence for a benchmark without it."""
    return f"Flink {VERSION} is left out: {why}"


def parse(line: str, *, cpu_s: float) -> FlinkRun:
    """What the program answered; PeerError if it ended, or Flink refused or failed."""
    if not line:
        raise PeerError("Flink ended without an answer")
    told: dict[str, Any] = json.loads(line)
    if "error" in told:
        raise PeerError(str(told["error"])[:_TOLD])
    return FlinkRun(seconds=told["seconds"], cpu_s=cpu_s, value=told.get("value"))


class Flink:
    """A running PyFlink, a context manager: its cluster stays from the first job on.

    Its checkpoints and logs go below `scratch`.
    """

    def __init__(self, python: Path, scratch: Path) -> None:
        self._scratch = scratch
        self._errors = (scratch / "errors").open("w+", encoding="utf-8")
        self._process = subprocess.Popen(
            [str(python), str(PROGRAM)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, env=environment(scratch),
        )  # fmt: skip

    def run(self, statements: tuple[str, ...], last: str) -> FlinkRun:
        """Prepare by `statements`, then run `last` to the end of its job. PeerError if Flink refuses or fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        checkpoints = self._scratch / "checkpoints"
        settings = {**SETTINGS, "execution.checkpointing.dir": checkpoints.as_uri()}
        request = {"settings": settings, "statements": statements, "last": last}
        before = self._cpu_seconds()
        # What hangs is killed, and then there is no answer.
        patience = Timer(TIMEOUT_S, self._process.kill)
        patience.start()
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            return parse(line, cpu_s=self._cpu_seconds() - before)
        except BrokenPipeError as error:
            raise PeerError(f"Flink has ended: {self._said()}") from error
        finally:
            patience.cancel()
            shutil.rmtree(checkpoints, ignore_errors=True)

    def close(self) -> None:
        """End it; its Java ends with it."""
        try:
            self._process.communicate(timeout=STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _cpu_seconds(self) -> float:
        total = 0.0
        try:
            me = psutil.Process(self._process.pid)
            for process in (me, *me.children(recursive=True)):
                times = process.cpu_times()
                total += times.user + times.system
        except psutil.NoSuchProcess:
            return total
        return total

    def _said(self) -> str:
        self._errors.seek(0)
        return self._errors.read().strip()[-_TOLD:]


def environment(scratch: Path) -> dict[str, str]:
    """What the program is started with."""
    return {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "JVM_ARGS": f"-Xmx{HEAP}",
        "FLINK_LOG_DIR": str(scratch),
        # Else it starts a server for Python functions, for which it needs all of Beam.
        "_python_worker_execution_mode": "process",
    }

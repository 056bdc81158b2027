"""Programs in processes of their own, to be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

# A start and a few batches on a busy machine.
PATIENCE_S = 300
# A JVM that lives for a test does not earn back what its second compiler and the threads of its collector cost. With
# one compiler the JVM has 48 MB for code, which many queries fill; then it compiles nothing any more, and calls fail.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=160m"


@contextmanager
def started(program: str, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """`program` in a process group of its own, which is killed whole at the end, its JVM included."""
    settings = {"RS_SPARK_MASTER": "local[2]"}
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", program, *map(str, arguments)],
        env={**os.environ, **settings},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            # One that was paused, too.
            os.killpg(process.pid, signal.SIGCONT)
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=PATIENCE_S)
        assert process.stdout is not None
        process.stdout.close()


def wait_for(file: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not file.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            assert process.stdout is not None
            pytest.fail(f"{file.name} was not reached: {process.stdout.read().decode()[-3000:]}")
        time.sleep(0.002)

"""Which process of which machine something was written by, and whether it still lives."""

from __future__ import annotations

import socket
from pathlib import Path

import psutil

# The clocks of a boot and of a process are rounded to a second each.
SAME_START_S = 2.0
# Linux names each boot; elsewhere the machine's name has to do.
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# The process-id namespace of a container: process ids of another one say nothing here.
PID_NAMESPACE = Path("/proc/self/ns/pid")


def this_host() -> str:
    """This machine since it was booted, and this container: only there a process id tells whether a holder lives."""
    boot = BOOT_ID.read_text().strip()[:8] if BOOT_ID.exists() else ""
    space = PID_NAMESPACE.readlink().name.strip("pid:[]") if PID_NAMESPACE.exists() else ""
    return f"{socket.gethostname()}/{boot}/{space}"


def lives(pid: int, started: float) -> bool:
    """Whether a process of this machine lives that began at `started`, as `started_s` tells it.

    A process id that was given away again does not count.
    """
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and abs(started_s(process) - started) < SAME_START_S
    except psutil.NoSuchProcess:
        return False


def started_s(process: psutil.Process) -> float:
    """When it began, in seconds since the boot: a wall clock that is set moves neither."""
    return float(process.create_time() - psutil.boot_time())

"""Identifies processes across machines and reboots, and checks whether they are alive."""

from __future__ import annotations

import socket
from pathlib import Path

import psutil

# The start times of a boot and of a process are each rounded to a second.
SAME_START_S = 2.0
# Linux gives each boot an id; elsewhere the host name is used.
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# The process-id namespace of a container: process ids of another namespace mean nothing here.
PID_NAMESPACE = Path("/proc/self/ns/pid")


def this_host() -> str:
    """This machine since its last boot, and this container: only there does a process id identify a holder."""
    boot = BOOT_ID.read_text(encoding="utf-8").strip()[:8] if BOOT_ID.exists() else ""
    space = PID_NAMESPACE.readlink().name.strip("pid:[]") if PID_NAMESPACE.exists() else ""
    return f"{socket.gethostname()}/{boot}/{space}"


def lives(pid: int, started: float) -> bool:
    """Whether a process with this id that began at `started` (see `started_s`) is alive on this machine.

    A process id that was reused does not count.
    """
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and abs(started_s(process) - started) < SAME_START_S
    except psutil.NoSuchProcess:
        return False


def has_ended(host: str, pid: int, started: float) -> bool:
    """Whether a process of this machine has ended; False if `host`, as of `this_host`, is another one: unknown."""
    return host == this_host() and not lives(pid, started)


def started_s(process: psutil.Process) -> float:
    """Its start time in seconds since boot, which setting the wall clock does not change."""
    return float(process.create_time() - psutil.boot_time())

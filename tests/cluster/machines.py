"""Machines that share nothing but an object store: each has a network, processes and a disk of its own.

They are namespaces of Linux, made without privileges: `unshare` starts this module in namespaces where it may make
more. `Network` is the place between the machines, where only the store answers.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil
import pyspark

from rs_assets.spark.java import java_home

# In these this module may make networks and mounts, and all of its processes end with it.
NEW = ("--user", "--map-root-user", "--net", "--mount", "--pid")
NAMESPACES = ("unshare", *NEW, "--fork", "--kill-child", "--mount-proc")
# A machine's own processes and mounts; its first process ends with the second of these.
OWN = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
# The machine's disk becomes the common path, and those of the others vanish.
SETTLE = 'mount --bind "$1" "$2" && mount -t tmpfs none "$3" && shift 3 && exec "$@"'
NET, BRIDGE = "10.77.0", "between"
SPARK_HOME = Path(pyspark.__file__).parent
PATIENCE_S = 600
# Not more often: the store has one process for everything.
LOOK_S = 1.0


def possible() -> bool:
    """Whether this system allows it."""
    tools = all(map(shutil.which, ("unshare", "ip", "mount")))
    return tools and subprocess.run([*NAMESPACES, "true"], capture_output=True, check=False).returncode == 0


class Machine:
    """A machine that runs one command, until `off`, which is as if its plug was pulled."""

    def __init__(self, network: Network, name: str, number: int) -> None:
        self.name, self.address = name, f"{NET}.{number}"
        self._disk = network.disks / name
        (self._disk / "tmp").mkdir(parents=True)
        self._network = network
        self._process: subprocess.Popen[bytes] | None = None
        _ip("netns", "add", name)
        _ip("link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", f"to-{name}", "master", BRIDGE, "up")
        for command in (("addr", "add", f"{self.address}/24", "dev", "eth0"), ("link", "set", "eth0", "up")):
            _ip("-n", name, *command)
        _ip("-n", name, "link", "set", "lo", "up")

    def start(self, command: Sequence[str], **environment: str) -> None:
        """Start the command on it."""
        disk = self._network.disk
        own = {
            "HOME": str(disk),
            "TMPDIR": str(disk / "tmp"),
            "RS_HOME": str(disk / "rs"),
            "SPARK_LOCAL_DIRS": str(disk / "tmp"),
            "SPARK_WORKER_DIR": str(disk / "worker"),
            "SPARK_LOCAL_IP": self.address,
            "RS_DRIVER_HOST": self.address,
            "SPARK_HOME": str(SPARK_HOME),
            "JAVA_HOME": str(java_home()),
            "SPARK_DAEMON_MEMORY": "256m",
            "JAVA_TOOL_OPTIONS": f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -Djava.io.tmpdir={disk / 'tmp'}",
        }
        places = [str(self._disk), str(disk), str(self._network.disks)]
        whole = ["ip", "netns", "exec", self.name, *OWN, "sh", "-c", SETTLE, "sh", *places, *command]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                whole, env={**os.environ, **self._network.environment, **own, **environment}, stdout=log, stderr=log
            )

    @property
    def log(self) -> Path:
        """What its command has printed."""
        return self._network.folder / f"{self.name}.log"

    def printed(self, text: str) -> bool:
        """Whether its command has printed `text`."""
        return text in self.log.read_text(errors="replace")

    def ended(self) -> int | None:
        """The exit code of its command, None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def off(self) -> None:
        """Kill everything on it at once."""
        if self._process is not None and self._process.poll() is None:
            self._each(signal.SIGKILL)
            self._process.wait(timeout=60)

    def pause(self) -> None:
        """Stop everything on it."""
        self._each(signal.SIGSTOP)

    def resume(self) -> None:
        """Let everything on it go on."""
        self._each(signal.SIGCONT)

    def _each(self, number: signal.Signals) -> None:
        assert self._process is not None
        root = psutil.Process(self._process.pid)
        for process in [*root.children(recursive=True), root]:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)


class Network:
    """The network between the machines, with the store at its first address; a context manager."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder, self.environment = folder, environment
        self.disk, self.disks = folder / "disk", folder / "disks"
        for made in (self.disk, self.disks):
            made.mkdir()
        self.machines: list[Machine] = []
        # The names of networks are kept there.
        subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
        _ip("link", "set", "lo", "up")
        _ip("link", "add", BRIDGE, "type", "bridge")
        _ip("addr", "add", f"{NET}.1/24", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")

    def machine(self, name: str) -> Machine:
        """A machine with an empty disk."""
        made = Machine(self, name, len(self.machines) + 2)
        self.machines.append(made)
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for machine in self.machines:
            machine.off()


def until(what: str, holds: object, *, machines: Sequence[Machine] = ()) -> None:
    """Wait until `holds()`; the logs of `machines` are shown if it does not come to that."""
    deadline, pause = time.monotonic() + PATIENCE_S, threading.Event()
    assert callable(holds)
    while not holds():
        if time.monotonic() > deadline:
            logs = "\n".join(f"--- {each.name}\n{each.log.read_text(errors='replace')[-3000:]}" for each in machines)
            sys.exit(f"it did not come to this: {what}\n{logs}")
        pause.wait(LOOK_S)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)

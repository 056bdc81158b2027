"""A server as a child process: started with a log file, signalled by its id, ended with its parent.

A watchdog ends it: a shell that reads from a pipe which only this process holds. However this process ends, kill -9
included, the pipe ends with it; the shell then kills the server and removes its folder. It needs only POSIX, and
nothing of the server. (A child that this process forks without exec holds the pipe too, as long as it lives.)
"""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

import psutil

from rs_assets.common.processes import lives, started_s
from rs_assets.errors import ConfigurationError

# $1: the folder to remove, or nothing. A line of the pipe is the id of the process to kill, or - for none.
_WATCHDOG = """
pid=-
while read -r line; do pid=$line; done
[ "$pid" = - ] || kill -9 "$pid"
[ -z "$1" ] || rm -rf -- "$1"
"""

# A server that needs longer to end after SIGTERM hangs.
STOP_TIMEOUT_S = 30
# How long a server may take to do what it has acknowledged.
SETTLE_TIMEOUT_S = 30
# How often a server is asked.
POLL_S = 0.02
# Below the range that systems use for outgoing connections: while a broker is down, no client may get its port.
_PORTS = (20_000, 32_000)

_TAIL_LINES = 15


class ServerContext(ABC):
    """A server for tests that a with statement starts, and ends with its data."""

    @abstractmethod
    def start(self) -> Self:
        """Start the server, or start it again."""

    @abstractmethod
    def close(self) -> None:
        """End the server and remove its data."""

    def __enter__(self) -> Self:
        """Start the server."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the server and remove its data."""
        self.close()


class LocalServer(ServerContext):
    """A server of one process, whose data is in `folder` and stays there, else in a temporary one that goes with it.

    A subclass says what it is `called` and how long it may take to answer (`start_timeout_s`), prepares the process,
    and asks whether it answers.
    """

    called: ClassVar[str]
    start_timeout_s: ClassVar[float]

    def __init__(self, folder: Path | None = None) -> None:
        self._kept, self._folder = folder, folder
        self._server: ServerProcess | None = None

    @abstractmethod
    def _prepare(self) -> ServerProcess:
        """Make the folder and what is in it; the process is not started."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether clients are served."""

    @property
    def pid(self) -> int | None:
        """The process id while the server runs."""
        return self._server.pid if self._server is not None else None

    def start(self) -> Self:
        """Start the server and wait until it answers; ConfigurationError with the end of its log if it does not.

        Does nothing if the server runs.
        """
        try:
            if self._server is None:
                self._server = self._prepare()
            if not self._server.running:
                self._run(self._server)
        except BaseException:
            self.close()
            raise
        return self

    def stop(self) -> None:
        """Stop the server in order and wait; its data stays for `restart()`."""
        if self._server is not None:
            self._server.stop()

    def kill(self) -> None:
        """Kill the server by SIGKILL, as a crash would; its data stays for `restart()`."""
        if self._server is not None:
            self._server.kill()

    def restart(self) -> None:
        """Start the server again at the same address over the same data, and wait until it answers."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze the server (SIGSTOP): connections stay open and nothing answers."""
        if self._server is not None:
            self._server.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume a paused server (SIGCONT)."""
        if self._server is not None:
            self._server.send(signal.SIGCONT)

    def close(self) -> None:
        """Stop the server and remove its data, unless `folder` was given; may be called twice."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        if self._kept is None and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _run(self, server: ServerProcess) -> None:
        server.answering(self._answers, name=self.called, within_s=self.start_timeout_s)

    def _home(self) -> Path:
        if self._folder is None:
            raise ConfigurationError(f"{self.called} was not started", remedy="use it in a with statement")
        return self._folder


class ServerProcess:
    """`command`, which writes into `log_file`; `scratch` is removed if this process ends without `close()`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     server = ServerProcess(["sleep", "60"], log_file=Path(folder) / "log")
    ...     server.start()
    ...     print(server.ended_within(0.01))
    ...     server.stop()
    ...     print(server.running)
    ...     server.close()
    False
    False
    """

    def __init__(self, command: Sequence[str], *, log_file: Path, scratch: Path | None = None) -> None:
        self.command = tuple(command)
        self.log_file = log_file
        self._scratch = scratch
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether the process exists, paused or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process is not None and self.running else None

    def start(self) -> None:
        """Start the process, unless it runs; the log file grows."""
        if self.running:
            return
        watchdog = self._watch()
        with self.log_file.open("ab") as log:
            # In its own session: Ctrl-C in a terminal reaches this process only, which stops the server in order.
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        _tell(watchdog, str(self._process.pid))

    def answering(self, answers: Callable[[], bool], *, name: str, within_s: float, since: float | None = None) -> None:
        """Start the process and wait until it `answers`; ConfigurationError, which calls it `name`, if it does not.

        It has `within_s` seconds, since the monotonic time `since` (default: now).
        """
        deadline = (time.monotonic() if since is None else since) + within_s
        self.start()
        while not answers():
            if self.ended_within(POLL_S):
                raise self.refused(f"{name} ended while it started")
            if time.monotonic() > deadline:
                raise self.refused(f"{name} did not answer within {within_s:g} s")

    def refused(self, what: str) -> ConfigurationError:
        """The error of a server that fails to start, with the end of its log."""
        shown = self.log_tail().replace("\n", "\n    ")
        return ConfigurationError(f"{what}:\n    {shown}", remedy="check its log and its settings")

    def ended_within(self, seconds: float) -> bool:
        """Wait for the process to end by itself, at most `seconds`; True if it has ended."""
        if self._process is not None:
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                return False
        return True

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if the process runs."""
        if self._process is not None and self.running:
            self._process.send_signal(number)

    def stop(self) -> None:
        """End the process by SIGTERM, paused or not, and wait; one that hangs is killed."""
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)
        if not self.ended_within(STOP_TIMEOUT_S):
            self.send(signal.SIGKILL)
        self._reap()

    def kill(self) -> None:
        """End the process by SIGKILL, and wait."""
        self.send(signal.SIGKILL)
        self._reap()

    def kill_all(self) -> None:
        """End the process and those that it started by SIGKILL, and wait.

        A child may go on after its parent: Postgres acknowledges a commit on a connection whose server was just killed.
        """
        pid = self.pid
        if pid is None:
            return
        # Paused, it starts no child that the list would not have.
        self.send(signal.SIGSTOP)
        children = psutil.Process(pid).children(recursive=True)
        known = [(child.pid, started_s(child)) for child in children]
        self.kill()
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        settle(lambda: not any(lives(*each) for each in known), "a child of the killed server still runs")

    def close(self) -> None:
        """Stop the process, and the watchdog after it; may be called twice."""
        self.stop()
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is not None:
            watchdog.communicate()

    def log_tail(self) -> str:
        """The last lines of the log, without the lines of stack traces."""
        lines = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
        told = [line for line in lines if line.strip() and not line.startswith(("\tat ", "\t... "))]
        return "\n".join(told[-_TAIL_LINES:])

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait()
            if self._watchdog is not None:
                _tell(self._watchdog, "-")

    def _watch(self) -> subprocess.Popen[bytes]:
        if self._watchdog is None:
            command = ["/bin/sh", "-c", _WATCHDOG, "watchdog", str(self._scratch or "")]
            self._watchdog = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        return self._watchdog


def _tell(watchdog: subprocess.Popen[bytes], line: str) -> None:
    # A killed watchdog must not keep a server from ending.
    if watchdog.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            watchdog.stdin.write(f"{line}\n".encode())
            watchdog.stdin.flush()


def settle(done: Callable[[], object], otherwise: str) -> None:
    """Wait until a server has done what it acknowledged; ConfigurationError says `otherwise`."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while not done():
        if time.monotonic() > deadline:
            raise ConfigurationError(f"{otherwise} after {SETTLE_TIMEOUT_S} s")
        time.sleep(POLL_S)


def free_ports() -> tuple[int, int, int]:
    """Three free ports of loopback."""
    found: list[int] = []
    numbers = random.SystemRandom().sample(range(*_PORTS), 1000)
    for number in numbers:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", number))
            found.append(number)
        if len(found) == 3:
            return found[0], found[1], found[2]
    raise ConfigurationError("no free port on loopback", remedy="stop other servers on loopback")

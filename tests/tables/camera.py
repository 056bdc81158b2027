"""Pictures of files as SIGKILL would leave them: all processes of a run halt while their files are copied."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil


class Camera:
    """A process beside this one, which halts this one and its children, copies a folder, and lets them go on."""

    def __init__(self):
        command = [sys.executable, "-m", "tests.tables.camera", str(os.getpid())]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.busy = threading.Lock()

    def take(self, folder, picture):
        """Copy `folder` as it is now."""
        with self.busy:
            print(folder, picture, sep="\t", file=self.process.stdin, flush=True)
            answer = self.process.stdout.readline()
        assert answer == "taken\n", answer

    @contextmanager
    def taking(self, folder, picture, delay):
        """Take a picture `delay` seconds from now, at the latest at the end."""
        timer = threading.Timer(delay, self.take, (folder, picture))
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
            if not Path(picture).exists():
                self.take(folder, picture)

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)


def halted(pid):
    """The process `pid` and its children but this one, all halted."""
    parent = psutil.Process(pid)
    found = [parent]
    for process in found:
        process.send_signal(signal.SIGSTOP)
        # A halted process has no more children.
        with suppress(psutil.NoSuchProcess):
            found += [child for child in process.children() if child.pid != os.getpid()]
    return found


def main():
    for line in sys.stdin:
        folder, picture = line.rstrip("\n").split("\t")
        processes = []
        try:
            processes = halted(int(sys.argv[1]))
            shutil.copytree(folder, picture, symlinks=True)
        finally:
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGCONT)
        print("taken", flush=True)


if __name__ == "__main__":
    main()

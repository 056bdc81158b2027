"""A collector as a process of its own, which tests kill and pause."""

from __future__ import annotations

import pickle
import sys

from rs_assets.connectors.collector.collecting import CollectorState, collect
from rs_assets.connectors.collector.writing import LogWriter
from rs_assets.connectors.registry import SOURCES
from rs_assets.testing.servers.process import ServerProcess
from tests.collector.collecting import wait_until


class CollectorProcess(ServerProcess):
    """The collector of a source, which writes the log in `folder`; it runs within the block."""

    def __init__(self, node, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        file = folder.parent / f"{folder.name}.pickle"
        file.write_bytes(pickle.dumps((SOURCES[type(node)].collector(node), folder)))
        command = [sys.executable, "-W", "ignore", "-m", "tests.collector.process", str(file)]
        super().__init__(command, log_file=folder.parent / f"{folder.name}.log")

    def __enter__(self):
        self.start()
        wait_until(lambda: CollectorState.of(self.folder).state == "collecting")
        return self

    def __exit__(self, *_):
        self.close()


if __name__ == "__main__":
    from pathlib import Path
    from threading import Event

    collector, folder = pickle.loads(Path(sys.argv[1]).read_bytes())
    collect(collector, LogWriter(folder), Event())

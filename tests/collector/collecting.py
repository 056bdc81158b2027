"""What the tests of collectors share: a collector in a thread, in a process, and what its log has."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

from rs_assets.common.home import Home
from rs_assets.connectors.collector.collecting import collect
from rs_assets.connectors.collector.log import CollectedLog
from rs_assets.connectors.collector.messages import facts_of
from rs_assets.connectors.collector.writing import LogWriter
from rs_assets.connectors.registry import SOURCES


def wait_until(done, within=120.0):
    deadline = time.monotonic() + within
    while not done():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)


@contextmanager
def collected(stream, home: Home, **writing):
    """The log of the stream's source, while a thread collects into it."""
    node = stream.step.node
    with running(SOURCES[type(node)].collector(node), node.folder(home), **writing) as log:
        yield log


@contextmanager
def running(collector, folder, **writing):
    stop, states = threading.Event(), []
    arguments = (collector, LogWriter(folder, **writing), stop, lambda *state: states.append(state))
    thread = threading.Thread(target=collect, args=arguments, daemon=True)
    thread.start()
    try:
        wait_until(lambda: states and states[-1][0] == "collecting")
        yield CollectedLog(folder)
    finally:
        stop.set()
        thread.join(120)
    assert not thread.is_alive()


def payloads(log):
    """The payloads in a log, in its order."""
    return [facts_of(line, number=number)["payload"] for number, line in log.records(log.begin(), log.end())]

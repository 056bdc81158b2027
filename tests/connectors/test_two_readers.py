"""Two readers of one source: a stream begins again while the process of its last run is in the middle of a look."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from rs_assets.common import locks
from rs_assets.common.locks import read_alone
from rs_assets.connectors.changes.landed import Landed
from rs_assets.connectors.changes.plan import ChangesPlan
from rs_assets.connectors.own.plan import Position
from rs_assets.connectors.own.polling import PollPlan
from rs_assets.connectors.own.spool import Spool
from rs_assets.errors import SourceReadError
from rs_assets.sources import PollingSource

PAGE = 2


@dataclass
class Gate:
    """A point at which a reader waits until `opened` is set."""

    reached: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)

    def pass_through(self):
        self.reached.set()
        assert self.opened.wait(120)


class Table(PollingSource):
    """Rows by their number, two at a time."""

    schema = "n bigint"
    every = timedelta(0)

    def __init__(self, gate=None, rows=6):
        self.gate, self.rows = gate, rows

    def poll(self, cursor):
        begin = cursor or 0
        end = min(begin + PAGE, self.rows)
        if self.gate:
            self.gate.pass_through()
        return [{"n": n} for n in range(begin, end)], end


class Log:
    """A database's log of six changes; what has landed is looked up before the rows are read, as from a server."""

    def __init__(self, gate=None):
        self.gate = gate

    def flushed(self):
        return 6

    def land(self, landed, split, until):
        reached = landed.reached() or 0
        end = min(reached + PAGE, 6 if until is None else until)
        if self.gate:
            self.gate.pass_through()
        with landed.landing() as part:
            if end > reached:
                part.add(split, [(n, json.dumps({"n": n}).encode()) for n in range(reached, end)])
            part.publish(end)


def poller(folder, gate=None):
    return PollPlan(Table(gate), Spool(folder / "poll"))


def lander(folder, gate=None):
    return ChangesPlan(Log(gate), folder, "g0001", timedelta(days=1))


def read_to_the_end(plan, at):
    """The offsets after the last batch."""
    while (end := plan.next(at, None)) != at:
        at = end
    return at


def numbers(plan, ends):
    ((split, at),) = ends.items()
    found = [batch.to_pylist() for batch in plan.read(split, 0, at.next)]
    return [(line["line"], json.loads(line["value"])["n"]) for lines in found for line in lines]


@contextmanager
def begun(work):
    """A thread at work, which is waited for; then the list has its result."""
    found = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    yield found
    thread.join(120)
    assert found


@pytest.mark.canary
@pytest.mark.parametrize("made", [poller, lander])
def test_a_reader_waits_for_that_of_an_earlier_run_and_no_row_comes_twice(tmp_path, monkeypatch, made):
    gate, acquire, turned_away = Gate(), locks.acquire, threading.Event()

    def looked(path):
        if (handle := acquire(path)) is None:
            turned_away.set()
        return handle

    monkeypatch.setattr(locks, "acquire", looked)
    older, newer = made(tmp_path, gate), made(tmp_path)

    def read():
        try:
            return read_to_the_end(newer, {})
        finally:
            turned_away.set()

    with begun(lambda: older.next({}, None)) as first:
        assert gate.reached.wait(120)
        with begun(read) as ends:
            # It waits, or it has read everything meanwhile.
            assert turned_away.wait(120)
            gate.opened.set()
    assert numbers(newer, ends[0]) == [(n, n) for n in range(6)]
    assert numbers(newer, first[0]) == [(n, n) for n in range(PAGE)]


def test_a_poller_goes_on_after_what_another_one_has_added(tmp_path):
    older, newer = poller(tmp_path), poller(tmp_path)
    at = older.next({}, None)
    newer.next(at, None)
    ends = read_to_the_end(older, at)
    assert numbers(older, ends) == [(n, n) for n in range(6)]


HOLDER = """
import os, sys
from pathlib import Path
from rs_assets.common.locks import read_alone
with read_alone(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
    if os.fork() == 0:
        sys.stdin.read()
        os._exit(0)
print("free", flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(folder):
    """A process that holds the lock of a folder until it gets a line, and has forked by then."""
    command = [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_a_reader_that_waits_in_vain_names_the_process_and_its_end_helps(tmp_path):
    with holder(tmp_path) as process:
        with pytest.raises(SourceReadError) as raised, read_alone(tmp_path, patience_s=0):
            pass
        assert f"process {process.pid} on " in str(raised.value)
        _, _, command = raised.value.remedy.partition("; ")
        assert command == f"kill {process.pid} ends it"
        subprocess.run(command.split()[:2], check=True)
        process.wait(120)
        with read_alone(tmp_path, patience_s=0):
            pass


def test_a_lock_does_not_outlive_its_block_in_a_forked_process(tmp_path):
    with holder(tmp_path) as process:
        print(file=process.stdin, flush=True)
        assert process.stdout.readline() == "free\n"
        with read_alone(tmp_path, patience_s=0):
            pass


def test_a_folder_that_cannot_be_written_is_an_error_of_the_source(tmp_path):
    (tmp_path / "own").write_text("")
    with pytest.raises(SourceReadError, match="the folder for the rows of a source cannot be locked"):
        PollPlan(Table(), Spool(tmp_path / "own" / "poll")).next({}, None)
    (tmp_path / "own").unlink()
    assert PollPlan(Table(), Spool(tmp_path / "own" / "poll")).next({}, None) == {"poll": Position(0, PAGE)}


def test_landed_rows_do_not_see_the_lock(tmp_path):
    plan = lander(tmp_path)
    ends = read_to_the_end(plan, {})
    assert (tmp_path / "g0001" / ".lock").exists()
    assert [part.end for part in Landed(tmp_path / "g0001").parts()] == [2, 4, 6]
    plan.committed(ends)

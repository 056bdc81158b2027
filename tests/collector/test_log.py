"""The log of a collector: records keep their numbers over crashes and full disks, and one collector writes it."""

from __future__ import annotations

import errno
import os
import random
import threading
from itertools import pairwise
from types import SimpleNamespace

import pytest

from rs_assets.connectors.collector import writing
from rs_assets.connectors.collector.collecting import CollectorState, collect
from rs_assets.connectors.collector.log import CollectedLog
from rs_assets.connectors.collector.messages import Message
from rs_assets.connectors.collector.plan import CollectedPlan
from rs_assets.connectors.collector.purging import LogPurge
from rs_assets.connectors.collector.writing import LogWriter, NotStored
from rs_assets.connectors.own.plan import Position
from rs_assets.errors import DataLossError, SourceReadError
from tests.collector.collecting import payloads, wait_until


def messages(*payloads):
    return [Message(payload) for payload in payloads]


def plan(folder, **settings):
    return CollectedPlan(CollectedLog(folder), **settings)


@pytest.mark.canary
def test_any_bytes_should_come_back_as_they_were(tmp_path):
    sent = [b'{"n": 1}', "é\n\r\x85\u2028".encode(), b"\xff\x00\n", b"", b'"\\"', bytes(range(256))]
    with LogWriter(tmp_path) as log:
        log.append(messages(*sent))
    assert payloads(CollectedLog(tmp_path)) == sent


def test_records_should_keep_their_numbers_over_segments_and_restarts(tmp_path):
    model = []
    for _start in range(3):
        with LogWriter(tmp_path, roll_bytes=200) as log:
            for _ in range(20):
                more = [b"%d" % (len(model) + n) for n in range(random.Random(len(model)).randrange(1, 4))]
                log.append(messages(*more))
                model += more
    log = CollectedLog(tmp_path)
    assert payloads(log) == model
    assert len(log.segments()) > 10
    assert log.end() == len(model)
    for start, end in pairwise(range(0, len(model), 7)):
        assert [number for number, _ in log.records(start, end)] == [*range(start, end)]


def test_a_segment_should_end_after_its_time(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(writing, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with LogWriter(tmp_path) as log:
        for at in (100.0, 159.0, 161.0):
            now[0] = at
            log.append(messages(b"x"))
    assert [segment.first for segment in CollectedLog(tmp_path).segments()] == [0, 2]


def test_a_torn_record_should_be_cut_off_by_the_next_collector(tmp_path):
    with LogWriter(tmp_path) as log:
        log.append(messages(b"one", b"two"))
    with (tmp_path / "records-000000000000000.jsonl").open("ab") as file:
        file.write(b'{"received_at":"2026-')
    assert CollectedLog(tmp_path).end() == 2
    with LogWriter(tmp_path) as log:
        log.append(messages(b"three"))
    assert payloads(CollectedLog(tmp_path)) == [b"one", b"two", b"three"]


class Full:
    """A segment on a disk that takes `left` bytes more."""

    def __init__(self, file, left):
        self.file, self.left = file, left

    def write(self, data):
        taken = min(len(data), self.left[0])
        if not taken:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.left[0] -= taken
        return self.file.write(bytes(data[:taken]))

    def __getattr__(self, name):
        return getattr(self.file, name)


@pytest.mark.parametrize("left", [0, 1, 70, 10_000])
def test_a_full_disk_should_refuse_and_never_lose_what_was_acknowledged(tmp_path, monkeypatch, left):
    room = [left]
    real = LogWriter._segment

    def segment(self):
        file = real(self)
        return file if isinstance(file, Full) else Full(file, room)

    monkeypatch.setattr(LogWriter, "_segment", segment)
    acknowledged = []
    with LogWriter(tmp_path) as log:
        for n in range(50):
            try:
                log.append(messages(b"%d" % n, b"%d again" % n))
            except NotStored:
                assert room == [0]
                # A reader that has seen what a refused call left must find it again.
                seen = payloads(CollectedLog(tmp_path))
                room[0] = 10_000
                with pytest.raises(NotStored) if n % 2 else pytest.MonkeyPatch.context():
                    if n % 2:
                        room[0] = 0
                    log.append(messages(b"%d" % n, b"%d again" % n))
                assert payloads(CollectedLog(tmp_path))[: len(seen)] == seen
                if n % 2:
                    room[0] = 10_000
                    continue
            acknowledged += [b"%d" % n, b"%d again" % n]
    found = payloads(CollectedLog(tmp_path))
    assert {*acknowledged} <= {*found}
    assert [payload for payload in dict.fromkeys(found) if payload in acknowledged] == acknowledged


def test_what_waits_for_the_disk_should_be_written_by_one_sync(tmp_path, monkeypatch):
    syncs, gate = [], threading.Event()
    real = os.fsync

    def slow(handle):
        syncs.append(handle)
        gate.wait(120)
        real(handle)

    with LogWriter(tmp_path) as log:
        log.append(messages(b"first"))
        monkeypatch.setattr(writing.os, "fsync", slow)
        threads = [threading.Thread(target=log.append, args=(messages(b"%d" % n),)) for n in range(8)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(log._waiting) == 7)
        gate.set()
        for thread in threads:
            thread.join()
    assert len(syncs) == 2
    assert sorted(payloads(CollectedLog(tmp_path))) == sorted([b"first", *(b"%d" % n for n in range(8))])


def test_one_collector_should_write_a_log_and_the_next_one_wait(tmp_path):
    class Counting:
        def __init__(self):
            self.log = None

        def collect(self, log, ready, stop):
            self.log = log
            ready()
            stop.wait()

    first, second, states = Counting(), Counting(), []
    stops = [threading.Event(), threading.Event()]
    threads = [
        threading.Thread(target=collect, args=(each, LogWriter(tmp_path), stop, lambda *state: states.append(state)))
        for each, stop in zip((first, second), stops, strict=True)
    ]
    threads[0].start()
    wait_until(lambda: first.log)
    with pytest.raises(SourceReadError, match="another collector"), LogWriter(tmp_path):
        pass
    threads[1].start()
    wait_until(lambda: ("waiting", "") in states)
    assert second.log is None
    stops[0].set()
    wait_until(lambda: second.log)
    wait_until(lambda: CollectorState.of(tmp_path).state == "collecting")
    stops[1].set()
    for thread in threads:
        thread.join()


def test_a_collector_should_begin_again_after_an_error_of_any_kind(tmp_path, monkeypatch):
    class Failing:
        def __init__(self):
            self.calls = 0

        def collect(self, log, ready, stop):
            self.calls += 1
            if self.calls == 1:
                # As a socket does for a host with two dots in a row.
                raise UnicodeError("label empty or too long")
            ready()
            stop.set()

    monkeypatch.setattr("rs_assets.connectors.collector.collecting.FIRST_PAUSE_S", 0.01)
    states = []
    collect(Failing(), LogWriter(tmp_path), threading.Event(), lambda *state: states.append(state))
    failing = ("failing", "UnicodeError: label empty or too long")
    assert states == [("connecting", ""), failing, ("connecting", ""), ("collecting", ""), ("stopped", "")]


def test_a_log_that_is_gone_or_made_again_should_be_a_loss(tmp_path):
    with LogWriter(tmp_path) as log:
        log.append(messages(b"one", b"two"))
    name = CollectedLog(tmp_path).name()
    read = {name: Position(0, 2)}
    assert plan(tmp_path).next({}, None) == read
    assert plan(tmp_path).next({}, 1) == {name: Position(0, 1)}
    assert plan(tmp_path).next(read, None) == read
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(DataLossError, match="record 2 is not in the log"):
        plan(tmp_path).next(read, None)
    with LogWriter(tmp_path) as log:
        log.append(messages(b"1", b"2", b"3"))
    with pytest.raises(DataLossError):
        plan(tmp_path).next(read, None)


def test_a_removed_segment_should_be_a_loss(tmp_path):
    with LogWriter(tmp_path, roll_bytes=1) as log:
        for n in range(4):
            log.append(messages(b"%d" % n))
    log = CollectedLog(tmp_path)
    file = log.segments()[1].file
    content = file.read_bytes()
    file.unlink()
    with pytest.raises(DataLossError, match="record 1 is not"):
        [*log.records(0, 4)]
    assert [number for number, _ in log.records(2, 4)] == [2, 3]
    file.write_bytes(content)
    assert payloads(log) == [b"0", b"1", b"2", b"3"]


def test_a_damaged_record_should_be_a_loss(tmp_path):
    with LogWriter(tmp_path) as log:
        log.append(messages(b"one"))
    file = CollectedLog(tmp_path).segments()[0].file
    content = file.read_bytes()
    file.write_bytes(content[1:])
    name = CollectedLog(tmp_path).name()
    with pytest.raises(DataLossError, match="record 0 of a collector's log is damaged"):
        [*plan(tmp_path).read(name, 0, 1)]
    file.write_bytes(content)
    assert [batch.num_rows for batch in plan(tmp_path).read(name, 0, 1)] == [1]


def test_a_damaged_name_should_be_named(tmp_path):
    with LogWriter(tmp_path) as log:
        log.append(messages(b"one"))
    file = tmp_path / "log.json"
    content = file.read_bytes()
    file.write_bytes(b"{")
    with pytest.raises(SourceReadError, match=r"log.json of a collector's log is damaged"):
        plan(tmp_path).next({}, None)
    file.write_bytes(content)
    assert plan(tmp_path).next({}, None)


def test_segments_should_stay_while_someone_needs_them(tmp_path):
    from datetime import timedelta

    import orjson

    with LogWriter(tmp_path, roll_bytes=1) as log:
        for n in range(6):
            log.append(messages(b"%d" % n))
    log = CollectedLog(tmp_path)
    name = log.name()

    def at(number):
        return orjson.dumps({name: number}).decode()

    def left(*ends, kept=(), keep=timedelta(0)):
        purge = LogPurge(tmp_path, keep)
        purge.keep_for(lambda: [*kept])
        purge.finish([*ends])
        return log.begin()

    assert left(at(4), keep=timedelta(hours=1)) == 0
    assert left(at(4), None) == 0
    assert left(at(4), kept=[None]) == 0
    assert left(at(4), at(2)) == 2
    assert left(at(4), kept=[at(3)]) == 3
    assert left(at(6)) == 5
    assert payloads(log) == [b"5"]
    # The next collector goes on with the numbers.
    with LogWriter(tmp_path) as writer:
        writer.append(messages(b"6"))
    assert [number for number, _ in log.records(5, 7)] == [5, 6]

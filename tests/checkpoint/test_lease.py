"""The lease: one holder, growing tokens, takeover of the dead and of the silent, never of the living."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from resources.checkpoint import lease as leases
from resources.checkpoint.lease import Lease, read_lease
from resources.errors import LeaseLostError, PipelineBusyError

SHORT = timedelta(seconds=0.6)
HOLDER = """
import sys
from datetime import timedelta
from pathlib import Path
from resources.checkpoint.lease import Lease
with Lease.acquire(Path(sys.argv[1]), pipeline="shop.clicks", run_id="other", ttl=timedelta(seconds=0.6)) as lease:
    print("held", flush=True)
    sys.stdin.readline()
    try:
        lease.check()
        print("mine", flush=True)
    except Exception as error:
        print(type(error).__name__, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "catalog" / "leases"


@pytest.fixture
def other(path: Path):
    """Another process that holds the lease until it is told to look at it."""
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.send_signal(signal.SIGCONT)
        process.kill()


def acquire(path: Path, run_id: str = "mine", ttl: timedelta = SHORT) -> Lease:
    return Lease.acquire(path, pipeline="shop.clicks", run_id=run_id, ttl=ttl)


def test_tokens_grow_and_a_released_lease_is_free_at_once(path):
    for token in (1, 2, 3):
        with acquire(path) as lease:
            assert lease.token == token
            lease.check()
        assert read_lease(path, "shop.clicks").released


def test_pipelines_do_not_stand_in_each_others_way(path):
    with acquire(path), Lease.acquire(path, pipeline="shop.orders", run_id="second") as lease:
        assert lease.token == 1


def test_a_second_holder_is_refused_and_told_who_the_first_is(path, other):
    with pytest.raises(PipelineBusyError, match=r"pid=\d+, run=other") as caught:
        acquire(path)
    assert caught.value.facts["pid"] == other.pid
    assert "last_heartbeat" in caught.value.facts


def test_the_lease_of_a_killed_process_is_free_at_once(path, other):
    other.kill()
    other.wait()
    with acquire(path) as lease:
        assert lease.token == 2


def test_a_paused_process_loses_its_lease_and_learns_it_when_it_wakes(path, other):
    other.send_signal(signal.SIGSTOP)
    pause = threading.Event()
    while not read_lease(path, "shop.clicks").stale:
        pause.wait(0.05)
    with acquire(path) as lease:
        assert lease.token == 2
        other.send_signal(signal.SIGCONT)
        said, _ = other.communicate("look\n", timeout=30)
        assert said == "LeaseLostError\n"
        lease.check()


def test_a_living_holder_keeps_its_lease_when_the_wall_clock_jumps_ahead(path, other, monkeypatch):
    class Tomorrow(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(days=1)

    monkeypatch.setattr(leases, "datetime", Tomorrow)
    assert read_lease(path, "shop.clicks").stale, "by the wall clock it looks abandoned"
    with pytest.raises(PipelineBusyError):
        acquire(path)
    assert other.poll() is None


def test_a_process_id_that_was_given_away_again_holds_nothing(path):
    with acquire(path) as lease:
        row = lease.row
        assert not row.free
        assert replace(row, process_started=row.process_started - 100).free
        assert replace(row, host=f"{row.host}x").free is False, "of another machine nobody knows"


def test_of_many_that_want_it_one_gets_it(path):
    held: list[Lease] = []

    def attempt(number: int) -> None:
        with suppress(PipelineBusyError):
            held.append(acquire(path, run_id=f"run-{number}", ttl=timedelta(seconds=30)))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(attempt, range(8)))
    assert len(held) == 1
    assert read_lease(path, "shop.clicks").run_id == held[0].row.run_id


def test_a_catalog_that_cannot_be_written_ends_the_lease_after_its_time_to_live(path, monkeypatch):
    with acquire(path) as lease:
        monkeypatch.setattr(leases, "_open", lambda _: (_ for _ in ()).throw(OSError("no such disk")))
        lost = threading.Event()
        while not lost.wait(0.05):
            try:
                lease.check()
            except LeaseLostError as error:
                assert "no such disk" in str(error)  # noqa: PT017  the loop waits for it
                lost.set()
        monkeypatch.undo()


def test_heartbeats_are_seen_in_the_catalog(path):
    with acquire(path):
        first = read_lease(path, "shop.clicks")
        pause = threading.Event()
        while read_lease(path, "shop.clicks").beat <= first.beat:
            pause.wait(0.05)
        assert read_lease(path, "shop.clicks").renewed_at > first.renewed_at
        assert first.acquired_at <= datetime.now(UTC)
        assert first.pid == os.getpid()

"""The lease: one holder, growing tokens, takeover of the dead and of the silent, never of the living."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rs_assets.catalog import lease as leases
from rs_assets.catalog import lease_table
from rs_assets.catalog.lease import Lease, read_lease
from rs_assets.common import processes
from rs_assets.errors import CheckpointError, LeaseLostError, PipelineBusyError

# A lease that ends in the test, and one that a busy machine renews in time.
SHORT, LONG = timedelta(seconds=0.6), timedelta(seconds=60)
# It beats five times a second, whatever its time to live: a busy machine has all of that to hear it.
HOLDER = """
import sys
from datetime import timedelta
from pathlib import Path
from rs_assets.catalog import lease as leases
from rs_assets.catalog.lease import Lease
ttl = timedelta(seconds=float(sys.argv[2]))
leases.BEATS = ttl / timedelta(seconds=0.2)
with Lease.acquire(Path(sys.argv[1]), pipeline="shop.clicks", run_id="other", ttl=ttl) as lease:
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


@contextmanager
def holding(path: Path, ttl: timedelta):
    """Another process that holds the lease until it is told to look at it."""
    command = [sys.executable, "-c", HOLDER, str(path), str(ttl.total_seconds())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.send_signal(signal.SIGCONT)
        process.kill()


@pytest.fixture
def other(path: Path):
    """A process that is never silent for its time to live."""
    with holding(path, timedelta(seconds=30)) as process:
        yield process


@pytest.fixture
def sleeper(path: Path):
    """A process that is soon silent for its time to live, when it is paused."""
    with holding(path, SHORT) as process:
        yield process


def acquire(path: Path, run_id: str = "mine", ttl: timedelta = LONG) -> Lease:
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
    with pytest.raises(PipelineBusyError, match=r"(?s)pid=\d+, run=other.*Ctrl-C in its terminal") as caught:
        acquire(path)
    assert caught.value.facts["pid"] == other.pid
    assert "last_heartbeat" in caught.value.facts


def test_the_lease_of_a_killed_process_is_free_at_once(path, other):
    other.kill()
    other.wait()
    with acquire(path) as lease:
        assert lease.token == 2


def test_a_paused_process_loses_its_lease_and_learns_it_when_it_wakes(path, sleeper):
    sleeper.send_signal(signal.SIGSTOP)
    pause = threading.Event()
    while not read_lease(path, "shop.clicks").stale:
        pause.wait(0.05)
    with acquire(path) as lease:
        assert lease.token == 2
        sleeper.send_signal(signal.SIGCONT)
        said, _ = sleeper.communicate("look\n", timeout=120)
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
    with acquire(path, ttl=SHORT) as lease:
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
    with acquire(path, ttl=SHORT):
        first = read_lease(path, "shop.clicks")
        pause = threading.Event()
        while read_lease(path, "shop.clicks").beat <= first.beat:
            pause.wait(0.05)
        assert read_lease(path, "shop.clicks").renewed_at > first.renewed_at
        assert first.acquired_at <= datetime.now(UTC)
        assert first.pid == os.getpid()


def elsewhere(path: Path, monkeypatch, ttl=SHORT, **changes):
    """A lease that another machine has taken and not given back; it beats no more."""
    with monkeypatch.context() as there:
        there.setattr(leases, "this_host", lambda: "far/1/1")
        there.setattr(leases.Lease, "__exit__", lambda lease, *_: lease._end.set())
        lease = acquire(path, run_id="far", ttl=ttl)
    if changes:
        row = replace(lease.row, **changes)
        leases._open(path).write(leases._plain(row), seen=None)
    return lease


def test_a_dead_holder_whose_clock_was_ahead_is_succeeded_after_its_time_to_live(path, monkeypatch):
    ahead = datetime.now(UTC) + timedelta(hours=1)
    elsewhere(path, monkeypatch, renewed_at=ahead, acquired_at=ahead)
    with acquire(path) as lease:
        assert lease.token == 2


def test_a_holder_elsewhere_that_died_just_now_is_succeeded_without_asking_twice(path, monkeypatch):
    elsewhere(path, monkeypatch)
    with acquire(path) as lease:
        assert lease.token == 2


@pytest.mark.parametrize("clock", [timedelta(0), timedelta(hours=1), timedelta(hours=-1)], ids=str)
def test_a_living_holder_elsewhere_keeps_its_lease_whatever_its_clock_says(path, monkeypatch, clock):
    class Theirs(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + clock

    far = elsewhere(path, monkeypatch, ttl=timedelta(seconds=30))
    end = threading.Event()

    def beat():
        while not end.wait(0.05):
            beaten = replace(far.row, beat=far.row.beat + 1, renewed_at=Theirs.now(UTC))
            leases._open(path).beat(leases._plain(beaten))
            far.row = replace(far.row, beat=far.row.beat + 1)

    with ThreadPoolExecutor(1) as pool:
        beating = pool.submit(beat)
        try:
            with pytest.raises(PipelineBusyError, match="run=far"):
                acquire(path, ttl=timedelta(seconds=30))
        finally:
            end.set()
        beating.result()


def test_a_process_id_of_another_container_says_nothing(path, monkeypatch, tmp_path):
    row = elsewhere(path, monkeypatch).row
    mine = replace(row, host=leases.this_host(), pid=2**22 + 1)
    assert mine.free, "there is no such process in this container"
    other = tmp_path / "pid"
    other.symlink_to("pid:[7]")
    monkeypatch.setattr(processes, "PID_NAMESPACE", other)
    assert not mine.free


def files(path: Path) -> int:
    return sum(1 for file in path.rglob("*") if file.is_file())


def test_heartbeats_do_not_fill_the_disk(path):
    lease = acquire(path, ttl=timedelta(hours=1))
    lease._renew()
    before = files(path)
    for _ in range(200):
        lease._renew()
    assert files(path) == before
    assert read_lease(path, "shop.clicks").beat == 201


def test_neither_do_many_short_runs(path, monkeypatch):
    monkeypatch.setattr(lease_table, "TIDY_HOURS", 0)
    for _ in range(40):
        with acquire(path):
            pass
        for file in (path / "_delta_log").iterdir():
            os.utime(file, (0, 0))
    # Two versions a run, of a file and an entry of the log each, but for those that were tidied away.
    assert files(path) < 80


def test_a_lease_is_taken_above_what_sinks_remember(path):
    with acquire(path) as lease:
        lease.outrank(0)
        assert lease.token == 1
        lease.outrank(41)
        assert lease.token == 42
        lease._renew()
        lease.check()
    with Lease.acquire(path, pipeline="shop.clicks", run_id="next", above=99) as lease:
        assert lease.token == 100


def test_a_token_above_an_old_one_does_not_push_a_living_holder_out(path, monkeypatch):
    """Another process takes the lease between our look and our commit."""
    held: list[Lease] = []
    rows = leases._rows

    def overtaken(table, where):
        found = rows(table, where)
        monkeypatch.setattr(leases, "_rows", rows)
        held.append(acquire(path, run_id="first", ttl=timedelta(hours=1)))
        return found

    monkeypatch.setattr(leases, "_rows", overtaken)
    with pytest.raises(PipelineBusyError, match="run=first"):
        Lease.acquire(path, pipeline="shop.clicks", run_id="second", above=99)


def test_who_lost_the_lease_cannot_outrank_anybody(path):
    lease = acquire(path)
    leases._write(path, replace(lease.row, released=True), leases._open(path), seen=lease.row)
    with acquire(path, run_id="next"), pytest.raises(LeaseLostError, match="taken over"):
        lease.outrank(10)


def test_a_lease_that_is_removed_under_its_holder_is_told_as_that(path):
    lease = acquire(path)
    shutil.rmtree(path)
    lease._renew()
    with pytest.raises(LeaseLostError, match="gone from the catalog") as lost:
        lease.check()
    assert "start again" in lost.value.remedy
    with acquire(path):
        pass


@pytest.mark.parametrize(
    "fault", [OSError(30, "Read-only file system"), leases.DeltaError("No space left on device")], ids=["ro", "full"]
)
def test_a_catalog_that_cannot_be_written_is_our_error(path, monkeypatch, fault):
    with acquire(path):
        pass
    monkeypatch.setattr(lease_table, "write_deltalake", lambda *_, **__: (_ for _ in ()).throw(fault))
    with pytest.raises(CheckpointError, match=r"cannot be written: (Read-only|No space)") as refused:
        acquire(path)
    assert "mounted read-only" in refused.value.remedy


def test_a_panic_of_delta_is_our_error(tmp_path):
    with pytest.raises(CheckpointError, match="panicked"):
        acquire(tmp_path / "a[b" / "leases")


def test_a_lease_that_could_not_be_given_back_does_not_block_its_own_process(path, monkeypatch):
    with acquire(path, ttl=timedelta(hours=1)):
        full = OSError(28, "No space left on device")
        monkeypatch.setattr(lease_table, "write_deltalake", lambda *_, **__: (_ for _ in ()).throw(full))
    monkeypatch.undo()
    assert not read_lease(path, "shop.clicks").released
    with acquire(path) as lease:
        assert lease.token == 2


def test_heartbeats_go_on_behind_a_fault_of_any_kind_and_it_is_told(path, monkeypatch):
    pause = threading.Event()

    def fail(*_):
        raise ValueError("who would have thought")

    with acquire(path, ttl=SHORT) as lease:
        with monkeypatch.context() as broken:
            broken.setattr(leases, "_open", fail)
            while not lease.failures.warnings:
                pause.wait(0.01)
            told, beat = lease.failures.warnings, lease.row.beat
        assert "the lease is not renewed: ValueError: who would have thought" in told[0]
        while lease.row.beat == beat:
            pause.wait(0.01)

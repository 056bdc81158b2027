"""Drivers that are paused, overtaken, killed at random and out of disk: the output equals that of one batch."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import threading
import time
from contextlib import AbstractContextManager, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from rs_assets import Pipeline, StreamBuilder
from rs_assets.catalog.lease import read_lease
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.common.home import Home
from rs_assets.runtime.options import RunOptions
from tests.faults.damaged import grow, pipeline, result
from tests.faults.processes import PATIENCE_S, started, wait_for

ROWS, BATCH = 1_000, 100

# Runs the pipeline of the damage test over batches of 100 rows; with a word it waits in the middle of a commit.
PROGRAM = """
import sys, threading
from datetime import timedelta
from pathlib import Path

from rs_assets.runtime.options import RunOptions
from rs_assets.common.home import Home
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets import StreamBuilder, Time, TumblingWindow

log, home, batch, point, ttl = sys.argv[1:]
if point == "commit":
    original = DeltaWriter._add
    def waiting(self, folder, frame, mark):
        if mark.batch_id == 3:
            Path(home, "reached").touch()
            while not Path(home, "go").exists():
                threading.Event().wait(0.05)
        return original(self, folder, frame, mark)
    DeltaWriter._add = waiting
stream = StreamBuilder.data_stream("shop", "damaged").from_file(
    Path(log), schema="page string, n bigint, ts timestamp", tail=True, max_rows_per_batch=int(batch)
)
window = stream.window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("page").sum("n", "total")
options = RunOptions(home=Home(Path(home)), lease_ttl=timedelta(seconds=float(ttl)))
window.to_data_stream().to_delta("damaged").build().run(options, finish=True)
"""

# Rewinds that pipeline to its batch 2, and waits when all sinks were asked and none has acted.
REWIND = """
import sys, threading
from pathlib import Path

from rs_assets.runtime.upkeep.returns import SinkReturn
from rs_assets.runtime.upkeep.savepoints import rewind
from tests.faults.test_processes import sleeping_pipeline

log, home = sys.argv[1:]
original = SinkReturn.check
def waiting(self):
    original(self)
    Path(home, "reached").touch()
    while not Path(home, "go").exists():
        threading.Event().wait(0.05)
SinkReturn.check = waiting
made, options = sleeping_pipeline(Path(log), Path(home))
rewind(made.topology, 2, options)
"""


def sleeping_pipeline(log: Path, home: Path, **options) -> tuple[Pipeline, RunOptions]:
    """The lines of `log`, 100 a batch, into a table; a holder that is silent for two seconds is taken for gone."""
    stream = StreamBuilder.data_stream("shop", "sleeper").from_file(
        log, schema="page string, n bigint, ts timestamp", tail=True, max_rows_per_batch=BATCH
    )
    made = stream.to_delta("rows").build()
    return made, RunOptions(home=Home(home), lease_ttl=timedelta(seconds=2), **options)


def running(log: Path, home: Path, *, point: str = "") -> AbstractContextManager[subprocess.Popen[bytes]]:
    """One that waits at a point is soon taken for gone; the others are not, however busy the machine is."""
    return started(PROGRAM, log, home, BATCH, point, 2 if point else 60)


def put_to_sleep(process: subprocess.Popen[bytes], home: Path, name: str) -> None:
    """Stop it where it has reached its point, until its lease looks abandoned."""
    wait_for(home / "reached", process)
    os.killpg(process.pid, signal.SIGSTOP)
    pause = threading.Event()
    while not read_lease(Home(home).leases, name).stale:
        pause.wait(0.1)


def wake(process: subprocess.Popen[bytes], home: Path) -> None:
    (home / "go").touch()
    os.killpg(process.pid, signal.SIGCONT)


def finished(process: subprocess.Popen[bytes]) -> str:
    output, _ = process.communicate(timeout=PATIENCE_S)
    return output.decode()


@pytest.fixture
def place(tmp_path: Path) -> tuple[Path, Path]:
    log, home = tmp_path / "in.jsonl", tmp_path / "rs"
    home.mkdir()
    grow(log, 0, ROWS)
    return log, home


def expected(log: Path, driver) -> list[tuple[object, ...]]:
    options = RunOptions(home=Home(log.parent / "plain"), driver=driver)
    pipeline(log).run(options, finish=True)
    return result(options.home)


@pytest.mark.timeout(900)
@pytest.mark.faults
def test_a_driver_that_was_overtaken_while_it_was_paused_writes_nothing_more(place, driver, outcome):
    log, home = place
    with running(log, home, point="commit") as sleeper:
        put_to_sleep(sleeper, home, "shop.damaged")
        with running(log, home) as other:
            output = finished(other)
            assert other.returncode == 0, output[-3000:]
        written = DeltaTable(Home(home).table("shop", "damaged")).version()
        wake(sleeper, home)
        output = finished(sleeper)
        assert sleeper.returncode != 0
        assert "LeaseLostError" in output, output[-3000:]
    assert DeltaTable(Home(home).table("shop", "damaged")).version() == written
    assert result(Home(home)) == expected(log, driver)
    outcome("paused in the middle of a commit, overtaken, woken", "its commit is refused; the output is right")


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.faults
def test_a_driver_that_fell_asleep_inside_a_rewind_takes_no_sink_back_under_a_newer_run(place, driver, outcome):
    log, home = place
    made, options = sleeping_pipeline(log, home, driver=driver)
    made.run(options)
    with started(REWIND, log, home) as sleeper:
        put_to_sleep(sleeper, home, "shop.sleeper")
        assert made.run(options).batches == 0, "it has nothing to write"
        wake(sleeper, home)
        output = finished(sleeper)
        assert sleeper.returncode != 0
        assert "LeaseLostError" in output, output[-3000:]
    grow(log, ROWS, ROWS + BATCH)
    assert made.run(options).rows_in == BATCH
    rows = DeltaTable(options.home.table("shop", "rows")).to_pyarrow_table()
    assert rows.num_rows == ROWS + BATCH
    outcome("paused inside a rewind, overtaken, woken", "its return is refused; the output is right")


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_killed_at_thirty_random_moments(place, driver, outcome):
    log, home = place
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    last = -1
    for _ in range(30):
        with running(log, home) as process:
            checkpoint = CheckpointLog(Home(home).job("shop", "damaged") / "g0001" / "window" / "checkpoint")
            deadline, pause = time.monotonic() + PATIENCE_S, threading.Event()
            # Spark's own start is not what is tested: the clock runs from the first batch on.
            while checkpoint.last_committed() <= last and time.monotonic() < deadline and process.poll() is None:
                pause.wait(0.02)
            pause.wait(chance.uniform(0, 1.0))
            last = checkpoint.last_committed()
    with running(log, home) as process:
        output = finished(process)
        assert process.returncode == 0, f"seed {seed}: {output[-3000:]}"
    assert result(Home(home)) == expected(log, driver), f"seed {seed}"
    outcome("SIGKILL at 30 random moments", f"the output is right (seed {seed})")


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("mount") is None, reason="mounting a small disk takes root")
def test_a_full_disk_ends_the_run_and_nothing_is_lost(place, driver, outcome):
    log, home = place
    small = home / "checkpoints"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=68m", "tmpfs", str(small)], check=True)
    try:
        filler = small / "filler"
        with running(log, home) as process:
            checkpoint = CheckpointLog(Home(home).job("shop", "damaged") / "g0001" / "window" / "checkpoint")
            deadline, pause = time.monotonic() + PATIENCE_S, threading.Event()
            while checkpoint.last_committed() < 2 and time.monotonic() < deadline and process.poll() is None:
                pause.wait(0.02)
            with filler.open("wb", buffering=0) as file, suppress(OSError):
                while file.write(b"\0" * 65536):
                    pass
            output = finished(process)
            assert process.returncode != 0
            assert "No space left" in output or "full" in output or "room" in output, output[-2000:]
        with running(log, home) as process:
            output = finished(process)
            assert process.returncode != 0
            assert "free" in output or "room" in output, output[-2000:]
        filler.unlink()
        with running(log, home) as process:
            output = finished(process)
            assert process.returncode == 0, output[-3000:]
        assert result(Home(home)) == expected(log, driver)
    finally:
        subprocess.run(["umount", str(small)], check=True)
    outcome("the disk of the checkpoints is full", "the run fails, the next is refused; right once there is room")

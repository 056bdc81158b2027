"""A machine that is lost with its whole home: the next start, on a blank one, continues from the uploads."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipelines.access_log_data import write
from rs_assets.common.home import Home
from rs_assets.runtime.options import RunOptions
from tests.examples.access_log import expected, written
from tests.faults.processes import PATIENCE_S, started, wait_for

# At 700 ms a line the first windows fire in the last batch, when one batch or more is uploaded.
LINES, BATCH = 2_000, 700
KILLS = 20

pytestmark = [pytest.mark.faults, pytest.mark.long]

# Runs the example with uploads and with tables outside of its home; with a word it waits for good at that point.
PROGRAM = """
import sys, threading
from datetime import timedelta
from pathlib import Path

from pipelines.access_log import access_log
from rs_assets.common.home import Home
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.recovery.uploads import Uploader
from rs_assets.runtime.options import RunOptions, SavepointPolicy

log, home, tables, store, batch, point, reached = sys.argv[1:]

def wait_after(kind, method):
    original = getattr(kind, method)
    def waiting(*args):
        result = original(*args)
        Path(reached).touch()
        threading.Event().wait()
        return result
    setattr(kind, method, waiting)

if point == "sink":
    wait_after(DeltaWriter, "_add")
elif point == "upload":
    wait_after(Uploader, "_upload")
options = RunOptions(
    home=Home(Path(home), tables_of=Home(Path(tables))),
    savepoints=SavepointPolicy(uri=store, upload=True),
    lease_ttl=timedelta(seconds=3),
)
report = access_log(Path(log), job="hosted", max_rows_per_batch=int(batch)).run(options, finish=True)
print("recovered:", report.recovered_from)
"""


class Machine:
    """A host that may be lost: all but the log, the tables and the store is on it."""

    def __init__(self, root: Path, *, batch: int = BATCH) -> None:
        self.root, self.batch = root, batch
        self.log = write(root / "in" / "access.log", LINES)
        self.host, self.tables, self.store = root / "host", root / "tables", root / "store"

    @contextmanager
    def running(self, point: str = "") -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
        reached = self.root / f"reached-{random.getrandbits(32):08x}"
        places = (self.log, self.host / "rs", self.tables, self.store)
        with started(PROGRAM, *places, self.batch, point, reached) as process:
            yield process, reached

    def lose(self) -> None:
        shutil.rmtree(self.host, ignore_errors=True)

    def newest(self) -> str:
        return max((path.name for path in self.store.glob("uploads/*/*/*/manifests/*.json")), default="")

    def finish(self) -> str:
        with self.running() as (process, _):
            output, _ = process.communicate(timeout=PATIENCE_S)
        text = output.decode()
        assert process.returncode == 0, text[-3000:]
        return text

    def check(self, why: str = "") -> None:
        assert written(RunOptions(home=Home(self.tables))) == expected(self.log), why


@pytest.mark.timeout(900)
@pytest.mark.parametrize("point", ["sink", "upload"], ids=["after its first commit", "before its first commit"])
def test_a_lost_machine_costs_no_row(tmp_path: Path, point: str) -> None:
    machine = Machine(tmp_path)
    with machine.running(point) as (process, reached):
        wait_for(reached, process)
    machine.lose()
    assert "recovered: upload" in machine.finish()
    machine.check()


@pytest.mark.timeout(3600)
def test_twenty_lost_machines_cost_no_row(tmp_path: Path) -> None:
    """Killed at random moments of the batches, with the seed in the message."""
    seed = random.randrange(10_000)
    chance = random.Random(seed)
    machine = Machine(tmp_path, batch=LINES // KILLS // 2)
    kills = 0
    for _ in range(KILLS):
        before = machine.newest()
        with machine.running() as (process, _):
            more = before
            while more == before and process.poll() is None:
                time.sleep(0.01)
                more = machine.newest()
            time.sleep(chance.random() * 1.5)
            if process.poll() is None:
                kills += 1
        machine.lose()
    machine.finish()
    assert kills == KILLS
    machine.check(f"seed {seed}")

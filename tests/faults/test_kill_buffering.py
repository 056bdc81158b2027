"""SIGKILL while a sink of users' own keeps rows in memory: what it had not flushed comes again, and nothing is lost."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from rs_assets.checkpoint.log import CheckpointLog
from tests.faults.processes import PATIENCE_S, started, wait_for

ROWS, BATCH, KILLS = 1_000, 10, 20

# The sink keeps rows for two checkpoints: it refuses one, and flushes when it is asked again.
PROGRAM = """
import os, sys
from pathlib import Path

from rs_assets import StreamBuilder
from rs_assets.common.home import Home
from rs_assets.runtime.options import RunOptions
from rs_assets.sinks import Staged
from rs_assets.catalog.offsets.messages import CheckPoint, CheckPointState

source, home, out, batch = sys.argv[1:]


class Buffering:
    name = "buffering"

    def __init__(self):
        self.kept, self.asked = [], 0

    def location(self):
        return out

    def committed(self, mark):
        return False

    def last_committed(self, mark):
        return None

    def stage(self, rows, mark):
        found = rows.toArrow().column("id").to_pylist()
        return Staged(lambda: self.kept.extend(found) or len(found))

    def on_system_message(self, message):
        if not isinstance(message, CheckPoint):
            return CheckPointState.any()
        self.asked += 1
        if self.asked % 2:
            return CheckPointState.refuse("the buffer is not full yet")
        with open(out, "a") as file:
            file.writelines(f"{row}\\n" for row in self.kept)
            file.flush()
            os.fsync(file.fileno())
        self.kept.clear()
        return CheckPointState.normal(message.offsets)


stream = StreamBuilder.data_stream("shop", "buffered").from_file(
    source, schema="id long", tail=True, max_rows_per_batch=int(batch))
stream.to(Buffering()).build().run(RunOptions(home=Home(Path(home))))
"""


@pytest.mark.timeout(3600)
@pytest.mark.faults
@pytest.mark.long
def test_killed_twenty_times_a_sink_that_keeps_rows_loses_none(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_bytes(b"".join(b'{"id":%d}\n' % n for n in range(ROWS)))
    log = CheckpointLog(tmp_path / "rs" / "checkpoints" / "shop" / "buffered" / "g0001" / "file" / "checkpoint")
    out = tmp_path / "out"
    program = (PROGRAM, tmp_path / "in", tmp_path / "rs", out, BATCH)
    for kill in range(KILLS):
        with started(*program) as process:
            # A few batches further, then somewhere in the next ones.
            wait_for(log.folder / "commits" / str(log.last_committed() + 1), process)
            time.sleep(random.Random(kill).random())
            process.kill()
    with started(*program) as process:
        output, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, output.decode()[-3000:]
    assert {int(line) for line in out.read_text().splitlines()} == set(range(ROWS))

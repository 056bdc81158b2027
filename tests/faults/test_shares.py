"""Two drivers with disjoint parts of the input append to one table; either is killed, and each row is there once."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

from rs_assets import Pipeline, StreamBuilder
from rs_assets.common.home import Home
from rs_assets.runtime.options import RunOptions
from tests.faults.processes import PATIENCE_S, started

pytestmark = pytest.mark.long
FILES, ROWS = 12, 50
PARTS = ("eu", "us")

PROGRAM = """
import sys
from pathlib import Path

from rs_assets.common.home import Home
from rs_assets.runtime.options import RunOptions
from tests.faults.test_shares import part_of

folder, home, part = sys.argv[1:]
part_of(Path(folder), part).run(RunOptions(home=Home(Path(home))))
"""


def part_of(folder: Path, part: str) -> Pipeline:
    """The pipeline of one part of the input."""
    stream = StreamBuilder.data_stream("shop", f"clicks_{part}")
    lines = stream.from_file(f"{folder / part}/*.jsonl", schema="id string", max_files_per_batch=1, name="lines")
    return lines.filter("id IS NOT NULL").to_delta("clicks").build()


def written(home: Home) -> list[str]:
    """The ids in the table."""
    place = home.table("shop", "clicks")
    if not DeltaTable.is_deltatable(place):
        return []
    return sorted(DeltaTable(place).to_pyarrow_table()["id"].to_pylist())


@pytest.mark.timeout(900)
@pytest.mark.faults
def test_two_drivers_of_parts_that_are_killed_write_every_row_once(tmp_path, driver):
    home, ids = Home(tmp_path / "rs"), []
    for part in PARTS:
        (tmp_path / part).mkdir()
        for number in range(FILES):
            rows = [f"{part}-{number}-{row}" for row in range(ROWS)]
            ids += rows
            lines = "".join(json.dumps({"id": row}) + "\n" for row in rows)
            (tmp_path / part / f"{number:02}.jsonl").write_text(lines)
    for killed in PARTS:
        with started(PROGRAM, tmp_path, home.root, PARTS[0]), started(PROGRAM, tmp_path, home.root, PARTS[1]):
            before, deadline = len(written(home)), time.monotonic() + PATIENCE_S
            while len(written(home)) == before or not any(row.startswith(killed) for row in written(home)):
                assert time.monotonic() < deadline
                time.sleep(0.05)
    options = RunOptions(home=home, driver=driver)
    reports = [part_of(tmp_path, part).run(options) for part in PARTS]
    assert written(home) == sorted(ids)
    assert sum(report.rows_out for report in reports) < len(ids)

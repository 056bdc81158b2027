"""What an earlier version has left is gone on with: its checkpoints, tables, dead letters and savepoints."""

from __future__ import annotations

import fcntl
import shutil
import tarfile
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

from rs_assets import RunOptions
from rs_assets.common.home import Home
from tests.compatibility.before import PLACE, clicks, grow, order, orders

# Made before the library became one package.
ARCHIVES = sorted(Path(__file__).parent.glob("before-*.tar.xz"))
RUNS = 3


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.partition(".")[0])
def folder(request):
    """The home and the input as they were, at the place where they were made."""
    if not PLACE.parent.is_dir():
        pytest.skip(f"checkpoints name their files by absolute paths, and there is no {PLACE.parent}")
    with PLACE.with_suffix(".lock").open("w") as lock:
        # There is one such place on a machine, whoever runs these tests.
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(PLACE, ignore_errors=True)
        with tarfile.open(request.param) as packed:
            packed.extractall(PLACE, filter="data")
        yield PLACE
        shutil.rmtree(PLACE)


@pytest.fixture
def options(folder, driver):
    return RunOptions(home=Home(folder / "rs"), driver=driver)


def rows(options, table):
    return DeltaTable(options.home.table("kept", table)).to_pyarrow_table().to_pylist()


def seconds(at):
    """Of the hour in which all clicks are."""
    return at.minute * 60 + at.second


def good(runs):
    """The numbers of the clicks that could be parsed."""
    return [number for number in range(runs * 100) if number % 50 != 49]


def test_windows_state_and_dead_letters_go_on(folder, options):
    assert [query.found for query in clicks(folder).verify(options)] == [(), ()]
    grow(folder, RUNS)
    report = clicks(folder).run(options, finish=True)
    assert (report.generation, report.rows_in, report.rows_dead) == (1, 100, 2)
    assert sorted(row["ms"] for row in rows(options, "every_click")) == good(RUNS + 1)
    fired = [(row["page"], seconds(row["start_time"]), row["rows"]) for row in rows(options, "by_page")]
    counts = Counter((f"/{n % 3}", n // 20 * 20) for n in good(RUNS + 1))
    assert sorted(fired) == sorted((page, start, count) for (page, start), count in counts.items())
    letters = DeltaTable(str(options.home.dead_letters)).to_pyarrow_table().to_pylist()
    assert sum(letter["job"] == "clicks" for letter in letters) == 2 * (RUNS + 1)


def test_an_upsert_and_a_folder_go_on_and_come_back_to_a_savepoint(folder, options):
    grow(folder, RUNS)
    assert orders(folder).run(options).rows_in == 10
    newest = {row["id"]: row["state"] for row in rows(options, "newest")}
    assert newest == {n % 7: f"s{n}" for n in range((RUNS + 1) * 10)}
    orders(folder).rewind(RUNS - 1, options)
    assert {row["id"]: row["state"] for row in rows(options, "newest")} == {n % 7: f"s{n}" for n in range(RUNS * 10)}
    lines = [line for file in sorted((folder / "copies").rglob("*.json")) for line in file.read_text().splitlines()]
    assert len(lines) == RUNS * 10 == len({order(n) for n in range(RUNS * 10)})

"""The campaign of commands: its model, its kills, and a short one on real Spark."""

from __future__ import annotations

import random
import signal
import subprocess
import sys

import psutil
import pytest

from tests.torture.commands.campaign import commands
from tests.torture.commands.plain import Code, File, Pages, Record
from tests.torture.commands.shell import Shell, Started

FIRST = (Record(0, "p0", 1), Record(1, "p1", 2), Record(4, "p0", 21))
# Windows up to minute 10 are closed then: the first record is late, the second one is not.
SECOND = (Record(5, "p0", 3), Record(6, "p0", 19), Record(7, "p1", 90))


def _pages(*files: tuple[Record, ...]) -> Pages:
    return Pages([File(records, f"{{bad {number} p0") for number, records in enumerate(files)])


def test_windows_close_by_the_watermark_and_leave_late_records_out():
    pages = _pages(FIRST, SECOND)
    pages.read(Code())
    assert pages.watermark == 85
    assert pages.tables()["totals"] == [("p0", 0, 1, 0), ("p0", 10, 1, 6), ("p0", 20, 1, 4), ("p1", 0, 1, 1)]
    assert pages.tables()["letters"] == [("window 5",), ("{bad 0 p0",), ("{bad 1 p0",)]
    assert pages.closed() == [0]
    assert pages.in_hour(0) == (4, 1)


def test_a_window_is_made_of_the_records_that_came_in_time():
    pages = _pages(FIRST, SECOND)
    pages.read(Code())
    pages.backfill([0], Code(), late=True)
    assert [pages.made_of("p0", start) for start in (0, 10, 20)] == [{0}, {6}, {4}]


def test_files_that_came_in_one_batch_are_judged_by_the_watermark_before_both():
    pages = _pages(FIRST, SECOND)
    pages.read(Code())
    pages.cut({1: 0})
    assert ("p0", 0, 2, 5) in pages.tables()["totals"]


def test_a_backfill_takes_late_records_and_the_factor_of_its_code():
    pages = _pages(FIRST, SECOND)
    pages.read(Code())
    pages.backfill([0], Code(factor=3), late=True)
    assert pages.tables()["totals"] == [("p0", 0, 2, 15), ("p0", 10, 1, 18), ("p0", 20, 1, 12), ("p1", 0, 1, 3)]
    assert pages.factors_of(0) == {3}
    assert pages.others(Code(factor=3), [0]) == 0
    assert pages.others(Code(), [0]) == 4


def test_code_that_goes_on_from_then_changes_windows_that_closed_since():
    pages = _pages(FIRST, SECOND)
    pages.files, files = pages.files[:1], pages.files
    pages.read(Code())
    then, pages.files = pages.now, files
    pages.read(Code())
    after = pages.since(then, Code(factor=3)).windows_of([0])
    assert pages.windows_of([0]) == {("p0", 0): (1, 0), ("p1", 0): (1, 1), ("p0", 10): (1, 6), ("p0", 20): (1, 4)}
    assert after == {("p0", 0): (1, 0), ("p1", 0): (1, 1), ("p0", 10): (1, 18), ("p0", 20): (1, 12)}


def test_strict_code_refuses_records_until_they_are_redriven():
    pages = _pages(FIRST)
    pages.read(Code(strict=True))
    assert pages.tables()["copy"] == [*FIRST[:2]]
    assert ("usual 4",) in pages.tables()["letters"]
    pages.redrive()
    assert pages.tables()["copy"] == [*FIRST]


def test_a_page_that_is_forgotten_is_nowhere_until_it_comes_again():
    pages = _pages(FIRST)
    pages.read(Code())
    pages.forget("p0")
    assert pages.tables() == {"copy": [FIRST[1]], "latest": [FIRST[1]], "totals": [("p1", 0, 1, 1)], "letters": []}
    pages.files.append(File(SECOND, "{bad 1 p1"))
    pages.read(Code())
    assert [row[0] for row in pages.tables()["copy"]] == [1, 5, 6, 7]


def test_a_finished_input_closes_all_windows():
    pages = _pages(FIRST, SECOND)
    pages.read(Code())
    pages.finish(Code(factor=2))
    assert ("p1", 90, 1, 14) in pages.tables()["totals"]
    assert ("p0", 20, 1, 4) in pages.tables()["totals"]


def test_a_kill_ends_processes_that_have_a_group_of_their_own(tmp_path):
    child = "import os, time; os.setpgid(0, 0); print('up', flush=True); time.sleep(600)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    process = subprocess.Popen([sys.executable, "-c", parent], start_new_session=True, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    (grandchild,) = psutil.Process(process.pid).children()
    Started(("run",), process, tmp_path / "log").kill()
    psutil.wait_procs([grandchild], timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE
    process.stdout.close()


def test_a_command_that_fails_is_named_with_what_it_said(tmp_path):
    said: list[str] = []
    shell = Shell(tmp_path, random.Random(1), said.append)
    started = shell.start("rewind", "nothing", "--to", "x", code=Code())
    assert shell.wait(started) == 2
    assert "Invalid value for '--to'" in started.said
    assert said == ["$ rewind nothing --to x   (001-rewind.log, Code(strict=False, factor=1))"]


@pytest.mark.long
def test_a_short_campaign_is_right(tmp_path):
    assert commands(tmp_path, 5, 2) == 0

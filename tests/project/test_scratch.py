"""Folders that are thrown away while somebody may still write into them, and those of processes that were killed."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from rs_assets.common.scratch import hold, own_folder, scratch_folder


def test_what_comes_while_the_folder_is_removed_fails_nothing(monkeypatch):
    emptied = []

    def written_behind(path, *, dir_fd=None):
        if path == "state" and not emptied:
            # Between the look into the folder and its removal somebody writes.
            emptied.append(path)
            raise OSError(39, "Directory not empty", path)
        removed(path, dir_fd=dir_fd)

    removed = os.rmdir
    with scratch_folder("rs-test-") as folder:
        (folder / "checkpoint" / "state").mkdir(parents=True)
        monkeypatch.setattr(shutil.os, "rmdir", written_behind)
    assert emptied == ["state"]
    assert not folder.exists()


def failing(seen):
    with scratch_folder("rs-test-") as folder:
        (folder / "file").write_text("rest")
        seen.append(folder)
        raise ZeroDivisionError


def test_the_folder_is_gone_behind_an_error_too():
    seen = []
    with pytest.raises(ZeroDivisionError):
        failing(seen)
    assert not seen[0].exists()


# A process that has a folder, says which one, and lives until its input ends; its child shares the lock, as Spark does.
LIVES = """
import subprocess, sys
from rs_assets.common.scratch import new_folder, own_folder
folder = new_folder("rs-test-")
(folder / "file").write_text("rest")
child = subprocess.Popen([sys.executable, "-c", "input()"], pass_fds=(own_folder().handle,))
print(folder, child.pid, flush=True)
sys.stdin.readline()
child.kill()
child.wait()
"""


@pytest.fixture
def process(tmp_path):
    """A process with a folder in `tmp_path`, the folder, and its child."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", LIVES], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        folder, child = started.stdout.readline().split()
        yield started, Path(folder), psutil.Process(int(child))
        started.kill()


def a_later_start(place):
    """A folder that a later process makes there, and those that are there while it lives."""
    held = hold("rs-", place)
    there = sorted(place.iterdir())
    held.end()
    return held.folder, there


def test_the_folder_of_a_process_ends_with_it(process, tmp_path):
    started, folder, _ = process
    assert (folder / "file").exists()
    started.stdin.close()
    assert started.wait() == 0
    assert list(tmp_path.iterdir()) == []


def test_a_later_process_removes_the_folder_of_a_killed_one_once_its_children_are_gone(process, tmp_path):
    started, folder, child = process
    assert len(a_later_start(tmp_path)[1]) == 2
    started.kill()
    started.wait()
    assert len(a_later_start(tmp_path)[1]) == 2
    assert folder.exists()
    child.kill()
    psutil.wait_procs([child])
    own, there = a_later_start(tmp_path)
    assert there == [own]


def test_links_files_and_other_folders_are_left_alone(tmp_path):
    (tmp_path / "target").mkdir()
    (tmp_path / "rs-link.held").symlink_to(tmp_path / "target")
    (tmp_path / "rs-file.held").write_text("")
    (tmp_path / "rs-channel-of-an-earlier-version").mkdir()
    _, there = a_later_start(tmp_path)
    assert len(there) == 5
    assert len(list(tmp_path.iterdir())) == 4


def test_a_folder_that_another_process_removed_before_it_was_locked_is_made_again(tmp_path, monkeypatch):
    made = []

    def taken(**wanted):
        made.append(mkdtemp(**wanted))
        if len(made) == 1:
            Path(made[0]).rmdir()
        return made[-1]

    mkdtemp = tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", taken)
    held = hold("rs-", tmp_path)
    assert [str(held.folder)] == made[1:]
    held.end()


def test_after_a_clean_up_of_temporary_files_there_is_a_new_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first = own_folder()
    shutil.rmtree(first.folder)
    with scratch_folder("rs-test-") as folder:
        assert folder.parent == own_folder().folder != first.folder
    own_folder().end()

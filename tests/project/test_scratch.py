"""Folders that are thrown away while somebody may still write into them, as Spark's threads for state do."""

import os
import shutil

import pytest

from rs_assets.common.scratch import scratch_folder


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

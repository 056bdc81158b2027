"""A small file is the old one or the new one, whatever happens while it is written, a power cut included."""

import os
from pathlib import Path

import pytest

from rs_assets.catalog import requests
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.common.files import write_atomically
from tests.checkpoint.fabricate import FakeQuery


@pytest.fixture
def calls(monkeypatch):
    """What is asked of the disk, in order."""
    done = []
    fsync, replace = os.fsync, Path.replace

    def synced(handle):
        done.append(("sync", Path(f"/proc/self/fd/{handle}").resolve()))
        fsync(handle)

    def replaced(path, target):
        done.append(("rename", Path(target)))
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    return done


def check(calls, file):
    """The content is on the disk before it has its name, and the name is on the disk at the end."""
    at = calls.index(("rename", file))
    assert calls[at - 1][0] == "sync"
    assert calls[at - 1][1].parent == file.parent
    assert calls[at + 1] == ("sync", file.parent)


def test_the_content_is_on_the_disk_before_the_name(tmp_path, calls):
    file = tmp_path / "a.json"
    write_atomically(file, b"old")
    write_atomically(file, b"new")
    assert file.read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    check(calls, file)


def test_a_heartbeat_does_not_wait_for_the_disk(tmp_path, calls):
    write_atomically(tmp_path / "beat", b"1", durable=False)
    assert [kind for kind, _ in calls] == ["rename"]


def test_what_fails_leaves_the_old_content_and_nothing_beside_it(tmp_path, monkeypatch):
    file = tmp_path / "a.json"
    write_atomically(file, b"old")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        write_atomically(file, b"new")
    assert file.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_rewritten_plan_survives_a_power_cut(tmp_path, calls):
    query = FakeQuery(tmp_path / "q").begin()
    query.batch(0)
    CheckpointLog(query.checkpoint).go_on_at("file", '{"logOffset":7}')
    check(calls, query.checkpoint / "offsets" / "0")


def test_where_the_folder_cannot_be_reached_nobody_has_asked(tmp_path):
    (tmp_path / "home").write_text("a file where the mount was")
    assert requests.asked(tmp_path / "home" / "job", "stop") is None
    (tmp_path / "stop.wanted").mkdir()
    assert requests.asked(tmp_path, "stop") == {"id": "unknown", "reason": "unknown"}


def test_a_request_survives_a_power_cut(tmp_path, calls):
    requests.ask(tmp_path, "stop", reason="a rescale")
    check(calls, tmp_path / "stop.wanted")

"""The recorder sees every change of a file, and what it keeps at a point is what a SIGKILL there leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from tests.torture.gate import Gate, environment
from tests.torture.recorder import Point, Recorder, ShimError, compile_shim
from tests.torture.trees import Vault, digest

# Files as Python makes them, and a Delta table as Rust does.
PROGRAM = """
import os, socket, sys
from pathlib import Path
import pyarrow as pa
from deltalake import write_deltalake

def mark(what):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ["RS_TORTURE_SOCKET"])
        connection.send(f"mark\\n{what}\\nsmall\\n".encode())
        connection.recv(1)

root = Path(sys.argv[1])
mark("begin")
(root / "folder").mkdir()
(root / "folder" / "file").write_text("something")
(root / "folder" / "file").rename(root / "folder" / "other")
write_deltalake(str(root / "table"), pa.table({"n": [1]}))
write_deltalake(str(root / "table"), pa.table({"n": [2]}), mode="append")
(root / "folder" / "other").unlink()
(root / "folder").rmdir()
mark("end")
"""


@pytest.fixture
def work(tmp_path):
    """A folder with the shim; a machine without a C compiler has none of these tests."""
    folder = tmp_path / "work"
    folder.mkdir()
    try:
        compile_shim(folder)
    except ShimError as error:
        pytest.skip(str(error))
    return folder


def watched(work, root, kill_at=None):
    root.mkdir()
    recorder = Recorder(root, Vault(work / "vault"), work, kill_at=kill_at)
    with recorder.listening():
        recorder.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(root)],
            env={**os.environ, **recorder.environment},
            start_new_session=True,
        )
        recorder.process.wait(timeout=120)
    assert not recorder.missed
    return recorder


def test_every_change_of_python_and_of_rust_is_a_crash_point(work, tmp_path):
    recorder = watched(work, tmp_path / "root")
    points = [crash.point for crash in recorder.crashes]
    names = {(point.kind, point.path) for point in points}
    assert {
        ("mkdir", "folder"),
        ("create", "folder/file"),
        ("write", "folder/file"),
        ("rename", "folder/other"),
    } <= names
    assert {("delete", "folder/other"), ("rmdir", "folder")} <= names
    commits = [point for point in points if point.kind == "commit" and point.side == "behind"]
    assert [point.path[-6:] for point in commits] == ["0.json", "1.json"]
    assert len(points) == len(set(points))


def test_a_real_kill_leaves_what_was_recorded(work, tmp_path):
    recorded = watched(work, tmp_path / "root").crashes
    chosen = next(c for c in recorded if c.point == Point("small", "rename", "folder/other", 1, "behind"))
    (tmp_path / "root").rename(tmp_path / "done")
    recorder = watched(work, tmp_path / "root", kill_at=chosen.point)
    assert recorder.process.returncode == -signal.SIGKILL
    assert digest(recorder.vault.scan(tmp_path / "root")) == chosen.digest


def test_a_tree_is_laid_back_as_it_was(work, tmp_path):
    recorder = watched(work, tmp_path / "root")
    for crash in recorder.crashes[::7]:
        recorder.vault.lay_back(crash.tree, tmp_path / "root")
        assert digest(recorder.vault.scan(tmp_path / "root")) == crash.digest


def test_a_point_is_found_again_by_its_name():
    point = Point("batch", "commit", "out/_delta_log/00000000000000000001.json", 1, "before")
    assert Point.parse(str(point)) == point


def test_behind_a_closed_gate_nothing_changes(work, tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    program = "import pathlib, sys; [pathlib.Path(sys.argv[1], str(n)).mkdir() for n in range(5)]"
    made = environment(work, root, work / "shim.so")
    gate = Gate(work / "gate")
    gate.close_at(3)
    with suppress(subprocess.CalledProcessError):
        subprocess.run(
            [sys.executable, "-c", program, root], env={**os.environ, **made}, check=True, capture_output=True
        )
    assert sorted(path.name for path in root.iterdir()) == ["0", "1"]
    gate.open()
    subprocess.run(
        [sys.executable, "-c", program.replace("range(5)", "(7,)"), root], env={**os.environ, **made}, check=True
    )
    assert (root / "7").exists()

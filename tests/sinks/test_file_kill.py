"""SIGKILL at each file operation of a commit: a reader sees all files of the batch or none, and then each row once."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Forks once for each operation below the folder, kills the child there, and looks at what readers see.
PROGRAM = r"""
import os, signal, sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rs_assets.connectors.files import written
from rs_assets.connectors.files.form import FileForm
from rs_assets.connectors.files.writer import FileWriter
from rs_assets.connectors.sink import BatchMark

root, form = Path(sys.argv[1]), eval(sys.argv[2])
written._prepared = lambda batch, form: batch
LINES = {"json": '{"n":1}\n', "csv": 'n,t\n1,"a\nb"\n', "text": "one\n"}


class Frame:
    columns = ("n", "t")
    write = property(lambda self: self)
    options = lambda self, **_: self
    partitionBy = options_of = lambda self, *_: self

    def __getattr__(self, name):
        def save(path):
            for part in range(2):
                folder = Path(path, *(f"{key}={part}" for key in form.partition_by))
                folder.mkdir(parents=True, exist_ok=True)
                file = folder / f"part-{part}.{name}"
                if name == "parquet":
                    pq.write_table(pa.table({"n": [1]}), file)
                else:
                    file.write_text(LINES[name])
                (folder / f".part-{part}.{name}.crc").touch()
            Path(path, "_SUCCESS").touch()
        return save


def commit(path, batch):
    writer, mark = FileWriter("out", str(path), form), BatchMark("p1", 1, "rows", batch)
    writer.last_committed(mark)
    if not writer.committed(mark):
        assert writer.stage(Frame(), mark).commit() == 2


def seen(path):
    return sum(written.rows_in(file, form) for file in path.glob("batch=*/**/part-*"))


def killed(path, at):
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    left = [at]

    def watch(event, args):
        if event.startswith(("os.", "open", "shutil.", "pathlib.")) and any(str(path) in str(arg) for arg in args):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    commit(path, 1)
    os._exit(0)


at = 1
while True:
    path = root / str(at)
    commit(path, 0)
    died = killed(path, at)
    assert seen(path) in ((2, 4) if died else (4,)), (at, seen(path))
    commit(path, 1)
    commit(path, 1)
    assert seen(path) == 4, at
    files = {file.name for file in path.glob("batch=*/*") if file.is_file()}
    assert not [name for name in files if name.startswith("_SUCCESS") or name.endswith(".crc")], files
    if not died:
        break
    at += 1
print(at)
"""


@pytest.mark.parametrize(
    "form",
    [
        "FileForm(format='csv', compression='zstd', partition_by=('t',))",
        "FileForm(format='parquet')",
        pytest.param("FileForm(compression='zstd')", marks=pytest.mark.long),
        pytest.param("FileForm(format='text')", marks=pytest.mark.long),
    ],
)
def test_a_kill_at_any_file_operation_leaves_a_batch_whole_or_unseen(tmp_path, form):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), form], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 20, "operations were met"

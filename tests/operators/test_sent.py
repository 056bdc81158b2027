"""Functions in workers: they are those of the driver, whatever became of the files of their modules since."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

FUNCTIONS = """
import helping

def tagged(row):
    return {{**row, "v": {version}, "more": helping.more()}}
"""
HELPING = "def more():\n    return {version}\n"
# Pickles a function, as a driver does; it has imported it before the file is changed.
DRIVER = """
import sys, pickle
from rs_assets import MemoryChannel, StreamBuilder
import functions
stream = StreamBuilder.data_stream("a", "b").from_memory(MemoryChannel(schema="id bigint"))
stream.map(functions.tagged, schema="id bigint, v bigint, more bigint").to_memory(MemoryChannel()).build()
print("ready", flush=True)
sys.stdin.readline()
from pyspark import cloudpickle
from rs_assets.compile.python.sent import sent
both = [functions.tagged, lambda row: functions.tagged(row)]
sys.stdout.buffer.write(cloudpickle.dumps(sent(both, *both)))
"""
# Loads them one after the other, as a worker does that serves several tasks.
WORKER = """
import pickle, sys
for name in sys.argv[1:]:
    file, _, edit = name.partition("=")
    if edit:
        exec(open(edit).read())
        continue
    try:
        print([call({"id": 1}) for call in pickle.load(open(file, "rb"))])
    except Exception as error:
        print(type(error).__name__, error)
"""


class Project:
    """A folder of modules, and processes that import them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.times = 0

    def write(self, name: str, text: str) -> None:
        self.times += 10
        file = self.folder / name
        file.write_text(text)
        # Python looks at seconds only.
        os.utime(file, (self.times, self.times))

    def sent(self, name: str, edit: Callable[[], None] = lambda: None) -> Path:
        """What a driver sends that has imported the modules before the `edit`."""
        driver = self._process([DRIVER], stdin=subprocess.PIPE)
        assert driver.stdin is not None
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"ready\n"
        edit()
        content, _ = driver.communicate(b"\n")
        (self.folder / name).write_bytes(content)
        return self.folder / name

    def worked(self, *given: object) -> list[str]:
        told, _ = self._process([WORKER, *map(str, given)]).communicate()
        return told.decode().splitlines()

    def _process(self, given: list[str], **settings: int) -> subprocess.Popen[bytes]:
        paths = os.pathsep.join([str(self.folder), *sys.path])
        environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", *given]
        return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, **settings)  # type: ignore[call-overload,no-any-return]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.write("functions.py", FUNCTIONS.format(version=1))
    made.write("helping.py", HELPING.format(version=1))
    return made


def result(v: int, more: int) -> str:
    return str([{"id": 1, "v": v, "more": more}] * 2)


def test_a_worker_runs_no_other_code_than_the_process_that_has_sent_it(project: Project) -> None:
    def edit(**versions: int) -> None:
        for name, text in (("functions", FUNCTIONS), ("helping", HELPING)):
            if name in versions:
                project.write(f"{name}.py", text.format(version=versions[name]))

    first = project.sent("first")
    assert project.worked(first, first) == [result(1, 1)] * 2
    changed = project.sent("changed", lambda: edit(helping=2))
    # A new worker has the new file, the one before has not.
    (told,) = project.worked(changed)
    assert told.startswith('RsError RS_ERROR{"class": "EngineError"')
    assert "imported other code than this process: helping changed since" in told
    assert "start the process again" in told
    # Which is what the remedy says.
    assert project.worked(project.sent("again")) == [result(1, 2)]
    edit(helping=1)
    assert project.worked(changed) == [result(1, 1)]


def test_a_worker_that_has_served_former_code_imports_the_present_one(project: Project) -> None:
    first, edits = project.sent("first"), project.folder / "edits"
    project.write("functions.py", FUNCTIONS.format(version=2))
    second = project.sent("second")
    project.write("functions.py", FUNCTIONS.format(version=1))
    edits.write_text(
        f"import os, pathlib; file = pathlib.Path({str(project.folder / 'functions.py')!r});"
        " file.write_text(file.read_text().replace('\"v\": 1', '\"v\": 2'))"
    )
    assert project.worked(first, f"={edits}", first, second, second) == [
        *[result(1, 1)] * 2,
        *[result(2, 1)] * 2,
    ]


def test_a_file_whose_functions_are_as_they_were_is_no_other_code(project: Project) -> None:
    text = FUNCTIONS.format(version=1)
    sent = project.sent("sent", lambda: project.write("functions.py", f"# mended\n{text}\n\ndef other(): ...\n"))
    assert project.worked(sent) == [result(1, 1)]


def test_a_module_that_workers_do_not_find_is_named(project: Project, tmp_path_factory: pytest.TempPathFactory) -> None:
    sent, elsewhere = project.sent("sent"), Project(tmp_path_factory.mktemp("elsewhere"))
    (told,) = elsewhere.worked(sent)
    assert "cannot import the module 'functions', which this process has imported" in told
    assert "PYTHONPATH" in told
    elsewhere.folder = project.folder
    assert elsewhere.worked(sent) == [result(1, 1)]


def test_what_was_sent_is_itself_in_the_process_that_has_sent_it() -> None:
    from rs_assets.compile.python.sent import sent

    assert pickle.loads(pickle.dumps(sent(len, len)))([1, 2]) == 2

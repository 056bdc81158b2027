"""Capture on the command line: the test that it writes runs in the project, and fails once the code is changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from rs_assets import Home
from rs_assets.runtime.options import RunOptions
from rs_assets.spark.driver import SparkDriver
from tests.dagster.projects import call, imported_project

MODULE = """
from rs_assets import StreamBuilder
ROWS = [{'id': 1, 'user': 'ada', 'ms': 12}, {'id': 2, 'user': 'bob', 'ms': 120}]
def slow(job, least):
    hits = StreamBuilder.data_stream('shop', job).from_array(ROWS, name='read')
    return hits.filter(f'ms > {least}').to_delta(job, name='out').build()
pipeline = slow('kept', 100)
OTHERS = [slow('changed', 100)]
"""
HERE = Path(__file__).parents[3]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: SparkDriver) -> ModuleType:
    """The module of a project with two pipelines, which have run."""
    made = imported_project(tmp_path, monkeypatch, driver, module="captured_hits", code=MODULE)
    for pipeline in (made.pipeline, *made.OTHERS):
        pipeline.run(RunOptions(home=Home.default(), driver=driver))
    return made


@pytest.mark.slow
def test_the_written_test_passes_and_fails_once_the_code_is_changed(project: ModuleType, tmp_path: Path) -> None:
    code, text = call("capture", "kept")
    assert (code, text.splitlines()[0]) == (
        0,
        "shop.kept: batch 0: 2 records, 1 expected rows in tests/captured/kept_0",
    )
    assert (
        text.splitlines()[-1]
        == "  look at the records before they come into a repository: they are those of production"
    )
    assert call("capture", "changed", "--batches", "0..0", "--name", "other")[0] == 0
    written = tmp_path / "tests" / "captured"
    assert "from captured_hits import OTHERS\n" in (written / "other" / "test_other.py").read_text()
    assert "    replay(OTHERS[0], Path(__file__).parent)\n" in (written / "other" / "test_other.py").read_text()
    module = tmp_path / "captured_hits.py"
    module.write_text(module.read_text().replace("'changed', 100", "'changed', 10"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(written)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(tmp_path)])},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "batch 0, output out: 0 missing, 1 not expected\n" in done.stdout
    assert '+ {"id": 1, "ms": 12, "user": "ada"}' in done.stdout


@pytest.mark.long
def test_masked_records_have_no_text_of_before_and_rows_of_a_replay(project: ModuleType, tmp_path: Path) -> None:
    code, text = call("capture", "kept", "--mask", "user", "--json", "--into", "elsewhere")
    found = json.loads(text)
    assert (code, found["expected"], found["masked"], found["folder"]) == (
        0,
        1,
        ["user"],
        str(tmp_path / "elsewhere" / "kept_0"),
    )
    texts = [file.read_text() for file in Path(found["folder"]).rglob("*") if file.is_file()]
    assert not [each for each in texts if "ada" in each or "bob" in each]
    (row,) = map(json.loads, (Path(found["folder"]) / "expected" / "000000.out.jsonl").read_text().splitlines())
    assert (row["id"], len(row["user"])) == (2, 16)


def test_a_wrong_choice_of_batches_is_refused_and_a_right_one_is_taken(project: ModuleType) -> None:
    code, text = call("capture", "kept", "--batches", "1-2")
    assert (code, "--batches must be FIRST or FIRST..LAST, not '1-2'" in text) == (1, True)
    assert "remedy: --batches 12..14" in text
    code, text = call("capture", "kept", "--batches", "0")
    assert (code, "shop.kept: batch 0:" in text) == (0, True)

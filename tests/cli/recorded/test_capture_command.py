"""Capture on the command line and in Dagster: its test runs in the project, and fails once the code is changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from dagster import DagsterInstance

from rs_assets import Home
from rs_assets.dagster.definitions_of import build_definitions
from rs_assets.errors import StepError
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
        "shop.kept: batch 0: 2 records, 1 expected row in tests/captured/kept_0",
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


def test_a_replay_that_fails_leaves_no_folder(
    project: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise StepError("a step has failed")

    monkeypatch.setattr("rs_assets.testing.captured.replay", fails)
    code, text = call("capture", "kept", "--expect", "replay")
    assert (code, "a step has failed" in text) == (1, True)
    assert not (tmp_path / "tests" / "captured" / "kept_0").exists()


def test_the_upkeep_job_captures_a_batch_and_observes_its_folder(project: ModuleType, tmp_path: Path) -> None:
    job = build_definitions([project.pipeline]).resolve_job_def("shop_kept_upkeep")

    def observed(instance: DagsterInstance, **settings: object) -> dict[str, object]:
        config = {"ops": {"upkeep": {"config": {"capture": settings}}}}
        done = job.execute_in_process(instance=instance, run_config=config)
        (seen,) = done.get_asset_observation_events()
        observation = seen.asset_observation_data.asset_observation
        assert observation.asset_key.path[-1] == "kept"
        return {name: value.value for name, value in observation.metadata.items()}

    with DagsterInstance.ephemeral() as instance:
        shown, masked = observed(instance), observed(instance, batches=[0], mask=["user"], into="masked", name="again")
    folder = tmp_path / "tests" / "captured" / "kept_0"
    assert (shown["folder"], shown["test"]) == (str(folder), str(folder / "test_kept_0.py"))
    assert (shown["batches"], shown["records"], shown["expected"], shown["committed"]) == ("0", 2, 1, True)
    assert "from captured_hits import pipeline\n" in (folder / "test_kept_0.py").read_text()
    assert (masked["folder"], masked["records"], masked["expected"]) == (str(tmp_path / "masked" / "again"), 2, 0)
    assert not [file for file in (tmp_path / "masked").rglob("*") if file.is_file() and "ada" in file.read_text()]


def test_the_upkeep_job_fails_if_there_is_no_such_batch(project: ModuleType, tmp_path: Path) -> None:
    job = build_definitions([project.pipeline]).resolve_job_def("shop_kept_upkeep")
    with DagsterInstance.ephemeral() as instance:
        config = {"ops": {"upkeep": {"config": {"capture": {"batches": [0, 7]}}}}}
        done = job.execute_in_process(instance=instance, run_config=config, raise_on_error=False)
        (failure,) = [event for event in done.all_events if event.is_step_failure]
    assert "name batches that are recorded, the first one first: 0 to 0" in str(failure.event_specific_data.error)
    assert not (tmp_path / "tests").exists()

"""A test or a trial of a pipeline leaves alone what runs of it have: catalog, leases, savepoints and outputs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rs_assets import Home, Pipeline, StreamBuilder
from rs_assets.runtime.options import RunOptions
from rs_assets.spark.driver import SparkDriver
from rs_assets.testing import PipelineDriver, run_op

ROWS = [{"id": 1}, {"id": 2}]
# What an environment may put elsewhere than into the home.
ELSEWHERE = ("RS_CATALOG", "RS_LEASES", "RS_SAVEPOINTS", "RS_DEAD_LETTERS")
Way = Callable[[Pipeline, SparkDriver], list[dict[str, Any]]]


def kept(folder: Path) -> Pipeline:
    begin = StreamBuilder.data_stream("apart", "kept").from_array(ROWS, name="read")
    return begin.to_delta(str(folder / "out"), name="out").build()


def driven(pipeline: Pipeline, driver: SparkDriver) -> list[dict[str, Any]]:
    with PipelineDriver(pipeline, spark=driver) as running:
        running.step()
        return running.take()


def tried(pipeline: Pipeline, driver: SparkDriver) -> list[dict[str, Any]]:
    return [*pipeline.try_(ROWS)["out"]]


@pytest.mark.long
def test_the_op_of_a_step_leaves_alone_what_runs_have(tmp_path: Path, driver: SparkDriver, elsewhere: None) -> None:
    options = RunOptions(home=Home(tmp_path / "home"), driver=driver)
    kept(tmp_path).run(options)
    before = files(tmp_path)
    assert run_op(kept(tmp_path), "read").rows == ROWS
    assert files(tmp_path) == before


def files(root: Path) -> dict[str, str]:
    every = (path for path in root.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in every}


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ELSEWHERE:
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("RS_UPLOAD", "1")


@pytest.mark.parametrize("way", [driven, tried])
def test_a_trial_of_a_pipeline_that_has_run_changes_nothing_of_it(
    tmp_path: Path, driver: SparkDriver, elsewhere: None, way: Way
) -> None:
    options = RunOptions(home=Home(tmp_path / "home"), driver=driver)
    kept(tmp_path).run(options)
    kept(tmp_path).savepoint(options)
    before = files(tmp_path)
    assert way(kept(tmp_path), driver) == ROWS
    assert files(tmp_path) == before


@pytest.mark.parametrize("way", [driven, tried])
def test_a_pipeline_that_was_tried_before_its_first_run_begins(
    tmp_path: Path, driver: SparkDriver, elsewhere: None, way: Way
) -> None:
    assert way(kept(tmp_path), driver) == ROWS
    assert kept(tmp_path).run(RunOptions(home=Home(tmp_path / "home"), driver=driver)).rows_out == 2


def test_the_output_of_a_test_is_not_asked_who_has_written_it(tmp_path: Path, driver: SparkDriver) -> None:
    kept(tmp_path).run(RunOptions(home=Home(tmp_path / "home"), driver=driver))
    before = files(tmp_path / "out")
    assert driven(kept(tmp_path), driver) == ROWS
    assert files(tmp_path / "out") == before


def test_a_home_that_is_apart_has_all_of_its_parts_in_its_folder(tmp_path: Path, elsewhere: None) -> None:
    home = Home(tmp_path / "home", apart=True)
    parts = [home.catalog, home.leases, home.savepoints, home.dead_letters, home.deployments]
    assert all(Path(str(part)).is_relative_to(home.root) for part in parts)
    assert not Path(str(Home(tmp_path / "home").catalog)).is_relative_to(home.root)
    options = RunOptions(home=Home(tmp_path / "home")).apart()
    assert (options.home, options.savepoints.upload, options.checkpoint_storage) == (home, False, "memory")

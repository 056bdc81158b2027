"""Redrive on the command line and in Dagster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dagster import DagsterInstance

from rs_assets import Home
from rs_assets.catalog.catalog import Catalog
from rs_assets.dagster.definitions_of import build_definitions
from rs_assets.runtime.options import RunOptions
from rs_assets.spark.driver import SparkDriver
from rs_assets.stream.pipeline import Pipeline
from tests.dagster.projects import call, imported_project

MODULE = """
from rs_assets import StreamBuilder
def made(condition):
    hits = StreamBuilder.data_stream('shop', 'hits').from_array([{'id': n, 'ms': n} for n in range(4)], name='read')
    return hits.expect(condition, on_fail='dead_letter', name='usual').to_delta('usual', name='out').build()
pipeline = made('ms < 3')
"""


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: SparkDriver) -> Pipeline:
    """A pipeline of a project, whose former code has run."""
    project = imported_project(tmp_path, monkeypatch, driver, module="mended_hits", code=MODULE)

    project.made("ms < 2").run(RunOptions(home=Home.default(), driver=driver))
    found: Pipeline = project.pipeline
    return found


def test_the_command_says_what_became_of_dead_letters(pipeline: Pipeline) -> None:
    code, text = call("redrive", "hits", "--plan")
    assert (code, text) == (0, "1 would be redriven into out\n1 still refused\n")
    code, text = call("redrive", "--where", "line = 3")
    assert (code, text) == (0, "1 redriven into out: 1 row, in version 1\n")
    code, text = call("redrive", "hits", "--json")
    done = json.loads(text)
    assert (code, done["letters"], done["refused"], done["sink"]) == (0, 0, 1, "out")
    assert json.loads(call("dead-letters", "hits", "--json")[1])["count"] == 1
    noted = Catalog(Home.default().catalog).rows("operations", pipeline=pipeline.name, kind="redrive")
    assert [json.loads(row["details"])["letters"] for row in noted] == [1, 0]


def test_the_upkeep_job_redrives_and_observes_the_output(pipeline: Pipeline) -> None:
    job = build_definitions([pipeline]).resolve_job_def("shop_hits_upkeep")
    with DagsterInstance.ephemeral() as instance:
        config = {"ops": {"upkeep": {"config": {"redrive": {}}}}}
        done = job.execute_in_process(instance=instance, run_config=config)
        (seen,) = done.get_asset_observation_events()
    observation = seen.asset_observation_data.asset_observation
    assert observation.asset_key.path[-1] == "usual"
    shown = {name: value.value for name, value in observation.metadata.items()}
    assert (shown["letters"], shown["rows"], shown["refused"], shown["version"]) == (1, 1, 1, 1)

"""What became of a record, on the command line and in Dagster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dagster import DagsterInstance

from rs_assets import Home, StreamBuilder
from rs_assets.dagster.definitions_of import build_definitions
from rs_assets.dagster.resources.spark import SparkResource
from rs_assets.runtime.options import RunOptions
from rs_assets.spark.driver import SparkDriver
from rs_assets.stream.pipeline import Pipeline
from tests.dagster.projects import call, imported_project

# Their canary is the example of docs/why.md.
pytestmark = pytest.mark.long

MODULE = """
from rs_assets import StreamBuilder
hits = StreamBuilder.data_stream('shop', 'hits').from_array([{'id': 1, 'ms': 12}, {'id': 2, 'ms': 120}])
pipeline = hits.filter('ms > 100', name='slow').to_delta('slow').build()
"""


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: SparkDriver) -> Pipeline:
    """A pipeline of a project, which has run."""
    project = imported_project(tmp_path, monkeypatch, driver, module="explained_hits", code=MODULE)

    made: Pipeline = project.pipeline
    made.run(RunOptions(home=Home.default(), driver=driver))
    return made


def test_the_command_shows_each_step_and_fails_if_there_is_no_record(pipeline: Pipeline) -> None:
    code, text = call("why", "--where", "id = 1")
    assert code == 0
    assert "slow   dropped   its condition is not true: ms > 100" in text
    code, text = call("why", "hits", "--where", "id > 0", "--limit", "5", "--json")
    found = {each["fields"]["id"]: [step["outcome"] for step in each["steps"]] for each in json.loads(text)}
    assert (code, found) == (0, {1: ["read", "dropped"], 2: ["read", "passed", "written"]})
    assert call("why", "--where", "id = 3")[0] == 1
    code, text = call("why")
    assert (code, "name it by where='id = 17'" in text) == (1, True)


def test_the_command_shows_the_records_of_a_row(pipeline: Pipeline) -> None:
    code, text = call("records-of", "hits", "--row", "ms=120")
    assert (code, text.splitlines()[0]) == (0, "1 row of records, in the batches since 0")
    code, text = call("records-of", "--row", "id=2", "--json")
    assert (code, [record["line"] for record in json.loads(text)["records"]]) == (0, [2])
    assert call("records-of", "--row", "id=1")[0] == 1
    code, text = call("records-of", "--row", "id")
    assert (code, "write --row page=/index" in text) == (1, True)


def test_the_upkeep_job_observes_the_explanation_on_the_source(pipeline: Pipeline) -> None:
    job = build_definitions([pipeline]).resolve_job_def("shop_hits_upkeep")
    with DagsterInstance.ephemeral() as instance:
        config = {"ops": {"upkeep": {"config": {"why": {"where": "id = 1"}}}}}
        done = job.execute_in_process(instance=instance, run_config=config)
        (seen,) = done.get_asset_observation_events()
        observation = seen.asset_observation_data.asset_observation
        assert observation.asset_key.path[-1] == "array"
        assert "dropped" in str(observation.metadata["record 1"].value)
        config["ops"]["upkeep"]["config"]["why"]["where"] = "id = 3"
        assert not job.execute_in_process(instance=instance, run_config=config, raise_on_error=False).success


def test_an_answer_about_one_of_several_sinks_is_observed_on_that_one(pipeline: Pipeline) -> None:
    hits = StreamBuilder.data_stream("shop", "parted").from_array([{"id": 1, "ms": 12}, {"id": 2, "ms": 120}])
    hits.filter("ms > 100").to_delta("slow_hits")
    parted = hits.filter("ms <= 100").to_delta("fast_hits").build()
    parted.run(RunOptions(home=Home.default(), driver=SparkResource().driver))
    job = build_definitions([parted]).resolve_job_def("shop_parted_upkeep")
    config = {"ops": {"upkeep": {"config": {"records_of": {"row": {"ms": 12}, "sink": "fast_hits_table"}}}}}
    with DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(instance=instance, run_config=config)
        seen = [each.asset_observation_data.asset_observation for each in done.get_asset_observation_events()]
        assert [each.asset_key.path[-1] for each in seen] == ["fast_hits"]


def test_the_upkeep_job_observes_the_records_of_a_row_on_the_sink(pipeline: Pipeline) -> None:
    job = build_definitions([pipeline]).resolve_job_def("shop_hits_upkeep")
    config = {"ops": {"upkeep": {"config": {"records_of": {"row": {"ms": 120}}}}}}
    with DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(instance=instance, run_config=config)
        (seen,) = done.get_asset_observation_events()
        observation = seen.asset_observation_data.asset_observation
        assert observation.asset_key.path[-1] == "slow"
        assert observation.metadata["rows"].value == 1
        # The records are lines of the log, which ends with the other values.
        told = [entry.user_message for entry in instance.all_logs(done.run_id) if entry.dagster_event is None]
        assert [text.splitlines()[0] for text in told[-2:]] == [
            "1 row of records, in the batches since 0",
            "records_of of shop.hits: rows 1",
        ]

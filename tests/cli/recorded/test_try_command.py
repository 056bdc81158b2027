"""Try on the command line and in Dagster: the current code beside the rows that a former version has written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dagster import DagsterInstance, JobDefinition

from rs_assets import Home
from rs_assets.dagster.definitions_of import build_definitions
from rs_assets.runtime.options import RunOptions
from rs_assets.spark.driver import SparkDriver
from tests.dagster.projects import call, imported_project

MODULE = """
from rs_assets import EventTimePartitions, StreamBuilder, Time
HOURS = EventTimePartitions.hourly('at', since='2026-01-01', settle=Time.minutes(0))
TIMES = ['2026-01-05 10:05:00', '2026-01-05 10:06:00', '2026-01-05 12:00:00']
ROWS = [{'id': number, 'at': at} for number, at in enumerate(TIMES, 1)]
def made(value):
    hits = StreamBuilder.data_stream('shop', 'hits').from_array(ROWS, schema='id int, at timestamp', name='read')
    return hits.with_fields(n=value).to_delta('hits', partitions=HOURS, name='out').build()
pipeline = made('id * 10')
"""
KEYS = {"keys": ["id"]}


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: SparkDriver) -> JobDefinition:
    """The upkeep job of a pipeline of a project, whose former code has run."""
    project = imported_project(tmp_path, monkeypatch, driver, module="tried_hits", code=MODULE)

    project.made("id + 18 * (id - 1)").run(RunOptions(home=Home.default(), driver=driver))
    return build_definitions([project.pipeline]).resolve_job_def("shop_hits_upkeep")


def test_the_command_and_the_upkeep_job_show_the_difference(job: JobDefinition, tmp_path: Path) -> None:
    # Of id 1 it was 1 and would be 10, of id 2 both are 20, of id 3 it was 39 and would be 30.
    code, text = call("try", "hits", "--keys", "id")
    assert (code, text.splitlines()[:3]) == (0, [
        "3 rows before, 3 after, in 3 partitions, from 1 batch",
        "only_before 0, only_after 0, changed 2",
        "  changed in n: 2",
    ])  # fmt: skip
    into = tmp_path / "difference"
    code, text = call("try", "--json", "--expect-equal", "--into", str(into))
    found = json.loads(text)
    assert (code, found["empty"], found["only_before"], found["only_after"]) == (1, False, 2, 2)
    assert (into / "_delta_log").is_dir()
    with DagsterInstance.ephemeral() as instance:
        config = {"ops": {"upkeep": {"config": {"try": dict(KEYS)}}}}
        done = job.execute_in_process(instance=instance, run_config=config)
        (seen,) = done.get_asset_observation_events()
        observation = seen.asset_observation_data.asset_observation
        shown = {name: value.value for name, value in observation.metadata.items()}
        assert observation.asset_key.path[-1] == "hits"
        assert (shown["equal"], shown["changed"], shown["partitions"]) == (False, 2, 3)
        # Of a changed row its keys and what has changed.
        assert '{"id":1,"n":1} -> {"n":10}' in str(shown["difference"])
        config["ops"]["upkeep"]["config"]["try"]["expect_equal"] = True
        failed = job.execute_in_process(instance=instance, run_config=config, raise_on_error=False)
        assert not failed.success


def test_the_command_promotes_what_was_tried_and_the_upkeep_job_does_what_is_left(job: JobDefinition) -> None:
    code = json.loads(call("try", "hits", "--json")[1])["code"]
    first = ("promote", "hits", "--rewrite-from", "2026-01-05-12:00", "--code")
    failed, text = call(*first, "another")
    assert (failed, "and another was tried" in text) == (1, True)
    done, text = call(*first, code)
    assert (done, text.splitlines()[1:]) == (0, ["2026-01-05-12:00: 1 row before, 1 now, from 1 batch, in version 1"])
    assert text.startswith(f"code {code} computes read from batch 1 on; before: ")
    found = json.loads(call("try", "hits", "--json", "--keys", "id")[1])
    assert found["changed"] == 1
    with DagsterInstance.ephemeral() as instance:
        asked = {"code": code, "rewrite_from": "2026-01-05-10:00"}
        config = {"ops": {"upkeep": {"config": {"promote": asked}}}}
        ended = job.execute_in_process(instance=instance, run_config=config)
        (seen,) = ended.get_asset_observation_events()
        shown = seen.asset_observation_data.asset_observation.metadata
    assert {name: shown[name].value for name in ("rewritten", "already", "left")} == {
        "rewritten": 2, "already": 1, "left": 0,
    }  # fmt: skip
    assert json.loads(call("try", "hits", "--json")[1])["empty"]

"""Upkeep rescales a stream whose run goes on; one that cannot is stopped and started again."""

import json
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest
from dagster import AssetKey, DagsterInstance, build_sensor_context

from rs_assets import Home, StreamBuilder, Time, TumblingWindow, build_definitions
from rs_assets.catalog import requests
from rs_assets.catalog.lease import read_lease
from rs_assets.checkpoint import manifest as manifests
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.runs import upkeep
from rs_assets.dagster.sensors import recovery_sensor, rescale_sensor, split_change_sensor
from rs_assets.dagster.sensors.rescaling import RescalePolicy
from rs_assets.errors import ConfigurationError, PipelineBusyError
from rs_assets.runtime.run.rescale_requests import Outcome
from rs_assets.runtime.run.rescaled import RescaleReport
from rs_assets.spark.driver import SparkDriver

SOURCE = AssetKey(["shop", "grown", "file"])
START = {
    "resources": {
        "rs_spark": {"config": {"share": True}},
        "rs_run": {"config": {"mode": "start", "savepoint_every_seconds": 0.0, "interval_seconds": 0.05}},
    },
    "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
}


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setenv("RS_HOME", str(tmp_path / "rs"))
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def pipeline(source):
    stream = StreamBuilder.data_stream("shop", "grown").from_file(
        source, schema="page string, ts timestamp", tail=True, name="file"
    )
    window = stream.window(TumblingWindow.of(Time.seconds(10), "ts"), name="window").group_by("page").count("n")
    return window.water_mark(Time.seconds(60)).to_data_stream().to_delta("pages").build()


@pytest.fixture
def instance(tmp_path):
    with DagsterInstance.local_temp(str(tmp_path)) as made:
        yield made


def put(source, name):
    rows = ({"page": f"p{n}", "ts": f"2026-01-01T00:00:{n:02}"} for n in range(10))
    (source / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def until(condition):
    pause, looks = threading.Event(), 0
    while not condition():
        pause.wait(0.05)
        looks += 1
        assert looks < 4000


def test_added_splits_lead_to_a_rescale_of_the_stream_whose_run_goes_on(
    pipeline, source, driver, instance, monkeypatch
):
    monkeypatch.setattr("rs_assets.dagster.resources.spark.SparkResource.driver", driver)
    definitions, home = build_definitions([pipeline]), Home.default()
    folder, done, assets = home.job("shop", "grown"), {}, StreamAssets.of(pipeline)
    put(source, "a.jsonl")

    def looked(cursor=None):
        result = split_change_sensor(assets)(build_sensor_context(instance=instance, cursor=cursor))
        for event in result.asset_events:
            instance.report_runless_asset_event(event)
        return result.cursor

    def meanwhile():
        try:
            log = folder / "g0001" / "window" / "checkpoint" / "commits" / "0"
            until(log.exists)
            cursor = looked()
            for number in range(5):
                put(source, f"s{number}.jsonl")
            looked(cursor)
            sensor = rescale_sensor(assets, RescalePolicy(splits_per_partition=2))
            request = sensor(build_sensor_context(instance=instance)).run_requests[0]
            job = definitions.resolve_job_def("shop_grown_upkeep")
            done["upkeep"] = job.execute_in_process(
                instance=instance, run_config=request.run_config, tags=request.tags, raise_on_error=False
            )
            held = read_lease(home.leases, "shop.grown")
            done["held"] = (held.run_id, held.free)
            done["resume"] = requests.asked(folder, "resume")
        finally:
            requests.ask(folder, "stop", reason="the test is over")

    thread = threading.Thread(target=meanwhile)
    thread.start()
    stream = definitions.resolve_job_def("shop_grown_start").execute_in_process(instance=instance, run_config=START)
    thread.join(timeout=60)
    assert stream.success
    assert done["upkeep"].success
    assert (done["held"], done["resume"]) == ((stream.run_id, False), None)
    assert manifests.load(folder).partitions == 3
    shown = instance.fetch_observations(SOURCE, limit=1).records[0].asset_observation
    assert (shown.description, shown.metadata["partitions"].value) == ("rescale", 3)
    assert shown.metadata["stream_run"].value == stream.run_id
    assert shown.metadata["caused_by"].value == "5 splits added, 0 removed: 6 splits"
    told = [entry.user_message for entry in instance.all_logs(stream.run_id)]
    wanted = (
        f"rescale, requested by run {done['upkeep'].run_id} (5 splits added, 0 removed: 6 splits): 2 -> 3 partitions"
    )
    assert wanted in told
    assert not getattr(recovery_sensor(assets)(build_sensor_context(instance=instance)), "run_requests", None)


REPORT = RescaleReport(pipeline="shop.grown", before=2, after=3, state_rows={"window": 4}, seconds=2.0)


@pytest.fixture
def acted(pipeline, instance, monkeypatch):
    """What the job reports for an outcome, None if it fails, and whether it has stopped the stream."""

    def act(outcome):
        stops = []

        @contextmanager
        def stopped(*_):
            stops.append(True)
            yield

        monkeypatch.setattr(upkeep, "_stopped", stopped)
        monkeypatch.setattr(upkeep, "rescale", lambda *_: REPORT)
        monkeypatch.setattr(upkeep, "rescale_running", lambda *_, **named: outcome)
        monkeypatch.setattr("rs_assets.dagster.resources.spark.SparkResource.driver", SparkDriver())
        job = build_definitions([pipeline]).resolve_job_def("shop_grown_upkeep")
        config = {"ops": {"upkeep": {"config": {"rescale": {"partitions": 3}}}}}
        made = job.execute_in_process(instance=instance, run_config=config, raise_on_error=False)
        shown = [event for event in made.get_asset_observation_events() if event.asset_key == SOURCE]
        return shown[0].asset_observation_data.asset_observation.metadata if made.success else None, bool(stops)

    return act


@pytest.mark.parametrize("gone", [False, True])
def test_stream_that_refuses_or_whose_driver_is_gone_is_stopped_for_the_rescale(acted, gone):
    refused = ConfigurationError("the state of a running stream in an object store cannot be rescaled")
    made, stopped = acted(Outcome(run_id="stream", refused=refused, gone=gone))
    assert (made["partitions"].value, "stream_run" in made, stopped) == (3, False, True)


def test_without_a_running_stream_the_stopped_pipeline_is_rescaled(acted):
    made, stopped = acted(None)
    assert (made["state_rows"].value, stopped) == (4, True)


def test_stream_that_dagster_has_not_launched_is_named_in_words(acted):
    report = replace(REPORT, waited_s=1.5)
    made, stopped = acted(Outcome(run_id="by hand", report=report))
    assert (made["stream_run"].value, made["stopped_seconds"].value, stopped) == ("by hand", 1.5, False)


def test_rescale_that_a_later_request_replaced_fails_and_stops_nothing(acted):
    refused = PipelineBusyError("another took the place")
    assert acted(Outcome(run_id="stream", refused=refused, replaced=True)) == (None, False)

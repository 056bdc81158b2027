"""Pipelines in Dagster: definitions, ops, assets, jobs, the sensor and compaction."""

import json
import os
from datetime import timedelta

import pytest
from dagster import AssetKey, AssetMaterialization, DagsterInstance, build_op_context, build_sensor_context
from deltalake import DeltaTable, write_deltalake

from rs_assets import StreamBuilder, Time, TumblingWindow, build_definitions
from rs_assets.catalog.catalog import compact_table
from rs_assets.catalog.lease import Lease
from rs_assets.common.home import Home
from rs_assets.compile.planner.context import Flow
from rs_assets.dagster.assets.checks import SOURCE_CHECKS, STATE_CHECKS
from rs_assets.dagster.assets.output_checks import OUTPUT_CHECKS
from rs_assets.dagster.assets.positions import as_records
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.resources.join import JoinResource
from rs_assets.dagster.resources.processor import ProcessorResource
from rs_assets.dagster.resources.resource_keys import RUNTIME, key_of
from rs_assets.dagster.resources.shuffle import ShuffleResource
from rs_assets.dagster.resources.sink import SinkResource
from rs_assets.dagster.resources.source import SourceResource
from rs_assets.dagster.resources.spark import SparkResource
from rs_assets.dagster.resources.step import StepResource
from rs_assets.dagster.resources.table import TableResource
from rs_assets.dagster.resources.window import WindowResource
from rs_assets.dagster.runs.ops import source_op, step_op, window_op
from rs_assets.dagster.runs.runtime import RunResource, RuntimeResource
from rs_assets.dagster.sensors import checkpoint_sensor, new_input_sensor
from rs_assets.dagster.sensors.refusals import failed_with
from rs_assets.errors import PipelineBusyError, TopologyError
from tests.dagster.shown import outdated_in, verdicts_in

SCHEMA = "page string, ts timestamp"


def lines(first, last):
    return "".join(
        json.dumps({"page": f"/{n % 2}", "ts": f"2024-01-01 00:00:{n:02d}"}) + "\n" for n in range(first, last)
    )


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(lines(0, 30))
    return path


@pytest.fixture
def pipeline(log):
    stream = StreamBuilder.data_stream("shop", "pages").from_file(log, schema=SCHEMA, tail=True, name="log")
    window = stream.filter("page <> '/x'").window(TumblingWindow.of(Time.seconds(10), "ts"), name="pages")
    return window.group_by("page").count("n").to_data_stream().to_delta("pages", name="table").build()


def config(tmp_path, **run):
    return {
        "resources": {
            "rs_spark": {"config": {"share": True}},
            "rs_run": {"config": {"home": str(tmp_path / "rs"), **run}},
        },
        "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
    }


def test_should_give_each_step_an_asset_by_family_with_its_dependencies(pipeline):
    graph = build_definitions([pipeline]).resolve_asset_graph()
    keys = {key.to_user_string(): graph.get(key) for key in graph.get_all_asset_keys()}
    assert {name: node.group_name for name, node in keys.items()} == {
        "shop/pages/log": "shop_pages",
        "shop/pages/pages_state": "shop_pages",
        "shop/pages/pages": "shop_pages",
    }
    assert {key.to_user_string() for key in keys["shop/pages/pages"].parent_keys} == {"shop/pages/pages_state"}
    assert {key.to_user_string() for key in keys["shop/pages/pages_state"].parent_keys} == {"shop/pages/log"}
    assert keys["shop/pages/pages"].kinds == {"table", "deltalake"}


def test_should_refuse_two_pipelines_of_one_name(pipeline):
    with pytest.raises(TopologyError, match="two pipelines are called shop.pages"):
        build_definitions([pipeline, pipeline])


def test_should_materialize_only_what_data_went_through(pipeline, log, tmp_path, driver):
    job = build_definitions([pipeline]).resolve_job_def("shop_pages_run")
    with DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(run_config=config(tmp_path), instance=instance)
        events = {event.asset_key.to_user_string(): event for event in done.get_asset_materialization_events()}
        assert set(events) == {"shop/pages/log", "shop/pages/pages_state", "shop/pages/pages"}
        found = {name: event.materialization.metadata for name, event in events.items()}
        assert found["shop/pages/log"]["rows_in"].value == 30
        assert [row.data["split"] for row in found["shop/pages/log"]["offsets"].records] == [log.name]
        assert found["shop/pages/log"]["offsets"].records[0].data["offset"] == f"line 30, byte {log.stat().st_size:,}"
        assert found["shop/pages/pages"]["dagster/row_count"].value == 4
        columns = found["shop/pages/pages"]["dagster/column_schema"].value.columns
        assert [column.name for column in columns] == ["page", "n", "start_time", "end_time", "fire_time"]
        assert found["shop/pages/pages_state"]["watermark"].value > 0
        # The sensor does not report it again: what depends on the table would start twice, and be out of sync.
        news = checkpoint_sensor(StreamAssets.of(pipeline))(build_sensor_context(instance=instance))
        assert told_of(news) == []

        again = job.execute_in_process(run_config=config(tmp_path), instance=instance)
        assert again.success
        assert list(again.get_asset_materialization_events()) == []

        with log.open("a") as file:
            file.write(lines(30, 45))
        third = job.execute_in_process(run_config=config(tmp_path), instance=instance)
        assert len(list(third.get_asset_materialization_events())) == 3
    rows = DeltaTable(Home(tmp_path / "rs").table("shop", "pages")).to_pyarrow_table().to_pylist()
    assert sum(row["n"] for row in rows) == 40


def told_of(result):
    """The materializations that a sensor reports."""
    return [event for event in getattr(result, "asset_events", ()) if isinstance(event, AssetMaterialization)]


@pytest.mark.parametrize("launched", ["job", "assets"])
def test_checks_keep_their_verdicts_when_a_run_is_refused_or_finds_nothing(pipeline, tmp_path, driver, launched):
    definitions = build_definitions([pipeline])
    job = definitions.resolve_job_def("shop_pages_run")
    again = job if launched == "job" else definitions.resolve_implicit_global_asset_job_def()
    keys = [key for checks in definitions.asset_checks for key in checks.check_keys]
    assert len(keys) == len(SOURCE_CHECKS) + len(STATE_CHECKS) + len(OUTPUT_CHECKS)
    with DagsterInstance.ephemeral() as instance:
        job.execute_in_process(run_config=config(tmp_path), instance=instance)
        assert verdicts_in(instance, keys) == dict.fromkeys((key.name for key in keys), "SUCCEEDED")
        assert outdated_in(instance, keys) == []
        with Lease.acquire(Home(tmp_path / "rs").leases, pipeline="shop.pages", run_id="another"):
            refused = again.execute_in_process(run_config=config(tmp_path), instance=instance, raise_on_error=False)
        assert failed_with(instance, refused.run_id, PipelineBusyError)
        assert set(verdicts_in(instance, keys).values()) == {"SUCCEEDED"}
        assert again.execute_in_process(run_config=config(tmp_path), instance=instance).success
        assert set(verdicts_in(instance, keys).values()) == {"SUCCEEDED"}
        assert outdated_in(instance, keys) == []


def test_should_name_the_files_that_were_read(log, tmp_path, driver):
    stream = StreamBuilder.data_stream("shop", "whole").from_file(log, schema=SCHEMA, name="log")
    tens = stream.window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("page").count("n")
    job = build_definitions([tens.to_delta("tens").build()]).resolve_job_def("shop_whole_run")
    with DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(run_config=config(tmp_path), instance=instance)
        events = {event.asset_key.path[-1]: event.materialization for event in done.get_asset_materialization_events()}
    read = {"split": str(log), "offset": f"whole, {log.stat().st_size:,} bytes"}
    assert [row.data for row in events["log"].metadata["offsets"].records] == [read]
    assert [row.data for row in events["tens"].metadata["made_from"].records] == [{"source": "log", **read}]


def test_of_many_splits_the_first_are_shown():
    shown = as_records({f"{n:03}": "1" for n in range(25)}, source="log")
    assert len(shown) == 21
    assert shown[-1].data == {"source": "log", "split": "5 more", "offset": ""}


def test_should_wire_an_op_that_is_called_directly(pipeline, tmp_path, driver):
    families = {
        "source": SourceResource(),
        "step": StepResource(),
        "shuffle": ShuffleResource(),
        "window": WindowResource(),
        "join": JoinResource(),
        "table": TableResource(),
        "processor": ProcessorResource(),
        "sink": SinkResource(),
    }
    runtime = RuntimeResource(spark=SparkResource(share=True), run=RunResource(home=str(tmp_path / "rs")), **families)
    topology = pipeline.topology

    def call(factory, step, **upstream):
        needed = {key_of(topology[step].family): families[topology[step].family], RUNTIME: runtime}
        with build_op_context(instance=instance, resources=needed) as context:
            return factory(topology, topology[step])(context, **upstream)

    with DagsterInstance.ephemeral() as instance:
        log = call(source_op, "log")
        assert log["pages"].df.columns == ["page", "ts"]
        filtered = call(step_op, "filter_1", from_log=log)
        windows = call(window_op, "pages", from_filter_1=filtered)
    assert isinstance(windows["pages"], Flow)
    assert windows["pages"].df.isStreaming


def test_should_ask_for_a_run_when_input_has_grown(pipeline, log):
    sensor = new_input_sensor(StreamAssets.of(pipeline))
    first = sensor(build_sensor_context())
    assert len(first.run_requests) == 1
    assert "no new input" in sensor(build_sensor_context(cursor=first.cursor)).skip_message
    with log.open("a") as file:
        file.write(lines(30, 31))
    second = sensor(build_sensor_context(cursor=first.cursor))
    assert len(second.run_requests) == 1
    assert (
        new_input_sensor(StreamAssets.of(StreamBuilder.data_stream("a", "b").from_array([{"n": 1}]).to_print().build()))
        is None
    )


def test_should_join_small_files_without_touching_rows(tmp_path):
    import pyarrow as pa

    path = str(tmp_path / "table")
    for n in range(8):
        write_deltalake(path, pa.table({"n": [n]}), mode="append")
    done = compact_table(DeltaTable(path), retention=timedelta(days=7))
    assert (done["files_joined"], done["files_added"]) == (8, 1)
    assert sorted(DeltaTable(path).to_pyarrow_table()["n"].to_pylist()) == list(range(8))


def test_should_compact_the_outputs_of_a_pipeline(pipeline, tmp_path, monkeypatch):
    import pyarrow as pa

    monkeypatch.setenv("RS_HOME", str(tmp_path / "rs"))
    path = Home(tmp_path / "rs").table("shop", "pages")
    (tmp_path / "rs" / "tables" / "shop").mkdir(parents=True)
    for n in range(3):
        write_deltalake(path, pa.table({"n": [n]}), mode="append")
    job = build_definitions([pipeline]).resolve_job_def("shop_pages_upkeep")
    with DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(instance=instance, run_config={"ops": {"upkeep": {"config": {"compact": {}}}}})
        observed = done.get_asset_observation_events()
    assert [event.asset_key for event in observed] == [AssetKey(["shop", "pages", "pages"])]
    assert len(DeltaTable(path).file_uris()) == 1


def test_compaction_with_a_target_joins_files_up_to_that_size(pipeline, tmp_path, monkeypatch):
    import pyarrow as pa

    monkeypatch.setenv("RS_HOME", str(tmp_path / "rs"))
    path = Home(tmp_path / "rs").table("shop", "pages")
    (tmp_path / "rs" / "tables" / "shop").mkdir(parents=True)
    for _ in range(3):
        write_deltalake(path, pa.table({"bytes": [os.urandom(700_000)]}), mode="append")
    job = build_definitions([pipeline]).resolve_job_def("shop_pages_upkeep")

    def compacted(**sink):
        given = {"ops": {"upkeep": {"config": {"compact": {}}}}, "resources": {"rs_sink": {"config": sink}}}
        with DagsterInstance.ephemeral() as instance:
            job.execute_in_process(instance=instance, run_config=given)
        return len(DeltaTable(path).file_uris())

    assert (compacted(target_file_mb=1), compacted()) == (3, 1)


def test_should_load_several_pipelines_in_one_code_location(pipeline, log):
    stream = StreamBuilder.data_stream("shop", "others").from_file(log, schema=SCHEMA, tail=True, name="log")
    window = stream.window(TumblingWindow.of(Time.seconds(10), "ts"), name="pages").group_by("page").count("n")
    definitions = build_definitions([pipeline, window.to_data_stream().to_delta("others").build()])
    # What a code server does with them: a conflict of names shows only here.
    repository = definitions.get_repository_def()
    repository.load_all_definitions()
    assert {"shop_pages_upkeep", "shop_others_upkeep"} <= set(repository.job_names)


def told_by_ops(instance, run_id):
    """What each op says of itself in the log of a run, by its name."""
    found = {}
    for entry in instance.all_logs(run_id):
        event = entry.dagster_event
        if event is not None and event.event_type_value == "ENGINE_EVENT" and event.step_key:
            found[event.step_key] = event
    return found


def test_each_op_has_its_own_numbers_in_the_log_of_the_run(log, tmp_path, driver):
    log.write_text(lines(0, 30) + '{"page": "/1"}\n')
    source = StreamBuilder.data_stream("shop", "ops").from_file(
        log, schema=SCHEMA, tail=True, name="log", bad_records="dead_letter"
    )
    window = source.filter("page <> '/x'", name="kept").window(TumblingWindow.of(Time.seconds(10), "ts"), name="tens")
    pipeline = window.group_by("page").count("n").to_data_stream().to_delta("tens", name="table").build()
    job = build_definitions([pipeline]).resolve_job_def("shop_ops_run")
    with DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(run_config=config(tmp_path), instance=instance)
        found = told_by_ops(instance, done.run_id)
    said = {key.partition(".")[2]: event.message for key, event in found.items()}
    assert said["log"] == "31 rows read, 0 dead"
    assert said["kept"] == "computed in query 'tens': 2 batches"
    assert said["tens"].startswith("31 rows in, 1 dead, 2 rows of state, 0 late, watermark 2024-01-01 00:00:29")
    assert said["table"] == "4 rows written"
    assert found["shop_ops.tens"].engine_event_data.metadata["batches"].value == 2


def test_a_failure_is_shown_at_the_op_of_its_step(log, tmp_path, driver):
    def fails(row):
        raise ValueError("no")

    source = StreamBuilder.data_stream("shop", "fails").from_file(log, schema=SCHEMA, tail=True, name="log")
    pipeline = source.map(fails, schema="page string", trace=False, name="bad").to_delta("none").build()
    job = build_definitions([pipeline]).resolve_job_def("shop_fails_run")
    with DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(run_config=config(tmp_path), instance=instance, raise_on_error=False)
        failed = told_by_ops(instance, done.run_id)["shop_fails.bad"]
    assert failed.message.startswith("the run failed at this step: ")
    assert "ValueError: no" in failed.engine_event_data.error.to_string()

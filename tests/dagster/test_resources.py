"""The families' resources of a code location: from where it was built, and from the Launchpad."""

from __future__ import annotations

import runpy
from datetime import timedelta
from pathlib import Path

import pytest
from dagster import AssetKey, DagsterInstance, DagsterInvalidConfigError

from rs_assets import (
    JoinResource,
    MemoryChannel,
    ShuffleResource,
    SparkResource,
    StreamBuilder,
    WindowResource,
    build_definitions,
)
from rs_assets.dagster.assets.graph import pipeline_graph
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.runs import runtime
from rs_assets.dagster.sensors.refusals import failed_with
from rs_assets.errors import BadRecordError, ConfigurationError

PROJECT = Path(__file__).parents[2] / "resources"


def pipeline():
    return StreamBuilder.data_stream("shop", "made").from_array([{"id": 1}]).to_memory(MemoryChannel()).build()


def seen_by_a_run(resources, config, monkeypatch):
    """The partitions and the end of windows that a run is given."""
    seen = []

    def opened(self, topology, run_id):
        seen.append((self.shuffle.partitions, self.window.finish))
        raise RuntimeError("enough seen")

    monkeypatch.setattr(runtime.RuntimeResource, "_open", opened)
    job = build_definitions([pipeline()], resources=resources).resolve_job_def("shop_made_run")
    job.execute_in_process(run_config={"resources": config}, raise_on_error=False)
    return seen[0]


def test_what_a_location_says_is_the_default_of_its_runs(monkeypatch):
    resources = {
        "shuffle": ShuffleResource.configure_at_launch(partitions=7),
        "window": WindowResource.configure_at_launch(finish=True),
    }
    assert seen_by_a_run(resources, {}, monkeypatch) == (7, True)
    assert seen_by_a_run(resources, {"rs_shuffle": {"config": {"partitions": 3}}}, monkeypatch) == (3, True)
    assert seen_by_a_run(None, {}, monkeypatch) == (0, False)


def test_what_is_made_directly_is_fixed(monkeypatch):
    assert seen_by_a_run({"shuffle": ShuffleResource(partitions=5)}, {}, monkeypatch) == (5, False)


def test_a_resource_of_no_family_is_refused():
    with pytest.raises(ConfigurationError, match=r"(?s)unknown families of resources: 'sprak'.*use: spark, source"):
        build_definitions([pipeline()], resources={"sprak": SparkResource.configure_at_launch()})


def test_a_join_has_an_op_an_asset_and_a_resource_of_its_family(monkeypatch):
    job = StreamBuilder.data_stream("shop", "paid")
    one, two = (job.from_array([{"id": 1}], name=name) for name in ("one", "two"))
    made = one.join(two, on="id", within=None).to_memory(MemoryChannel()).build()
    definitions = build_definitions(
        [made],
        resources={
            "join": JoinResource.configure_at_launch(idle_timeout_seconds=5),
            "window": WindowResource.configure_at_launch(close_on_idle_seconds=6),
        },
    )
    assets = definitions.resolve_asset_graph()
    state = assets.get(AssetKey(["shop", "paid", "join"]))
    assert (state.group_name, {key.path[-1] for key in state.parent_keys}) == ("shop_paid", {"one", "two"})
    launched = definitions.resolve_job_def("shop_paid_run")
    assert "join" in {node.name for node in pipeline_graph(StreamAssets.of(made)).nodes}
    seen = []

    def opened(topology, options):
        seen.append((options.idle_timeout, options.close_on_idle))
        raise RuntimeError("enough seen")

    monkeypatch.setattr(runtime, "opened", opened)
    launched.execute_in_process(raise_on_error=False)
    assert seen[0] == (timedelta(seconds=5), timedelta(seconds=6))


def options_of_a_run(monkeypatch, config, resources=None):
    """The options of a run with this configuration of its resources in the Launchpad."""
    seen = []

    def opened(topology, options):
        seen.append(options)
        raise RuntimeError("enough seen")

    monkeypatch.setattr(runtime, "opened", opened)
    job = build_definitions([pipeline()], resources=resources).resolve_job_def("shop_made_run")
    job.execute_in_process(run_config={"resources": config}, raise_on_error=False)
    return seen[0]


def test_the_launchpad_has_what_a_run_asks_of_its_sources(monkeypatch):
    given = {"max_rows_per_batch": 7, "max_files_per_batch": 3, "bad_records": "skip", "max_line_bytes": 99}
    options = options_of_a_run(monkeypatch, {"rs_source": {"config": given}})
    assert {name: getattr(options, name) for name in given} == given
    options = options_of_a_run(monkeypatch, {})
    assert (options.max_rows_per_batch, options.max_files_per_batch, options.bad_records) == (None, None, None)


def test_the_launchpad_refuses_an_unknown_policy():
    job = build_definitions([pipeline()]).resolve_job_def("shop_made_run")
    with pytest.raises(DagsterInvalidConfigError, match="sometimes"):
        job.execute_in_process(run_config={"resources": {"rs_source": {"config": {"bad_records": "sometimes"}}}})


def test_the_environment_gives_the_defaults_of_the_launchpad(monkeypatch):
    given = {
        "RS_MAX_ROWS_PER_BATCH": "7",
        "RS_MAX_FILES_PER_BATCH": "3",
        "RS_BAD_RECORDS": "skip",
        "RS_MAX_POISONS": "5",
        "RS_CLOSE_ON_IDLE": "60",
        "RS_DELTA_CONNECTOR": "jvm",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    families = ("source", "step", "window", "sink")
    resources = {name: runpy.run_path(str(PROJECT / f"{name}.py"))[name] for name in families}
    options = options_of_a_run(monkeypatch, {"rs_source": {"config": {"max_rows_per_batch": 8}}}, resources)
    assert (options.max_rows_per_batch, options.max_files_per_batch, options.bad_records) == (8, 3, "skip")
    assert (options.max_poisons, options.close_on_idle) == (5, timedelta(minutes=1))
    assert options.connector == "jvm"
    chosen = {"rs_source": {"config": {"bad_records": "fail"}}, "rs_sink": {"config": {"delta_connector": "native"}}}
    options = options_of_a_run(monkeypatch, chosen, resources)
    assert (options.bad_records, options.connector) == ("fail", "native")


@pytest.mark.parametrize(
    ("asked", "rows", "batches"),
    [({"bad_records": "dead_letter", "max_rows_per_batch": 2}, (5, 1), 3), ({}, None, None)],
    ids=["asked", "as written"],
)
def test_a_run_reads_as_its_launchpad_says(tmp_path, monkeypatch, driver, asked, rows, batches):
    monkeypatch.setattr(SparkResource, "driver", driver)
    log = tmp_path / "log.jsonl"
    log.write_text('{"id": 1}\n{"id": 2}\n{"id": \n{"id": 4}\n{"id": 5}\n')
    source = StreamBuilder.data_stream("shop", "read").from_file(log, schema="id int", tail=True)
    job = build_definitions([source.to_delta("read").build()]).resolve_job_def("shop_read_run")
    config = {"rs_run": {"config": {"home": str(tmp_path / "rs")}}, "rs_source": {"config": asked}}
    with DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(run_config={"resources": config}, instance=instance, raise_on_error=False)
        assert failed_with(instance, done.run_id, BadRecordError) == (not asked)
    report = runtime.LAST_REPORTS.pop(done.run_id, None)
    assert report is None if rows is None else ((report.rows_in, report.rows_dead), report.batches) == (rows, batches)

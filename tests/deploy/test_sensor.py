"""The sensor of deployments, by direct evaluation: what it launches, asks for, settles and tells."""

import shutil
import time

import pytest
from dagster import (
    AssetKey,
    DagsterExecutionInterruptedError,
    DagsterInstance,
    DagsterRunStatus,
    Definitions,
    SensorResult,
    SkipReason,
    build_sensor_context,
)

from rs_assets import StreamBuilder, build_definitions, deployed_definitions
from rs_assets.catalog import lease as leases
from rs_assets.catalog import requests
from rs_assets.catalog.desired_state import request_run, write_desired_state
from rs_assets.catalog.lease import Lease
from rs_assets.common.home import Home
from rs_assets.dagster.deployed import reload
from rs_assets.dagster.deployed import sensor as sensors
from rs_assets.deploy.history import Event
from rs_assets.deploy.supervisor import Supervisor
from rs_assets.errors import CheckpointError
from tests.dagster.test_verdict import refuse
from tests.deploy.deploying import NAME, Deployed


@pytest.fixture
def deployed(tmp_path, monkeypatch):
    monkeypatch.setenv("RS_HOME", str(tmp_path / "rs"))
    monkeypatch.delenv("RS_DAGSTER_URL", raising=False)
    return Deployed(Home.default(), tmp_path / "in")


@pytest.fixture
def instance():
    with DagsterInstance.ephemeral() as made:
        yield made


class Ticks:
    """One tick after another, each with the cursor of the one before."""

    def __init__(self, instance, others=()):
        self.instance, self.cursor = instance, None
        self.definitions = deployed_definitions(others=others)

    def load(self):
        """The code location is loaded again."""
        self.definitions = deployed_definitions()

    def __call__(self):
        context = build_sensor_context(instance=self.instance, cursor=self.cursor)
        result = self.definitions.resolve_sensor_def("rs_deployments")(context)
        if isinstance(result, SensorResult):
            self.cursor = result.cursor
        return result

    def run(self, request, status):
        """The run that the daemon makes of a request."""
        job = self.definitions.resolve_job_def("rs_deployed")
        return self.instance.create_run_for_job(
            job, run_config=request.run_config, tags={**job.run_tags, **request.tags}, status=status
        )


def said(result):
    """Why nothing was launched."""
    return result.skip_reason.skip_message


@pytest.fixture
def ticks(deployed, instance):
    return Ticks(instance)


def note(deployed, version, happened, **details):
    deployed.history.note(Event(pipeline=NAME, version=version, event=happened, summary=happened, details=details))


def test_should_launch_ask_and_stop(deployed, ticks):
    assert said(ticks()) == "nothing is deployed"
    deployed.insert(1, text=deployed.text())
    [request] = ticks().run_requests
    assert request.run_config == {"ops": {"deployed": {"config": {"pipeline": NAME}}}}
    run = ticks.run(request, DagsterRunStatus.STARTED)
    assert "its run begins" in said(ticks())
    lease = Lease.acquire(deployed.home.leases, pipeline=NAME, run_id=run.run_id)
    note(deployed, 1, "committed")
    assert "version 1 committed" in said(ticks())
    folder = deployed.home.job("shop", "totals")
    assert requests.asked(folder, "change") is None
    # Two between ticks: the newest counts.
    deployed.insert(2, text=deployed.text(least=1))
    deployed.insert(3, state="stopped")
    assert "version 3 is new" in said(ticks())
    assert requests.asked(folder, "change") is not None
    assert not ticks().run_requests
    assert lease.token == 1


def test_should_note_that_what_did_not_run_is_stopped(deployed, ticks):
    deployed.insert(1, text=deployed.text())
    deployed.insert(2, state="dropped")
    assert "nothing ran" in said(ticks())
    assert deployed.events(2) == ["dropped"]
    assert not ticks().run_requests


def test_should_refuse_a_broken_version_without_a_run(deployed, ticks):
    deployed.insert(1, text="SELECT 1 FROM")
    assert not ticks().run_requests
    assert deployed.events(1) == ["refused"]
    assert "line" in deployed.told(1)[0]
    assert "no version runs" in said(ticks())
    deployed.insert(2, text=deployed.text())
    assert len(ticks().run_requests) == 1


def test_should_refuse_names_that_others_have(deployed, instance):
    code = StreamBuilder.data_stream("shop", "totals").from_array([{"n": 1}]).to_delta("ones").build()
    ticks = Ticks(instance, others=[code])
    deployed.insert(1, text=deployed.text())
    assert not ticks().run_requests
    assert "another pipeline is called shop_totals" in deployed.told(1)[0]


def test_should_leave_out_what_is_called_like_a_pipeline_of_code_that_nobody_named(deployed, instance):
    """Without that the location could not be loaded."""
    deployed.insert(1, text=deployed.text(), pipeline="shop.alike")
    code = StreamBuilder.data_stream("shop", "alike").from_array([{"n": 1}]).to_delta("totals").build()
    merged = Definitions.merge(build_definitions([code]), deployed_definitions())
    assert "shop_alike_run" in [job.name for job in merged.get_repository_def().get_all_jobs()]
    assert not Ticks(instance)().run_requests
    [told] = deployed.history.of("shop.alike")
    assert "another pipeline is called shop_alike" in told.summary


def test_should_start_again_what_failed_and_leave_what_a_person_stopped(deployed, ticks, monkeypatch):
    deployed.insert(1, text=deployed.text())
    [request] = ticks().run_requests
    note(deployed, 1, "committed")
    failed = ticks.run(request, DagsterRunStatus.FAILURE)
    [again] = ticks().run_requests
    assert again.run_key != request.run_key
    assert "next restart" in said(ticks())
    ticks.instance.delete_run(failed.run_id)
    ended = ticks.run(request, DagsterRunStatus.SUCCESS)
    assert "by a person" in said(ticks())
    # An upkeep job has stopped it, and asks for it; another run holds the pipeline when its run begins.
    requests.ask(deployed.home.job("shop", "totals"), "resume", reason="a rescale")
    [resumes] = ticks().run_requests
    assert "by a person" in said(ticks())
    refuse(ticks.instance, ticks.run(resumes, DagsterRunStatus.STARTED))
    [resumes] = ticks().run_requests
    ticks.instance.delete_run(ticks.instance.get_runs(limit=1)[0].run_id)
    assert "by a person" in said(ticks())
    deployed.insert(2, state="running")
    assert len(ticks().run_requests) == 1
    note(deployed, 2, "committed")
    ticks.instance.delete_run(ended.run_id)
    # A process that died without a word.
    started = ticks.run(request, DagsterRunStatus.STARTED)
    Lease.acquire(deployed.home.leases, pipeline=NAME, run_id=started.run_id)
    assert not ticks().run_requests
    monkeypatch.setattr(leases, "lives", lambda *_: False)
    later = time.time() + 3600
    monkeypatch.setattr(sensors.time, "time", lambda: later)
    assert ticks().run_requests[0].tags["rs/why"] == "its process ended"


def test_should_leave_a_version_that_a_person_stopped_while_it_was_started(deployed, ticks):
    """It has no event yet. A later version is started, also by a row that says the same."""
    deployed.insert(1, text=deployed.text())
    [request] = ticks().run_requests
    ticks.run(request, DagsterRunStatus.CANCELED)
    assert "stopped by a person" in said(ticks())
    deployed.insert(2, text=deployed.text())
    [again] = ticks().run_requests
    assert again.tags["rs/begins_with"] == "2"


def test_should_leave_what_a_person_stopped_in_another_instance(deployed, ticks):
    deployed.insert(1, text=deployed.text())
    note(deployed, 1, "committed")
    folder = deployed.home.job("shop", "totals")
    wish = request_run(folder, "a run of another instance")
    assert len(ticks().run_requests) == 1
    write_desired_state(folder, wish.stop(now=time.time()))
    assert "stopped by a person" in said(ticks())
    deployed.insert(2, text=deployed.text())
    assert len(ticks().run_requests) == 1


@pytest.mark.parametrize("canceling", [True, False])
@pytest.mark.parametrize("twice", [False, True])
def test_should_end_a_run_that_is_interrupted_while_it_starts_as_canceled_or_failed(
    deployed, ticks, instance, monkeypatch, canceling, twice
):
    """By a person, or by the signal of a machine that is shut down: then it is launched again.

    A second signal may come while it stops.
    """
    deployed.insert(1, text=deployed.text())
    [request] = ticks().run_requests

    def interrupted(*_):
        if canceling:
            instance.report_run_canceling(instance.get_runs(limit=1)[0])
        raise DagsterExecutionInterruptedError

    monkeypatch.setattr(Supervisor, "_start_chosen", interrupted)
    if twice:
        monkeypatch.setattr(Supervisor, "stop", interrupted)
    job = ticks.definitions.resolve_job_def("rs_deployed")
    done = job.execute_in_process(
        instance=instance, run_config=request.run_config, tags=dict(request.tags), raise_on_error=False
    )
    status = instance.get_run_by_id(done.run_id).status
    assert status == (DagsterRunStatus.CANCELED if canceling else DagsterRunStatus.FAILURE)
    assert len(ticks().run_requests) == (not canceling)


def test_should_show_assets_of_the_version_that_runs_and_tell_what_became_of_others(deployed, ticks, monkeypatch):
    asked = []
    monkeypatch.setattr(sensors, "ask_for_reload", lambda location: asked.append(location) or "")
    deployed.insert(1, text=deployed.text())
    ticks()
    assert len(asked) == 1
    ticks.load()
    keys = {spec.key for spec in ticks.definitions.resolve_all_asset_specs()}
    assert AssetKey(["shop", "totals", "totals"]) in keys
    note(deployed, 1, "committed", kept=["state of by_page_group"])
    deployed.insert(2, text="SELECT")
    told = [event.description for event in ticks().asset_events]
    assert [text.partition(":")[0] for text in told] == ["version 1 committed", "version 2 refused"]
    assert not ticks().asset_events
    ticks.load()
    described = {spec.key.path[-1]: spec.description for spec in ticks.definitions.resolve_all_asset_specs()}
    assert "\n\nDeployed version 1" in described["totals"]
    assert len(asked) == 1
    deployed.insert(3, state="dropped")
    ticks()
    assert len(asked) == 2
    ticks.load()
    assert not list(ticks.definitions.resolve_all_asset_specs())


def test_should_say_why_a_location_is_not_loaded_again(deployed, ticks, monkeypatch):
    assert "RS_DAGSTER_URL" in reload.ask_for_reload("here")
    monkeypatch.setenv("RS_DAGSTER_URL", "http://127.0.0.1:9")
    assert "does not answer" in reload.ask_for_reload("here")
    assert "which code location" in reload.ask_for_reload(None)
    monkeypatch.setenv("RS_DAGSTER_URL", "file:///etc/passwd")
    assert "does not name" in reload.ask_for_reload("here")
    deployed.insert(1, state="stopped", text=deployed.text())
    assert "reload the code location" in said(ticks())


def test_should_go_on_when_the_table_cannot_be_read(deployed, ticks):
    deployed.insert(1, text=deployed.text())
    for file in deployed.table.path.rglob("*.parquet"):
        file.unlink()
    result = ticks()
    assert isinstance(result, SkipReason)
    assert "cannot be read" in result.skip_message


def test_should_let_no_newcomer_take_the_name_of_a_pipeline_that_runs(deployed, ticks, monkeypatch):
    """`a_b.c` and `a.b_c` are one word in Dagster."""
    monkeypatch.setattr(sensors, "ask_for_reload", lambda location: "")
    deployed.insert(1, pipeline="shop_a.b", text=deployed.text())
    assert len(ticks().run_requests) == 1
    [first] = deployed.table.of("shop_a.b")
    deployed.history.note(Event.about(first, "committed", ""))
    deployed.insert(1, pipeline="shop.a_b", text=deployed.text())
    ticks()
    [told] = deployed.history.of("shop.a_b")
    # As its remedy says: another name.
    deployed.insert(1, pipeline="shop.a_c", text=deployed.text())
    assert "shop.a_c" in [request.tags["rs/pipeline"] for request in ticks().run_requests]
    deployed.insert(2, pipeline="shop.a_c", state="dropped")
    assert (told.event, "the pipeline shop_a.b is called shop_a_b in Dagster" in told.summary) == ("refused", True)
    ticks.load()
    assert {spec.key.path[0] for spec in ticks.definitions.resolve_all_asset_specs()} == {"shop_a"}
    # A name is free once its pipeline was dropped.
    deployed.insert(2, pipeline="shop_a.b", state="dropped")
    ticks()
    deployed.insert(2, pipeline="shop.a_b", text=deployed.text())
    assert [request.tags["rs/pipeline"] for request in ticks().run_requests] == ["shop.a_b"]


def test_should_heed_a_run_that_a_person_has_launched_and_one_behind_which_another_was_refused(deployed, ticks):
    deployed.insert(1, text=deployed.text())
    [request] = ticks().run_requests
    note(deployed, 1, "committed")
    runs = ticks.run(request, DagsterRunStatus.STARTED)
    Lease.acquire(deployed.home.leases, pipeline=NAME, run_id=runs.run_id)
    ticks.run(request, DagsterRunStatus.FAILURE)
    deployed.insert(2, text=deployed.text(least=1))
    assert "version 2 is new" in said(ticks())
    assert requests.asked(deployed.home.job("shop", "totals"), "change") is not None


def test_should_mark_a_run_that_a_person_has_launched(deployed, ticks, instance):
    job = ticks.definitions.resolve_job_def("rs_deployed")
    config = {"ops": {"deployed": {"config": {"pipeline": NAME}}}}
    result = job.execute_in_process(run_config=config, instance=instance, raise_on_error=False)
    assert not result.success
    assert instance.get_run_by_id(result.run_id).tags["rs/pipeline"] == NAME


def test_should_deal_with_all_others_where_one_cannot_be_dealt_with(deployed, ticks, monkeypatch):
    deployed.insert(1, pipeline="shop.a", text=deployed.text())
    deployed.insert(1, text=deployed.text())
    read = sensors.read_lease

    def lease(path, name):
        if name == "shop.a":
            raise CheckpointError("its lease cannot be read", remedy="make it readable")
        return read(path, name)

    monkeypatch.setattr(sensors, "read_lease", lease)
    assert [request.tags["rs/pipeline"] for request in ticks().run_requests] == [NAME]


def test_should_run_the_versions_of_a_table_that_was_made_anew(deployed, ticks):
    for number in (1, 2):
        deployed.insert(number, text=deployed.text(least=number))
        ticks()
        deployed.history.note(Event.about(deployed.table.of(NAME)[-1], "committed", ""))
    shutil.rmtree(deployed.table.path)
    deployed.insert(1, text=deployed.text(least=5))
    [request] = ticks().run_requests
    assert request.tags["rs/begins_with"] == "1"

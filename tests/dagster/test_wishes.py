"""What Dagster is told of a stop, and what sensors and upkeep make of runs that go on, were stopped or refused."""

import json
import threading
from dataclasses import replace
from datetime import timedelta
from functools import partial
from types import SimpleNamespace

import pytest
from dagster import (
    DagsterEvent,
    DagsterEventType,
    DagsterExecutionInterruptedError,
    DagsterInstance,
    DagsterRunStatus,
    GraphDefinition,
    ResourceDefinition,
    RunRequest,
    SkipReason,
    build_asset_check_context,
    build_op_context,
    build_sensor_context,
    graph,
    job,
    mem_io_manager,
    op,
)
from dagster._core.test_utils import freeze_time
from dagster._core.utils import make_new_run_id
from dagster._time import get_current_datetime

from rs_assets import StreamBuilder, Time, TumblingWindow, build_definitions
from rs_assets.catalog import requests
from rs_assets.catalog.desired_state import request_run
from rs_assets.catalog.lease import Lease
from rs_assets.catalog.offsets import storage_named
from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.manifest import Manifest, QueryFacts
from rs_assets.common.background import LOG, BackgroundFailures
from rs_assets.common.home import Home
from rs_assets.connectors.files.lines.offsets import dump_offsets
from rs_assets.connectors.files.lines.planner import Planner
from rs_assets.connectors.source import Lag
from rs_assets.dagster.assets.checks import checks_of
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.place import Place, place_of
from rs_assets.dagster.resources.resource_keys import IN_PROCESS
from rs_assets.dagster.resources.sink import SinkResource
from rs_assets.dagster.resources.source import SourceResource
from rs_assets.dagster.resources.spark import SparkResource
from rs_assets.dagster.runs import runtime, upkeep
from rs_assets.dagster.runs.external_runs import job_origin
from rs_assets.dagster.runs.ops import process_op, source_op
from rs_assets.dagster.runs.outcome import BY_HAND, DRAINED, UNBEGUN, UNREQUESTED
from rs_assets.dagster.runs.run_tags import PARENT
from rs_assets.dagster.runs.runtime import Ended
from rs_assets.dagster.sensors import checkpoint_sensor, new_input, new_input_sensor, recovery_sensor
from rs_assets.errors import CheckpointError, ConfigurationError, PipelineBusyError, TopologyChangedError
from rs_assets.runtime.report import RunReport
from rs_assets.runtime.run.lag import unread
from tests.checkpoint.test_catalog_size import row

REPORT = RunReport(pipeline="shop.logs", run_id="r", generation=1, seconds=1, sealed=False, queries=())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RS_HOME", str(tmp_path / "rs"))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text("{}\n")
    return tmp_path / "in"


@pytest.fixture
def pipeline(folder):
    stream = StreamBuilder.data_stream("shop", "logs").from_file(
        folder, schema="page string, ts timestamp", tail=True, name="file"
    )
    window = stream.window(TumblingWindow.of(Time.seconds(10), "ts"), name="totals").group_by("page").count("n")
    return window.to_data_stream().to_delta("pages").build()


@pytest.fixture
def instance():
    with DagsterInstance.ephemeral() as made:
        yield made


def record(instance, mode, *, step="file", error=None, canceled=False):
    """A run of a job that goes by the name of the pipeline's own, and ends as it is told to."""

    @op(name=step)
    def act(context):
        if canceled:
            context.instance.report_run_canceling(context.run)
        if error is not None:
            raise error

    @job(name=f"shop_logs_{mode}", tags={"rs/pipeline": "shop.logs", "rs/mode": mode})
    def recorded():
        act()

    return recorded.execute_in_process(instance=instance, raise_on_error=False).run_id


def created(instance, pipeline, name, *, status=DagsterRunStatus.STARTED, **settings):
    """A run of the pipeline's own job in a state, with settings of the resource `run`."""
    definition = build_definitions([pipeline]).resolve_job_def(f"shop_logs_{name}")
    config = {"resources": {"rs_run": {"config": {"mode": name, **settings}}}}
    # As Dagster does when it launches one.
    origin = job_origin(definition.name)
    tags = definition.run_tags
    return instance.create_run_for_job(
        definition, run_config=config, status=status, tags=tags, remote_job_origin=origin
    )


@pytest.fixture
def held(instance):
    """Holds the lease for a run until it is given back."""
    leases = []

    def hold(run_id="somebody"):
        lease = Lease.acquire(Home.default().leases, pipeline="shop.logs", run_id=run_id).__enter__()
        leases.append(lease)
        return lambda: lease.__exit__(None, None, None)

    yield hold
    for lease in leases:
        lease.__exit__(None, None, None)


class TestRecovery:
    def evaluate(self, pipeline, instance, cursor=None):
        return recovery_sensor(StreamAssets.of(pipeline))(build_sensor_context(instance=instance, cursor=cursor))

    def test_recovery_of_a_start_that_met_a_passing_fault_starts_it_again(self, pipeline, instance):
        failed = record(instance, "start", error=CheckpointError("for a moment"))
        assert self.evaluate(pipeline, instance).run_requests[0].tags["rs/recovers"] == failed

    def test_recovery_passes_over_a_start_that_was_refused_because_another_run_was_going(self, pipeline, instance):
        record(instance, "start", error=PipelineBusyError("another run is going"))
        assert "never started" in self.evaluate(pipeline, instance).skip_message
        failed = record(instance, "start", step="Process", error=OSError("no disk"))
        record(instance, "start", error=PipelineBusyError("another run is going"))
        [request] = self.evaluate(pipeline, instance).run_requests
        assert request.tags["rs/recovers"] == failed

    def test_a_refusal_in_the_middle_of_a_run_is_a_failure_as_others(self, pipeline, instance):
        record(instance, "start", step="Process", error=TopologyChangedError("who knows"))
        assert self.evaluate(pipeline, instance).run_requests
        record(instance, "start", error=TopologyChangedError("a step came"))
        assert "TopologyChangedError" in self.evaluate(pipeline, instance).skip_message

    def test_a_run_that_was_told_to_stop_is_not_started_again_whatever_became_of_it(self, pipeline, instance):
        record(instance, "start", step="Process", error=OSError("the drain failed"), canceled=True)
        assert isinstance(self.evaluate(pipeline, instance), SkipReason)

    def test_a_restart_goes_where_the_run_was_and_wishes_for_nothing_again(self, pipeline, instance, tmp_path):
        home = str(tmp_path / "elsewhere")
        created(
            instance,
            pipeline,
            "start",
            status=DagsterRunStatus.FAILURE,
            home=home,
            new_generation=True,
            reset_steps=["totals"],
        )
        [request] = self.evaluate(pipeline, instance).run_requests
        assert request.run_config["resources"]["rs_run"]["config"] == {"mode": "start", "home": home}


def newest_home(instance, pipeline):
    return place_of(build_sensor_context(instance=instance), pipeline.topology).home.root


class TestNewInput:
    def tick(self, pipeline, instance, cursor=None):
        return new_input_sensor(StreamAssets.of(pipeline))(build_sensor_context(instance=instance, cursor=cursor))

    def test_while_a_run_goes_on_nothing_is_asked_for_and_nothing_is_forgotten(self, pipeline, instance, folder, held):
        first = self.tick(pipeline, instance)
        give_back = held()
        for number in range(5):
            (folder / f"s{number}.jsonl").write_text("{}\n")
            assert "goes on" in self.tick(pipeline, instance, first.cursor).skip_message
        give_back()
        behind = self.tick(pipeline, instance, first.cursor)
        assert isinstance(behind.run_requests[0], RunRequest)
        assert "no new input" in self.tick(pipeline, instance, behind.cursor).skip_message

    def test_a_run_that_was_refused_as_busy_is_asked_for_again(self, pipeline, instance):
        first = self.tick(pipeline, instance)
        refused = record(instance, "run", error=PipelineBusyError("another run is going"))
        again = self.tick(pipeline, instance, first.cursor)
        assert again.run_requests[0].run_key == f"{first.cursor}:{refused}"
        record(instance, "run", error=ValueError("a bug"))
        assert "no new input" in self.tick(pipeline, instance, first.cursor).skip_message

    @pytest.mark.parametrize("status", [DagsterRunStatus.NOT_STARTED, DagsterRunStatus.STARTED], ids=lambda s: s.value)
    def test_a_run_that_does_not_hold_the_pipeline_yet_is_enough(self, pipeline, instance, status):
        created(instance, pipeline, "run", status=status)
        assert "begins or ends" in self.tick(pipeline, instance).skip_message

    def test_a_run_that_was_in_the_queue_while_the_daemon_was_away_is_enough(self, pipeline, instance, monkeypatch):
        with freeze_time(get_current_datetime() - timedelta(hours=2)):
            run = created(instance, pipeline, "run", status=DagsterRunStatus.QUEUED)
        with monkeypatch.context() as patched:
            patched.setattr(new_input, "LAUNCHED_WITHIN", timedelta())
            assert "begins or ends" in self.tick(pipeline, instance).skip_message
        instance.report_dagster_event(DagsterEvent(DagsterEventType.PIPELINE_STARTING.value, run.job_name), run.run_id)
        assert "begins or ends" in self.tick(pipeline, instance).skip_message

    def test_a_job_in_the_queue_that_reads_no_input_holds_nothing_up(self, pipeline, instance, monkeypatch):
        monkeypatch.setattr(new_input, "LAUNCHED_WITHIN", timedelta())
        created(instance, pipeline, "upkeep", status=DagsterRunStatus.QUEUED, mode="run")
        assert len(self.tick(pipeline, instance).run_requests) == 1

    def test_a_file_that_was_written_again_with_the_same_length_is_asked_for(self, pipeline, instance, folder):
        """As a rotated one, or one whose bad record was corrected."""
        first = self.tick(pipeline, instance)
        (folder / "a.jsonl").rename(folder.parent / "a.jsonl.1")
        (folder / "a.jsonl").write_text("{}\n")
        assert len(self.tick(pipeline, instance, first.cursor).run_requests) == 1

    def test_input_that_looks_as_it_did_before_is_asked_for(self, pipeline, instance, folder):
        """Dagster skips a request with the key of an earlier run."""
        first = self.tick(pipeline, instance)
        (folder / "a.jsonl").rename(folder.parent / "a.jsonl")
        second = self.tick(pipeline, instance, first.cursor)
        (folder.parent / "a.jsonl").rename(folder / "a.jsonl")
        third = self.tick(pipeline, instance, second.cursor)
        assert third.cursor == first.cursor
        assert [tick.run_requests[0].run_key for tick in (first, second, third)] == [None] * 3

    def test_a_standby_that_waits_is_no_run_of_the_pipeline(self, pipeline, instance):
        created(instance, pipeline, "start", standby=True)
        assert len(self.tick(pipeline, instance).run_requests) == 1

    def test_the_home_is_that_of_the_stream_and_not_that_of_its_standby(self, pipeline, instance, tmp_path):
        """Which may wait for the uploads of another home."""
        for home, more in (("first", {}), ("second", {"standby": True})):
            created(instance, pipeline, "start", home=str(tmp_path / home), **more)
        assert str(newest_home(instance, pipeline)) == str(tmp_path / "first")


class TestUpkeep:
    """What a job that needs the pipeline for itself does to the run that holds it."""

    @pytest.fixture(autouse=True)
    def _hurry(self, monkeypatch):
        monkeypatch.setattr(upkeep, "LOOK_S", 0.01)

    def stopped(self, pipeline, instance):
        with build_op_context(instance=instance) as context:
            options = Place().options()
            with upkeep._stopped(context, pipeline.topology, options, "a rescale"):
                pass

    def asked(self, pipeline, request):
        return requests.asked(Home.default().job("shop", "logs"), request)

    def test_a_stream_is_asked_to_stop_and_to_be_started_again(self, pipeline, instance, held):
        run = created(instance, pipeline, "start")
        give_back = held(run.run_id)
        ended = threading.Thread(target=self.until_asked, args=(pipeline, give_back))
        ended.start()
        self.stopped(pipeline, instance)
        ended.join()
        assert self.asked(pipeline, "stop") is None
        assert self.asked(pipeline, "resume")["reason"] == "a rescale"

    @pytest.mark.parametrize("of", ["another Dagster", "a program"])
    def test_a_stream_of_another_dagster_is_asked_to_start_again_and_that_of_a_program_is_not(
        self, pipeline, instance, held, of
    ):
        run_id = make_new_run_id() if of == "another Dagster" else "0c1d2e3f4a5b"
        give_back = held(run_id)
        request_run(Home.default().job("shop", "logs"), run_id)
        ended = threading.Thread(target=self.until_asked, args=(pipeline, give_back))
        ended.start()
        self.stopped(pipeline, instance)
        ended.join()
        assert self.asked(pipeline, "stop") is None
        assert (self.asked(pipeline, "resume") is not None) == (of == "another Dagster")

    def until_asked(self, pipeline, give_back):
        pause = threading.Event()
        while self.asked(pipeline, "stop") is None:
            pause.wait(0.01)
        give_back()

    def test_a_stream_that_drains_for_too_long_is_started_again_all_the_same(
        self, pipeline, instance, held, monkeypatch
    ):
        monkeypatch.setattr(upkeep, "STOP_S", 0.1)
        held(created(instance, pipeline, "start").run_id)
        with pytest.raises(PipelineBusyError):
            self.stopped(pipeline, instance)
        assert self.asked(pipeline, "resume") is not None

    def test_a_number_of_partitions_that_is_none_stops_no_stream(self, pipeline, instance, held, monkeypatch):
        monkeypatch.setattr(upkeep, "STOP_S", 0.1)
        held(created(instance, pipeline, "start").run_id)
        act = upkeep.ACTIONS["rescale"].act
        with build_op_context(instance=instance) as context, pytest.raises(ConfigurationError, match="0 is not a"):
            act(context, StreamAssets.of(pipeline), Place().options(), {"partitions": 0})
        assert self.asked(pipeline, "resume") is None

    @pytest.mark.parametrize(
        ("action", "config"),
        [
            ("restore", {"savepoint": "20261121T004512.123456Z-b000042-0a1b2c"}),
            ("rewind", {"to_batch": 7, "step": None}),
        ],
    )
    def test_what_cannot_be_gone_back_to_stops_no_stream(self, pipeline, instance, held, action, config):
        held(created(instance, pipeline, "start").run_id)
        act = upkeep.ACTIONS[action].act
        with build_op_context(instance=instance) as context, pytest.raises(CheckpointError):
            act(context, StreamAssets.of(pipeline), Place().options(), config)
        assert (self.asked(pipeline, "stop"), self.asked(pipeline, "resume")) == (None, None)

    def test_a_batch_run_is_waited_for_and_no_stream_is_made_of_it(self, pipeline, instance, held):
        give_back = held(created(instance, pipeline, "run").run_id)
        threading.Timer(0.05, give_back).start()
        self.stopped(pipeline, instance)
        assert (self.asked(pipeline, "stop"), self.asked(pipeline, "resume")) == (None, None)


class TestStop:
    """The op that processes the batches, with a runtime that was interrupted."""

    def run(self, instance, pipeline, mode, ended, *, canceling=False, tags=None):

        class Runtime:
            run = SimpleNamespace(mode=mode, place=Place)

            def listen(self, listener):
                pass

            def computing_s(self):
                return 0.0

            def stand_by(self, topology, *, run_id):
                pass

            def process(self, *, on_interrupt):
                if canceling:
                    canceled = instance.get_runs(limit=1)[0]
                    instance.report_run_canceling(canceled)
                LOG.warning("the catalog is behind: the disk is full")
                requested = on_interrupt() if ended == "interrupted" else False
                return Ended(report=REPORT, interrupted=ended == "interrupted", requested=requested)

        process = process_op(StreamAssets.of(pipeline))

        @op
        def sink():
            return None

        @graph
        def processed():
            process(**{f"after_{s.name}": sink.alias(s.name)() for s in pipeline.topology.sinks})

        made = processed.to_job(resource_defs={"rs_runtime": ResourceDefinition.hardcoded_resource(Runtime())})
        done = made.execute_in_process(instance=instance, raise_on_error=False, tags=tags or {})
        heard = [entry.user_message or entry.message for entry in instance.all_logs(done.run_id)]
        return instance.get_run_by_id(done.run_id).status, heard

    def test_a_stream_that_was_terminated_ends_as_a_success(self, pipeline, instance):
        status, heard = self.run(instance, pipeline, "start", "interrupted", canceling=True)
        assert status == DagsterRunStatus.SUCCESS
        assert DRAINED in heard
        assert not any("Traceback" in text or "Interrupted" in text for text in heard)

    def test_a_stream_that_was_stopped_at_its_terminal_too_and_dagster_knows(self, pipeline, instance):
        status, heard = self.run(instance, pipeline, "start", "interrupted", tags={BY_HAND: "start"})
        assert status == DagsterRunStatus.SUCCESS
        assert any("asked to stop at its terminal" in text for text in heard)

    def test_a_run_that_dagster_made_of_one_at_a_terminal_has_none(self, pipeline, instance):
        made = {BY_HAND: "start", PARENT: "a"}
        status, _ = self.run(instance, pipeline, "start", "interrupted", tags=made)
        assert status == DagsterRunStatus.FAILURE

    def test_an_interrupt_that_nobody_wished_for_is_a_failure(self, pipeline, instance):
        status, heard = self.run(instance, pipeline, "start", "interrupted")
        assert status == DagsterRunStatus.FAILURE
        assert DRAINED in heard

    def test_a_batch_run_that_was_terminated_is_canceled(self, pipeline, instance):
        status, _ = self.run(instance, pipeline, "run", "interrupted", canceling=True)
        assert status == DagsterRunStatus.CANCELED

    def wiring(self, instance, pipeline, *, canceling=False, tags=None):
        """The end of a run that is interrupted while its source is opened."""

        class Runtime:
            def wire(self, topology, step, inputs, *, run_id):
                if canceling:
                    instance.report_run_canceling(instance.get_run_by_id(run_id))
                raise DagsterExecutionInterruptedError

        opens = source_op(pipeline.topology, pipeline.topology["file"])
        made = GraphDefinition("wired", node_defs=[opens]).to_job(
            resource_defs={
                "rs_runtime": ResourceDefinition.hardcoded_resource(Runtime()),
                "rs_source": SourceResource(),
                IN_PROCESS: mem_io_manager,
            }
        )
        done = made.execute_in_process(instance=instance, raise_on_error=False, tags=tags or {})
        failures = [event.step_failure_data for event in done.all_events if event.is_step_failure]
        return instance.get_run_by_id(done.run_id).status, failures

    @pytest.mark.parametrize(
        ("canceling", "status", "told"),
        [(True, DagsterRunStatus.CANCELED, UNBEGUN), (False, DagsterRunStatus.FAILURE, UNREQUESTED)],
        ids=["terminated", "killed"],
    )
    def test_an_interrupt_while_spark_starts_is_told_in_a_line(self, pipeline, instance, canceling, status, told):
        ended, [failure] = self.wiring(instance, pipeline, canceling=canceling)
        assert (ended, failure.user_failure_data.description) == (status, told)
        assert failure.error.cause is None

    def test_an_interrupt_at_a_terminal_while_spark_starts_is_no_failure(self, pipeline, instance):
        ended, [failure] = self.wiring(instance, pipeline, tags={BY_HAND: "start"})
        assert (ended, failure.user_failure_data) == (DagsterRunStatus.CANCELED, None)

    def test_messages_of_threads_reach_the_log_of_the_run(self, pipeline, instance):
        status, heard = self.run(instance, pipeline, "start", "by itself")
        assert status == DagsterRunStatus.SUCCESS
        assert "the catalog is behind: the disk is full" in heard
        assert LOG.handlers == []

    @pytest.mark.parametrize("phase", ["beginning", "running"])
    def test_an_interrupt_is_written_down_before_it_drains_and_stops(self, monkeypatch, phase):
        done = []

        class Running:
            @classmethod
            def over(cls, session):
                return cls()

            def begin(self):
                if phase == "beginning":
                    raise DagsterExecutionInterruptedError

            def await_termination(self):
                raise DagsterExecutionInterruptedError

            def end(self, *, patience_s):
                done.append("stopped")
                return REPORT

        monkeypatch.setattr(runtime, "RunningPipeline", Running)
        session = SimpleNamespace(request_stop=lambda: done.append("written"))
        ended = runtime.PROCESS["start"](session, None, lambda: done.append("noted") or True)
        assert done == ["noted", "written", "stopped"]
        assert (ended.interrupted, ended.requested) == (True, True)


class TestPlace:
    def test_sensors_and_checks_look_where_the_run_keeps_what_it_has(self, pipeline, instance, tmp_path, monkeypatch):
        url = f"sqlite:///{tmp_path}/checkpoints.db"
        monkeypatch.setenv("SHOP_DB", url)
        elsewhere = tmp_path / "elsewhere"
        created(
            instance, pipeline, "start", home=str(elsewhere), checkpoint_storage="db", storage_url={"env": "SHOP_DB"}
        )
        with build_op_context(instance=instance) as context:
            place = place_of(context, pipeline.topology)
        assert place == Place(home=Home(elsewhere), checkpoint_storage="db", storage_url=url)
        assert "sqlite" not in repr(place)
        storage = storage_named("db", catalog=tmp_path, url=url)
        storage.save([row(4)])
        storage.finish()
        told = checkpoint_sensor(StreamAssets.of(pipeline))(build_sensor_context(instance=instance))
        assert told.asset_events[0].metadata["batch_id"].value == 4
        BackgroundFailures(elsewhere / "checkpoints" / "shop" / "logs").failed(
            "no savepoint was taken", OSError("away")
        )
        check = next(
            c for c in checks_of(StreamAssets.of(pipeline)) if "nothing_fails" in next(iter(c.check_keys)).name
        )
        result = check(build_asset_check_context(instance=instance))
        assert not result.passed
        assert "no savepoint was taken" in result.description

    def test_without_a_run_the_environment_counts(self, pipeline, instance):
        with build_op_context(instance=instance) as context:
            assert place_of(context, pipeline.topology) == Place()


def test_what_a_cursor_saw_elsewhere_says_nothing_of_here(pipeline, instance, tmp_path):
    with Place().storage() as storage:
        storage.save([row(7)])
    first = checkpoint_sensor(StreamAssets.of(pipeline))(build_sensor_context(instance=instance))
    assert isinstance(
        checkpoint_sensor(StreamAssets.of(pipeline))(build_sensor_context(instance=instance, cursor=first.cursor)),
        SkipReason,
    )
    created(instance, pipeline, "start", home=str(tmp_path / "other"))
    with Place(home=Home(tmp_path / "other")).storage() as storage:
        storage.save([row(2)])
    moved = checkpoint_sensor(StreamAssets.of(pipeline))(build_sensor_context(instance=instance, cursor=first.cursor))
    assert moved.asset_events[0].metadata["batch_id"].value == 2


def test_the_last_batches_are_left_to_a_run_that_has_given_its_lease_back(pipeline, instance, held, monkeypatch):
    """It reports them after that; between the two the sensor would report what it does, and less."""
    run = created(instance, pipeline, "start")
    held(run.run_id)()
    with Place().storage() as storage:
        storage.save([replace(row(7), run_id=run.run_id)])

    def tick():
        return checkpoint_sensor(StreamAssets.of(pipeline))(build_sensor_context(instance=instance))

    assert isinstance(tick(), SkipReason)
    with monkeypatch.context() as patched:
        # Its process was killed before it did.
        patched.setattr("rs_assets.common.processes.lives", lambda *_: False)
        assert [event.metadata["batch_id"].value for event in tick().asset_events] == [7]
    instance.report_run_failed(run)
    [event] = tick().asset_events
    assert event.metadata["batch_id"].value == 7
    # Dagster has it, and its daemon was killed before it had the cursor.
    instance.report_runless_asset_event(event)
    assert not tick().asset_events


def test_the_lag_counts_each_file_by_itself_also_behind_a_rename(pipeline, folder):
    log = Home.default().job("shop", "logs") / "g0001" / "totals" / "checkpoint"
    (folder / "x").mkdir()
    (folder / "x" / "a.jsonl").write_text("{}\n" * 5)
    assert unread(pipeline.topology, Home.default()) == Lag(bytes=18)
    read = Planner(str(folder)).plan({})
    manifest = Manifest(pipeline_id="p", queries={"totals": QueryFacts(generation=1, stateful="totals")})
    manifests.save(Home.default().job("shop", "logs"), manifest)
    offsets = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}
    for name, text in {
        "commits/0": "v1\n{}",
        "offsets/0": f"v2\n{json.dumps(offsets)}\nfile:{json.dumps(dump_offsets(read))}",
    }.items():
        (log / name).parent.mkdir(parents=True)
        (log / name).write_text(text)
    assert unread(pipeline.topology, Home.default()) == Lag()
    (folder / "a.jsonl").rename(folder / "a.jsonl.1")
    (folder / "a.jsonl").write_text("{}\n" * 2)
    assert unread(pipeline.topology, Home.default()) == Lag(bytes=6)


def test_the_compaction_goes_where_the_pipeline_keeps_what_it_has(pipeline, instance, tmp_path, monkeypatch):
    elsewhere, seen = tmp_path / "elsewhere", []
    created(instance, pipeline, "run", home=str(elsewhere), savepoints_uri="memory://saved")
    monkeypatch.setattr(
        upkeep,
        "compact_pipeline",
        lambda topology, home, target_mb: seen.append((topology.name, home.root, target_mb)) or {},
    )
    monkeypatch.setattr(upkeep, "compact_shared", lambda home, savepoints: seen.append((home.root, savepoints)) or {})
    job = upkeep.upkeep_job(StreamAssets.of(pipeline))
    config = {"ops": {"upkeep": {"config": {"compact": {}}}}}
    resources = {"rs_spark": SparkResource(share=True), "rs_sink": SinkResource(target_file_mb=64)}
    assert job.execute_in_process(instance=instance, run_config=config, resources=resources).success
    assert seen == [("shop.logs", elsewhere, 64), (elsewhere, "memory://saved")]


def test_upkeep_of_a_stream_that_does_not_stop_is_launched_again_when_its_run_was_terminated(
    pipeline, instance, held, monkeypatch
):
    monkeypatch.setattr(upkeep, "STOP_S", 0.1)
    terminate = held(created(instance, pipeline, "start").run_id)
    with build_op_context(instance=instance) as context:
        stopped = partial(upkeep._stopped, context, pipeline.topology, Place().options(), "a rescale")
        with pytest.raises(PipelineBusyError, match="did not stop within 0 s") as refused, stopped():
            pass
        assert refused.value.remedy == "terminate its run, then launch this again"
        terminate()
        with stopped():
            pass

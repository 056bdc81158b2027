"""Whether a stream is started again, by what is known of its runs: facts made by hand, no process and no Spark."""

import time
from dataclasses import replace
from types import SimpleNamespace

import psutil
import pytest
from dagster import DagsterInstance, DagsterRunStatus, SkipReason, build_op_context, build_sensor_context
from dagster._core.utils import make_new_run_id

from rs_assets import StreamBuilder, build_definitions
from rs_assets.catalog import requests
from rs_assets.catalog.desired_state import FILE, DesiredState, read_desired_state, request_run, write_desired_state
from rs_assets.catalog.lease import Lease
from rs_assets.common.home import Home
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.place import Place
from rs_assets.dagster.runs import upkeep
from rs_assets.dagster.runs.external_runs import job_origin
from rs_assets.dagster.runs.orphans import end_orphans, note_process
from rs_assets.dagster.runs.run_tags import ANSWERS, LOST_SECONDS, takeover_tags
from rs_assets.dagster.sensors import recovery, recovery_sensor
from rs_assets.dagster.sensors.stream_runs import LAUNCHED_WITHIN, MOST_RUNS, refuse_if_stopped
from rs_assets.dagster.sensors.verdict import End, Ran, judge
from rs_assets.errors import PipelineBusyError
from rs_assets.runtime.job.session import JobSession
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.run.standby import Vacancy

PIPELINE = StreamBuilder.data_stream("shop", "hits").from_array([{"n": 1}]).to_delta("hits").build()


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("RS_HOME", str(tmp_path / "rs"))


@pytest.fixture
def folder():
    return Home.default().job("shop", "hits")


@pytest.fixture
def instance():
    with DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def job():
    return build_definitions([PIPELINE]).resolve_job_def("shop_hits_start")


def made(instance, job, status=DagsterRunStatus.STARTED, **tags):
    return instance.create_run_for_job(job, tags={**job.run_tags, **tags}, status=status)


def tick(instance, cursor=None):
    return recovery_sensor(StreamAssets.of(PIPELINE))(build_sensor_context(instance=instance, cursor=cursor))


def said(instance):
    result = tick(instance)
    assert isinstance(result, SkipReason)
    return result.skip_message


@pytest.mark.parametrize(
    ("wish", "ends", "act", "decides"),
    [
        (None, {"a": "failed"}, "restart", "a"),
        (None, {"a": "failed", "b": "busy"}, "restart", "a"),
        (None, {"a": "stopped", "b": "busy"}, "leave", "a"),
        (None, {"a": "failed", "b": "stopped"}, "leave", "b"),
        (None, {"a": "stopped", "b": "failed"}, "restart", "b"),
        ("a", {"a": "failed", "b": "refused"}, "leave", "b"),
        ("a stopped", {"a": "failed"}, "leave", "a"),
        ("a stopped", {"a": "failed", "b": "failed"}, "restart", "b"),
        ("b", {"a": "failed", "b": "stopped"}, "leave", "b"),
        ("somebody stopped", {"a": "failed"}, "leave", "somebody"),
    ],
)
def test_judge_lets_the_run_decide_that_ended_last(wish, ends, act, decides):
    """Of a and b, which begin and end one after the other."""
    runs = [Ran(run_id=name, began=at, ended=at + 1.0) for name, at in (("a", 10.0), ("b", 20.0)) if name in ends]
    name, _, stopped = (wish or "").partition(" ")
    since = {"a": 10.0, "b": 20.0, "somebody": 15.0}.get(name, 0.0)
    word = DesiredState(run_id=name, since=since, at=since + bool(stopped), stopped=bool(stopped)) if wish else None
    verdict = judge(word, runs, lambda run: End(kind=ends.get(run.run_id, "ended"), why=""))
    assert (verdict.act, verdict.run_id) == (act, decides)


def test_judge_of_a_second_start_that_was_stopped_beside_the_stream_lets_the_stream_decide():
    runs = [Ran(run_id="a", began=1.0, ended=9.0), Ran(run_id="b", began=2.0, ended=3.0)]
    ends = {"a": End(kind="failed", why=""), "b": End(kind="stopped", why="")}
    wish = DesiredState(run_id="a", since=1.0, at=1.0)
    assert judge(wish, runs, lambda run: ends[run.run_id]).act == "restart"
    assert judge(wish, runs, lambda run: ends[run.run_id], holder="a").act == "wait"
    runs.append(Ran(run_id="c", began=8.0))
    assert judge(wish, runs, lambda run: ends[run.run_id]).act == "wait"


@pytest.mark.parametrize(
    ("wish", "before", "ends", "verdict"),
    [
        # The clock of the stream is 15 s behind that of Dagster, which started it again and saw the kill before.
        (
            DesiredState(run_id="b", since=5.0, at=7.0, stopped=True),
            Ran(run_id="a", began=1.0, ended=19.0),
            "failed",
            "leave",
        ),
        # Recovery's own, which became the stream and was killed.
        (DesiredState(run_id="b", since=21.0, at=21.0), Ran(run_id="a", began=1.0, ended=19.0), "failed", "restart"),
        # It failed, was refused or was stopped before it was the stream.
        (
            DesiredState(run_id="a", since=1.0, at=8.0, stopped=True),
            Ran(run_id="a", began=1.0, ended=9.0),
            "failed",
            "leave",
        ),
        (DesiredState(run_id="a", since=1.0, at=8.0), Ran(run_id="a", began=1.0, ended=9.0), "refused", "leave"),
        (DesiredState(run_id="a", since=1.0, at=8.0), Ran(run_id="a", began=1.0, ended=9.0), "stopped", "leave"),
        (DesiredState(run_id="a", since=1.0, at=8.0), Ran(run_id="a", began=1.0, ended=9.0), "busy", "restart"),
    ],
)
def test_judge_of_a_run_that_recovery_has_asked_for_behind_another(wish, before, ends, verdict):
    """Of a, which was killed, and b, which recovery has launched at 20 and which has ended at 25."""
    runs = [before, Ran(run_id="b", began=20.0, ended=25.0, asked_for=True)]
    kinds = {"a": "failed", "b": ends}
    assert judge(wish, runs, lambda run: End(kind=kinds[run.run_id], why="")).act == verdict


def test_recovery_of_a_stream_that_was_stopped_by_a_clock_behind_dagsters_leaves_it(instance, job, folder):
    made(instance, job, DagsterRunStatus.FAILURE)
    run = made(instance, job, DagsterRunStatus.SUCCESS)
    behind = time.time() - 3600
    write_desired_state(folder, DesiredState(run_id=run.run_id, since=behind, at=behind + 1, stopped=True))
    assert said(instance) == "it was stopped by a person"


def test_recovery_of_a_stream_that_was_stopped_leaves_it_whatever_dagster_says_of_its_run(instance, job, folder):
    run = made(instance, job, DagsterRunStatus.FAILURE)
    wish = request_run(folder, run.run_id)
    assert tick(instance).run_requests
    write_desired_state(folder, wish.stop(now=time.time()))
    assert said(instance) == "it was stopped by a person"
    (folder / FILE).write_text("spoiled")
    assert tick(instance).run_requests


def test_recovery_of_a_stream_that_plain_python_has_stopped_since_leaves_it(instance, job, folder):
    made(instance, job, DagsterRunStatus.FAILURE)
    wish = request_run(folder, "of a program")
    assert "start it again yourself" in said(instance)
    write_desired_state(folder, wish.stop(now=time.time()))
    assert said(instance) == "it was stopped by a person"


def test_recovery_waits_while_another_run_holds_the_pipeline(instance, job):
    made(instance, job, DagsterRunStatus.FAILURE)
    with Lease.acquire(Home.default().leases, pipeline="shop.hits", run_id="a batch run"):
        assert "a batch run goes on" in said(instance)
    assert tick(instance).run_requests


def test_recovery_of_a_start_that_was_killed_before_it_held_the_lease_starts_it_again(instance, job, monkeypatch):
    """At a terminal, where Dagster takes it for one that goes on; and one that hangs."""
    run = made(instance, job)
    note_process(instance, run.job_name, run.run_id)
    assert "begins or ends" in said(instance)
    with monkeypatch.context() as patched:
        patched.setattr("rs_assets.common.processes.lives", lambda *_: False)
        [request] = tick(instance).run_requests
        assert request.tags["rs/recovery_reason"] == "its process ended without a trace"
    later = time.time() + LAUNCHED_WITHIN.total_seconds() + 60
    monkeypatch.setattr("rs_assets.dagster.sensors.stream_runs.time.time", lambda: later)
    assert tick(instance).run_requests
    instance.delete_run(run.run_id)
    instance.create_run_for_job(job, status=DagsterRunStatus.QUEUED, remote_job_origin=job_origin(job.name))
    assert "begins or ends" in said(instance)


def test_recovery_of_a_run_that_is_found_to_be_gone_later_on_does_not_count_it_as_ended_then(instance, job, folder):
    """A second start at a terminal was killed, the stream stopped, and only then the killed one was looked at."""
    stream = made(instance, job)
    wish = request_run(folder, stream.run_id)
    killed = made(instance, job)
    with psutil.Popen(["true"]) as ended:
        process = psutil.Process(ended.pid)
        process.create_time()
    note_process(instance, killed.job_name, killed.run_id, process)
    instance.report_run_canceling(stream)
    write_desired_state(folder, wish.stop(now=time.time()))
    instance.report_run_canceled(stream)
    end_orphans(instance, PIPELINE.topology)
    assert instance.get_run_by_id(killed.run_id).status == DagsterRunStatus.FAILURE
    assert said(instance) == "it was stopped by a person"


def test_recovery_of_a_stream_whose_restart_was_canceled_in_the_queue_leaves_it(instance, job, folder):
    failed = made(instance, job, DagsterRunStatus.FAILURE)
    request_run(folder, failed.run_id)
    [request] = tick(instance).run_requests
    queued = instance.create_run_for_job(
        job,
        tags={**job.run_tags, **request.tags},
        status=DagsterRunStatus.QUEUED,
        remote_job_origin=job_origin(job.name),
    )
    assert "begins or ends" in said(instance)
    instance.report_run_canceled(queued)
    assert said(instance) == "its last run was asked to stop"


def test_recovery_of_a_stream_beside_which_a_queued_start_was_canceled_starts_it_again_after_a_kill(
    instance, job, folder
):
    stream = made(instance, job)
    request_run(folder, stream.run_id)
    second = instance.create_run_for_job(
        job, tags=job.run_tags, status=DagsterRunStatus.QUEUED, remote_job_origin=job_origin(job.name)
    )
    instance.report_run_canceled(second)
    instance.report_run_failed(stream)
    assert [request.tags["rs/recovers"] for request in tick(instance).run_requests] == [stream.run_id]


@pytest.mark.parametrize("asked_for", [False, True], ids=["a second start", "recovery's"])
def test_recovery_of_a_stream_that_was_killed_between_two_heartbeats_passes_over_a_second_start(
    instance, job, folder, monkeypatch, asked_for
):
    """A start beside the stream is canceled behind its last heartbeat, then it is killed. One of recovery is a stop."""
    stream = made(instance, job)
    wish = request_run(folder, stream.run_id)
    Lease.acquire(Home.default().leases, pipeline="shop.hits", run_id=stream.run_id)
    second = made(instance, job, **{ANSWERS: wish.id} if asked_for else {})
    instance.report_run_canceling(second)
    instance.report_run_canceled(second)
    monkeypatch.setattr("rs_assets.catalog.lease.lives", lambda *_: False)
    instance.report_run_failed(stream)
    if asked_for:
        assert said(instance) == "its last run was asked to stop"
        return
    [request] = tick(instance).run_requests
    assert request.tags["rs/recovers"] == stream.run_id
    # And the run that follows holds the lease.
    restart = made(instance, job, **request.tags)
    lease = Lease.acquire(Home.default().leases, pipeline="shop.hits", run_id=restart.run_id)
    refuse_if_stopped(instance, restart, read_desired_state(folder), lease.before)


@pytest.mark.parametrize("ended", [False, True], ids=["waits", "was canceled"])
def test_recovery_passes_over_a_standby_that_does_not_have_the_stream(instance, job, folder, ended):
    stream = made(instance, job)
    request_run(folder, stream.run_id)
    waits = instance.create_run_for_job(
        job,
        run_config={"resources": {"rs_run": {"config": {"mode": "start", "standby": True}}}},
        tags=job.run_tags,
        status=DagsterRunStatus.STARTED,
    )
    instance.report_run_failed(stream)
    if ended:
        instance.report_run_canceling(waits)
        instance.report_run_canceled(waits)
    [request] = tick(instance).run_requests
    assert request.tags["rs/recovers"] == stream.run_id


def test_a_standby_that_has_the_stream_is_its_run(instance, job, folder):
    stream = made(instance, job)
    wish = request_run(folder, stream.run_id)
    config = {"resources": {"rs_run": {"config": {"mode": "start", "standby": True}}}}
    taken = instance.create_run_for_job(job, run_config=config, tags=job.run_tags, status=DagsterRunStatus.STARTED)
    instance.report_run_failed(stream)
    request_run(folder, taken.run_id)
    assert said(instance) == f"run {taken.run_id} begins or ends"
    instance.add_run_tags(taken.run_id, takeover_tags(Vacancy(answers=wish.id, run_id=stream.run_id)))
    instance.report_run_failed(taken)
    [request] = tick(instance).run_requests
    assert request.tags["rs/recovers"] == taken.run_id
    # What follows does not wait.
    assert "standby" not in request.run_config["resources"]["rs_run"]["config"]


def test_judge_of_a_start_that_was_stopped_long_after_the_last_heartbeat_of_the_stream_leaves_it():
    runs = [Ran(run_id="a", began=1.0, ended=9.0, silent_s=10.0), Ran(run_id="b", began=12.0, ended=19.5)]
    ends = {"a": End(kind="failed", why=""), "b": End(kind="stopped", why="")}
    wish = DesiredState(run_id="a", since=1.0, at=1.0)
    assert judge(wish, runs, lambda run: ends[run.run_id]).act == "leave"
    assert judge(wish, [runs[0], replace(runs[1], ended=18.5)], lambda run: ends[run.run_id]).act == "restart"


def test_recovery_of_a_stream_that_was_stopped_and_started_at_once_heeds_the_start(instance, job, folder):
    """The stop is the word on the run before it, which ended at the same moment."""
    first = made(instance, job, DagsterRunStatus.SUCCESS)
    stopped = request_run(folder, first.run_id).stop(now=time.time())
    write_desired_state(folder, stopped)
    second = made(instance, job)
    wish = request_run(folder, second.run_id)
    write_desired_state(folder, DesiredState(run_id=wish.run_id, since=stopped.at, at=stopped.at))
    instance.report_run_failed(second)
    assert [request.tags["rs/recovers"] for request in tick(instance).run_requests] == [second.run_id]


@pytest.mark.parametrize(("stops", "requested"), [(True, 0), (False, 1)], ids=["stopped", "killed"])
def test_recovery_of_two_instances_over_one_home_asks_in_the_one_that_had_the_run(
    instance, job, folder, stops, requested
):
    """The other one knows an older run that has failed, and leaves the stream in both cases."""
    with DagsterInstance.ephemeral() as other:
        request_run(folder, made(other, job, DagsterRunStatus.FAILURE).run_id)
        run = made(instance, job, DagsterRunStatus.FAILURE)
        wish = request_run(folder, run.run_id)
        if stops:
            write_desired_state(folder, wish.stop(now=time.time()))
        assert isinstance(tick(other), SkipReason)
        assert len(getattr(tick(instance), "run_requests", None) or ()) == requested


def test_recovery_whose_start_was_refused_because_another_run_was_going_asks_for_it_again(instance, job):
    failed = made(instance, job, DagsterRunStatus.FAILURE)
    first = tick(instance)
    [request] = first.run_requests
    assert "already handled" in tick(instance, first.cursor).skip_message
    refused = made(instance, job, **request.tags)
    refuse(instance, refused)
    again = recovery_sensor(StreamAssets.of(PIPELINE))(build_sensor_context(instance=instance))
    [second] = again.run_requests
    assert (second.tags["rs/recovers"], second.run_key) == (failed.run_id, f"recover:{failed.run_id}:1")


@pytest.mark.parametrize("resumes", [False, True], ids=["failed", "after upkeep"])
def test_recovery_goes_on_when_more_starts_failed_than_it_looks_at(instance, job, folder, resumes, monkeypatch):
    """As while a broker is away for hours: none of them became the stream."""
    request_run(folder, made(instance, job, DagsterRunStatus.FAILURE).run_id)
    if resumes:
        requests.ask(folder, "resume", reason="a rescale")
    cursor, keys, now = None, [], time.time()
    for hour in range(MOST_RUNS + 5):
        monkeypatch.setattr(recovery, "time", SimpleNamespace(time=lambda hour=hour: now + 3600 * hour))
        result = tick(instance, cursor)
        assert not isinstance(result, SkipReason), (hour, result.skip_message)
        cursor, [request] = result.cursor, result.run_requests
        keys.append(request.run_key)
        made(instance, job, DagsterRunStatus.FAILURE, **request.tags)
    assert len(set(keys)) == len(keys)


def refuse(instance, run):
    """What Dagster keeps of a run whose start was refused as busy."""
    from dagster._core.events import DagsterEvent, DagsterEventType
    from dagster._core.execution.plan.objects import StepFailureData
    from dagster_shared.error import SerializableErrorInfo

    error = SerializableErrorInfo("another run is going", [], PipelineBusyError.__name__)
    failure = DagsterEvent(
        event_type_value=DagsterEventType.STEP_FAILURE.value,
        job_name=run.job_name,
        step_key="shop__hits__array",
        event_specific_data=StepFailureData(error=error, user_failure_data=None),
    )
    instance.report_dagster_event(failure, run_id=run.run_id)
    instance.report_run_failed(run)


def test_recovery_behind_upkeep_leaves_a_stream_that_a_person_stopped_meanwhile(instance, job, folder):
    run = made(instance, job, DagsterRunStatus.SUCCESS)
    wish = request_run(folder, run.run_id)
    requests.ask(folder, "resume", reason="a rescale")
    assert tick(instance).run_requests
    write_desired_state(folder, wish.stop(now=time.time()))
    assert said(instance) == "it was stopped by a person"


def test_a_stream_goes_on_though_the_upkeep_that_stopped_it_was_killed(instance, job, folder):
    run = made(instance, job, DagsterRunStatus.SUCCESS)
    upkeep = made(instance, build_definitions([PIPELINE]).resolve_job_def("shop_hits_upkeep"))
    request_run(folder, run.run_id)
    requests.ask(folder, "stop", reason="a rescale", run_id=upkeep.run_id)
    assert "success" in said(instance)
    instance.report_run_failed(upkeep)
    [request] = tick(instance).run_requests
    assert request.tags["rs/resumes_run"] == upkeep.run_id
    assert request.tags["rs/resumes_after"] == "a rescale"


def test_a_stream_that_the_upkeep_of_another_dagster_has_stopped_is_started_again_where_it_was_started(
    instance, job, folder
):
    request_run(folder, made(instance, job, DagsterRunStatus.SUCCESS).run_id)
    requests.ask(folder, "resume", reason="a restore", run_id=make_new_run_id())
    with DagsterInstance.ephemeral() as other:
        assert said(other).startswith("it was not started by this Dagster")
    assert tick(instance).run_requests


def test_a_stream_goes_on_though_the_upkeep_of_another_dagster_was_killed(instance, job, folder, monkeypatch):
    request_run(folder, made(instance, job, DagsterRunStatus.SUCCESS).run_id)
    requests.ask(folder, "stop", reason="a restore", run_id=make_new_run_id())
    assert "success" in said(instance)
    monkeypatch.setattr(requests, "has_ended", lambda *_: True)
    assert tick(instance).run_requests


def test_a_stream_whose_start_behind_upkeep_fails_is_started_again(instance, job, folder):
    """Another run held the pipeline, or its process died while it started: the upkeep job has still stopped it."""
    request_run(folder, made(instance, job, DagsterRunStatus.SUCCESS).run_id)
    request_id = requests.ask(folder, "resume", reason="a rescale")
    first = tick(instance)
    [request] = first.run_requests
    refuse(instance, made(instance, job, **request.tags))
    second = tick(instance, first.cursor)
    [again] = second.run_requests
    assert (again.run_key, again.tags) == (f"resume:{request_id}:1", request.tags)
    made(instance, job, DagsterRunStatus.FAILURE, **again.tags)
    waits = tick(instance, second.cursor).skip_message
    assert waits.startswith("its start after a rescale failed; the next restart comes in")
    [third] = tick(instance).run_requests
    assert third.run_key == f"resume:{request_id}:2"
    queued = made(instance, job, **third.tags)
    assert "begins or ends" in said(instance)
    instance.report_run_canceled(queued)
    assert said(instance) == "its last run was asked to stop"


def test_a_restart_says_how_long_the_stream_was_away_whoever_held_the_pipeline_meanwhile(instance, job, monkeypatch):
    made(instance, job, DagsterRunStatus.FAILURE)
    later = time.time() + 100
    monkeypatch.setattr("rs_assets.dagster.sensors.recovery.time.time", lambda: later)
    with Lease.acquire(Home.default().leases, pipeline="shop.hits", run_id="a batch run"):
        pass
    [request] = tick(instance).run_requests
    assert int(request.tags[LOST_SECONDS]) >= 100


def test_upkeep_does_not_ask_for_a_stream_that_a_person_stopped_while_it_drained(instance, job, folder, monkeypatch):
    monkeypatch.setattr(upkeep, "LOOK_S", 0.01)
    run = made(instance, job)
    wish = request_run(folder, run.run_id)
    lease = Lease.acquire(Home.default().leases, pipeline="shop.hits", run_id=run.run_id).__enter__()

    def stopped(*_):
        write_desired_state(folder, wish.stop(now=time.time()))
        lease.__exit__(None, None, None)

    monkeypatch.setattr(upkeep, "_wait_until_free", stopped)
    with (
        build_op_context(instance=instance) as context,
        upkeep._stopped(context, PIPELINE.topology, Place().options(), "a rescale"),
    ):
        pass
    assert requests.asked(folder, "resume") is None


class TestSession:
    """What a run writes down of itself while it holds the lease."""

    @pytest.fixture
    def session(self):
        made = JobSession(PIPELINE.topology, RunOptions(run_id="mine"))
        made.begin()
        with made:
            yield made

    def test_a_stop_that_was_wished_is_the_last_word_on_its_run(self, session, folder):
        session.request_stop()
        assert read_desired_state(folder) is None
        session.run_on()
        begun = read_desired_state(folder)
        session.request_stop()
        session.request_stop()
        stopped = read_desired_state(folder)
        assert (begun.run_id, begun.stopped, stopped.run_id, stopped.stopped) == ("mine", False, "mine", True)
        assert begun.since == stopped.since <= stopped.at

    def test_a_start_that_recovery_asked_for_is_refused_behind_another_word(self, session, folder):
        seen = request_run(folder, "before")
        write_desired_state(folder, seen.stop(now=time.time()))
        with pytest.raises(PipelineBusyError, match="started or stopped by another request"):
            session.run_on(answers=seen.id)
        assert read_desired_state(folder).run_id == "before"
        session.run_on(answers=read_desired_state(folder).id)
        assert read_desired_state(folder).run_id == "mine"

    def test_a_start_that_recovery_asked_for_where_nothing_was_said_goes_on(self, session, folder):
        session.run_on(answers="")
        assert read_desired_state(folder).run_id == "mine"

    def test_a_stop_that_cannot_be_written_is_a_warning(self, session, monkeypatch):
        session.run_on()

        def full(*_):
            raise OSError("no space left")

        monkeypatch.setattr("rs_assets.runtime.job.session.write_desired_state", full)
        session.request_stop()
        assert any("could not be recorded" in warning for warning in session.failures.warnings)


def test_recovery_gives_its_run_the_last_word_that_it_saw(instance, job, folder):
    run = made(instance, job, DagsterRunStatus.FAILURE)
    assert tick(instance).run_requests[0].tags[ANSWERS] == ""
    wish = request_run(folder, run.run_id)
    assert tick(instance).run_requests[0].tags[ANSWERS] == wish.id

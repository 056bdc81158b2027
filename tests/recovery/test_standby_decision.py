"""When a standby takes a stream over: its driver is gone, and the stream is to run."""

import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from rs_assets.catalog import requests
from rs_assets.errors import PipelineBusyError, SinkError
from rs_assets.runtime.job.opening import opened
from rs_assets.runtime.run import standby as standing
from rs_assets.runtime.run.run import open_stream
from rs_assets.runtime.run.running import RunningPipeline
from rs_assets.runtime.run.standby import Standby, Vacancy
from rs_assets.spark.driver import SparkDriver
from tests.recovery.homes import FakeHome

TTL = timedelta(milliseconds=600)


@pytest.fixture
def home(tmp_path):
    (tmp_path / "in").mkdir()
    return FakeHome(tmp_path / "prod", tmp_path / "tables", tmp_path / "store", upload=True)


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(standing, "READ_S", 0.0)


def standby_of(home, **how):
    return Standby(home.pipeline.topology, replace(home.options, lease_ttl=TTL, **how))


def stream(home, *, stopped=False):
    """A stream that ran and has ended, as after a failure or a kill; or was stopped."""
    with opened(home.pipeline.topology, replace(home.options, run_id="first")) as session:
        session.run_on()
        if stopped:
            session.request_stop()
        return session.desired.id


def test_a_stream_without_its_driver_is_taken_over(home):
    answers = stream(home)
    vacancy = standby_of(home).vacancy()
    assert (vacancy.answers, vacancy.run_id) == (answers, "first")
    assert 0 <= vacancy.silent_s < 60


def test_a_stream_that_was_stopped_is_left(home):
    stream(home, stopped=True)
    assert standby_of(home).vacancy() is None


@pytest.mark.parametrize("request_", ["stop", "resume"])
def test_a_stream_that_an_upkeep_job_has_stopped_is_left(home, request_):
    stream(home)
    requests.ask(home.folder, request_, reason="rescale")
    assert standby_of(home).vacancy() is None
    requests.clear(home.folder, request_)
    assert standby_of(home).vacancy() is not None


def test_a_stream_whose_upkeep_job_was_killed_before_it_was_done_is_taken_over(home):
    """Its request to stop stays, and nobody would take it back."""
    stream(home)
    asks = "import sys; from pathlib import Path; from rs_assets.catalog import requests\n"
    asks += "requests.ask(Path(sys.argv[1]), 'stop', reason='a rescale')"
    subprocess.run([sys.executable, "-c", asks, str(home.folder)], check=True)
    assert standby_of(home).vacancy() is not None


def test_a_request_to_stop_that_comes_while_the_stream_starts_is_its_own(home, monkeypatch):
    """One of before is not: an upkeep job has answered it, or was killed."""
    requests.ask(home.folder, "stop", reason="of before")
    with opened(home.pipeline.topology, home.options) as session:
        session.run_on()
        assert requests.asked(home.folder, "stop") is None
        requests.ask(home.folder, "stop", reason="a rescale")
        running = RunningPipeline.over(session)
        monkeypatch.setattr(SparkDriver, "call", lambda _, function: function(None))
        monkeypatch.setattr("rs_assets.runtime.run.running.record", lambda *_, **__: None)
        running.begin()
        assert running.await_termination(timeout_s=0)
        running.end()


def test_a_pipeline_that_never_ran_is_left(home):
    assert standby_of(home).vacancy() is None


def test_a_stream_that_runs_is_left(home):
    with opened(home.pipeline.topology, home.options) as session:
        session.run_on()
        assert standby_of(home).await_vacancy(timeout_s=0.3) is None
    assert standby_of(home).await_vacancy(timeout_s=120) is not None


def test_a_stop_ends_the_wait(home):
    stop = threading.Event()
    stop.set()
    assert standby_of(home).await_vacancy(stop=stop) is None


def test_of_two_standbys_one_takes_the_stream_over(home):
    """The other one, which has seen the same vacancy, waits again."""
    stream(home)
    first, second = standby_of(home), standby_of(home)
    seen = second.vacancy()
    with first.take_over() as session:
        second.vacancy = lambda: seen
        assert second.take_over(timeout_s=0.5) is None
        assert session.desired.run_id == session.options.run_id


def test_a_start_that_a_person_was_faster_with_is_not_repeated(home):
    standby = standby_of(home)
    seen = Vacancy(answers=stream(home))
    stream(home)
    with pytest.raises(PipelineBusyError, match="by another request meanwhile"):
        open_stream(standby.topology, standby.options, partial(standing.run_on, vacancy=seen))


def test_a_stream_that_is_refused_is_left_until_another_request_for_it(home):
    """Its lease is not taken again and again for hours."""
    first, asked = stream(home), []

    def refuses(_, vacancy):
        asked.append(vacancy.answers)
        raise PipelineBusyError("it was stopped in Dagster", remedy="nothing to do")

    standby = standby_of(home)
    assert standby.take_over(timeout_s=1, begin=refuses) is None
    assert asked == [first]
    second = stream(home)
    assert standby.take_over(timeout_s=1, begin=refuses) is None
    assert asked == [first, second]


def elsewhere(home, tmp_path):
    return replace(home, root=tmp_path / "other")


def test_a_silent_home_is_taken_over_from_its_uploads(home, tmp_path, monkeypatch):
    home.start(2, lease_ttl=TTL)
    other = elsewhere(home, tmp_path)
    monkeypatch.setattr("rs_assets.runtime.upkeep.uploads.BEATS", 0.001)
    silent = opened(home.pipeline.topology, replace(home.options, lease_ttl=TTL))
    with silent, standby_of(other).take_over(timeout_s=120) as session:
        assert session.recovered_from.startswith("upload")
        assert session.desired.run_id == session.options.run_id


def test_a_home_with_signs_of_life_is_left(home, tmp_path, monkeypatch):
    home.start()
    monkeypatch.setattr("rs_assets.runtime.upkeep.uploads.BEATS", 20)
    with opened(home.pipeline.topology, replace(home.options, lease_ttl=timedelta(seconds=4))):
        assert standby_of(elsewhere(home, tmp_path)).await_vacancy(timeout_s=2.5) is None


def test_a_home_that_has_ended_by_itself_is_left(home, tmp_path):
    home.start()
    assert standby_of(elsewhere(home, tmp_path)).await_vacancy(timeout_s=0.6) is None
    shutil.rmtree(home.root)
    assert standby_of(home).await_vacancy(timeout_s=0.6) is None


def test_an_outdated_home_goes_by_the_other_one(home, tmp_path):
    """Its own records say that its stream is to run and has no driver."""
    stream(home)
    home.start()
    other = elsewhere(home, tmp_path)
    other.start()
    assert standby_of(home).await_vacancy(timeout_s=0.6) is None


def test_an_output_that_is_away_is_asked_again(home, monkeypatch):
    """A blank home asks the outputs which pipeline was lost."""
    answers, seen = stream(home), standing.current_home

    def away(*_):
        monkeypatch.setattr(standing, "current_home", seen)
        raise SinkError("the output is away")

    monkeypatch.setattr(standing, "current_home", away)
    assert standby_of(home).await_vacancy(timeout_s=120).answers == answers

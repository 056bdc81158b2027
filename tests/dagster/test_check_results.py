"""Results of checks while a stream goes on: it materializes its assets more often than its checks are evaluated."""

from types import SimpleNamespace

import pytest
from dagster import (
    AssetKey,
    AssetMaterialization,
    DagsterEvent,
    DagsterEventType,
    DagsterInstance,
    DagsterRunStatus,
    SkipReason,
    build_sensor_context,
)
from dagster._core.events import StepMaterializationData

from rs_assets import StreamBuilder, Time, TumblingWindow, build_definitions
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.assets.verdicts import RunResults, judged_anyway, report_verdicts
from rs_assets.dagster.place import Place
from rs_assets.dagster.sensors import freshness_sensor
from tests.dagster.shown import outdated_in, verdicts_in

FRESH = "event_time_is_fresh"


def pipeline():
    stream = StreamBuilder.data_stream("shop", "pages").from_file("in", schema="page string, ts timestamp", name="log")
    windows = stream.window(TumblingWindow.of(Time.seconds(10), "ts"), name="tens").group_by("page").count("n")
    return windows.to_delta("pages").build(fresh_within=Time.minutes(5))


class Stream:
    """A stream of an instance that goes on."""

    def __init__(self, instance):
        made = pipeline()
        definitions = build_definitions([made])
        job = definitions.resolve_job_def("shop_pages_start")
        self.instance, self.assets = instance, StreamAssets.of(made)
        self.keys = [key for checks in definitions.asset_checks for key in checks.check_keys]
        self.run = instance.create_run_for_job(job, tags=job.run_tags, status=DagsterRunStatus.STARTED)
        self.results = RunResults(instance, self.run)

    def materialize(self):
        """Report each asset as of a batch."""
        for name in ("log", "tens", "pages"):
            event = DagsterEvent(
                event_type_value=DagsterEventType.ASSET_MATERIALIZATION.value,
                job_name=self.run.job_name,
                event_specific_data=StepMaterializationData(AssetMaterialization(AssetKey(["shop", "pages", name]))),
            )
            self.instance.report_dagster_event(event, run_id=self.run.run_id)

    def judge(self, *, going=True):
        """Report what the checks say, as the run does."""
        report_verdicts(self.instance, self.assets, Place(), self.results.take if going else None)

    def not_evaluated(self):
        """The checks that Dagster shows as not evaluated."""
        return outdated_in(self.instance, self.keys)

    def history(self, name):
        """The runs of the results that Dagster has of a check, the newest first; "" for one without."""
        [key] = [key for key in self.keys if key.name == name]
        found = self.instance.event_log_storage.get_asset_check_execution_history(key, limit=10)
        return [record.run_id for record in found]


@pytest.fixture
def stream(tmp_path, monkeypatch):
    monkeypatch.setenv("RS_HOME", str(tmp_path))
    with DagsterInstance.ephemeral() as instance:
        yield Stream(instance)


def test_checks_of_a_stream_that_materializes_between_two_reports_stay_evaluated(stream):
    stream.materialize()
    stream.judge()
    assert set(verdicts_in(stream.instance, stream.keys)) == {key.name for key in stream.keys}
    stream.materialize()
    assert stream.not_evaluated() == []
    stream.judge()
    stream.materialize()
    assert stream.not_evaluated() == []
    # One result for each check and run, and one more when the run has ended.
    assert stream.history("columns_are_as_written") == [stream.run.run_id]
    stream.judge(going=False)
    assert stream.not_evaluated() == []
    assert stream.history("columns_are_as_written") == ["", stream.run.run_id]


def test_results_of_a_stream_say_when_they_were_found(stream):
    stream.judge()
    [key] = [key for key in stream.keys if key.name == "columns_are_as_written"]
    shown = stream.instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
    assert shown.evaluation.metadata["evaluated_at"].value == pytest.approx(shown.event.timestamp, abs=60)


def test_checks_that_another_run_has_evaluated_meanwhile_show_the_newer_result(stream):
    stream.judge()
    # As a check that a person launches.
    report_verdicts(stream.instance, stream.assets, Place())
    stream.judge()
    assert stream.history("columns_are_as_written") == ["", "", stream.run.run_id]


def test_checks_of_a_second_start_that_is_refused_are_results_of_the_stream(stream):
    stream.judge()
    judged_anyway(stream.assets)(SimpleNamespace(instance=stream.instance))
    stream.materialize()
    assert stream.not_evaluated() == []
    assert stream.history("columns_are_as_written") == [stream.run.run_id]


def test_freshness_of_a_stream_is_reported_as_a_result_of_its_run(stream):
    stream.materialize()
    stream.judge()
    sensor = freshness_sensor(stream.assets)
    told = sensor(build_sensor_context(instance=stream.instance))
    assert list(told.asset_events) == []
    stream.materialize()
    assert stream.not_evaluated() == []
    assert stream.history(FRESH) == [stream.run.run_id]
    stream.instance.report_run_canceled(stream.run)
    assert isinstance(sensor(build_sensor_context(instance=stream.instance, cursor=told.cursor)), SkipReason)
    told = sensor(build_sensor_context(instance=stream.instance))
    assert [event.check_name for event in told.asset_events] == [FRESH]

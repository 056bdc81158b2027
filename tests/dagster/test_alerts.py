"""Alerts: a function of the project's own hears once of failed runs, stale outputs and dead letters."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pyarrow as pa
import pytest
from dagster import (
    AssetCheckEvaluation,
    AssetSelection,
    DagsterInstance,
    DagsterRunStatus,
    Definitions,
    SkipReason,
    build_sensor_context,
    define_asset_job,
    in_process_executor,
    job,
    op,
)

from rs_assets import EventTimePartitions, StreamBuilder, Time, TumblingWindow, build_definitions
from rs_assets.common.home import Home
from rs_assets.connectors.dead_letters import SCHEMA, DeadLetters
from rs_assets.connectors.sink import BatchMark
from rs_assets.dagster.sensors import alerts


@pytest.fixture
def instance():
    with DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def heard(tmp_path, monkeypatch):
    monkeypatch.setenv("RS_HOME", str(tmp_path / "rs"))
    return []


@pytest.fixture
def ticks(heard, instance):
    """Evaluate the sensor once more; what it has told."""
    hits = StreamBuilder.data_stream("shop", "hits").from_file("hits.jsonl", schema="page string, ts timestamp")
    hits.to_delta("raw")
    counts = (
        hits.window(TumblingWindow.of(Time.minutes(1), "ts")).group_by("page").count("n").water_mark(Time.minutes(1))
    )
    pipeline = counts.to_delta("pages").build(fresh_within=Time.minutes(5))
    sensor = build_definitions([pipeline], on_alert=heard.append).resolve_sensor_def("shop_hits_alerts")
    state = SimpleNamespace(cursor=None)

    def tick():
        del heard[:]
        result = sensor(build_sensor_context(instance=instance, cursor=state.cursor))
        if not isinstance(result, SkipReason):
            state.cursor = result.cursor
        return [(alert.kind, alert.text) for alert in heard]

    return tick


TAGS = {"rs/pipeline": "shop.hits", "rs/mode": "run"}


def failing(mode):

    @op
    def act():
        raise ValueError

    @job(name=f"shop_hits_{mode}", tags=TAGS)
    def made():
        act()

    return made


def fail(instance):
    return failing("run").execute_in_process(instance=instance, raise_on_error=False).run_id


def test_there_is_no_sensor_where_nobody_is_to_be_told():
    pipeline = StreamBuilder.data_stream("shop", "hits").from_array([{"a": 1}]).to_delta("a").build()
    names = [sensor.name for sensor in build_definitions([pipeline]).sensors or ()]
    assert "shop_hits_alerts" not in names


def test_a_failed_run_is_told_once_and_old_ones_are_not(ticks, instance, monkeypatch):
    monkeypatch.setattr(alerts, "evaluations", lambda *_: [])
    fail(instance)
    assert ticks() == []
    failed = fail(instance)
    assert ticks() == [("failed", f"the run {failed[:8]} of shop_hits_run failed")]
    assert ticks() == []


@pytest.mark.parametrize(
    ("selects", "told"),
    [("shop/hits/pages", 1), ("shop/hits/pages/closed", 1), ("shop/other/pages", 0)],
    ids=["its assets", "a backfill", "of another pipeline"],
)
def test_a_failed_run_of_its_assets_in_another_job_is_told(heard, instance, selects, told):
    """As of a job of the project, of automation, or of a backfill: such a run has no tag of the pipeline."""
    hours = EventTimePartitions.hourly("ts", since="2026-01-01", settle=Time.minutes(1))
    pipelines = [
        StreamBuilder.data_stream("shop", name)
        .from_file("hits.jsonl", schema="page string, ts timestamp")
        .to_delta("pages", partitions=hours)
        .build()
        for name in ("hits", "other")
    ]
    selection = AssetSelection.assets(selects)
    if not selects.endswith("closed"):
        selection |= selection.upstream()
    own = Definitions(jobs=[define_asset_job("nightly", selection, executor_def=in_process_executor)])
    defs = Definitions.merge(own, build_definitions(pipelines, on_alert=heard.append))
    sensor, nightly = defs.resolve_sensor_def("shop_hits_alerts"), defs.resolve_job_def("nightly")
    first = sensor(build_sensor_context(instance=instance))
    run = instance.create_run_for_job(nightly, status=DagsterRunStatus.STARTED)
    instance.report_run_failed(run)
    second = sensor(build_sensor_context(instance=instance, cursor=first.cursor))
    assert [alert.text for alert in heard] == [f"the run {run.run_id[:8]} of nightly failed"] * told
    del heard[:]
    assert isinstance(sensor(build_sensor_context(instance=instance, cursor=second.cursor)), SkipReason)
    assert heard == []


def test_a_run_that_fails_after_many_later_ones_is_told(ticks, instance, monkeypatch):
    monkeypatch.setattr(alerts, "evaluations", lambda *_: [])
    monkeypatch.setattr(alerts, "MOST_RUNS", 2)
    stream = instance.create_run_for_job(failing("start"), status=DagsterRunStatus.STARTED, tags=TAGS)
    for _ in range(3):
        fail(instance)
    assert ticks() == []
    instance.report_run_failed(stream)
    assert ticks() == [("failed", f"the run {stream.run_id[:8]} of shop_hits_start failed")]
    assert ticks() == []


def test_all_runs_are_told_that_failed_while_the_daemon_was_away(ticks, instance, monkeypatch):
    monkeypatch.setattr(alerts, "evaluations", lambda *_: [])
    monkeypatch.setattr(alerts, "MOST_RUNS", 2)
    fail(instance)
    assert ticks() == []
    failed = [fail(instance) for _ in range(3)]
    assert sorted(ticks()) == sorted(("failed", f"the run {run[:8]} of shop_hits_run failed") for run in failed)
    assert ticks() == []


def test_an_output_is_told_when_it_becomes_stale_and_again_only_behind_a_recovery(ticks, monkeypatch):
    def judged(lag):
        def evaluations(assets, place):
            metadata = {"watermark_lag_seconds": float(lag)}
            key = assets.key("pages_table")
            return [AssetCheckEvaluation(asset_key=key, check_name="c", passed=lag < 300, metadata=metadata)]

        monkeypatch.setattr(alerts, "evaluations", evaluations)
        return ticks()

    stale = [("stale", "shop/hits/pages is not fresh: its watermark lags the clock by 900 s")]
    assert [judged(lag) for lag in (3, 900, 950, 3, 900)] == [[], stale, [], [], stale]


def write_letter(number, query="window"):
    at = datetime(2026, 1, 5, tzinfo=UTC) + timedelta(minutes=number)
    row = {"namespace": "shop", "job": "hits", "generation": 1, "query": query, "batch_id": number, "step": "file"}
    place = {"split": "hits.jsonl", "line": number, "offset": 0, "reason": "malformed JSON", "record": "{", "at": at}
    mark = BatchMark(pipeline_id="hits", generation=1, sink=f"{query}.letters", batch_id=number)
    DeadLetters(Home.default().dead_letters).write(pa.Table.from_pylist([{**row, **place}], SCHEMA), mark)


def test_new_dead_letters_are_told_and_old_ones_are_not(ticks, monkeypatch):
    monkeypatch.setattr(alerts, "evaluations", lambda *_: [])
    write_letter(1)
    assert ticks() == []
    write_letter(2)
    write_letter(3)
    assert ticks() == [("dead_letters", "2 new dead letters; the newest, of hits.jsonl: malformed JSON")]
    assert ticks() == []


def test_dead_letters_of_a_long_batch_are_told_though_a_later_one_of_another_query_was_first(ticks, monkeypatch):
    """A dead letter has the time at which its batch began."""
    monkeypatch.setattr(alerts, "evaluations", lambda *_: [])
    assert ticks() == []
    write_letter(2, "file")
    assert len(ticks()) == 1
    write_letter(1)
    assert ticks() == [("dead_letters", "1 new dead letter; the newest, of hits.jsonl: malformed JSON")]
    assert ticks() == []


def test_what_could_not_be_told_is_told_at_the_next_tick(ticks, heard, instance, monkeypatch):
    monkeypatch.setattr(alerts, "evaluations", lambda *_: [])
    ticks()
    fail(instance)
    told = alerts._dead_letters

    def away(*_):
        raise ConnectionError

    monkeypatch.setattr(alerts, "_dead_letters", away)
    with pytest.raises(ConnectionError):
        ticks()
    monkeypatch.setattr(alerts, "_dead_letters", told)
    assert [kind for kind, _ in ticks()] == ["failed"]

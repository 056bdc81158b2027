"""Sensors and checks, by direct evaluation: cursors, idempotent run keys, and what they tell Dagster."""

import shutil
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from dagster import (
    AssetCheckSeverity,
    AssetKey,
    AssetMaterialization,
    DagsterInstance,
    DagsterRunStatus,
    SkipReason,
    build_sensor_context,
)
from dagster_shared.error import SerializableErrorInfo
from deltalake import DeltaTable, write_deltalake

from rs_assets import StreamBuilder, Time, TumblingWindow, build_definitions
from rs_assets.catalog import lease as leases
from rs_assets.catalog import requests
from rs_assets.catalog.catalog import Catalog
from rs_assets.catalog.lease import Lease
from rs_assets.catalog.offsets import CheckpointRow
from rs_assets.checkpoint import manifest as manifests
from rs_assets.common.home import Home
from rs_assets.connectors.dead_letters import SCHEMA as LETTERS
from rs_assets.connectors.delta.rewind import act
from rs_assets.connectors.delta.table import properties
from rs_assets.connectors.sink import BatchMark, Claim
from rs_assets.connectors.source import Lag
from rs_assets.dagster.assets.checks import SOURCE_CHECKS, STATE_CHECKS, checks_of
from rs_assets.dagster.assets.output_checks import OUTPUT_CHECKS, checked_outputs
from rs_assets.dagster.assets.output_tables import OutputTables
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.place import Place
from rs_assets.dagster.sensors import checkpoint_sensor, recovery_sensor, rescale_sensor, split_change_sensor
from rs_assets.dagster.sensors import cursor as cursors
from rs_assets.dagster.sensors.checkpoints import _table_news
from rs_assets.dagster.sensors.recovery import RecoveryPolicy
from rs_assets.dagster.sensors.refusals import refusal
from rs_assets.dagster.sensors.rescaling import RescalePolicy
from rs_assets.errors import ConfigurationError
from rs_assets.runtime.options import RunOptions, SavepointPolicy
from rs_assets.runtime.run.lag import unread


def lines(first, last):
    return "".join(f'{{"page":"/","ts":"2024-01-01 00:00:{n:02d}"}}\n' for n in range(first, last))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RS_HOME", str(tmp_path / "rs"))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text(lines(0, 20))
    return tmp_path / "in"


@pytest.fixture
def pipeline(folder):
    stream = StreamBuilder.data_stream("shop", "watched").from_file(
        folder, schema="page string, ts timestamp", tail=True
    )
    return (
        stream.window(TumblingWindow.of(Time.seconds(10), "ts"))
        .group_by("page")
        .count("n")
        .to_data_stream()
        .to_delta("pages")
        .build()
    )


@pytest.fixture
def instance():
    with DagsterInstance.ephemeral() as made:
        yield made


def run(pipeline, driver, **how):
    return pipeline.run(RunOptions(driver=driver, **how))


def test_splits_that_come_and_go_are_observed_once(pipeline, folder, driver):
    sensor = split_change_sensor(StreamAssets.of(pipeline))
    assert isinstance(sensor(build_sensor_context()), SkipReason)
    run(pipeline, driver)
    first = sensor(build_sensor_context())
    assert first.asset_events[0].description == "first look: 1 split"
    assert [e.asset_key for e in first.asset_events] == [AssetKey(["shop", "watched", "file"])]
    assert isinstance(sensor(build_sensor_context(cursor=first.cursor)), SkipReason)
    (folder / "b.jsonl").write_text(lines(0, 2))
    (folder / "a.jsonl").unlink()
    second = sensor(build_sensor_context(cursor=first.cursor))
    metadata = second.asset_events[0].metadata
    assert (metadata["splits_added"].value, metadata["splits_removed"].value) == (1, 1)
    assert isinstance(sensor(build_sensor_context(cursor="spoiled by hand")), type(first))


def test_checkpoints_from_the_catalog_become_events_of_the_assets_once(pipeline, folder, driver):
    sensor = checkpoint_sensor(StreamAssets.of(pipeline))
    assert isinstance(sensor(build_sensor_context()), SkipReason)
    report = run(pipeline, driver, savepoints=SavepointPolicy(at_end=True))
    first = sensor(build_sensor_context())
    made = [e for e in first.asset_events if isinstance(e, AssetMaterialization)]
    assert [e.asset_key.path[2:] for e in made] == [["file"], ["window"], ["pages"]]
    assert made[2].metadata["dagster/row_count"].value == 1
    assert made[0].metadata["run"].value == report.run_id
    assert made[0].metadata["committed_offsets"].records[0].data["offset"].startswith("line 20, byte ")
    assert any("savepoint" in (e.description or "") for e in first.asset_events)
    assert isinstance(sensor(build_sensor_context(cursor=first.cursor)), SkipReason)
    with (folder / "a.jsonl").open("a") as log:
        log.write(lines(20, 25))
    run(pipeline, driver)
    second = sensor(build_sensor_context(cursor=first.cursor))
    assert second.asset_events[0].metadata["batch_id"].value > made[0].metadata["batch_id"].value


DEFAULT = RecoveryPolicy()


class TestRecovery:
    JOB = "shop_watched_start"

    def evaluate(self, pipeline, instance, cursor=None, policy=DEFAULT):
        return recovery_sensor(StreamAssets.of(pipeline), policy)(
            build_sensor_context(instance=instance, cursor=cursor)
        )

    def record(self, instance, pipeline, status):
        definitions = build_definitions([pipeline])
        job = definitions.resolve_job_def(self.JOB)
        return instance.create_run_for_job(job, status=status)

    def test_a_run_that_failed_is_followed_by_another_one_once(self, pipeline, instance):
        assert isinstance(self.evaluate(pipeline, instance), SkipReason)
        failed = self.record(instance, pipeline, DagsterRunStatus.FAILURE)
        result = self.evaluate(pipeline, instance)
        request = result.run_requests[0]
        assert request.run_key == f"recover:{failed.run_id}"
        assert request.tags["rs/recovers"] == failed.run_id
        assert [event.asset_key for event in result.asset_events] == [AssetKey(["shop", "watched", "file"])]
        assert result.asset_events[0].description == "lost: its run failed; a restart was requested"
        assert result.asset_events[0].metadata["lost_run"].value == failed.run_id
        assert "already handled" in self.evaluate(pipeline, instance, result.cursor).skip_message

    @pytest.mark.parametrize("status", [DagsterRunStatus.CANCELED, DagsterRunStatus.SUCCESS], ids=lambda s: s.value)
    def test_an_end_by_a_person_is_no_failure(self, pipeline, instance, status):
        self.record(instance, pipeline, status)
        assert isinstance(self.evaluate(pipeline, instance), SkipReason)

    def test_a_process_that_died_without_a_word_is_found_by_its_lease(self, pipeline, instance, monkeypatch):
        started = self.record(instance, pipeline, DagsterRunStatus.STARTED)
        lease = Lease.acquire(Home.default().leases, pipeline="shop.watched", run_id=started.run_id)
        assert isinstance(self.evaluate(pipeline, instance), SkipReason)
        monkeypatch.setattr(leases, "lives", lambda *_: False)
        result = self.evaluate(pipeline, instance)
        assert "without releasing the lease" in result.run_requests[0].tags["rs/recovery_reason"]
        assert lease.token == 1

    def test_restarts_wait_longer_and_longer_and_end(self, pipeline, instance):
        cursor = None
        policy = RecoveryPolicy(restarts_per_hour=2)
        for _ in range(2):
            self.record(instance, pipeline, DagsterRunStatus.FAILURE)
            result = self.evaluate(pipeline, instance, cursor, replace(policy, backoff=timedelta(0)))
            cursor = result.cursor
        self.record(instance, pipeline, DagsterRunStatus.FAILURE)
        assert "2 times within the hour" in self.evaluate(pipeline, instance, cursor, policy).skip_message
        again = self.evaluate(pipeline, instance, cursor, replace(policy, restarts_per_hour=5))
        assert "the next restart comes in" in again.skip_message

    def test_a_start_that_was_refused_is_not_tried_again(self):
        refused = SerializableErrorInfo("the state was made by another version", [], "TopologyChangedError")
        wrapped = SerializableErrorInfo("step failed", [], "DagsterExecutionStepExecutionError", cause=refused)
        assert refusal(wrapped) == "TopologyChangedError"
        failed = SerializableErrorInfo("no disk", [], "SinkError")
        assert refusal(SerializableErrorInfo("step failed", [], "X", cause=failed)) is None
        assert refusal(None) is None

    def test_a_stream_that_was_stopped_for_a_rescale_is_started_again_once(self, pipeline, instance):
        folder = Home.default().job("shop", "watched")
        request_id = requests.ask(folder, "resume", reason="a rescale")
        result = self.evaluate(pipeline, instance)
        assert result.run_requests[0].run_key == f"resume:{request_id}"
        assert isinstance(self.evaluate(pipeline, instance, result.cursor), SkipReason)


class TestRescale:
    SOURCE = AssetKey(["shop", "watched", "file"])

    def look(self, pipeline, instance, cursor=None):
        """A tick of the split sensor whose events get into Dagster's log; its cursor."""
        result = split_change_sensor(StreamAssets.of(pipeline))(build_sensor_context(instance=instance, cursor=cursor))
        for event in result.asset_events:
            instance.report_runless_asset_event(event)
        return result.cursor

    @pytest.mark.canary
    def test_an_event_of_added_splits_leads_to_a_rescale_and_a_restart_that_name_it(
        self, pipeline, folder, driver, instance, monkeypatch
    ):
        sensor = rescale_sensor(StreamAssets.of(pipeline), RescalePolicy(splits_per_partition=2))
        assert isinstance(sensor(build_sensor_context(instance=instance)), SkipReason)
        run(pipeline, driver)
        seen = self.look(pipeline, instance)
        assert "for 1 split" in sensor(build_sensor_context(instance=instance)).skip_message
        for number in range(5):
            (folder / f"s{number}.jsonl").write_text(lines(0, 1))
        self.look(pipeline, instance, seen)
        result = sensor(build_sensor_context(instance=instance))
        request = result.run_requests[0]
        assert request.run_config["ops"]["upkeep"]["config"] == {"rescale": {"partitions": 3}}
        event = instance.fetch_observations(self.SOURCE, limit=1).records[0]
        assert request.tags["rs/event"] == f"shop/watched/file#{event.storage_id}"
        assert request.tags["rs/why"] == "5 splits added, 0 removed: 6 splits"
        again = sensor(build_sensor_context(instance=instance, cursor=result.cursor))
        assert "too recent" in again.skip_message

        job = build_definitions([pipeline]).resolve_job_def("shop_watched_upkeep")
        monkeypatch.setattr("rs_assets.dagster.resources.spark.SparkResource.driver", driver)
        monkeypatch.setattr("rs_assets.dagster.runs.upkeep._mode_of", lambda *_: "start")
        held = Lease.acquire(Home.default().leases, pipeline="shop.watched", run_id="stream")
        monkeypatch.setattr(
            "rs_assets.dagster.runs.upkeep._wait_until_free", lambda *_: held.__exit__(None, None, None)
        )
        done = job.execute_in_process(instance=instance, run_config=request.run_config, tags=request.tags)
        shown = instance.fetch_observations(self.SOURCE, limit=1).records[0].asset_observation
        assert (shown.description, shown.metadata["partitions"].value) == ("rescale", 3)
        assert shown.metadata["caused_by"].value == "5 splits added, 0 removed: 6 splits"
        assert shown.metadata["event"].value.startswith("/assets/shop/watched/file?view=events&time=")

        recovery = recovery_sensor(StreamAssets.of(pipeline))(build_sensor_context(instance=instance))
        tags = recovery.run_requests[0].tags
        assert tags["rs/resumes_run"] == done.run_id
        assert tags["rs/event"] == request.tags["rs/event"]
        after = sensor(build_sensor_context(instance=instance, cursor=result.cursor))
        assert after.skip_message == "nothing to change: 3 partitions for 6 splits"

    def test_growth_is_answered_though_a_split_goes_before_the_sensor_looks(self, pipeline, folder, driver, instance):
        run(pipeline, driver)
        seen = self.look(pipeline, instance)
        for number in range(6):
            (folder / f"s{number}.jsonl").write_text(lines(0, 1))
        seen = self.look(pipeline, instance, seen)
        (folder / "s5.jsonl").unlink()
        self.look(pipeline, instance, seen)
        sensor = rescale_sensor(StreamAssets.of(pipeline), RescalePolicy(splits_per_partition=2))
        request = sensor(build_sensor_context(instance=instance)).run_requests[0]
        assert request.run_config["ops"]["upkeep"]["config"] == {"rescale": {"partitions": 3}}
        assert request.tags["rs/why"] == "0 splits added, 1 removed: 6 splits"

    def test_a_change_in_the_cooldown_is_answered_after_it(self, pipeline, folder, driver, instance):
        run(pipeline, driver)
        seen = self.look(pipeline, instance)
        for number in range(5):
            (folder / f"s{number}.jsonl").write_text(lines(0, 1))
        self.look(pipeline, instance, seen)
        policy = RescalePolicy(splits_per_partition=2, cooldown=timedelta(hours=1))
        assets = StreamAssets.of(pipeline)
        recent = cursors.dump({"changed_at": time.time()})
        context = build_sensor_context(instance=instance, cursor=recent)
        assert "too recent" in rescale_sensor(assets, policy)(context).skip_message
        impatient = replace(policy, cooldown=timedelta(0))
        later = rescale_sensor(assets, impatient)(build_sensor_context(instance=instance, cursor=context.cursor))
        assert len(later.run_requests) == 1

    def test_the_lag_is_what_is_not_in_a_checkpoint_yet(self, pipeline, folder, driver):
        run(pipeline, driver)
        assert unread(pipeline.topology, Home.default()) == Lag()
        (folder / "b.jsonl").write_text(lines(0, 2))
        assert unread(pipeline.topology, Home.default()) == Lag(bytes=len(lines(0, 2)))

    @pytest.mark.parametrize(
        ("now", "splits", "change", "lagging", "wanted"),
        [
            (2, 8, 4, False, 2),
            (2, 9, 1, False, 3),
            (2, 4, 1, False, 2),
            (2, 99, 0, False, 2),
            (2, 1, 0, True, 4),
            (4, 9, -1, False, 4),
            (4, 8, -1, False, 2),
            (32, 1, 0, True, 32),
            (64, 500, 400, True, 64),
        ],
    )
    def test_partitions_follow_changes_of_splits_and_lag_without_wavering(self, now, splits, change, lagging, wanted):
        assert RescalePolicy().wanted(now, splits=splits, change=change, lagging=lagging) == wanted

    @pytest.mark.parametrize("wrong", [{"least": 0}, {"least": 9, "most": 3}, {"lag_bytes": 0}])
    def test_a_policy_that_leaves_no_number_is_refused(self, wrong):
        with pytest.raises(ConfigurationError):
            RescalePolicy(**wrong)


def test_checks_hold_for_a_sound_pipeline_and_find_what_is_wrong(pipeline, folder, driver):
    assert len(checks_of(StreamAssets.of(pipeline))) == len(SOURCE_CHECKS) + len(STATE_CHECKS) + len(OUTPUT_CHECKS)
    run(pipeline, driver, savepoints=SavepointPolicy(at_end=True))
    topology = pipeline.topology
    for judge in SOURCE_CHECKS.values():
        assert judge(topology, "file", Place()).passed
    for judge in STATE_CHECKS.values():
        assert judge(topology, "window", Place()).passed
    table = next(iter(checked_outputs(topology)))
    for judge in OUTPUT_CHECKS.values():
        assert judge(topology, table, Place()).passed
    row = {"pipeline": "shop.watched", "generation": 1, "run_id": "r", "at": datetime.now(UTC)}
    lost = {**row, "query": "window", "source": "file", "split": "gone.jsonl", "event": "added", "batch_id": 0}
    Catalog(Home.default().catalog).append("splits", [lost])
    assert not SOURCE_CHECKS["no_split_without_owner"](topology, "file", Place()).passed
    (next(f for f in (Home.default().root / "savepoints" / "objects").rglob("*") if f.is_file())).write_bytes(b"?")
    assert not STATE_CHECKS["savepoint_can_be_read"](topology, "window", Place()).passed
    path, marked = (
        Home.default().table("shop", topology[table].table),
        manifests.load(Place().job(topology)).pipeline_id,
    )
    letter = dict.fromkeys(LETTERS.names) | {"namespace": "shop", "job": "watched", "query": "window"}
    letters = pa.Table.from_pylist([letter | {"at": datetime.now(UTC)}], schema=LETTERS)
    write_deltalake(str(Home.default().dead_letters), letters, mode="append", schema_mode="merge")
    refused = OUTPUT_CHECKS["no_records_refused"](topology, table, Place())
    assert (refused.passed, refused.severity, refused.metadata["dead_letters"].value) == (
        False,
        AssetCheckSeverity.WARN,
        1,
    )
    ahead = BatchMark(marked, 1, table, 99)
    kept = DeltaTable(path).to_pyarrow_table().slice(0, 0)
    write_deltalake(path, kept, mode="append", commit_properties=properties(ahead))
    judged = OUTPUT_CHECKS["table_goes_with_the_checkpoints"](topology, table, Place())
    assert not judged.passed
    assert "the table has batch 99" in judged.description
    write_deltalake(path, kept.drop_columns(kept.schema.names[0]), mode="overwrite", schema_mode="overwrite")
    assert (
        f"it lacks {kept.schema.names[0]}"
        in OUTPUT_CHECKS["columns_are_as_written"](topology, table, Place()).description
    )


def test_a_check_that_meets_a_commit_finds_nothing_wrong(pipeline):
    """Splits and state are written before the checkpoint, and the row of the catalog, that tell of them."""
    topology, place = pipeline.topology, Place()
    at = {"pipeline": topology.name, "generation": 1, "run_id": "r", "at": datetime.now(UTC)}
    checkpoint = CheckpointRow(
        namespace="shop", group="watched", topic="file", name="window", queue="a.jsonl", offset="1", query="window",
        generation=1, batch_id=3, run_id="r", at=datetime.now(UTC),
    )  # fmt: skip
    with place.storage() as storage:
        storage.save([checkpoint])

    def added(split, batch):
        row = {"query": "window", "source": "file", "split": split, "event": "added", "batch_id": batch}
        place.catalog.append("splits", [{**at, **row}])
        return SOURCE_CHECKS["no_split_without_owner"](topology, "file", place)

    assert added("a.jsonl", 0).passed
    assert added("b.jsonl", 4).passed
    assert added("c.jsonl", 3).description == "c.jsonl of window"

    path = str(place.home.state / "shop" / "watched" / "window")

    def written(batch=None):
        mark = properties(BatchMark("p", 1, "state.window", batch)) if batch is not None else None
        write_deltalake(path, pa.table({"n": [1]}), mode="append", commit_properties=mark)
        return STATE_CHECKS["state_rows_equal_the_snapshot"](topology, "window", place)

    assert written(3).description == "no snapshot of state yet"
    row = {"snapshot_id": "window-v0", "kind": "state", "step": "window", "batch_id": 3, "rows": 1, "uri": path}
    place.catalog.append("snapshots", [{**at, **row}])
    assert written().description == "the table has 2 rows, the snapshot 1"
    assert written(4).description == "a newer snapshot is being recorded"


def test_upkeep_jobs_run_through_dagster_and_leave_observations(pipeline, folder, driver, monkeypatch):
    from rs_assets.dagster.resources.spark import SparkResource

    monkeypatch.setattr(SparkResource, "driver", driver)
    run(pipeline, driver)
    definitions = build_definitions([pipeline])
    job = definitions.resolve_job_def("shop_watched_upkeep")
    config = {"savepoint": {"note": "by hand"}, "rescale": {"partitions": 3}, "verify": None, "restore": {}}
    with DagsterInstance.ephemeral() as instance:
        for name, values in config.items():
            # Without a choice it verifies.
            run_config = {} if values is None else {"ops": {"upkeep": {"config": {name: values}}}}
            result = job.execute_in_process(instance=instance, run_config=run_config)
            assert result.success
            assert {e.asset_key.path[-1] for e in result.get_asset_observation_events()} == {"file", "window"}
    kinds = [row["kind"] for row in Catalog(Home.default().catalog).rows("operations", pipeline="shop.watched")]
    assert kinds == ["rescale", "restore"]


def test_what_an_op_writes_into_a_table_is_not_a_batch_of_the_pipeline(tmp_path):
    rows = StreamBuilder.data_stream("shop", "shared").from_array([{"n": 1}])
    pipeline, place = rows.to_delta("numbers").build(), Place(home=Home(tmp_path / "rs"))
    claim = Claim(pipeline=pipeline.name, number=5)
    marks = [BatchMark("p", 1, "numbers_table", 7, 1, claim), BatchMark("run.step.0a1b2c3d", 1, "numbers_table", 0)]
    for mark in marks:
        write_deltalake(
            place.home.table("shop", "numbers"),
            pa.table({"n": [1]}),
            mode="append",
            commit_properties=properties(mark),
        )
    [event], versions = _table_news(StreamAssets.of(pipeline), place, {})
    assert (event.metadata["batch_id"].value, event.metadata["delta_version"].value) == (7, 1)
    assert versions == {"shop/shared/numbers": 1}
    assert event.description == "version 0, by batch 7, from the table"


def test_a_table_is_reported_as_fully_by_the_sensor_as_by_a_run(tmp_path):
    """Behind a run outside of Dagster its event is the newest of a table: Dagster shows that one alone."""
    rows = StreamBuilder.data_stream("shop", "shown").from_array([{"n": 1}])
    pipeline, place = rows.to_delta("numbers").build(), Place(home=Home(tmp_path / "rs"))
    claim = Claim(pipeline=pipeline.name, number=1)
    path = place.home.table("shop", "numbers")
    write_deltalake(
        path,
        pa.table({"n": [1]}),
        commit_properties=properties(BatchMark("p", 1, "numbers_table", 0, 1, claim)),
    )
    [event], _ = _table_news(StreamAssets.of(pipeline), place, {})
    shown = event.metadata
    assert shown["newest_rows"].value == "| n |\n|---|\n| 1 |"
    assert [(each.name, each.type) for each in shown["dagster/column_schema"].value.columns] == [("n", "bigint")]
    assert list(shown["dagster/column_lineage"].value.deps_by_column) == ["n"]
    assert shown["dagster/row_count"].value == 1

    for file in Path(path).glob("*.parquet"):
        file.unlink()
    [event], _ = _table_news(StreamAssets.of(pipeline), place, {})
    assert {name: each.value for name, each in event.metadata.items()} == {"delta_version": 0, "batch_id": 0}


def test_a_snapshot_that_comes_late_into_the_catalog_is_told(pipeline):
    """Another thread has taken a later one, or another machine, whose clock is behind."""
    place, now = Place(), datetime.now(UTC)

    def taken(name, minutes):
        row = {"pipeline": "shop.watched", "generation": 1, "run_id": "r", "at": now + timedelta(minutes=minutes)}
        row |= {"snapshot_id": name, "kind": "savepoint", "batch_id": 1, "bytes": 1}
        place.catalog.append("snapshots", [row])

    def tick(cursor=None):
        result = checkpoint_sensor(StreamAssets.of(pipeline))(build_sensor_context(cursor=cursor))
        return [event.metadata["savepoint"].value for event in getattr(result, "asset_events", ())], result

    taken("before", -30)
    taken("first", 0)
    told, result = tick()
    assert told == ["first"]
    taken("later", 20)
    told, result = tick(result.cursor)
    assert told == ["later"]
    taken("late", 15)
    told, result = tick(result.cursor)
    assert told == ["late"]
    assert tick(result.cursor)[0] == []


class TestNewsOfTables:
    """Each event of an output starts the assets downstream: one for each change of its rows, whoever tells of it."""

    KEY = AssetKey(["shop", "told", "numbers"])

    @pytest.fixture
    def place(self, tmp_path):
        return Place(home=Home(tmp_path / "rs"))

    @pytest.fixture
    def assets(self):
        rows = StreamBuilder.data_stream("shop", "told").from_array([{"n": 1}])
        return StreamAssets.of(rows.to_delta("numbers").build())

    def write(self, place, batch):
        path, claim = place.home.table("shop", "numbers"), Claim(pipeline="shop.told", number=1)
        mark = BatchMark("p", 1, "numbers_table", batch, 1, claim)
        write_deltalake(path, pa.table({"n": [batch]}), mode="append", commit_properties=properties(mark))
        return DeltaTable(path)

    def tick(self, assets, place, seen, instance):
        """The batches that the sensor tells of."""
        events, versions = _table_news(assets, place, {"tables": seen}, instance)
        seen.update(versions)
        for event in events:
            instance.report_runless_asset_event(event)
        return [event.metadata["batch_id"].value for event in events]

    def test_what_a_run_has_reported_is_no_news(self, assets, place, instance):
        table, seen = self.write(place, 0), {}
        metadata = OutputTables(assets).metadata("numbers_table", place.home.table("shop", "numbers"), table)
        instance.report_runless_asset_event(AssetMaterialization(self.KEY, metadata=metadata))
        assert (self.tick(assets, place, seen, instance), seen) == ([], {"shop/told/numbers": 0})
        # The run was killed before it reported the next one.
        self.write(place, 1)
        assert self.tick(assets, place, seen, instance) == [1]
        assert self.tick(assets, place, seen, instance) == []

    def test_a_tick_whose_cursor_was_lost_reports_nothing_twice(self, assets, place, instance):
        self.write(place, 0)
        assert self.tick(assets, place, {}, instance) == [0]
        assert self.tick(assets, place, {}, instance) == []

    def test_a_compaction_is_no_news(self, assets, place, instance):
        seen = {}
        self.write(place, 0)
        table = self.write(place, 1)
        assert self.tick(assets, place, seen, instance) == [1]
        table.optimize.compact()
        assert self.tick(assets, place, seen, instance) == []
        assert seen == {"shop/told/numbers": 2}
        self.write(place, 2)
        assert self.tick(assets, place, seen, instance) == [2]

    def test_a_table_that_was_brought_back_names_the_batch_that_it_has(self, assets, place, instance):
        seen = {}
        for batch in range(3):
            table = self.write(place, batch)
        assert self.tick(assets, place, seen, instance) == [2]
        begun = BatchMark("p", 2, "numbers_table", 1, 2, Claim(pipeline="shop.told", number=2))
        act(table, 1, BatchMark("p", 1, "numbers_table", 1), begun)
        assert self.tick(assets, place, seen, instance) == [1]
        told = instance.get_latest_materialization_event(self.KEY).asset_materialization
        assert told.description == "version 3, back to batch 1, from the table"
        assert told.metadata["dagster/row_count"].value == 2

    def test_a_table_that_was_made_again_is_news(self, assets, place, instance):
        seen = {}
        for batch in range(3):
            self.write(place, batch)
        assert self.tick(assets, place, seen, instance) == [2]
        shutil.rmtree(place.home.table("shop", "numbers"))
        self.write(place, 0)
        assert self.tick(assets, place, seen, instance) == [0]

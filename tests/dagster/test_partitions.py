"""The sensor of closed partitions: what Dagster has of them, once, and what starts by them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.partitions.context import partition_loading_context
from deltalake import DeltaTable

from rs_assets import EventTimePartitions, Home, MemoryChannel, RunOptions, StreamBuilder, Time, build_definitions
from rs_assets.catalog.lease import Lease
from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.manifest import Manifest
from rs_assets.dagster.assets.closed_partitions import closed_assets
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.place import Place
from rs_assets.dagster.resources.spark import SparkResource
from rs_assets.dagster.sensors.cursor import HOME, HOME_BEFORE, dump, of_home
from rs_assets.dagster.sensors.partitions import MOST, WATCHED, Reported, partition_sensor
from rs_assets.errors import CheckpointError, SinkError
from rs_assets.recovery import rollback_marker
from rs_assets.runtime.recorded.partitions import OutputPartitions, Partition
from rs_assets.runtime.recorded.recorded import Recorded
from rs_assets.spark.driver import SparkDriver
from rs_assets.stream.pipeline import Pipeline
from tests.dagster.projects import call, imported_project

KEY = dg.AssetKey(["shop", "hours", "hits", "closed"])
HOUR = timedelta(hours=1)
NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Apia"])
def test_partitions_should_have_the_keys_of_dagster(zone: str) -> None:
    """Both through a year with each change of clocks."""
    end = datetime(2026, 12, 31, tzinfo=UTC)
    for make in (EventTimePartitions.hourly, EventTimePartitions.daily, EventTimePartitions.monthly):
        partitions = make("ts", since="2026-01-01", zone=zone)
        value, made = partitions.first, dict[str, datetime]()
        while partitions.end(value) <= end:
            made[partitions.key(value)] = partitions.start(value)
            value = partitions.following(value)
        definition = partitions.definition()
        with partition_loading_context(effective_dt=end):
            assert list(made) == list(definition.get_partition_keys())
        for key in list(made)[:: max(len(made) // 50, 1)]:
            assert definition.time_window_for_partition_key(key).start.timestamp() == made[key].timestamp()


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Havana", "Pacific/Apia"])
def test_partitions_of_input_that_has_ended_should_end_with_its_last_day(zone: str) -> None:
    """In Havana the clocks repeat the hour after the last day."""
    for make in (EventTimePartitions.hourly, EventTimePartitions.daily, EventTimePartitions.monthly):
        partitions = make("ts", since="2026-10-30", until="2026-10-31", zone=zone)
        value, made = partitions.first, list[str]()
        while partitions.holds(value):
            made.append(partitions.key(value))
            value = partitions.following(value)
        assert len(made) == {"hour": 48, "day": 2, "month": 1}[partitions.unit]
        with partition_loading_context(effective_dt=datetime(2027, 1, 1, tzinfo=UTC)):
            assert made == list(partitions.definition().get_partition_keys())


def partition(n: int, *, rows: int = 1, late: int = 0, closed: bool = True) -> Partition:
    start = datetime(2026, 1, 5, tzinfo=UTC) + n * HOUR
    return Partition(
        key=f"{start:%Y-%m-%d-%H:%M}",
        start=start,
        end=start + HOUR,
        rows=rows,
        late=late,
        bytes=9,
        files=1,
        closed=closed,
    )


def found(*partitions: Partition) -> OutputPartitions:
    return OutputPartitions(sink="hits", version=3, reached=NOW, without_time=0, partitions=partitions)


def told(seen: Reported, *partitions: Partition, now: datetime = NOW, **more: Any) -> list[tuple[str, str]]:
    """The events of a tick: kind and partition. The cursor goes through JSON between ticks, as in Dagster."""
    reported = Reported.of(json.loads(json.dumps(seen.cursor())))
    events = reported.events(KEY, replace(found(*partitions), **more), now)
    seen.since, seen.until, seen.seen = reported.since, reported.until, reported.seen
    seen.generation = reported.generation
    return [(type(event).__name__.removeprefix("Asset"), str(event.partition)) for event in events]


def test_a_partition_should_be_reported_once_when_it_has_closed() -> None:
    seen = Reported.of({})
    assert told(seen, partition(0), partition(1, closed=False)) == [("Materialization", "2026-01-05-00:00")]
    assert told(seen, partition(0), partition(1, closed=False)) == []
    assert told(seen, partition(0), partition(1)) == [("Materialization", "2026-01-05-01:00")]


def test_rows_after_the_close_should_be_observed_once() -> None:
    seen = Reported.of({})
    told(seen, partition(0, rows=5), partition(1))
    assert told(seen, partition(0, rows=7), partition(1)) == [("Observation", "2026-01-05-00:00")]
    assert told(seen, partition(0, rows=7), partition(1)) == []
    assert told(seen, partition(0, rows=7, late=2), partition(1)) == [("Observation", "2026-01-05-00:00")]


def test_a_partition_should_be_reported_again_when_it_closes_after_a_rewind() -> None:
    seen = Reported.of({})
    told(seen, partition(0), partition(1))
    assert told(seen, partition(0), partition(1, closed=False)) == []
    assert told(seen, partition(0), partition(1, rows=2)) == [("Materialization", "2026-01-05-01:00")]
    assert told(seen) == []
    assert len(told(seen, partition(0), partition(1))) == 2


def test_a_partition_should_be_reported_again_when_it_was_undone_and_closed_between_two_ticks() -> None:
    seen, many = Reported.of({}), [partition(n) for n in range(4)]
    assert len(told(seen, *many, generation=1)) == 4
    assert told(seen, *many, generation=2, kept=((1, many[2].end),)) == [("Materialization", "2026-01-05-03:00")]
    # A return to before the first one: the batches that both have are those of generation 1.
    assert len(told(seen, *many, generation=3, kept=((1, many[0].end),))) == 3
    assert told(seen, *many, generation=3, kept=((1, many[0].end),)) == []
    # From scratch, as by --new-generation or --reset-step.
    assert len(told(seen, *many, generation=4)) == 4
    # Without state no watermark says what was undone.
    assert told(seen, *many, generation=5, kept=((4, None),)) == []


def test_a_partition_should_not_be_reported_again_while_no_watermark_is_known() -> None:
    """As after a step was renamed, until the pipeline has started once."""
    seen = Reported.of({})
    told(seen, partition(0), partition(1))
    assert told(seen, reached=None) == []
    assert told(seen, partition(0), partition(1)) == []


def test_earlier_partitions_should_be_reported_when_rows_come_there() -> None:
    """Without state a row may be older than all others; and `since` may be moved to an earlier day."""
    seen, many = Reported.of({}), [partition(n) for n in range(5)]
    told(seen, *many[3:])
    assert told(seen, *many[1:]) == [("Materialization", each.key) for each in many[1:3]]
    assert told(seen, replace(many[0], known=False), *many[1:]) == []
    assert told(seen, *many) == [("Materialization", many[0].key)]
    assert told(seen, *many) == []


def test_a_partition_that_is_not_over_on_the_clock_or_unknown_should_wait() -> None:
    seen = Reported.of({})
    early = replace(partition(-1), known=False)
    assert told(seen, early, partition(0), partition(1), now=partition(0).end) == [
        ("Materialization", "2026-01-05-00:00")
    ]
    assert told(seen, early, partition(0), partition(1)) == [("Materialization", "2026-01-05-01:00")]


def test_many_partitions_should_be_reported_over_several_ticks_with_a_small_cursor() -> None:
    seen, many = Reported.of({}), [partition(n) for n in range(MOST + 10)]
    first, second = told(seen, *many), told(seen, *many)
    assert (len(first), len(second), told(seen, *many)) == (MOST, 10, [])
    assert len(seen.seen) == WATCHED


HOURS = EventTimePartitions.hourly("ts", since="2026-01-01", settle=Time.minutes(10))


def hourly(source: MemoryChannel) -> Pipeline:
    return StreamBuilder.data_stream("shop", "hours").from_memory(source).to_delta("hits", partitions=HOURS).build()


def test_a_downstream_asset_should_start_for_each_partition_that_closes(home: Home, driver: SparkDriver) -> None:
    """From the rows in the table over the sensor to Dagster's automation conditions."""
    source = MemoryChannel(schema="id int, ts timestamp")
    pipeline = hourly(source)
    defs = build_definitions([pipeline])
    assets = StreamAssets.of(pipeline)
    each = dg.AutomationCondition.eager().without(dg.AutomationCondition.in_latest_time_window())

    @dg.asset(partitions_def=HOURS.definition(), deps=[KEY], automation_condition=each)
    def report() -> None: ...

    merged = dg.Definitions.merge(defs, dg.Definitions(assets=[report]))
    with dg.DagsterInstance.ephemeral() as instance, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RS_HOME", str(home.root))
        started = dg.evaluate_automation_conditions(merged, instance, evaluation_time=NOW)
        sensor, cursor = partition_sensor(assets), None
        assert sensor is not None
        assert isinstance(sensor(dg.build_sensor_context(instance=instance)), dg.SensorResult)
        requested = []
        for times in (["10:10", "11:05"], ["11:10", "13:30"], ["13:40"]):
            source.put(*({"id": 1, "ts": f"2026-01-05 {at}:00"} for at in times))
            pipeline.run(RunOptions(home=home, driver=driver))
            ticked = sensor(dg.build_sensor_context(instance=instance, cursor=cursor))
            if isinstance(ticked, dg.SensorResult):
                cursor = ticked.cursor
                for event in ticked.asset_events:
                    instance.report_runless_asset_event(event)
            started = dg.evaluate_automation_conditions(merged, instance, evaluation_time=NOW, cursor=started.cursor)
            requested.append(sorted(started.get_requested_partitions(report.key)))
        assert requested == [[], ["2026-01-05-10:00", "2026-01-05-11:00", "2026-01-05-12:00"], []]
        event = instance.fetch_materializations(KEY, limit=3).records[-1].event_log_entry.asset_materialization
        assert event is not None
        assert (event.partition, event.metadata["dagster/row_count"].value) == ("2026-01-05-10:00", 1)


@pytest.mark.long
def test_a_run_of_closed_partitions_should_compute_them_again(
    home: Home, driver: SparkDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Dagster's page of backfills launches it: one run for a range of partitions."""
    source = MemoryChannel(schema="id int, ts timestamp")
    pipeline = hourly(source)
    source.put(*({"id": n, "ts": f"2026-01-05 1{n}:05:00"} for n in range(4)))
    pipeline.run(RunOptions(home=home, driver=driver))
    DeltaTable(home.table("shop", "hits")).delete("id < 2")
    monkeypatch.setenv("RS_HOME", str(home.root))
    monkeypatch.setattr(SparkResource, "driver", driver)
    opened, query = list[str](), Recorded.query

    def counted(*arguments: Any) -> Any:
        opened.append("query")
        return query(*arguments)

    monkeypatch.setattr(Recorded, "query", counted)
    [asset] = closed_assets(StreamAssets.of(pipeline))
    span = {"start": "2026-01-05-10:00", "end": "2026-01-05-11:00"}
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize(
            [asset],
            instance=instance,
            resources={"rs_spark": SparkResource(share=True)},
            tags={f"dagster/asset_partition_range_{edge}": key for edge, key in span.items()},
        )
        found = {
            event.partition: {name: event.metadata[name].value for name in ("dagster/row_count", "rows_before")}
            for event in result.asset_materializations_for_node(asset.op.name)
        }
        assert found == {key: {"dagster/row_count": 1, "rows_before": 0} for key in span.values()}
        assert instance.get_materialized_partitions(KEY) == set(span.values())
    assert opened == ["query"]
    assert sorted(DeltaTable(home.table("shop", "hits")).to_pyarrow_table()["id"].to_pylist()) == [0, 1, 2, 3]


def test_a_damaged_table_should_hold_back_no_other_output(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = StreamBuilder.data_stream("shop", "two").from_memory(MemoryChannel(schema="id int, ts timestamp"))
    rows.to_delta("broken", partitions=HOURS, name="broken")
    pipeline = rows.to_delta("whole", partitions=HOURS, name="whole").build()
    monkeypatch.setenv("RS_HOME", str(home.root))
    closed, damaged = [partition(0)], {"broken"}

    def partitions_of(*_: Any, sink: str) -> OutputPartitions:
        if sink in damaged:
            raise SinkError("the table is damaged", remedy="restore it", step=sink)
        return replace(found(*closed), sink=sink)

    monkeypatch.setattr("rs_assets.dagster.sensors.partitions.partitions_of", partitions_of)
    sensor = partition_sensor(StreamAssets.of(pipeline))
    assert sensor is not None

    def ticked(cursor: str | None) -> tuple[list[tuple[str, str | None]], str | None]:
        result = sensor(dg.build_sensor_context(cursor=cursor))
        if not isinstance(result, dg.SensorResult):
            return [], cursor
        return [(event.asset_key.path[-2], event.partition) for event in result.asset_events], result.cursor

    events, cursor = ticked(None)
    assert events == [("whole", partition(0).key)]
    # The tick fails where nothing else is to be reported.
    with pytest.raises(SinkError, match="damaged"):
        ticked(cursor)
    closed.append(partition(1))
    events, cursor = ticked(cursor)
    assert events == [("whole", partition(1).key)]
    damaged.clear()
    events, cursor = ticked(cursor)
    assert events == [("broken", partition(0).key), ("broken", partition(1).key)]
    damaged.add("broken")
    closed.append(partition(2))
    events, cursor = ticked(cursor)
    damaged.clear()
    # What was reported of it is still known.
    assert (events, ticked(cursor)[0]) == ([("whole", partition(2).key)], [("broken", partition(2).key)])


def test_a_cursor_of_an_earlier_release_should_still_say_of_which_home_it_is(tmp_path: Path) -> None:
    topology = StreamBuilder.data_stream("shop", "one").from_array([{"n": 1}]).to_print().build().topology
    written = dump({HOME_BEFORE: str(tmp_path / "a"), "hits": {}})
    found = [of_home(written, Place(home=Home(tmp_path / name)), topology) for name in ("a", "b")]
    assert found == [{HOME: str(tmp_path / "a"), "hits": {}}, {HOME: str(tmp_path / "b")}]


def test_partitions_of_a_home_that_was_made_again_should_be_reported_again(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its generation, and what has closed, may be what they were before it was removed."""
    pipeline = hourly(MemoryChannel(schema="id int, ts timestamp"))
    monkeypatch.setenv("RS_HOME", str(home.root))
    monkeypatch.setattr(
        "rs_assets.dagster.sensors.partitions.partitions_of",
        lambda *_, **__: replace(found(partition(0)), generation=1),
    )
    sensor, folder = partition_sensor(StreamAssets.of(pipeline)), home.job("shop", "hours")
    assert sensor is not None

    def ticked(cursor: str | None) -> tuple[list[str | None], str | None]:
        result = sensor(dg.build_sensor_context(cursor=cursor))
        if not isinstance(result, dg.SensorResult):
            return [], cursor
        return [event.partition for event in result.asset_events], result.cursor

    events, cursor = ticked(None)
    assert events == [partition(0).key]
    for expected in ([], [partition(0).key]):
        shutil.rmtree(folder, ignore_errors=True)
        assert ticked(cursor) == ([], cursor)
        manifests.save(folder, Manifest.new())
        events, cursor = ticked(cursor)
        assert events == expected
        assert ticked(cursor) == ([], cursor)


@pytest.mark.parametrize("name", ["home", "version"])
def test_an_output_that_is_called_like_a_part_of_the_cursor_should_be_reported_once(
    home: Home, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    rows = StreamBuilder.data_stream("shop", "one").from_memory(MemoryChannel(schema="id int, ts timestamp"))
    pipeline = rows.to_delta("pages", partitions=HOURS, name=name).build()
    monkeypatch.setenv("RS_HOME", str(home.root))
    monkeypatch.setattr("rs_assets.dagster.sensors.partitions.partitions_of", lambda *_, **__: found(partition(0)))
    sensor = partition_sensor(StreamAssets.of(pipeline))
    assert sensor is not None
    first = sensor(dg.build_sensor_context())
    assert isinstance(first, dg.SensorResult)
    assert [event.partition for event in first.asset_events] == [partition(0).key]
    assert isinstance(sensor(dg.build_sensor_context(cursor=first.cursor)), dg.SkipReason)


def test_a_tick_during_a_rollback_is_skipped_and_one_after_its_interruption_fails(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = StreamBuilder.data_stream("shop", "back").from_memory(MemoryChannel(schema="id int, ts timestamp"))
    pipeline = rows.to_delta("hours", partitions=HOURS, name="hits").build()
    monkeypatch.setenv("RS_HOME", str(home.root))
    sensor = partition_sensor(StreamAssets.of(pipeline))
    assert sensor is not None
    folder = home.job("shop", "back")
    rollback_marker.begin(folder, rollback_marker.Returning(2, "a rewind of back to batch 0"))
    with Lease.acquire(home.leases, pipeline="shop.back", run_id="a rewind"):
        skipped = sensor(dg.build_sensor_context())
    assert isinstance(skipped, dg.SkipReason)
    assert skipped.skip_message == "the pipeline is being rolled back"
    with pytest.raises(CheckpointError, match="the last rollback was interrupted: a rewind of back to batch 0"):
        sensor(dg.build_sensor_context(cursor=dump({HOME: str(home.root)})))


def test_a_stream_should_be_launched_without_a_partition_and_depend_on_none(tmp_path: Path) -> None:
    defs = build_definitions([hourly(MemoryChannel(schema="id int, ts timestamp"))])
    assert defs.resolve_job_def("shop_hours_start").partitions_def is None
    (spec,) = [spec for spec in defs.resolve_all_asset_specs() if spec.key == KEY]
    assert [dep.asset_key for dep in spec.deps] == [dg.AssetKey(["shop", "hours", "hits"])]
    assert "shop_hours_partitions" in {sensor.name for sensor in defs.sensors or []}
    plain = StreamBuilder.data_stream("shop", "plain").from_array([{"n": 1}]).to_delta("numbers").build()
    assert partition_sensor(StreamAssets.of(plain)) is None


MODULE = """
from rs_assets import EventTimePartitions, StreamBuilder, Time
rows = [{'id': n, 'ts': f'2026-01-05 1{n}:30:00'} for n in range(3)] + [{'id': 9, 'ts': None}]
hours = EventTimePartitions.hourly('ts', since='2026-01-05', settle=Time.minutes(0))
hits = StreamBuilder.data_stream('shop', 'hours').from_array(rows, schema='id int, ts timestamp')
pipeline = hits.to_delta('hits', partitions=hours).build()
"""


def test_the_command_should_show_the_newest_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: SparkDriver
) -> None:
    project = imported_project(tmp_path, monkeypatch, driver, module="parted_hits", code=MODULE)

    code, text = call("partitions")
    assert (code, text) == (0, "hits_table: no partitions yet\n")
    project.pipeline.run(RunOptions(home=Home.default(), driver=driver))
    code, text = call("partitions", "hours", "--last", "2")
    assert code == 0
    assert "2026-01-05-10:00" not in text
    assert "2026-01-05-12:00" in text
    assert "rows without a time, which are in no partition: 1" in text
    code, text = call("partitions", "--json")
    shown = json.loads(text)
    assert [(each["key"], each["rows"], each["closed"]) for each in shown["partitions"]] == [
        ("2026-01-05-10:00", 1, True),
        ("2026-01-05-11:00", 1, True),
        ("2026-01-05-12:00", 1, True),
    ]
    code, text = call("backfill", "--partition", "2026-01-05-11:00", "--plan")
    assert (code, text) == (0, "2026-01-05-11:00: 1 row, to be computed from 1 batch\n")
    code, text = call("backfill", "hours", "--partition", "2026-01-05-10:00", "--to", "2026-01-05-11:00", "--json")
    assert [(each["rows_before"], each["rows"]) for each in json.loads(text)] == [(1, 1), (1, 1)]
    code, text = call("partitions", "--sink", "nothing")
    assert (code, "name one of: hits_table" in text) == (1, True)

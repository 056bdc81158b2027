"""Partitions by event time: their column, when they close, and that no row comes after that."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from rs_assets import (
    EventTimePartitions,
    Home,
    HoppingWindow,
    Interval,
    MemoryChannel,
    RsError,
    RunOptions,
    SessionWindow,
    StreamBuilder,
    Time,
    TumblingWindow,
)
from rs_assets.connectors.delta.files.partitions import with_event_partition
from rs_assets.errors import TopologyError
from rs_assets.operators.window.spec import Window
from rs_assets.runtime.recorded.partitions import partitions_of
from rs_assets.spark.driver import SparkDriver
from rs_assets.stream.data_stream import DataStream

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "America/Sao_Paulo", "Pacific/Apia")


def test_a_row_should_be_in_the_partition_of_its_time_in_each_zone(spark: SparkSession) -> None:
    """Spark's column, against Python's time zones, at instants around changes of clocks and anywhere."""
    chance = random.Random(5)
    first, last = datetime(2011, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    times = [first + (last - first) * chance.random() for _ in range(300)]
    times += [datetime(2026, 10, 25, tzinfo=UTC) + timedelta(minutes=15 * n) for n in range(16)]
    times += [datetime(2011, 12, 30, tzinfo=UTC) + timedelta(hours=n) for n in range(36)]
    rows = spark.createDataFrame([(at,) for at in times], "ts timestamp").coalesce(1)
    for zone in ZONES:
        for make in (EventTimePartitions.hourly, EventTimePartitions.daily, EventTimePartitions.monthly):
            partitions = make("ts", since="2011-01-01", zone=zone)
            found = with_event_partition(rows, partitions).toArrow()
            stored = [partitions.stored(value) for value in found[partitions.column].to_pylist()]
            assert stored == [partitions.value_of(at) for at in times], (zone, partitions.unit)


def test_a_partition_should_begin_where_the_one_before_ends() -> None:
    for zone in ZONES:
        for make in (EventTimePartitions.hourly, EventTimePartitions.daily, EventTimePartitions.monthly):
            partitions = make("ts", since="2025-03-29", zone=zone)
            value, names = partitions.first, set()
            for _ in range(100):
                end = partitions.end(value)
                assert partitions.value_of(end - timedelta(microseconds=1)) == value
                assert partitions.value_of(end) == partitions.following(value)
                assert partitions.parse(partitions.key(value)) == value
                names.add(partitions.key(value))
                value = partitions.following(value)
            assert len(names) == 100


@pytest.mark.parametrize(
    ("make", "zone", "day", "since"),
    [
        (EventTimePartitions.hourly, "America/Caracas", "2016-05-01", "2016-05-02"),
        (EventTimePartitions.hourly, "Asia/Pyongyang", "2015-08-01", "2018-05-06"),
        (EventTimePartitions.daily, "America/St_Johns", "2009-01-01", "2011-11-08"),
        (EventTimePartitions.monthly, "America/Goose_Bay", "2009-01-01", "2010-01-01"),
    ],
)
def test_partitions_that_overlap_once_are_refused_unless_they_begin_later(
    make: Callable[..., EventTimePartitions], zone: str, day: str, since: str
) -> None:
    with pytest.raises(TopologyError, match="overlap"):
        make("ts", since=day, zone=zone)
    make("ts", since=since, zone=zone)
    make("ts", since="2000-01-01", until="2000-01-31", zone=zone)


def hourly(field: str = "ts", **settings: Any) -> EventTimePartitions:
    return EventTimePartitions.hourly(field, since="2026-01-01", **settings)


SETTLED = hourly(settle=Time.hours(1))


def hits(*fields: str) -> DataStream:
    return StreamBuilder.data_stream("shop", "parted").from_memory(
        MemoryChannel(schema=", ".join(["ts timestamp", *fields]))
    )


def keyed(**settings: Any) -> object:
    return hits("n int").to_delta("t", keys=["n"], partitions=SETTLED, **settings)


def windowed(window: Window, field: str, **added: str) -> object:
    rows = hits().window(window).count("n").with_fields(**{"n": "n", **added})
    return rows.to_delta("t", partitions=hourly(field)).build()


FIVE = Time.minutes(5)


def fired(field: str, window: Window) -> object:
    """A session retracts the rows of those that it has absorbed when it fires, which may be long after their end."""
    rows = hits("id int").window(window, name="live").group_by("id").count("n").emit_before(FIVE)
    return rows.to_data_stream().to_delta("t", partitions=hourly(field)).build()


def updated(field: str) -> object:
    """The times of its updates are those of the clock."""
    rows = hits("id int").window(TumblingWindow.of(FIVE, "ts"), name="live", emit="on_window_update").group_by("id")
    return rows.count("n").to_data_stream().to_delta("t", partitions=hourly(field)).build()


WRONG: dict[str, Callable[[], object]] = {
    "need a time to settle": lambda: hits().to_delta("t", partitions=hourly()).build(),
    "may not move to another partition": lambda: keyed(mode="upsert"),
    "cannot be parted by event time": lambda: keyed(mode="history"),
    "adds the column 'hour'": lambda: hits("hour int").to_delta("t", partition_by=["hour"], partitions=SETTLED),
    "have a field 'hour'": lambda: hits("hour int").to_delta("t", partitions=SETTLED).build(),
    "there is no time zone 'Nowhere'": lambda: hourly(zone="Nowhere"),
    "since= must be a date": lambda: EventTimePartitions.daily("ts", since="5 January"),
    "settle= must be a timedelta": lambda: hourly(settle=5),
    "by a part of an hour": lambda: hourly(zone="Australia/Lord_Howe"),
    "name of a field": lambda: hourly(""),
    "cannot have the unit 'week'": lambda: EventTimePartitions("week", "ts", date(2026, 1, 1)),  # type: ignore[arg-type]
    "must be EventTimePartitions": lambda: hits().to_delta("t", partitions="hourly"),  # type: ignore[arg-type]
    "which cannot be the time of a record": (
        lambda: hits("n int").to_delta("t", partitions=hourly("n", settle=FIVE)).build()
    ),
    "when 'window' has emitted all rows with a 'start_time'": lambda: windowed(
        SessionWindow.of(FIVE, "ts"), "start_time"
    ),
    "Spark cannot know which rows are still to come": (
        lambda: windowed(TumblingWindow.of(FIVE, "ts"), "at", at="end_time")
    ),
    "when 'live' has emitted all rows with a 'end_time'": lambda: fired("end_time", SessionWindow.of(FIVE, "ts")),
    "when 'live' has emitted all rows with a 'fire_time'": lambda: updated("fire_time"),
    "close by the rows of a single sink": lambda: (
        hits().to_delta("t", name="a", partitions=SETTLED).to_delta("t", name="b").build()
    ),
    "when 'table' has emitted all rows with a 'ts'": (
        lambda: hits("id int").to_table("id", order_by="ts").to_stream().to_delta("t", partitions=hourly()).build()
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_partitions_that_cannot_close_are_refused(message: str) -> None:
    with pytest.raises(RsError) as refused:
        WRONG[message]()
    assert message in str(refused.value)


def test_one_row_of_a_far_future_should_close_nothing_and_make_no_partitions_until_then(tmp_path: Path) -> None:
    """Such as 9999-12-31 for none: partitions close by the other rows, and a sensor lists them in every tick."""
    pipeline, options = hits().to_delta("t", partitions=SETTLED).build(), RunOptions(home=Home(tmp_path))
    times = [NOON, NOON + timedelta(hours=3), datetime(2999, 1, 1, tzinfo=UTC)]
    for at in times:
        rows = pa.table({"ts": [at], "hour": [at.replace(minute=0)]})
        write_deltalake(options.home.table("shop", "t"), rows, partition_by=["hour"], mode="append")
    found = partitions_of(pipeline.topology, options, now=NOON + timedelta(hours=5))
    assert found.reached == times[1]
    assert [(each.key, each.rows, each.closed) for each in found.partitions] == [
        ("2026-01-05-12:00", 1, True),
        ("2026-01-05-13:00", 0, True),
        ("2026-01-05-14:00", 0, False),
        ("2026-01-05-15:00", 1, False),
        ("2026-01-05-16:00", 0, False),
        ("2999-01-01-00:00", 1, False),
    ]


def test_a_time_that_python_does_not_have_should_be_in_no_partition(spark: SparkSession) -> None:
    """Milliseconds taken for seconds, and the least and greatest dates of other systems."""
    texts = ["+57000-01-01 00:00:00", "0001-01-01 00:00:00", "9999-12-31 23:59:59", "2026-01-05 12:30:00"]
    rows = spark.createDataFrame([(text,) for text in texts], "at string").selectExpr("CAST(at AS TIMESTAMP) AS ts")
    for zone in ("Europe/Berlin", "America/New_York"):
        for make in (EventTimePartitions.hourly, EventTimePartitions.daily, EventTimePartitions.monthly):
            found = with_event_partition(rows, make("ts", since="2026-01-01", zone=zone))
            assert [found.filter(f"{found.columns[-1]} IS NULL").count(), found.count()] == [3, 4]


@dataclass(frozen=True)
class Case:
    """A way to an output, the field of its partitions, and how long after its end a partition may close."""

    field: str
    made: Callable[[DataStream], DataStream]
    waits: timedelta = timedelta(0)
    settle: timedelta | None = None


TEN = Time.minutes(10)
CASES = {
    "tumbling": Case(
        "start_time",
        lambda rows: rows.window(TumblingWindow.of(TEN, "ts")).water_mark(Time.minutes(5)).group_by("id").count("n"),
    ),
    "hopping": Case(
        "start_time",
        lambda rows: rows.window(HoppingWindow.of(Time.minutes(40), TEN, "ts")).group_by("id").count("n"),
        waits=Time.minutes(30),
    ),
    "hopping by its end": Case(
        "end_time", lambda rows: rows.window(HoppingWindow.of(Time.minutes(40), TEN, "ts")).group_by("id").count("n")
    ),
    "session": Case("end_time", lambda rows: rows.window(SessionWindow.of(TEN, "ts")).group_by("id").count("n")),
    "distinct": Case("ts", lambda rows: rows.distinct("id", "ts", within=TEN, time_field="ts")),
    "window of windows": Case(
        "start_time",
        lambda rows: rows.window(TumblingWindow.of(TEN, "ts")).group_by("id").count("n").to_data_stream()
        .window(TumblingWindow.of(Time.minutes(30), "start_time"), name="longer").sum("n", "total"),
    ),
    "without state": Case("ts", lambda rows: rows.filter("id >= 0"), settle=Time.minutes(90)),
}  # fmt: skip


def rows_of(path: str, column: str = "hour") -> dict[datetime, list[str]]:
    """The rows of each partition, as text."""
    found: dict[datetime, list[str]] = {}
    for row in DeltaTable(path).to_pyarrow_table().to_pylist():
        found.setdefault(row[column], []).append(str(sorted(row.items())))
    return {value: sorted(rows) for value, rows in found.items()}


def follows(case: Case, tmp_path: Path, driver: SparkDriver, *, seed: int, runs: int) -> None:
    """No closed partition changes, none closes late, and the end of input closes the rest."""
    chance, source = random.Random(seed), MemoryChannel(schema="id int, ts timestamp")
    made = case.made(StreamBuilder.data_stream("shop", "parted").from_memory(source))
    partitions = EventTimePartitions.hourly(case.field, since="2026-01-05", settle=case.settle)
    pipeline = made.to_delta("hits", partitions=partitions).build()
    options = RunOptions(home=Home(tmp_path), driver=driver)
    path, at, frozen = options.home.table("shop", "hits"), NOON, dict[str, list[str]]()
    for _ in range(runs):
        at += timedelta(minutes=chance.randrange(5, 70))
        for _ in range(chance.randrange(1, 12)):
            # Out of order by up to an hour: some of them are late.
            ts = at - timedelta(minutes=chance.choice([0, 1, 2, 5, 20, 60]), seconds=chance.randrange(60))
            source.put({"id": chance.randrange(3), "ts": ts})
        pipeline.run(options)
        found, rows = pipeline.partitions(options), rows_of(path) if Path(path, "_delta_log").exists() else {}
        for each in found.partitions:
            held = rows.get(each.start, [])
            assert len(held) == each.rows
            assert held == frozen.get(each.key, held), "a closed partition has changed"
            if each.closed:
                frozen[each.key] = held
            elif found.reached is not None:
                assert found.reached < each.end + case.waits + (case.settle or timedelta(0)), "it should have closed"
    assert frozen, "no partition has closed"
    source.close()
    pipeline.run(options, finish=True)
    found, rows = pipeline.partitions(options), rows_of(path)
    if case.settle is None:
        assert all(each.closed for each in found.partitions)
    for key, held in frozen.items():
        assert rows.get(partitions.start(partitions.parse(key)), []) == held, "a closed partition has changed"


def test_a_closed_partition_of_a_window_should_never_change(tmp_path: Path, driver: SparkDriver) -> None:
    follows(CASES["tumbling"], tmp_path, driver, seed=1, runs=4)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [2, 3, 4])
@pytest.mark.parametrize("name", CASES)
def test_a_closed_partition_should_never_change(name: str, seed: int, tmp_path: Path, driver: SparkDriver) -> None:
    follows(CASES[name], tmp_path, driver, seed=seed, runs=8)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("processor", [False, True])
def test_a_closed_partition_of_a_join_should_never_change(
    tmp_path: Path, driver: SparkDriver, *, processor: bool
) -> None:
    """Rows of the right side come up to 20 minutes after those of the left one that they join."""
    chance = random.Random(11)
    left, right = MemoryChannel(schema="id int, ts timestamp"), MemoryChannel(schema="id int, at timestamp")
    shop = StreamBuilder.data_stream("shop", "joined")
    joined = shop.from_memory(left, name="left").join(
        shop.from_memory(right, name="right"),
        on="id",
        how="left",
        within=Interval.of(before=Time.minutes(0), after=Time.minutes(20)),
        time_field=("ts", "at"),
        prefix="right_",
        processor=processor,
    )
    partitions = EventTimePartitions.hourly("ts", since="2026-01-05")
    pipeline = joined.to_delta("hits", partitions=partitions).build()
    options = RunOptions(home=Home(tmp_path), driver=driver)
    path, at, frozen = options.home.table("shop", "hits"), NOON, dict[str, list[str]]()
    for _ in range(8):
        at += timedelta(minutes=chance.randrange(5, 50))
        for _ in range(6):
            ts = at - timedelta(minutes=chance.randrange(0, 30))
            left.put({"id": chance.randrange(3), "ts": ts})
            right.put({"id": chance.randrange(3), "at": ts + timedelta(minutes=chance.randrange(0, 25))})
        pipeline.run(options)
        rows = rows_of(path) if Path(path, "_delta_log").exists() else {}
        for each in pipeline.partitions(options).partitions:
            held = rows.get(each.start, [])
            assert held == frozen.get(each.key, held), "a closed partition has changed"
            if each.closed:
                frozen[each.key] = held
    assert frozen

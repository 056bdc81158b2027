"""shuffle: memory, delta and kafka give equal results."""

import shutil
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction
from pyspark.sql.types import LongType, StructField, StructType

from rs_assets import RunOptions, StreamBuilder, Time, TumblingWindow
from rs_assets.common.home import Home
from rs_assets.connectors.kafka.client.admin import connected
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.source.offsets import dump_offsets
from rs_assets.connectors.kafka.source.reading import KafkaReader
from rs_assets.errors import CheckpointError, ConfigurationError, SinkError, TopologyError
from rs_assets.operators.shuffle.noted import NotedEnd
from rs_assets.operators.shuffle.table import BATCH, TableShuffle
from rs_assets.runtime.upkeep.savepoints import fork, restore, rewind, savepoint
from rs_assets.testing import KafkaRecord, PipelineDriver

START = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = [{"key": f"k{n % 5}", "n": n, "ts": START + timedelta(seconds=n // 5)} for n in range(200)]
SCHEMA = "key string, n bigint, ts timestamp"


def totals(stream):
    windowed = stream.window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("key").count("rows").sum("n", "total")
    return windowed.water_mark(Time.seconds(5)).to_data_stream()


@pytest.fixture
def strategies(broker):
    """The options of each strategy."""
    kafka = {"strategy": "kafka", "bootstrap_servers": broker.bootstrap_servers}
    return {"memory": {}, "delta": {"strategy": "delta"}, "kafka": kafka}


@pytest.mark.parametrize("strategy", ["memory", "delta", "kafka"])
def test_should_give_equal_windows_behind_every_strategy(source, driver, strategies, strategy):
    stream = totals(source(SCHEMA).filter("n % 3 = 0").shuffle(3, keys=["key"], **strategies[strategy]))
    with PipelineDriver(stream.to_print().build(), spark=driver) as pipeline:
        pipeline.push(ROWS[:100])
        pipeline.step()
        early = pipeline.take()
        pipeline.restart()
        pipeline.push(ROWS[100:])
        pipeline.finish()
        rows = early + pipeline.take()
        report = pipeline.report()
    used = [row for row in ROWS if row["n"] % 3 == 0]
    assert sum(row["rows"] for row in rows) == len(used)
    assert sum(row["total"] for row in rows) == sum(row["n"] for row in used)
    assert len(rows) == 20
    assert report.rows_in == 100
    assert report.rows_out == len(rows) - len(early)


def test_should_chain_windows_which_one_query_cannot(source, driver):
    by_key = totals(source(SCHEMA)).shuffle(2, keys=["key"], strategy="delta")
    again = by_key.window(TumblingWindow.of(Time.seconds(20), "start_time"), name="longer").group_by("key")
    stream = again.sum("total").count("windows").water_mark(Time.seconds(5)).to_data_stream()
    with PipelineDriver(stream.to_print().build(), spark=driver) as pipeline:
        pipeline.push(ROWS)
        pipeline.finish()
        rows = pipeline.take()
        report = pipeline.report()
    assert {(row["key"], row["windows"]) for row in rows} == {(f"k{n}", 2) for n in range(5)}
    assert sum(row["total"] for row in rows) == sum(row["n"] for row in ROWS)
    assert (report.rows_in, report.rows_out) == (200, 10)


def test_should_write_two_branches_once_and_purge_what_both_have_read(driver, tmp_path):
    shuffled = StreamBuilder.data_stream("test", "branches").from_array(ROWS).shuffle(2, strategy="delta")
    totals(shuffled).to_delta("totals")
    pipeline = shuffled.filter("n < 10").to_delta("few").build()
    options = RunOptions(home=Home(tmp_path), driver=driver)
    report = pipeline.run(options)
    assert (report.rows_in, report.rows_out, report.sealed) == (200, 20 + 10, True)
    query = next((tmp_path / "checkpoints" / "test" / "branches" / "g0001").glob("*/shuffles"))
    place = DeltaTable(str(query / "shuffle_1_write"))
    assert place.count() == 0
    assert sum(1 for entry in place.history() if entry["operation"] == "WRITE") == 1
    assert pipeline.run(options).rows_in == 0


def test_should_not_go_on_without_the_half_that_was_begun_anew(driver, tmp_path):
    pipeline = (
        StreamBuilder.data_stream("test", "halves")
        .from_array(ROWS)
        .shuffle(2, strategy="delta")
        .to_delta("out")
        .build()
    )
    options = RunOptions(home=Home(tmp_path), driver=driver)
    pipeline.run(options)
    shutil.rmtree(tmp_path / "checkpoints" / "test" / "halves" / "g0001" / "shuffle_1")
    with pytest.raises(CheckpointError):
        pipeline.run(options)
    report = pipeline.run(RunOptions(home=Home(tmp_path), driver=driver, new_generation=True))
    assert report.rows_out == len(ROWS)
    assert DeltaTable(str(tmp_path / "tables" / "test" / "out")).count() == len(ROWS)


@pytest.mark.long
def test_should_begin_the_whole_pipeline_anew_whose_writer_starts_over(options):
    windows = totals(StreamBuilder.data_stream("test", "over").from_array(ROWS))
    pipeline = windows.shuffle(2, strategy="delta").to_delta("out").build()
    assert pipeline.run(options).rows_out == 20
    with pytest.raises(CheckpointError, match="starts over, but .* has read its earlier rows") as refused:
        pipeline.run(replace(options, reset_steps=("window",)))
    assert refused.value.remedy == "begin a new generation of the whole pipeline (--new-generation)"
    assert pipeline.run(replace(options, new_generation=True)).rows_out == 20
    assert DeltaTable(options.home.table("test", "out")).count() == 20


def test_should_refuse_to_go_back_behind_a_topic(options):
    stream = StreamBuilder.data_stream("test", "back").from_array(ROWS)
    shuffled = stream.shuffle(2, strategy="kafka", bootstrap_servers="localhost:9092").to_print().build()
    for way in (savepoint, restore, partial(rewind, to_batch=0), partial(fork, source=("test", "other"))):
        with pytest.raises(ConfigurationError, match="durable shuffle through Kafka"):
            way(shuffled.topology, options=options)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"strategy": "disk"}, "must be 'delta' or 'kafka'"),
        ({"strategy": "kafka"}, "needs bootstrap_servers"),
        ({"strategy": "delta", "bootstrap_servers": "localhost:9092"}, "and only it"),
    ],
)
def test_should_refuse_strategies_that_are_none(source, options, what):
    with pytest.raises(TopologyError, match=what):
        source("n bigint").shuffle(2, **options)


EVERY_TYPE = (
    "i int, b boolean, d double, f float, m decimal(30, 9), t timestamp, n timestamp_ntz, day date, raw binary, "
    "l array<int>, o map<string, bigint>, s struct<a: int, z: string>, text string"
)
HARD = [
    {
        "i": -1,
        "b": True,
        "d": 0.1 + 0.2,
        "f": 0.5,
        "m": Decimal("123456789012345678901.123456789"),
        "t": datetime(2026, 1, 1, 1, 2, 3, 456789, tzinfo=UTC),
        "n": datetime(1969, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001  it has none
        "day": date(1, 1, 1),
        "raw": b"\x00\xff",
        "l": [1, None, 3],
        "o": {"a": 2**60, "": None},
        "s": {"a": None, "z": ""},
        "text": '"\u2028 \U0001f600 \n',
    },
    {"d": float("inf"), "f": float("-inf"), "text": "", "l": [], "o": {}},
    {"d": -0.0, "s": None},
]


@pytest.mark.parametrize("strategy", ["delta", "kafka"])
def test_should_bring_values_of_every_type_through(source, driver, strategies, strategy):
    names = ["i", "b", "d", "f", "m", "t", "n", "day", "raw", "l", "o", "s", "text"]
    rows = [{name: row.get(name) for name in names} for row in HARD]
    stream = source(EVERY_TYPE).shuffle(2, **strategies[strategy])
    with PipelineDriver(stream.to_print().build(), spark=driver) as pipeline:
        pipeline.push(rows)
        pipeline.step()
        found = pipeline.take()
    for row in found:
        row["o"] = dict(row["o"]) if row["o"] is not None else None
    assert sorted(map(repr, found)) == sorted(map(repr, [_in_utc(row) for row in rows]))


def _in_utc(row):
    return {**row, "t": row["t"].astimezone(ZoneInfo("UTC")) if row["t"] is not None else None}


def test_should_purge_the_topic_and_make_it_anew(driver, broker, tmp_path):
    stream = StreamBuilder.data_stream("test", "topics").from_array(ROWS)
    stream = stream.shuffle(2, keys=["key"], strategy="kafka", bootstrap_servers=broker.bootstrap_servers)
    pipeline = stream.to_delta("out").build()
    report = pipeline.run(RunOptions(home=Home(tmp_path), driver=driver))
    assert (report.rows_in, report.rows_out) == (200, 200)
    with connected(KafkaCluster.of(broker.bootstrap_servers)) as admin:
        [place] = [name for name in admin.client.list_topics() if ".test.topics.shuffle_1." in name]
    assert broker.read(place) == []
    again = pipeline.run(RunOptions(home=Home(tmp_path), driver=driver, new_generation=True))
    assert again.rows_out == 200
    assert DeltaTable(str(tmp_path / "tables" / "test" / "out")).count() == 200


def test_should_read_what_was_committed_and_not_noted(driver, broker, tmp_path, monkeypatch):
    stream = StreamBuilder.data_stream("test", "unnoted").from_array(ROWS)
    stream = stream.shuffle(2, keys=["key"], strategy="kafka", bootstrap_servers=broker.bootstrap_servers)
    pipeline = stream.to_delta("out").build()
    options = RunOptions(home=Home(tmp_path), driver=driver)
    with monkeypatch.context() as crash:
        crash.setattr(NotedEnd, "note", _crashes)
        with pytest.raises(SinkError, match="crashed"):
            pipeline.run(options)
    assert pipeline.run(options).rows_out == 200
    assert DeltaTable(str(tmp_path / "tables" / "test" / "out")).count() == 200


def _crashes(end):
    raise SinkError("crashed behind the commit", topic=end.topic)


def test_should_end_no_batch_beyond_the_note(driver, broker, tmp_path):
    broker.create_topic("noted", partitions=2)
    broker.produce("noted", [KafkaRecord(value=b'{"n": 1}', partition=n % 2) for n in range(10)])
    end = tmp_path / "noted.json"
    reader = KafkaReader(
        cluster=KafkaCluster.of(broker.bootstrap_servers),
        topics=("noted",),
        pattern=None,
        form="json",
        schema=StructType().add("n", "long"),
        until=end,
    )
    found = []
    for noted in [None, 1, 5]:
        if noted is not None:
            end.write_text(dump_offsets({("noted", 0): noted, ("noted", 1): noted}))
        found.append(driver.call(lambda spark: _count(reader, spark, tmp_path)))
    assert found == [0, 2, 8]


def _count(reader, spark, folder):
    """How many new rows a query of `reader` gets until it ends by itself."""
    counted = []
    frame = reader.stream(spark, name="noted", starting={"startingOffsets": "earliest"})
    writer = frame.writeStream.foreachBatch(lambda batch, _: counted.append(batch.count()))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    return sum(counted)


def test_should_end_no_batch_within_a_commit(driver, tmp_path):
    """Spark would end one behind a thousand files, and the version of the commit alone cannot tell where."""
    schema = StructType([StructField("n", LongType())])
    shuffle = TableShuffle(name="keyed", path=tmp_path / "keyed")
    shuffle.begin(schema)
    table, rows = DeltaTable(str(shuffle.path)), pa.table({"n": [1], BATCH: [0]})
    files = [f"{number}.parquet" for number in range(1_001)]
    for file in files:
        pq.write_table(rows, shuffle.path / file)
    size = (shuffle.path / files[0]).stat().st_size
    actions = [AddAction(file, size, {}, 1, data_change=True, stats="{}") for file in files]
    table.create_write_transaction(actions, "append", table.schema(), [])
    counts = []

    def read(spark):
        writer = shuffle.stream(spark, schema, name="keyed").writeStream.trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.foreachBatch(lambda batch, _: counts.append(batch.count())).start().awaitTermination()

    driver.call(read)
    assert counts == [len(files)]

"""The Delta sink: three modes, two connectors, and batches that come twice."""

from dataclasses import replace

import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.errors import SinkError, TopologyError
from tests.operators.model import at

SCHEMA = "page string, n bigint, price decimal(10,2), tags array<string>, ts timestamp"
ROWS = [{"page": f"/{n % 3}", "n": n, "price": None, "tags": ["a", None], "ts": at(n)} for n in range(9)]


def read(path):
    return DeltaTable(path).to_pyarrow_table().to_pylist()


def appended(channel, **options):
    return StreamBuilder.data_stream("shop", "sink").from_memory(channel).to_delta("rows", **options).build()


@pytest.mark.parametrize("connector", ["native", "jvm"])
def test_should_append_each_batch_once_and_remember_who_wrote_it(options, connector):
    channel = MemoryChannel(schema=SCHEMA)
    job, path = appended(channel, connector=connector), options.home.table("shop", "rows")
    for first in (0, 4):
        channel.put(*ROWS[first : first + 4])
        assert job.run(options).rows_out == 4
    assert sorted(read(path), key=lambda row: row["n"]) == ROWS[:8]
    version = DeltaTable(path).version()
    assert job.run(options).batches == 0
    assert DeltaTable(path).version() == version


@pytest.mark.parametrize("connector", ["native", "jvm"])
def test_should_write_a_batch_once_that_spark_computes_twice(options, connector):
    channel = MemoryChannel(schema=SCHEMA)
    job, path = appended(channel, connector=connector), options.home.table("shop", "rows")
    channel.put(*ROWS[:4])
    job.run(options)
    # As after a crash between the sink's commit and Spark's.
    log = CheckpointLog(options.home.job("shop", "sink") / "g0001" / "memory" / "checkpoint")
    (log.folder / "commits" / "0").unlink()
    channel.put(*ROWS[4:])
    report = job.run(options)
    assert sorted(row["n"] for row in read(path)) == list(range(9))
    assert (report.rows_out, log.last_committed()) == (5, 1)


@pytest.mark.parametrize("connector", ["native", "jvm"])
def test_should_replace_rows_of_the_same_keys(options, connector):
    channel = MemoryChannel(schema="page string, n bigint")
    job = appended(channel, mode="upsert", keys=["page"], connector=connector)
    channel.put({"page": "/", "n": 1}, {"page": None, "n": 1})
    job.run(options)
    channel.put({"page": "/", "n": 2}, {"page": None, "n": 3}, {"page": "/a", "n": 4})
    job.run(options)
    rows = {row["page"]: row["n"] for row in read(options.home.table("shop", "rows"))}
    assert rows == {"/": 2, None: 3, "/a": 4}


def test_should_keep_the_last_of_several_rows_of_one_key(options):
    channel = MemoryChannel(schema="page string, n bigint")
    channel.put(*({"page": "/", "n": n} for n in range(5)))
    appended(channel, mode="upsert", keys=["page"]).run(options)
    assert read(options.home.table("shop", "rows")) == [{"page": "/", "n": 4}]


@pytest.mark.parametrize("scheme", ["file:", "file://"])
def test_should_write_to_the_path_of_an_address_of_local_files(options, tmp_path, scheme):
    channel = MemoryChannel(schema="n bigint")
    channel.put({"n": 1})
    place = f"{scheme}{tmp_path}/t"
    StreamBuilder.data_stream("shop", "sink").from_memory(channel).to_delta(place).build().run(options)
    assert read(tmp_path / "t") == [{"n": 1}]
    read_again = StreamBuilder.data_stream("shop", "copy").from_delta(place).to_delta("copy").build()
    assert read_again.run(options).rows_out == 1


def test_should_find_a_path_below_the_home_folder_of_the_user(options, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    pipeline = StreamBuilder.data_stream("shop", "sink").from_delta("~/in").to_delta("~/out").build()
    assert f"[{tmp_path}/in]" in pipeline.describe()
    assert options.home.table("shop", "~/out") == f"{tmp_path}/out"


@pytest.mark.parametrize("connector", ["native", "jvm"])
def test_should_hold_all_windows_as_they_are_in_complete_mode(options, connector):
    channel = MemoryChannel(schema="page string, ts timestamp")
    window = TumblingWindow.of(Time.seconds(10), "ts")
    stream = StreamBuilder.data_stream("shop", "sink").from_memory(channel).window(window).group_by("page").count("n")
    job = stream.to_data_stream().to_delta("rows", mode="complete", connector=connector).build()
    for expected in (1, 2):
        channel.put({"page": "/", "ts": at(1)})
        job.run(options)
        assert [row["n"] for row in read(options.home.table("shop", "rows"))] == [expected]


def test_should_refuse_rows_of_other_columns(options):
    channel = MemoryChannel(schema="page string, n bigint")
    channel.put({"page": "/", "n": 1})
    appended(channel).run(options)
    other = MemoryChannel(schema="page string, n double")
    other.put({"page": "/", "n": 1.5})
    job = StreamBuilder.data_stream("shop", "other").from_memory(other).to_delta("rows").build()
    with pytest.raises(SinkError, match="and of the rows differ: n") as caught:
        job.run(options)
    assert caught.value.facts["step"] == "rows_table"
    assert len(read(options.home.table("shop", "rows"))) == 1


def test_should_replace_the_rows_of_earlier_generations(options, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"n": 1}\n')
    job = StreamBuilder.data_stream("shop", "sink").from_file(path, schema="n bigint").to_delta("rows").build()
    job.run(options)
    path.write_text('{"n": 2}\n{"n": 3}\n')
    job.run(replace(options, new_generation=True))
    assert sorted(row["n"] for row in read(options.home.table("shop", "rows"))) == [2, 3]


@pytest.mark.parametrize("connector", ["native", "jvm"])
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_generation_without_rows_leaves_none_of_the_one_before(options, tmp_path, mode, connector):
    path = tmp_path / "in.jsonl"
    path.write_text('{"n": 1}\n{"n": 2}\n')

    def run(least, options):
        read_in = StreamBuilder.data_stream("shop", "sink").from_file(path, schema="n bigint", tail=True)
        keys = {"keys": ["n"]} if mode == "upsert" else {}
        kept = read_in.filter(f"n >= {least}").to_delta("rows", mode=mode, connector=connector, **keys)
        kept.build().run(options)
        return sorted(row["n"] for row in read(options.home.table("shop", "rows")))

    assert run(0, options) == [1, 2]
    assert run(9, replace(options, new_generation=True)) == []
    path.write_text(path.read_text() + '{"n": 9}\n')
    assert run(9, options) == [9]


def test_should_write_statistics_that_readers_skip_files_by(options):
    channel = MemoryChannel(schema=SCHEMA)
    channel.put(*ROWS)
    appended(channel).run(options)
    adds = DeltaTable(options.home.table("shop", "rows")).get_add_actions(flatten=True)
    facts = [
        {name: adds[name][i].as_py() for name in ("num_records", "min.n", "max.n", "null_count.price")}
        for i in range(len(adds))
    ]
    assert sum(f["num_records"] for f in facts) == len(ROWS)
    assert (min(f["min.n"] for f in facts), max(f["max.n"] for f in facts)) == (0, 8)
    assert sum(f["null_count.price"] for f in facts) == len(ROWS)


@pytest.mark.parametrize(
    "given",
    [{"mode": "merge"}, {"mode": "upsert"}, {"keys": ["page"]}, {"connector": "odbc"}],
    ids=" ".join,
)
def test_should_refuse_options_that_do_not_go_together(given):
    with pytest.raises(TopologyError, match="step 'rows_table'"):
        appended(MemoryChannel(schema="n bigint"), **given)


@pytest.mark.parametrize("table", ["", ".", "../up", "a/../../b", "nul\0"])
def test_should_refuse_a_path_that_leads_elsewhere(table):
    with pytest.raises(TopologyError, match="not a table name, or a path"):
        StreamBuilder.data_stream("shop", "sink").from_array([{"n": 1}]).to_delta(table, name="t")

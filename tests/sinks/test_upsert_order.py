"""Which of several rows of one key stays, and tables with partitions."""

import json
import math
import os
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import permutations

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder
from rs_assets.connectors.delta.columns import check_columns
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.errors import TopologyError
from rs_assets.records.newest import winners
from tests.sinks.frames import ArrowFrame, mark, write


def read(path):
    return DeltaTable(path).to_pyarrow_table().to_pylist()


@pytest.mark.parametrize("order_by", [("v",), ("w", "v")])
def test_the_greatest_row_stays_whenever_it_comes(tmp_path, order_by):
    writer = DeltaWriter("rows", str(tmp_path), "upsert", ("k",), order_by=order_by)
    batches = [[(1, 5, 0), (1, 3, 0), (2, None, 0)], [(1, 4, 0), (2, 0, 0), (3, None, 0)], [(1, 5, 9), (2, None, 0)]]
    for number, rows in enumerate(batches):
        table = pa.table({n: pa.array(c, pa.int64()) for n, c in zip("kvn", zip(*rows, strict=True), strict=True)})
        write(writer, ArrowFrame(table.append_column("w", pa.nulls(len(rows), pa.int64()))), mark(number))
    assert sorted((row["k"], row["v"], row["n"]) for row in read(str(tmp_path)))[:2] == [(1, 5, 9), (2, 0, 0)]


@pytest.mark.parametrize("mode", ["upsert", "history"])
def test_a_batch_of_older_rows_alone_is_committed(tmp_path, mode):
    """A merge that changes nothing is no commit by itself, and the batch after it missed the one before."""
    timed = {"time_field": "at"} if mode == "history" else {}
    writer = DeltaWriter("rows", str(tmp_path), mode, ("k",), order_by=("v",), **timed)
    for number, value in enumerate([5, 3, 4, 6, 2]):
        row = {"k": 1, "v": value, "at": datetime(2026, 1, 5, tzinfo=UTC)}
        write(writer, ArrowFrame(pa.Table.from_pylist([row])), mark(number))
        assert writer.last_committed(mark(number)) == number
    assert [row["v"] for row in read(str(tmp_path))] == [6]


@pytest.mark.parametrize("mode", ["upsert", "history"])
@pytest.mark.parametrize("cut", [(3,), (1, 1, 1), (2, 1)])
@pytest.mark.parametrize("values", [*permutations([1.0, math.nan, None])], ids=str)
def test_nan_is_after_all_values_of_an_order_wherever_batches_are_cut(tmp_path, mode, cut, values):
    timed = {"time_field": "at"} if mode == "history" else {}
    writer = DeltaWriter("rows", str(tmp_path), mode, ("k",), order_by=("v",), **timed)
    kinds = pa.schema([("k", pa.int64()), ("v", pa.float64()), ("at", pa.timestamp("us", "UTC"))])
    left = [{"k": 1, "v": value, "at": datetime(2026, 1, 5, tzinfo=UTC)} for value in values]
    for number, count in enumerate(cut):
        rows, left = left[:count], left[count:]
        write(writer, ArrowFrame(pa.Table.from_pylist(rows, kinds)), mark(number))
    assert [str(row["v"]) for row in read(str(tmp_path))] == ["nan"]


@pytest.mark.parametrize("mode", ["upsert", "history"])
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
def test_both_zeros_and_all_nan_are_one_key_wherever_batches_are_cut(tmp_path, mode, kind):
    timed = {"time_field": "at"} if mode == "history" else {}
    writer = DeltaWriter("rows", str(tmp_path), mode, ("k",), order_by=("v",), **timed)
    kinds = pa.schema([("k", kind), ("v", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    for number, key in enumerate([-0.0, math.nan, 0.0, -math.nan, -0.0]):
        row = {"k": key, "v": number, "at": datetime(2026, 1, 5, tzinfo=UTC)}
        write(writer, ArrowFrame(pa.Table.from_pylist([row], kinds)), mark(number))
    assert sorted((str(row["k"]), row["v"]) for row in read(str(tmp_path))) == [("0.0", 4), ("nan", 3)]


@pytest.mark.parametrize("connector", ["native", "jvm"])
def test_a_key_of_minus_zero_replaces_that_of_zero(options, connector):
    channel = MemoryChannel(schema="k double, v bigint")
    job = StreamBuilder.data_stream("shop", "zero").from_memory(channel)
    job = job.to_delta("zero", mode="upsert", keys=["k"], connector=connector).build()
    for v, keys in ((1, [-0.0, math.nan]), (2, [0.0, -math.nan])):
        for key in keys:
            channel.put({"k": key, "v": v})
        job.run(options)
    rows = read(options.home.table("shop", "zero"))
    assert sorted((str(row["k"]), row["v"]) for row in rows) == [("0.0", 2), ("nan", 2)]


def test_of_a_row_and_its_retraction_in_one_batch_the_row_stays_in_any_order():
    rows = [{"k": 1, "v": 2, "gone": False}, {"k": 1, "v": 1, "gone": True}, {"k": 2, "v": 3, "gone": True}]
    for given in (rows, rows[::-1]):
        found = winners(pa.Table.from_pylist(given), keys=["k"], order_by=[], deletes="gone").to_pylist()
        assert sorted(found, key=lambda row: row["k"]) == [rows[0], rows[2]]


def test_without_an_order_the_last_row_of_the_batch_stays():
    """Rows of a window have no position of reading."""
    rows = pa.Table.from_pylist([{"k": 1, "v": 2}, {"k": 1, "v": 1}])
    assert winners(rows, keys=["k"], order_by=[]).to_pylist() == [{"k": 1, "v": 1}]


@pytest.mark.parametrize("connector", ["native", "jvm"])
@pytest.mark.parametrize("small", ["1", "2"])
def test_the_row_of_the_newer_file_stays(options, tmp_path, small, connector):
    """Spark hands out the larger files of a batch first."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in ("1", "2"):
        lines = [{"k": "K", "v": int(number) * 10 + n, "p": "" if number == small else "x" * 200} for n in range(3)]
        (folder / f"{number}.json").write_text("\n".join(map(json.dumps, lines)) + "\n")
        os.utime(folder / f"{number}.json", (1e9 + int(number), 1e9 + int(number)))
    source = StreamBuilder.data_stream("shop", "ups").from_file(folder, schema="k string, v bigint, p string")
    stream = (
        source.map(lambda row: {**row}, schema="k string, v bigint, p string", trace=False) if small == "1" else source
    )
    stream.to_delta("u", mode="upsert", keys=["k"], connector=connector).build().run(options)
    assert [row["v"] for row in read(options.home.table("shop", "u"))] == [22]


@pytest.mark.parametrize(("columns", "policy"), [("k,v,p", "dead_letter"), ("v,k,p", "fail")])
def test_run_csv_that_is_read_by_lines_the_row_of_the_newer_file_stays(options, tmp_path, columns, policy):
    folder = tmp_path / "in"
    folder.mkdir()
    for number in ("1", "2"):
        lines = [{"k": "K", "v": f"{number}{n}", "p": "x" * (400 - 150 * int(number))} for n in range(3)]
        rows = "".join(",".join(line[name] for name in columns.split(",")) + "\n" for line in lines)
        (folder / f"{number}.csv").write_text(f"{columns}\n{rows}")
        os.utime(folder / f"{number}.csv", (1e9 + int(number), 1e9 + int(number)))
    job = StreamBuilder.data_stream("shop", "ups")
    source = job.from_file(folder, format="csv", schema="k string, v bigint, p string", bad_records=policy)
    source.to_delta("u", mode="upsert", keys=["k"]).build().run(options)
    assert read(options.home.table("shop", "u")) == [{"k": "K", "v": 22, "p": "x" * 100}]


def test_rows_of_a_channel_keep_their_order(options):
    channel = MemoryChannel(schema="k string, v bigint, p string")
    for v, size in ((1, 5000), (2, 10), (3, 2000), (4, 1)):
        channel.put({"k": "K", "v": v, "p": os.urandom(size).hex()})
    StreamBuilder.data_stream("shop", "ups").from_memory(channel).to_delta("u", mode="upsert", keys=["k"]).build().run(
        options
    )
    assert [row["v"] for row in read(options.home.table("shop", "u"))] == [4]


def test_a_table_is_written_by_its_partitions(options):
    schema = "n bigint, `a.b` string, d date, at timestamp, m decimal(10,2), ok boolean"
    at = datetime(2026, 1, 5, 10, 0, 0, 123456, UTC)
    odd = ["/x=1 %2F", None, "ü`'\"", "__HIVE_DEFAULT_PARTITION__", "n", "v"]
    rows = [
        {"n": n, "a.b": text, "d": date(2026, 1, 5), "at": at, "m": Decimal("0.00"), "ok": n % 2 == 0}
        for n, text in enumerate(odd)
    ]
    columns = ["a.b", "d", "at", "m", "ok"]
    for given, table in ((columns, "made"), ((), "there")):
        path = options.home.table("shop", table)
        if not given:
            DeltaTable.create(path, DeltaTable(options.home.table("shop", "made")).schema(), partition_by=columns)
        channel = MemoryChannel(schema=schema)
        channel.put(*rows)
        stream = StreamBuilder.data_stream("shop", f"into_{table}").from_memory(channel)
        stream.to_delta(table, partition_by=given).build().run(options)
        assert DeltaTable(path).metadata().partition_columns == columns
        assert sorted(read(path), key=lambda row: row["n"]) == rows
        seen = options.driver.call(lambda spark, path=path: spark.read.format("delta").load(path).toArrow().to_pylist())
        assert sorted(seen, key=lambda row: row["n"]) == rows


WRONG = {
    "keys=tags": {"mode": "upsert", "keys": ["tags"]},
    "order_by=tags": {"mode": "upsert", "keys": ["n"], "order_by": "tags"},
    "partition_by=x": {"partition_by": "x"},
}


@pytest.mark.parametrize("given", WRONG.values(), ids=WRONG)
def test_fields_that_do_not_serve_are_refused_with_the_step(options, given):
    channel = MemoryChannel(schema="n bigint, tags array<string>, x double")
    channel.put({"n": 1, "tags": ["a"], "x": 1.0})
    with pytest.raises(TopologyError, match="'rows_table'.*not a plain value"):
        StreamBuilder.data_stream("shop", "wrong").from_memory(channel).to_delta("rows", **given).build().run(options)


def test_a_field_without_a_type_is_refused(options):
    channel = MemoryChannel(schema="n bigint")
    channel.put({"n": 1})
    stream = StreamBuilder.data_stream("shop", "void").from_memory(channel).with_fields(a="null")
    with pytest.raises(TopologyError, match="'a' is null in all rows"):
        stream.to_delta("rows").build().run(options)


def test_an_interval_is_refused_and_its_remedy_taken_and_a_name_like_a_type_is_none(options):
    channel = MemoryChannel(schema="n bigint")
    channel.put({"n": 1})
    stream = StreamBuilder.data_stream("shop", "spans").from_memory(channel)
    spans = stream.with_fields(span="make_dt_interval(n)", deep="named_struct('avoided', n, 'interval', n)")
    with pytest.raises(TopologyError, match="'span' is an interval") as refused:
        spans.to_delta("rows").build().run(options)
    assert ".with_fields(span='CAST(span AS string)')" in refused.value.remedy
    assert spans.with_fields(span="CAST(span AS string)").to_delta("rows").build().run(options).rows_out == 1


def test_a_name_that_delta_cannot_merge_is_refused_before_a_batch():
    frame = ArrowFrame(pa.table({"n": [1], "a`b": [1]}))
    sink = DeltaSink(name="out", inputs=("in",), table="t", mode="upsert", keys=("n",))
    with pytest.raises(TopologyError, match="backtick"):
        check_columns(frame, sink)
    check_columns(frame, replace(sink, connector="jvm"))
    check_columns(frame, replace(sink, mode="append", keys=()))


def test_an_order_belongs_to_an_upsert():
    with pytest.raises(TopologyError, match="order_by belongs to"):
        StreamBuilder.data_stream("shop", "x").from_array([{"n": 1}]).to_delta("t", order_by="n")

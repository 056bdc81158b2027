"""Of several rows of one key in a batch the one whose record was read last stays, whatever comes between."""

import json
import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from deltalake import DeltaTable

from rs_assets import HttpEndpoint, StreamBuilder, Time
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.testing import SearchServer

SCHEMA = "k bigint, v bigint, ts timestamp"
START = datetime(2026, 11, 24, 12, tzinfo=UTC)
KEYS, TIMES = 5, 40
# The rows of a key come in this order, by which no field grows.
ROWS = [{"k": n % KEYS, "v": n * 7919 % 1009, "ts": START - timedelta(seconds=n)} for n in range(KEYS * TIMES)]
LAST = {row["k"]: row["v"] for row in ROWS}


def shuffled(stream, _):
    return stream.shuffle(3)


def shuffled_twice(stream, _):
    return stream.shuffle(3).shuffle(2, keys=["k"])


def distinct(stream, _):
    return stream.distinct("v", within=Time.hours(1), time_field="ts")


def united(stream, _):
    """Branches with a Python function: the rows of one come before those of the other."""
    early, late = stream.filter("v % 2 = 0"), stream.filter("v % 2 = 1")
    return late.map(lambda row: {**row}, schema=SCHEMA, trace=False).union(early)


def exploded(stream, _):
    """Rows of one record come in their order, too."""
    return stream.flat_map("inline(array(struct(k, -1L AS v, ts), struct(k, v, ts)))").shuffle(3)


def joined(stream, pipeline):
    names = MemoryChannel(schema="id bigint, name string")
    names.put(*({"id": key % 997, "name": "n"} for key in range(997)))
    table = pipeline.from_memory(names, name="names").to_table("id", name="named")
    return stream.with_fields(id="v % 997").join_table(table, on="id").select_fields("k", "v", "ts")


STEPS = [shuffled, shuffled_twice, distinct, united, exploded, joined]


def in_table(path):
    return {row["k"]: row["v"] for row in DeltaTable(path).to_pyarrow_table().to_pylist()}


def in_database(path):
    with closing(sqlite3.connect(path)) as database:
        return dict(database.execute("SELECT k, v FROM rows"))


def written(stream, place, options, connector="native"):
    """What an upsert into a Delta table and one into a database have of each key."""
    stream = stream.to_delta("rows", mode="upsert", keys=["k"], connector=connector)
    stream = stream.to_database(f"sqlite:///{place}", "rows", mode="upsert", keys=["k"], name="db")
    stream.build().run(options)
    return in_table(options.home.table("shop", "rows")), in_database(place)


@pytest.mark.parametrize("steps", STEPS)
def test_upsert_after_steps_that_move_rows_keeps_the_last_record(options, tmp_path, steps):
    channel = MemoryChannel(schema=SCHEMA)
    channel.put(*ROWS)
    pipeline = StreamBuilder.data_stream("shop", "moved")
    stream = steps(pipeline.from_memory(channel), pipeline)
    assert written(stream, tmp_path / "rows.db", options) == (LAST, LAST)


@pytest.mark.parametrize("steps", [shuffled, united, joined])
def test_upsert_of_whole_files_keeps_the_last_record_of_the_newest_file(options, tmp_path, steps):
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(4):
        lines = (json.dumps(row | {"ts": row["ts"].isoformat()}) + "\n" for row in ROWS[number * 50 : number * 50 + 50])
        (folder / f"{9 - number}.json").write_text("".join(lines))
        os.utime(folder / f"{9 - number}.json", (1e9 + number, 1e9 + number))
    pipeline = StreamBuilder.data_stream("shop", "files")
    stream = steps(pipeline.from_file(folder, schema=SCHEMA), pipeline)
    assert written(stream, tmp_path / "rows.db", options, connector="jvm") == (LAST, LAST)


def test_upsert_of_rows_that_are_equal_by_their_order_keeps_the_last_record(options):
    channel = MemoryChannel(schema=SCHEMA)
    channel.put(*ROWS)
    stream = StreamBuilder.data_stream("shop", "equal").from_memory(channel).shuffle(3).with_fields(o="v % 1")
    stream = stream.to_delta("rows", mode="upsert", keys=["k"], order_by="o")
    stream.to_delta("hist", mode="history", keys=["k"], order_by="o").build().run(options)
    assert in_table(options.home.table("shop", "rows")) == LAST
    assert in_table(options.home.table("shop", "hist")) == LAST


@pytest.mark.parametrize("deletes", [None, "gone"])
def test_upsert_into_a_database_keeps_the_row_of_the_newer_file(options, tmp_path, deletes):
    """Spark hands out the larger files of a batch first."""
    folder, place = tmp_path / "in", tmp_path / "rows.db"
    folder.mkdir()
    for number in (1, 2):
        row = {"k": 7, "v": number, "gone": False, "p": "x" * 200 if number == 2 else ""}
        (folder / f"{number}.json").write_text(json.dumps(row) + "\n")
        os.utime(folder / f"{number}.json", (1e9 + number, 1e9 + number))
    schema = "k bigint, v bigint, gone boolean, p string"
    stream = StreamBuilder.data_stream("shop", "ups").from_file(folder, schema=schema)
    stream.to_database(f"sqlite:///{place}", "rows", mode="upsert", keys=["k"], deletes=deletes).build().run(options)
    assert in_database(place) == {7: 2}


@pytest.mark.parametrize("version", [None, "o"])
def test_upsert_into_a_search_system_keeps_the_last_record(options, version):
    channel = MemoryChannel(schema=SCHEMA)
    channel.put(*ROWS)
    stream = StreamBuilder.data_stream("shop", "found").from_memory(channel).shuffle(3).with_fields(o="v % 1")
    with SearchServer() as server:
        place = HttpEndpoint(url=server.url)
        stream.to_search(place, "rows", mode="upsert", keys=["k"], version=version).build().run(options)
        assert {row["k"]: row["v"] for row in server.documents("rows").values()} == LAST

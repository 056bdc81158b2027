"""Pipelines into a database: the promises of a sink, retracted rows, and runs that go on."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from dagster import EnvVar

from rs_assets import MemoryChannel, SessionWindow, StreamBuilder, Time
from rs_assets.errors import ConfigurationError, TopologyChangedError, TopologyError
from rs_assets.testing import SinkCase, check_sink
from tests.operators.model import at, sessions
from tests.postgres.test_database_sink import asked


@pytest.mark.parametrize("mode", [{}, {"mode": "upsert", "keys": ["n"]}], ids=["append", "upsert"])
def test_a_table_of_postgres_should_keep_the_promises_of_a_sink(tmp_path, driver, postgres, database, mode):
    def rows():
        there = postgres.execute(database, "SELECT to_regclass('out') IS NOT NULL")[0][0]
        found = postgres.execute(database, "SELECT n, text FROM out") if there else []
        return [{"n": n, "text": text} for n, text in found]

    case = SinkCase(write=lambda stream: stream.to_database(database, "out", name="sink", **mode), rows=rows)
    check_sink(case, spark=driver, home=tmp_path / "rs")


def test_values_of_spark_should_have_columns_of_their_types(postgres, database, options, monkeypatch):
    monkeypatch.setenv("SHOP_DATABASE", database)
    channel = MemoryChannel(
        schema="id bigint, at timestamp, tags array<string>, more struct<a:int>, ok boolean, cents decimal(9,2)"
    )
    channel.put(
        {"id": 1, "at": "2024-03-01T12:00:00Z", "tags": ["ü", None], "more": {"a": 1}, "cents": Decimal("1.50")}
    )
    stream = StreamBuilder.data_stream("shop", "copy").from_memory(channel)
    pipeline = stream.to_database(EnvVar("SHOP_DATABASE"), "hits").build()
    assert "$SHOP_DATABASE hits" in pipeline.describe()
    pipeline.run(options)
    kinds = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'hits' ORDER BY 1"
    assert postgres.execute(database, kinds) == [
        ("at", "timestamp with time zone"),
        ("cents", "numeric"),
        ("id", "bigint"),
        ("more", "jsonb"),
        ("ok", "boolean"),
        ("tags", "jsonb"),
    ]
    (row,) = postgres.execute(database, "SELECT id, at::text, tags, more, ok, cents::text FROM hits")
    assert row[:2] == (1, "2024-03-01 12:00:00+00")
    assert row[2:] == (["ü", None], {"a": 1}, None, "1.50")


GAP_S = 10


def live(channel, url, **options):
    stream = StreamBuilder.data_stream("shop", "live").from_memory(channel)
    window = stream.window(SessionWindow.of(Time.seconds(GAP_S), "ts"), name="live", emit="on_window_update")
    counted = window.group_by("key").count("n").water_mark(Time.seconds(60)).to_data_stream()
    return counted.to_database(url, "live", mode="upsert", keys=["key", "start_time"], **options)


def test_a_table_should_hold_the_sessions_as_they_stand(database, options):
    """Sessions that grow and merge take back rows that were written."""
    channel = MemoryChannel(schema="key string, ts timestamp")
    job, rows = live(channel, database, deletes="retracted").build(), []
    for seconds in ([0, 8, 30], [16, 24], [4]):
        batch = [{"key": "a", "ts": at(s)} for s in seconds]
        channel.put(*batch)
        job.run(options)
        rows += batch
        expected = {(start, end, len(of)) for (_, start, end), of in sessions(rows, gap=GAP_S).items()}
        assert set(asked(database, "SELECT start_time, end_time, n FROM live")) == expected
    assert len(expected) == 1
    assert "retracted" not in {name for (name,) in asked(database, COLUMNS)}


COLUMNS = "SELECT column_name FROM information_schema.columns WHERE table_name = 'live'"


def test_a_table_that_would_keep_retracted_rows_should_be_refused():
    channel = MemoryChannel(schema="key string, ts timestamp")
    with pytest.raises(TopologyError, match="would keep rows that the window 'live' retracts") as refused:
        live(channel, "sqlite:///live.db").build()
    assert refused.value.remedy.startswith("deletes='retracted'")


ODD = "id bigint, page string, tags array<string>"


def test_options_that_do_not_fit_should_be_refused():
    stream = StreamBuilder.data_stream("shop", "copy").from_memory(MemoryChannel(schema=ODD))

    def write(table="hits", **options):
        return stream.to_database("sqlite:///shop.db", table, **options).build()

    by_id = {"mode": "upsert", "keys": ["id"]}
    for options, what, better in (
        ({"keys": ["id"]}, "keys belong to mode='upsert'", by_id),
        ({"mode": "upsert"}, "keys belong to mode='upsert'", by_id),
        ({"mode": "merge"}, "must be one of append, upsert", {"mode": "append"}),
        ({"deletes": "gone"}, "deletes belongs to mode='upsert'", {}),
        ({**by_id, "deletes": "id"}, "cannot mark deleted rows", by_id),
        ({**by_id, "deletes": "page"}, "not a boolean", by_id),
        ({**by_id, "keys": ["no"]}, "'no'", by_id),
        ({**by_id, "keys": ["tags"]}, "which is not a plain value", {**by_id, "keys": ["page"]}),
        ({"table": "shop.rs_marks"}, "reserved", {"table": "shop.marks"}),
        ({"table": "a.b.c"}, "schema.name", {"table": "shop.orders"}),
    ):
        with pytest.raises(TopologyError, match=re.escape(what)):
            write(**options)
        write(**better)
    with pytest.raises(ConfigurationError, match="no valid database URL"):
        stream.to_database("shop", "hits")


def test_an_output_should_not_be_renamed_unseen(database, options):
    channel = MemoryChannel(schema="id bigint")
    channel.put({"id": 1})

    def pipeline(name):
        stream = StreamBuilder.data_stream("shop", "copy").from_memory(channel)
        return stream.to_database(database, "hits", name=name).build()

    pipeline("one").run(options)
    with pytest.raises(TopologyChangedError, match="writes to the location of the removed output 'one'"):
        pipeline("two").run(options)
    assert asked(database, "SELECT * FROM hits") == [(1,)]

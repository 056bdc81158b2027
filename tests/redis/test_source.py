"""Streams of Redis as a source: exact ids over restarts, types of fields, and entries that are gone."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from rs_assets import MemoryChannel, StreamBuilder, pipeline_from_sql
from rs_assets.compile.readers import reader_of
from rs_assets.connectors.redis.address import EXAMPLE
from rs_assets.connectors.redis.source.streams import facts_of
from rs_assets.connectors.source import Lag
from rs_assets.errors import ConfigurationError, DataLossError, SealedError, SourceReadError, TopologyError
from rs_assets.runtime.options import RunOptions
from rs_assets.testing import RedisServer, SourceCase, check_source

SCHEMA = "page string, ms bigint"


class Clicks:
    """Two streams and a pipeline that copies them; each run has a sink of its own, so that a repeated row shows."""

    def __init__(self, server: RedisServer, options: RunOptions) -> None:
        self.server, self.options, self.redis = server, options, server.client()

    def stream(self, *streams, **source):
        begin = StreamBuilder.data_stream("shop", "clicks")
        return begin.from_redis(self.server.url, streams or ["clicks"], **{"schema": SCHEMA, **source})

    def rows(self, *streams, **source):
        out = MemoryChannel()
        self.stream(*streams, **source).to_memory(out).build().run(self.options)
        return out.rows()

    def numbers(self, *streams, **source):
        return sorted(row["ms"] for row in self.rows(*streams, **source))

    def add(self, *numbers, stream="clicks"):
        with self.redis.pipeline() as pipe:
            for n in numbers:
                pipe.xadd(stream, {"page": f"/é{n}", "ms": n})
            return pipe.execute()


@pytest.fixture
def clicks(redis, options):
    return Clicks(redis, options)


def test_each_entry_is_read_once_over_restarts_and_batches(clicks):
    assert clicks.numbers("clicks", "late") == []
    clicks.add(*range(3_000))
    clicks.add(*range(3_000, 3_010), stream="late")
    assert clicks.numbers("clicks", "late", max_rows_per_batch=700) == [*range(3_010)]
    assert clicks.numbers("clicks", "late") == []
    clicks.server.restart()
    clicks.add(4_000)
    assert clicks.numbers("clicks", "late") == [4_000]


def test_streams_should_keep_the_promises_of_a_source(redis, driver, tmp_path):
    client, ids = redis.client(), itertools.count(1)

    def put(fields):
        client.xadd("hits", fields, id=f"{1000 + next(ids) * 7}-{next(ids) % 3}")

    check_source(
        SourceCase(
            stream=lambda begin, bad: begin.from_redis(redis.url, "hits", schema=SCHEMA, bad_records=bad),
            row=lambda n: {"page": f"/é{n}", "ms": n},
            add=lambda rows: [put(each) for each in rows],
            lose=lambda: client.xtrim("hits", maxlen=0),
            add_bad=lambda: put({"page": "/", "ms": "soon"}),
        ),
        spark=driver,
        home=tmp_path / "rs",
    )


def test_read_entries_may_be_trimmed_and_unread_ones_not(clicks):
    clicks.add(*range(10))
    assert clicks.numbers() == [*range(10)]
    clicks.redis.xtrim("clicks", maxlen=2, approximate=False)
    clicks.add(10, 11)
    assert clicks.numbers() == [10, 11]
    # The first id of the stream says nothing about this: all that was read is gone, and one that was not.
    clicks.add(12, 13)
    clicks.redis.xtrim("clicks", maxlen=1, approximate=False)
    with pytest.raises(DataLossError, match="of 2 unread entries of the stream 'clicks' 1 can"):
        clicks.rows()
    clicks.options = replace(clicks.options, new_generation=True)
    assert clicks.numbers() == [13]


def test_an_entry_that_is_deleted_before_it_is_read_is_a_loss(clicks):
    first, second, _ = clicks.add(1, 2, 3)
    clicks.redis.xdel("clicks", first)
    # Before the first start nothing is missed.
    assert clicks.numbers() == [2, 3]
    _, fifth, _ = clicks.add(4, 5, 6)
    clicks.redis.xdel("clicks", second)
    clicks.redis.xdel("clicks", fifth)
    with pytest.raises(DataLossError, match="3 unread entries .* 2 can be found"):
        clicks.rows()


def test_a_stream_that_was_made_again_is_a_loss(clicks):
    clicks.add(1, 2)
    assert clicks.numbers() == [1, 2]
    kept = clicks.server.client(text=False).dump("clicks")
    clicks.redis.delete("clicks")
    with pytest.raises(DataLossError, match="ends before it"):
        clicks.rows()
    clicks.server.client(text=False).restore("clicks", 0, kept)
    assert clicks.numbers() == []
    clicks.redis.delete("clicks")
    clicks.add(*range(5))
    with pytest.raises(DataLossError, match="3 unread entries .* 5 can be found"):
        clicks.rows()


def test_fields_have_the_types_of_the_schema(clicks):
    clicks.redis.xadd(
        "clicks",
        {"n": "7", "price": "1.10", "on": "true", "at": "2026-01-02T03:04:05Z", "tags": '["a"]', "raw": b"\xff"},
        id="1700000000000-5",
    )
    clicks.redis.xadd("clicks", {"n": ""}, id="1700000000000-6")
    schema = "n int, price decimal(4,2), on boolean, at timestamp, tags array<string>, raw binary"
    rows = clicks.rows(schema=schema, metadata=["id", "stream", "timestamp"])
    moment = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert rows[0].pop("at").astimezone(UTC) == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert rows[0].pop("redis_timestamp").astimezone(UTC) == moment
    assert {**rows[0], "price": str(rows[0]["price"])} == {
        "n": 7, "price": "1.10", "on": True, "tags": ["a"], "raw": b"\xff",
        "redis_id": "1700000000000-5", "redis_stream": "clicks",
    }  # fmt: skip
    assert {*rows[1].values()} >= {None, "1700000000000-6"}


def test_parts_of_nested_fields_are_of_their_types(clicks):
    values = ['{"a":[1,2]}', '{"a":[1,"x"]}', '{"a":7}', '{"a":[1]} more', '{"a":[1]},"o":{"a":[2]', "x", "", "null"]
    for n, value in enumerate(values):
        clicks.redis.xadd("clicks", {"n": n, "o": value})
    rows = clicks.rows(schema="n int, o struct<a: array<int>>", bad_records="skip")
    assert [(row["n"], row["o"]) for row in rows] == [(0, {"a": [1, 2]}), (6, None), (7, None)]


def test_json_and_raw_entries(clicks):
    clicks.redis.xadd("clicks", {"body": json.dumps({"page": "/a", "ms": 1}), "other": "x"}, id="5-1")
    assert clicks.rows(format="json", value="body") == [{"page": "/a", "ms": 1}]
    begin = StreamBuilder.data_stream("shop", "raw").from_redis(clicks.server.url, "clicks", format="raw")
    out = MemoryChannel()
    begin.to_memory(out).build().run(clicks.options)
    (row,) = out.rows()
    assert (row["id"], row["stream"], row["fields"]["other"]) == ("5-1", "clicks", b"x")


def test_latest_begins_at_the_first_start(clicks):
    clicks.add(1, 2)
    assert clicks.numbers(starting_ids="latest") == []
    clicks.add(3)
    assert clicks.numbers(starting_ids="latest") == [3]


def test_the_schema_is_inferred_once(clicks):
    with pytest.raises(ConfigurationError, match="no entry to infer one from"):
        clicks.rows(schema=None)
    clicks.add(1)
    assert clicks.rows(schema=None) == [{"page": "/é1", "ms": "1"}]


def test_lag_counts_unread_entries(clicks):
    clicks.add(1, 2, 3)
    reader = reader_of(clicks.stream().to_print().build().topology.sources[0])
    assert reader.lag(None, timedelta(seconds=1)) == Lag(records=3)
    assert [*reader.ends(timedelta(seconds=1))] == ["clicks"]


def test_sql_reads_a_stream(clicks, options, monkeypatch):
    monkeypatch.setenv("SHOP_REDIS", clicks.server.url)
    clicks.add(1, 2)
    out = MemoryChannel()
    text = """
        CREATE TABLE clicks (page STRING, ms BIGINT, id STRING METADATA)
        WITH ('connector' = 'redis', 'url' = '$SHOP_REDIS', 'stream' = 'clicks');
        CREATE TABLE slow (page STRING, ms BIGINT) WITH ('connector' = 'memory');
        INSERT INTO slow SELECT page, ms FROM clicks WHERE ms > 1;
    """
    pipeline = pipeline_from_sql(text, tables={"slow": out})
    assert "of $SHOP_REDIS]" in pipeline.describe()
    pipeline.run(options)
    assert out.rows() == [{"page": "/é2", "ms": 2}]


def test_a_wrong_password_is_named_and_never_shown(clicks, redis):
    secret = redis.url.split(":")[2].split("@")[0]
    bad = redis.url.replace(secret, "geheim")
    begin = StreamBuilder.data_stream("shop", "clicks").from_redis(bad, "clicks", schema=SCHEMA)
    with pytest.raises(SourceReadError, match="invalid username-password pair|WRONGPASS") as caught:
        begin.to_memory(MemoryChannel()).build().run(clicks.options)
    assert "geheim" not in f"{caught.value} {begin.to_print().build().describe()}"
    assert clicks.rows() == []
    redis.client().set("clicks", "x")
    with pytest.raises(SourceReadError, match="WRONGTYPE"):
        clicks.rows()


def test_an_id_of_a_program_may_be_too_large(clicks):
    clicks.redis.xadd("clicks", {"ms": 1}, id="5-1048576")
    with pytest.raises(SourceReadError, match="the id 5-1048576 is too large"):
        clicks.rows()
    clicks.redis.delete("clicks")
    clicks.add(1)
    assert clicks.numbers() == [1]


def test_an_ended_generation_takes_no_more(clicks):
    clicks.add(1)
    pipeline = clicks.stream().to_memory(MemoryChannel()).build()
    pipeline.run(clicks.options, finish=True)
    pipeline.run(clicks.options, finish=True)
    clicks.add(2)
    with pytest.raises(SealedError):
        pipeline.run(clicks.options, finish=True)
    pipeline.run(replace(clicks.options, new_generation=True))


def test_a_cluster_and_an_old_server_are_refused(clicks, tmp_path):
    with RedisServer(settings={"cluster-enabled": "yes"}) as server:
        cluster = Clicks(server, clicks.options)
        with pytest.raises(SourceReadError, match="belongs to a Redis Cluster"):
            cluster.stream().to_memory(MemoryChannel()).build().run(clicks.options)
    assert clicks.rows() == []
    old = SimpleNamespace(execute_command=lambda *_: {"length": 0})
    with pytest.raises(SourceReadError, match="does not count"):
        facts_of(old, "clicks")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"streams": []}, "a stream must be text"),
        ({"streams": ["a", "a"]}, "named twice"),
        ({"format": "xml"}, "must be one of fields, json, raw"),
        ({"format": "raw", "schema": "n int"}, "fixed fields"),
        ({"metadata": ["group"]}, "no such metadata"),
        ({"starting_ids": "first"}, "must be one of earliest, latest"),
    ],
)
def test_invalid_options_are_refused(options, message):
    begin = StreamBuilder.data_stream("shop", "clicks")
    with pytest.raises(TopologyError, match=message):
        begin.from_redis("redis://cache", **{"streams": "clicks", **options})
    begin.from_redis("redis://cache", streams=["clicks"], format="fields", starting_ids="earliest")


@pytest.mark.parametrize("url", ["", "http://x", "redis://:a@b@host", "redis://host?x=1", "redis://host:p", "redis:/"])
def test_an_invalid_url_is_refused_and_not_shown(url):
    with pytest.raises(ConfigurationError, match="no valid URL of Redis") as caught:
        StreamBuilder.data_stream("shop", "clicks").from_redis(url, "clicks")
    assert url.removeprefix("redis:/") in ("", "http://x") or url not in str(caught.value)
    for part in [*EXAMPLE.split()[:1], "rediss://host?ca_file=ca.pem", "redis://:a%40b@host"]:
        StreamBuilder.data_stream("shop", "clicks").from_redis(part.strip(","), "clicks")

"""Redis as a sink: hashes, strings and streams, exactly once over crashes, fences and ways back."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from rs_assets import MemoryChannel, StreamBuilder, pipeline_from_sql
from rs_assets.connectors.redis.address import RedisPlace, hidden
from rs_assets.connectors.redis.nodes import RedisSink
from rs_assets.connectors.redis.sink import rows as cutting
from rs_assets.connectors.redis.sink.ledger import Ledger
from rs_assets.connectors.redis.sink.rows import GONE, KEY
from rs_assets.connectors.redis.sink.writer import RedisWriter
from rs_assets.connectors.sink import BatchMark, Claim
from rs_assets.errors import LeaseLostError, SinkError, SqlError, TopologyChangedError, TopologyError
from rs_assets.testing import RedisServer, SinkCase, check_sink


def mark(batch, *, generation=1, token=5, **more):
    return BatchMark("id", generation, "out", batch, token=token, **more)


def writer_of(server: RedisServer, structure: str = "stream", **options) -> RedisWriter:
    stream = structure == "stream"
    made = {"mode": "append" if stream else "upsert", "prefix": "out" if stream else "out:", **options}
    node = RedisSink(name="out", url=hidden(server.url), structure=structure, keys=() if stream else ("n",), **made)
    return RedisWriter(node, RedisPlace(hidden(server.url), "out"))


def staged(writer: RedisWriter, batch: BatchMark, numbers, *, gone=()):
    stream, numbers = writer.node.structure == "stream", [*numbers]
    rows = {
        KEY: pa.array(["out" if stream else f"out:{n}" for n in numbers], pa.string()),
        GONE: pa.array([n in gone for n in numbers], pa.bool_()),
        "n": pa.array(map(str, numbers), pa.string()),
    }
    return writer.staged(pa.table(rows), ("n",), batch)


def numbers(server: RedisServer) -> list[int]:
    return [int(entry["n"]) for _, entry in server.client().xrange("out")]


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(cutting, "CHUNK_ROWS", 10)


def crash_at(monkeypatch, step: int, *, after: bool):
    """The driver ends at a step of the script, before it or after it."""
    calls, run = [], Ledger._step

    def crashing(*arguments, **named):
        calls.append(1)
        if len(calls) == step and not after:
            raise SinkError("crashed")
        done = run(*arguments, **named)
        if len(calls) == step:
            raise SinkError("crashed")
        return done

    monkeypatch.setattr(Ledger, "_step", crashing)


def test_a_hash_has_the_fields_of_its_row(redis, options):
    rows = [
        {"page": "/a:b", "n": 7, "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "tags": ["x"], "note": None},
        {"page": "ü%", "n": 8, "at": None, "tags": None, "note": ""},
    ]
    schema = "page string, n bigint, at timestamp, tags array<string>, note string"
    begin = StreamBuilder.data_stream("shop", "pages").from_array(rows, schema=schema)
    begin.to_redis(redis.url, prefix="p:", key="page", ttl=timedelta(minutes=5)).build().run(options)
    client = redis.client()
    assert client.hgetall("p:/a:b") == {
        "page": "/a:b", "n": "7", "at": "2026-01-02T03:04:05.000000Z", "tags": '["x"]',
    }  # fmt: skip
    assert client.hgetall("p:ü%") == {"page": "ü%", "n": "8", "note": ""}
    assert 200 < client.ttl("p:ü%") <= 300


def test_a_key_of_several_fields_and_strings(redis, options):
    rows = [{"a": "x:y", "b": 1, "v": b"\xff"}, {"a": "x", "b": 2, "v": None}]
    begin = StreamBuilder.data_stream("shop", "strings").from_array(rows, schema="a string, b bigint, v binary")
    begin.select_fields("a", "b").to_redis(redis.url, prefix="j:", key=["a", "b"], structure="string", name="json")
    ones = begin.filter("b = 1")
    ones.to_redis(redis.url, prefix="v:", key="b", structure="string", value="v", name="one").build().run(options)
    client = redis.client(text=False)
    assert {key: json.loads(client.get(key)) for key in client.keys("j:*")} == {
        b"j:x%3Ay:1": {"a": "x:y", "b": 1},
        b"j:x:2": {"a": "x", "b": 2},
    }
    assert client.get("v:1") == b"\xff"
    gone = StreamBuilder.data_stream("shop", "gone").from_array([{"b": 1, "v": None}], schema="b bigint, v string")
    gone.to_redis(redis.url, prefix="v:", key="b", structure="string", value="v").build().run(options)
    assert client.keys("v:*") == []


def test_a_row_that_a_table_retracts_removes_its_key(redis, options):
    channel = MemoryChannel(schema="id bigint, tier string")
    users = StreamBuilder.data_stream("shop", "tiers").from_memory(channel).to_table("id", deletes="tier IS NULL")
    pipeline = users.to_redis(redis.url, prefix="tier:").build()
    channel.put({"id": 1, "tier": "free"}, {"id": 2, "tier": "free"})
    pipeline.run(options)
    channel.put({"id": 1, "tier": None}, {"id": 2, "tier": "paid"}, {"id": 3, "tier": "free"})
    pipeline.run(options)
    client = redis.client()
    assert {key: client.hget(key, "tier") for key in client.keys("tier:*")} == {"tier:2": "paid", "tier:3": "free"}


def test_another_filter_over_a_table_is_refused_until_its_keys_are_removed(redis, options):
    """Without that a row that passed the former filter, and goes, would keep its key: it does not pass the new one."""
    channel, client = MemoryChannel(schema="id int, ms int"), redis.client()

    def ran(least, **more):
        table = StreamBuilder.data_stream("shop", "dear").from_memory(channel).to_table("id").filter(f"ms >= {least}")
        table.to_redis(redis.url, prefix="dear:").build().run(replace(options, **more))
        return {key: client.hget(key, "ms") for key in client.keys("dear:*")}

    channel.put(*({"id": number, "ms": number} for number in range(4)))
    assert ran(2) == {"dear:2": "2", "dear:3": "3"}
    with pytest.raises(TopologyChangedError, match="have rows for which ms >= 3, but has rows") as error:
        ran(3)
    assert "remove its rows there, and start over (--reset-step table, or --new-generation)" in error.value.remedy
    client.delete(*client.keys("dear:*"))
    assert ran(3, reset_steps=("table",)) == {"dear:3": "3"}


def test_a_hash_after_a_shuffle_has_the_last_record_of_its_key(redis, options):
    channel = MemoryChannel(schema="k bigint, v bigint")
    rows = [{"k": n % 5, "v": n * 7919 % 1009} for n in range(200)]
    channel.put(*rows)
    begin = StreamBuilder.data_stream("shop", "last").from_memory(channel).shuffle(3)
    begin.to_redis(redis.url, prefix="last:", key="k").build().run(options)
    client = redis.client()
    found = {int(key.removeprefix("last:")): int(client.hget(key, "v")) for key in client.keys("last:*")}
    assert found == {row["k"]: row["v"] for row in rows}


def test_a_stream_should_keep_the_promises_of_a_sink(redis, driver):
    def write(stream):
        return stream.to_redis(redis.url, prefix="out", structure="stream", name="sink")

    def rows():
        return [{"n": int(each["n"]), "text": each["text"]} for _, each in redis.client().xrange("out")]

    check_sink(SinkCase(write=write, rows=rows), spark=driver)


def test_a_hash_should_keep_the_promises_of_a_sink(redis, driver):
    def rows():
        client = redis.client()
        found = [client.hgetall(key) for key in client.keys("out:*")]
        return [{"n": int(each["n"]), "text": each["text"]} for each in found]

    check_sink(
        SinkCase(write=lambda stream: stream.to_redis(redis.url, prefix="out:", key="n", name="sink"), rows=rows),
        spark=driver,
    )


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", [1, 2, 3, 6, 7])
def test_a_batch_that_a_crash_left_unfinished_is_finished_once(redis, monkeypatch, small_chunks, step, after):
    """A batch of 55 rows begins, and has six chunks; the successor computes it again, in another order."""
    first = staged(writer_of(redis), mark(0), range(55))
    assert numbers(redis) == []
    with monkeypatch.context() as patched:
        crash_at(patched, step, after=after)
        with pytest.raises(SinkError, match="crashed"):
            first.commit()
    writer = writer_of(redis)
    complete = step == 7 and after
    assert len(numbers(redis)) == (55 if complete else max(0, 10 * (step - 2 + after)))
    assert writer.committed(mark(0)) == complete
    if not complete:
        assert staged(writer, mark(0), reversed(range(55))).commit() == 55
    assert staged(writer, mark(1), range(55, 58)).commit() == 3
    assert sorted(numbers(redis)) == [*range(58)]
    left = redis.client().keys("rs:staged:*")
    assert all(redis.client().ttl(key) > 0 for key in left)


# Killed at a step of a batch of six chunks.
KILLED = """
import os, signal, sys
from types import SimpleNamespace
from rs_assets.connectors.redis.sink import rows
from rs_assets.connectors.redis.sink.ledger import Ledger
from tests.redis.test_sink import mark, staged, writer_of

rows.CHUNK_ROWS, run, steps = 10, Ledger._step, [int(sys.argv[2])]

def killing(*arguments, **named):
    steps[0] -= 1
    return run(*arguments, **named) if steps[0] else os.kill(os.getpid(), signal.SIGKILL)

Ledger._step = killing
staged(writer_of(SimpleNamespace(url=sys.argv[1])), mark(0), range(55)).commit()
"""


def test_a_batch_in_which_the_driver_was_killed_is_finished_by_the_next_one(redis, small_chunks):
    killed = [sys.executable, "-c", KILLED, redis.url]
    assert subprocess.run([*killed, "4"], check=False).returncode == -signal.SIGKILL
    assert len(numbers(redis)) == 20
    # The successor finishes it, and is killed as well.
    assert subprocess.run([*killed, "3"], check=False).returncode == -signal.SIGKILL
    assert len(numbers(redis)) == 40
    assert not writer_of(redis).committed(mark(0))
    assert staged(writer_of(redis), mark(0), range(55)).commit() == 55
    assert numbers(redis) == [*range(55)]


def test_a_batch_over_a_server_that_is_killed_is_whole(redis, monkeypatch, small_chunks):
    for batch, step in enumerate((1, 2, 5, 7)):
        with monkeypatch.context() as patched:
            run, steps = Ledger._step, [step]

            def killing(*arguments, run=run, steps=steps, **named):
                steps[0] -= 1
                if steps[0] == 0:
                    redis.kill()
                return run(*arguments, **named)

            patched.setattr(Ledger, "_step", killing)
            lost = staged(writer_of(redis), mark(batch), range(55 * batch, 55 * batch + 55))
            with pytest.raises(SinkError, match="Redis of step 'out'") as caught:
                lost.commit()
        assert "then start again" in caught.value.remedy
        redis.start()
        again = staged(writer_of(redis), mark(batch), range(55 * batch, 55 * batch + 55))
        assert again.commit() == 55
    assert numbers(redis) == [*range(220)]


def test_a_driver_that_was_overtaken_writes_no_chunk_more(redis, monkeypatch, small_chunks):
    slow, fast = writer_of(redis), writer_of(redis)
    first = staged(slow, mark(0, token=5), range(55))
    run, calls = Ledger._step, []

    def overtaken(ledger, *arguments, **named):
        calls.append(1)
        if len(calls) == 4:
            fast.raise_fence(mark(0, token=6))
        return run(ledger, *arguments, **named)

    monkeypatch.setattr(Ledger, "_step", overtaken)
    with pytest.raises(LeaseLostError, match="another driver"):
        first.commit()
    assert len(numbers(redis)) == 20
    assert fast.last_writer(mark(0)).token == 6
    assert staged(fast, mark(0, token=6), range(55)).commit() == 55
    assert sorted(numbers(redis)) == [*range(55)]
    with pytest.raises(LeaseLostError):
        staged(slow, mark(0, token=5), range(55)).commit()
    with pytest.raises(LeaseLostError):
        slow.committed(mark(0, token=5))


def test_another_home_takes_over_only_on_purpose(redis):
    here = {"pipeline": "shop.out", "home": "a"}
    writer = writer_of(redis)
    ours = mark(0, claim=Claim(number=7, known=frozenset({7}), **here))
    assert staged(writer, ours, [1]).commit() == 1
    other = mark(0, claim=Claim(pipeline="shop.out", home="b", number=8, known=frozenset({8})))
    with pytest.raises(LeaseLostError, match="another home"):
        writer_of(redis).committed(other)
    taking = mark(1, claim=Claim(pipeline="shop.out", home="b", number=8))
    assert staged(writer_of(redis), taking, [2]).commit() == 1
    with pytest.raises(LeaseLostError, match="another home"):
        staged(writer, mark(1, claim=Claim(number=7, known=frozenset({7}), **here)), [3]).commit()
    assert numbers(redis) == [1, 2]


def test_rows_of_a_batch_come_and_go_by_key(redis, small_chunks):
    writer = writer_of(redis, "hash")
    staged(writer, mark(0), range(25)).commit()
    staged(writer, mark(1), [*range(20, 40)], gone={21, 22}).commit()
    staged(writer, mark(2), []).commit()
    client = redis.client()
    assert {int(client.hget(key, "n")) for key in client.keys("out:*")} == {*range(40)} - {21, 22}
    assert writer.last_committed(mark(2)) == 2


def test_a_sink_goes_back_only_to_where_nothing_was_written_since(redis):
    writer = writer_of(redis)
    for batch in range(2):
        staged(writer, mark(batch), [batch]).commit()
    begun = mark(0, generation=2, token=6)
    with pytest.raises(SinkError, match="the rows of the prefix 'out' cannot be removed"):
        writer.check_rewind(mark(0), begun)
    with pytest.raises(SinkError, match="has rows of an earlier generation"):
        writer.check_begin(begun)
    later = mark(1, generation=2, token=6)
    writer.check_rewind(mark(1), later, had=1)
    assert writer.rewind(mark(1), later, had=1) == "had nothing to undo"
    assert writer.committed(later)
    with pytest.raises(LeaseLostError):
        writer.committed(mark(2))
    redis.client().delete("out")
    assert writer.check_begin(mark(0, generation=3, token=7)) == ""
    hashes = writer_of(redis, "hash", prefix="h[1]:")
    redis.client().hset("h[1]:7", "n", 7)
    assert "until new rows replace them" in hashes.check_begin(mark(0, generation=3, token=7))


def test_a_server_that_has_lost_its_ledger_is_noticed(redis):
    writer = writer_of(redis)
    staged(writer, mark(0), [1]).commit()
    redis.client().flushall()
    with pytest.raises(SinkError, match="holds no batch of this pipeline and had batch 0"):
        writer.committed(mark(1))


def test_staged_rows_that_are_gone_are_written_by_another_try(redis, small_chunks):
    writer = writer_of(redis)
    for count in (5, 25):
        again = staged(writer, mark(0), range(count))
        redis.client().delete(*redis.client().keys("rs:staged:*"))
        with pytest.raises(SinkError, match="the staged rows of step 'out' are gone"):
            again.commit()
    assert staged(writer, mark(0), range(25)).commit() == 25
    assert numbers(redis) == [*range(25)]


def test_a_key_of_another_kind_writes_nothing_of_its_chunk(redis):
    redis.client().set("out", "x")
    batch = staged(writer_of(redis), mark(0), [1, 2])
    with pytest.raises(SinkError, match="the key out is a string, not a stream"):
        batch.commit()
    redis.client().delete("out")
    assert staged(writer_of(redis), mark(0), [1, 2]).commit() == 2


def test_servers_that_cannot_keep_a_ledger_are_refused(redis):
    with RedisServer(settings={"cluster-enabled": "yes"}) as cluster:
        writer = writer_of(cluster)
        with pytest.raises(SinkError, match="belongs to a Redis Cluster"):
            writer.check_start()
    redis.client().config_set("maxmemory", "100mb")
    redis.client().config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(SinkError, match="evicts any key"):
            writer_of(redis).check_start()
        redis.client().config_set("maxmemory-policy", "volatile-ttl")
        writer_of(redis).check_start()
    finally:
        redis.client().config_set("maxmemory", "0")
        redis.client().config_set("maxmemory-policy", "noeviction")


def test_a_row_without_a_key_is_refused(redis, options):
    def run(stream):
        stream.to_redis(redis.url, prefix="p:", key="page").build().run(options)

    rows = [{"page": None, "n": 1}, {"page": "/a", "n": 2}]
    begin = StreamBuilder.data_stream("shop", "nokey").from_array(rows, schema="page string, n bigint")
    with pytest.raises(SinkError, match="the key of a row has a field that is null"):
        run(begin)
    fine = StreamBuilder.data_stream("shop", "withkey").from_array(rows, schema="page string, n bigint")
    run(fine.filter("page IS NOT NULL"))
    assert redis.client().keys("p:*") == ["p:/a"]


def test_sql_writes_hashes_and_streams(redis, options, monkeypatch):
    monkeypatch.setenv("SHOP_REDIS", redis.url)
    text = """
        CREATE TABLE clicks (page STRING, ms BIGINT) WITH ('connector' = 'memory');
        CREATE TABLE totals (page STRING, n BIGINT, PRIMARY KEY (page) NOT ENFORCED) WITH (
            'connector' = 'redis', 'url' = '$SHOP_REDIS', 'prefix' = 'total:', 'ttl-seconds' = '60');
        CREATE TABLE slow (page STRING, ms BIGINT) WITH (
            'connector' = 'redis', 'url' = '$SHOP_REDIS', 'prefix' = 'slow', 'structure' = 'stream');
        INSERT INTO totals SELECT page, COUNT(*) FROM clicks GROUP BY page;
        INSERT INTO slow SELECT page, ms FROM clicks WHERE ms > 1;
    """
    rows = [{"page": "/a", "ms": n} for n in range(3)]
    pipeline_from_sql(text, namespace="shop", job="sql", tables={"clicks": rows}).run(options)
    client = redis.client()
    assert client.hgetall("total:/a") == {"page": "/a", "n": "3"}
    assert [entry for _, entry in client.xrange("slow")] == [{"page": "/a", "ms": "2"}]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"structure": "list"}, "must be one of hash, string, stream"),
        ({"mode": "append"}, "hashes and strings are upserted"),
        ({"prefix": ""}, "the prefix must be text"),
        ({"prefix": "rs:x"}, "are the ledger's"),
        ({"key": ()}, "needs a key"),
        ({"value": "n"}, "value belongs to structure='string'"),
        ({"structure": "stream", "deletes": "gone"}, "deletes belongs to"),
        ({"deletes": "page"}, "cannot mark deleted rows"),
        ({"ttl": timedelta(0)}, "ttl must be a time"),
        ({"key": "x"}, "the key 'x' is double"),
    ],
)
def test_invalid_options_are_refused(wrong, message):
    def stream():
        rows = [{"page": "/a", "n": 1, "gone": False, "x": 1.5}]
        return StreamBuilder.data_stream("shop", "totals").from_array(rows)

    with pytest.raises(TopologyError, match=message):
        stream().to_redis("redis://cache", **{"prefix": "page:", "key": "page", **wrong}).build()
    stream().to_redis("redis://cache", prefix="page:", key="page", ttl=timedelta(hours=1)).build()


def test_a_pipeline_does_not_read_its_own_entries():
    begin = StreamBuilder.data_stream("shop", "own").from_redis("redis://cache", "clicks", schema="n bigint")
    with pytest.raises(TopologyError, match="writes the stream that the step"):
        begin.to_redis("redis://cache", prefix="clicks", structure="stream").build()
    other = StreamBuilder.data_stream("shop", "own").from_redis("redis://cache", "clicks", schema="n bigint")
    other.to_redis("redis://cache", prefix="slow", structure="stream").build()


def test_sql_refuses_rows_that_a_structure_cannot_hold():
    def build(table, query):
        text = f"""
            CREATE TABLE clicks (page STRING, ms BIGINT) WITH ('connector' = 'memory');
            CREATE TABLE out1 (page STRING, n BIGINT{table});
            INSERT INTO out1 {query};
        """
        return pipeline_from_sql(text, tables={"clicks": [{"page": "/a", "ms": 1}]})

    there = "'connector' = 'redis', 'url' = 'redis://cache', 'prefix' = 'out'"
    stream, hashes = f") WITH ({there}, 'structure' = 'stream'", f") WITH ({there}, 'structure' = 'hash'"
    counted, plain = "SELECT page, COUNT(*) FROM clicks GROUP BY page", "SELECT page, ms FROM clicks"
    with pytest.raises(SqlError, match="replaces rows, and a stream keeps them"):
        build(stream, counted)
    build(hashes, counted)
    with pytest.raises(SqlError, match="a hash or a string needs a key"):
        build(hashes, plain)
    build(f", PRIMARY KEY (page) NOT ENFORCED{hashes}", plain)


def test_a_ledger_that_changes_all_the_time_is_given_up(redis, monkeypatch):
    batch = staged(writer_of(redis), mark(0), [1])
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "_step", lambda *_, **__: False)
        with pytest.raises(SinkError, match="other starts of the pipeline write to the ledger"):
            batch.commit()
    assert batch.commit() == 1

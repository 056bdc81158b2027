"""Streams and hashes of Redis, ours against the client alone, and how long the server answers nobody else."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame

from benchmarks.bench import Bench
from benchmarks.measure import Comparison, Figure, compare
from rs_assets import RunOptions, StreamBuilder
from rs_assets.common.home import Home
from rs_assets.connectors.redis.address import RedisPlace, hidden
from rs_assets.connectors.redis.nodes import RedisSink
from rs_assets.connectors.redis.sink.writer import RedisWriter
from rs_assets.connectors.sink import BatchMark
from rs_assets.testing import RedisServer

# The most that a row may take: 18,000 rows a second read, and 70,000 written.
MOST_READ_US, MOST_WRITE_US, MOST_BLOCK_MS = 1e6 / 18_000, 1e6 / 70_000, 15.0
SCHEMA = "n bigint, page string, ms bigint, at string"
# How many commands the client sends at once.
PIPELINED = 1_000


def redis_figures(bench: Bench) -> Iterator[Figure]:
    """A server of its own for all of it, which has on disk what it acknowledges."""
    rows = max(20_000, bench.rows // 20)
    with RedisServer(settings={"slowlog-log-slower-than": "1000", "slowlog-max-len": "10000"}) as server:
        client = server.client(text=False)
        _fill(client, rows)
        bench.say(f"redis: {rows:,} entries")
        read = compare(lambda: _run(bench, server), lambda: _read(client), pairs=bench.pairs, warm_up=1)
        yield _figure("read a stream into a run", "XRANGE", read, rows, MOST_READ_US)
        for structure in ("hash", "stream"):
            client.slowlog_reset()
            alone: Callable[[Any, int], int] = _hashes if structure == "hash" else _entries
            written = compare(
                lambda kind=structure: _write(bench, server, rows, kind),  # type: ignore[misc]
                lambda put=alone: put(client, rows),  # type: ignore[misc]
                pairs=bench.pairs,
                warm_up=1,
            )
            yield _figure(f"write a batch as {structure}", "a pipeline", written, rows, MOST_WRITE_US)
            longest = max((each["duration"] for each in client.slowlog_get(10_000)), default=0)
            yield Figure(
                benchmark="redis",
                what=f"longest command of both, {structure}",
                value=longest / 1000,
                unit="ms",
                target=MOST_BLOCK_MS,
                note="by the server's own clock; the machine's other work is in it",
            )


def _figure(what: str, other: str, both: Comparison, rows: int, most: float) -> Figure:
    ours, alone = (statistics.median(each.seconds for each in runs) for runs in (both.ours, both.other))
    work, least = (min(each.cpu_s for each in runs) * 1e6 / rows for runs in (both.ours, both.other))
    note = (
        f"{rows / ours:,.0f} rows/s; the client alone, {other}: {rows / alone:,.0f}; processor time, the server's"
        f" included, {work:.1f} against {least:.1f} µs; {rows:,} rows of four fields"
    )
    return Figure(benchmark="redis", what=what, value=ours * 1e6 / rows, unit="µs a row", target=most, note=note)


def _row(n: int) -> dict[str, Any]:
    return {"n": n, "page": f"/page/{n % 1000}", "ms": n % 977, "at": "2026-01-02T03:04:05.000006Z"}


def _piped(client: Any, rows: int, put: Callable[[Any, int], object]) -> int:
    for first in range(0, rows, PIPELINED):
        with client.pipeline(transaction=False) as pipe:
            for n in range(first, min(first + PIPELINED, rows)):
                put(pipe, n)
            pipe.execute()
    return rows


def _fill(client: Any, rows: int) -> None:
    _piped(client, rows, lambda pipe, n: pipe.xadd("in", _row(n)))


def _entries(client: Any, rows: int) -> int:
    client.delete("alone")
    return _piped(client, rows, lambda pipe, n: pipe.xadd("alone", _row(n)))


def _hashes(client: Any, rows: int) -> int:
    return _piped(client, rows, lambda pipe, n: pipe.hset(f"alone:{n}", mapping=_row(n)))


def _read(client: Any) -> int:
    after, count = "-", 0
    while found := client.xrange("in", after, count=2_000):
        count += len(found)
        after = f"({found[-1][0].decode()}"
    return count


def _run(bench: Bench, server: RedisServer) -> int:
    """A whole run, with its start; its rows are counted and dropped."""
    with bench.place() as folder:
        stream = StreamBuilder.data_stream("bench", "redis").from_redis(
            server.url, "in", schema=SCHEMA, max_rows_per_batch=None
        )
        pipeline = stream.filter("ms < 0").to_delta("none").build()
        report = pipeline.run(RunOptions(home=Home(folder), driver=bench.driver))
        return sum(query.rows_read for query in report.queries)


def _write(bench: Bench, server: RedisServer, rows: int, structure: Any) -> int:
    """A batch of computed rows, staged and committed."""
    stream = structure == "stream"
    node = RedisSink(
        name="out",
        url=hidden(server.url),
        structure=structure,
        mode="append" if stream else "upsert",
        prefix="ours" if stream else "ours:",
        keys=() if stream else ("n",),
    )
    writer, mark = RedisWriter(node, RedisPlace(node.url, "out")), BatchMark(f"bench-{structure}", 1, "out", 0)
    server.client().delete("ours", f"rs:marks:{mark.fence}")
    return bench.driver.call(lambda spark: writer.stage(_rows(spark, rows), mark).commit())


def _rows(spark: Any, rows: int) -> DataFrame:
    made: DataFrame = spark.range(rows).selectExpr(
        "id AS n", "concat('/page/', id % 1000) AS page", "id % 977 AS ms", "'2026-01-02T03:04:05.000006Z' AS at"
    )
    return made

"""Pipelines between streams and hashes of Redis, hit at seeded moments: the server, the workers and the driver."""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import suppress

import psutil
import pytest

from rs_assets import StreamBuilder
from rs_assets.connectors.redis.sink import rows as cutting
from rs_assets.connectors.redis.sink.ledger import Ledger
from rs_assets.errors import RsError, SinkError
from tests.collector.collecting import wait_until

ENTRIES, PER_BATCH = 600, 150


def workers():
    """The Python processes in which Spark reads sources, without the daemon that starts them."""
    found = psutil.Process().children(recursive=True)
    daemons = {each.pid for each in found if _is_python_of_spark(each)}
    return [each for each in found if each.pid in daemons and each.ppid() in daemons]


def _is_python_of_spark(process):
    return any("pyspark.daemon" in word for word in _words(process))


def _words(process):
    with suppress(psutil.Error):
        return process.cmdline()
    return []


def pipeline_of(redis):
    begin = StreamBuilder.data_stream("shop", "copied").from_redis(
        redis.url, "in", schema="n bigint, page string", max_rows_per_batch=PER_BATCH
    )
    begin.to_redis(redis.url, prefix="copy", structure="stream", name="copy")
    return begin.to_redis(redis.url, prefix="page:", key="page", name="page").build()


def hit(kind, redis, chance, monkeypatch):
    """Something happens to a running pipeline; what it returns brings back what has to be there."""
    if kind == "server killed":
        redis.kill()
    elif kind == "server paused":
        redis.pause()
        time.sleep(chance.random())
        redis.resume()
    elif kind == "worker killed":
        for each in workers():
            with suppress(psutil.Error):
                each.kill()
    else:
        steps, run = [chance.randrange(1, 30)], Ledger._step

        def crashing(*arguments, **named):
            steps[0] -= 1
            if steps[0] == 0 and chance.random() < 0.5:
                raise SinkError("the driver ends here")
            done = run(*arguments, **named)
            if steps[0] <= 0:
                raise SinkError("the driver ends here")
            return done

        monkeypatch.setattr(Ledger, "_step", crashing)


KINDS = ("server killed", "driver ended", "worker killed", "server paused")


@pytest.mark.parametrize(
    "seed",
    [pytest.param(0, marks=pytest.mark.canary), *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 20))],
)
def test_the_output_equals_the_model_whatever_is_hit(redis, options, monkeypatch, seed):
    monkeypatch.setattr(cutting, "CHUNK_ROWS", 20)
    chance, client, kind = random.Random(seed), redis.client(), KINDS[seed % len(KINDS)]

    def add(first, last):
        with client.pipeline() as pipe:
            for n in range(first, last):
                pipe.xadd("in", {"n": n, "page": f"/{n % 40}"})
            pipe.execute()

    add(0, ENTRIES)
    with monkeypatch.context() as patched:
        running = pipeline_of(redis).start(options)
        if kind != "driver ended":
            wait_until(lambda: client.exists("copy"))
            time.sleep(chance.random() * 0.3)
        hit(kind, redis, chance, patched)
        if kind == "driver ended":
            time.sleep(chance.random() * 3)
        redis.start()
        add(ENTRIES, ENTRIES + 50)
        with suppress(RsError):
            running.stop()
    pipeline_of(redis).run(options)
    copied = Counter(int(entry["n"]) for _, entry in client.xrange("copy"))
    assert copied == Counter(range(ENTRIES + 50)), kind
    newest = {f"page:/{n % 40}": str(n) for n in range(ENTRIES + 50)}
    assert {key: client.hget(key, "n") for key in client.keys("page:*")} == newest
    assert all(client.ttl(key) > 0 for key in client.keys("rs:staged:*"))
